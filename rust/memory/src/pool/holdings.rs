//! Who holds the slabs of a pool.

use super::Pool;
use crate::holder::{HOLDERS, Holding};
use crate::sync::{AtomicU64, Ordering, lock};

/// What was taken by each holder.
#[derive(Debug)]
pub(super) struct Taken(Box<[[AtomicU64; 2]]>);

impl Taken {
    pub(super) fn new() -> Self {
        Self((0..HOLDERS).map(|_| [AtomicU64::new(0), AtomicU64::new(0)]).collect())
    }

    pub(super) fn count(&self, holder: u8, bytes: usize) {
        let [slabs, sum] = &self.0[usize::from(holder)];
        // Relaxed, here and below: counts, which order nothing.
        slabs.fetch_add(1, Ordering::Relaxed);
        sum.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Pool {
    /// What each holder has, by its number. All slabs are looked at, one after another: one that is taken or given back
    /// meanwhile is counted or not.
    pub fn holdings(&self) -> Vec<Holding> {
        let shared = &self.shared;
        let mut holdings: Vec<Holding> = (shared.taken.0.iter())
            .map(|[slabs, bytes]| Holding {
                taken: slabs.load(Ordering::Relaxed),
                taken_bytes: bytes.load(Ordering::Relaxed),
                ..Holding::default()
            })
            .collect();
        for (offset, bytes) in lock(&shared.regions).pieces() {
            if let Some(holder) = shared.memory.holder(offset) {
                let holding = &mut holdings[usize::from(holder)];
                holding.slabs += 1;
                holding.bytes += bytes;
            }
        }
        holdings
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::holder;
    use crate::pool::{Purpose, REGION, testing};

    #[test]
    fn each_slab_is_its_takers_until_it_comes_back() {
        let pool = Pool::new(testing::config(4 * REGION)).unwrap();
        let taken = |size, holder| holder::within(holder, || pool.writer(size, Purpose::Bulk).unwrap());
        let small = [taken(1, 3), taken(4096, 3), taken(10_000, 0)];
        let large = taken(REGION + 1, 7);
        let held = |holder: usize| {
            let Holding { slabs, bytes, taken, taken_bytes } = pool.holdings()[holder];
            (slabs, bytes, taken, taken_bytes)
        };
        assert_eq!(held(3), (2, 8192, 2, 8192));
        assert_eq!(held(0), (1, 16_384, 1, 16_384));
        assert_eq!(held(7), (1, 2 * REGION, 1, 2 * REGION as u64));
        drop((small, large));
        assert_eq!(held(3), (0, 0, 2, 8192));
        assert_eq!(held(7), (0, 0, 1, 2 * REGION as u64));
        // The same memory, in another's name.
        let again = taken(1, 9);
        assert_eq!((held(9), held(3).0), ((1, 4096, 1, 4096), 0));
        drop(again);
    }
}
