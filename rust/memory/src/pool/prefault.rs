//! A thread that makes pages present before an engine thread needs them: touching a fresh 64 KiB costs about 43 µs
//! of page faults, three times the copy that it is touched for.

use std::sync::{Arc as Plain, Condvar, Mutex, PoisonError};

use super::{Arc, Shared};

/// Regions that are present ahead of need at least: 1 MiB, so that an idle pool and its first clients lie in one huge page.
#[cfg(not(any(miri, loom)))]
const FEWEST: usize = 4;

/// The message from the pool to the thread: how far slabs have been cut.
#[derive(Debug, Clone)]
pub(super) struct Signal(Plain<(Mutex<State>, Condvar)>);

#[derive(Debug, Default)]
struct State {
    /// Slabs have been cut from the regions below this one.
    reach: usize,
    stopped: bool,
}

impl Signal {
    pub(super) fn new() -> Self {
        Self(Plain::default())
    }

    /// Reports that slabs have been cut from the regions below `reach`.
    pub(super) fn announce(&self, reach: usize) {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        if reach > state.reach {
            state.reach = reach;
            changed.notify_one();
        }
    }

    /// Ends the thread.
    pub(super) fn stop(&self) {
        let (state, changed) = &*self.0;
        state.lock().unwrap_or_else(PoisonError::into_inner).stopped = true;
        changed.notify_one();
    }

    /// Waits until `target` of the reach is above `done`, and returns it; `None` after the pool has gone.
    #[cfg(not(any(miri, loom)))]
    fn wait_beyond(&self, done: usize, target: impl Fn(usize) -> usize) -> Option<usize> {
        let (state, changed) = &*self.0;
        let state = state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = changed
            .wait_while(state, |state| !state.stopped && target(state.reach) <= done)
            .unwrap_or_else(PoisonError::into_inner);
        (!state.stopped).then(|| target(state.reach))
    }
}

/// The regions that are made present when slabs have been cut from the regions below `reach`, of `count`: as many again
/// as are in use, [`FEWEST`] at least and `most` at most. A pool that is hardly used is then small, and one that grows is
/// ahead of its need by more and more.
#[cfg(not(any(miri, loom)))]
fn target(reach: usize, most: usize, count: usize) -> usize {
    (reach + reach.max(FEWEST).min(most)).min(count)
}

/// Starts the thread, if the configuration asks for one. It ends with the pool and does not keep the
/// pool alive.
#[cfg(not(any(miri, loom)))]
pub(super) fn start(shared: &Arc<Shared>) {
    use super::REGION;

    let most = shared.config.prefault.div_ceil(REGION);
    if most == 0 {
        return;
    }
    let count = shared.classes.len();
    let signal = shared.prefault.clone();
    let pool = Plain::downgrade(shared);
    let body = move || {
        let mut done = 0;
        while done < count {
            let Some(until) = signal.wait_beyond(done, |reach| target(reach, most, count)) else { return };
            let Some(pool) = pool.upgrade() else { return };
            // Refused on kernels before 5.14: pages then fault in on first touch, which is slower and still
            // correct.
            if pool.memory.mapping().populate(done * REGION, (until - done) * REGION).is_err() {
                return;
            }
            done = until;
        }
    };
    // Without the thread, pages fault in on first touch: slower and still correct.
    let _ = std::thread::Builder::new().name("penstock-prefault".into()).spawn(body);
}

/// Miri and loom have no page faults to avoid.
#[cfg(any(miri, loom))]
pub(super) fn start(_shared: &Arc<Shared>) {}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::pool::testing::config;
    use crate::pool::{Pool, REGION};

    #[test]
    fn as_many_regions_are_made_present_as_are_in_use() {
        let targets = |most| [0, 1, 4, 5, 16, 40, 62].map(|reach| target(reach, most, 64));
        assert_eq!(targets(16), [4, 5, 8, 10, 32, 56, 64]);
        assert_eq!(targets(1), [1, 2, 5, 6, 17, 41, 63], "never more than was asked for");
    }

    fn holders(signal: &Signal) -> usize {
        Plain::strong_count(&signal.0)
    }

    #[test]
    fn the_thread_ends_with_the_pool() {
        let pool = Pool::new(crate::pool::PoolConfig { prefault: REGION, ..config(8 * REGION) }).unwrap();
        let signal = pool.shared.prefault.clone();
        assert_eq!(holders(&signal), 3, "the pool, this test and the thread, which has not reached the end");
        let last = pool.writer(1, crate::pool::Purpose::Bulk).unwrap();
        drop(pool);
        assert_eq!(holders(&signal), 3, "a slab keeps the pool, and the pool its thread");
        drop(last);
        let started = Instant::now();
        while holders(&signal) > 1 {
            assert!(started.elapsed() < Duration::from_secs(20), "the thread outlives its pool");
            std::thread::yield_now();
        }
    }
}
