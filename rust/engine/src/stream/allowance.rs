//! The window of a body whose sender reads it itself: it holds the bytes that wait to be sent.

use std::fmt;
use std::sync::Arc;

use super::window::{Window, round, share};
use super::{FlowConfig, Meter};
use crate::pool::Pool;

/// Counts as a stream until its end, and gives the size of the next read.
pub(crate) struct Allowance {
    pool: Pool,
    meter: Arc<Meter>,
    window: Window,
    /// Counts the stream as live.
    counted: bool,
}

impl Allowance {
    pub(crate) fn new(pool: &Pool, config: FlowConfig, meter: &Arc<Meter>) -> Self {
        meter.opened();
        Self { pool: pool.clone(), meter: Arc::clone(meter), window: Window::new(config), counted: true }
    }

    /// The limit of the next read in bytes, while `held` bytes are charged that have not been sent; `None` if nothing
    /// may be read.
    pub(crate) fn credit(&mut self, held: usize) -> Option<usize> {
        let (share, pressed) = share(&self.pool, &self.meter, true);
        let window = &mut self.window;
        let credit = if held == 0 {
            // A sender that has sent all bytes is not limited by a window that has not grown yet.
            window.ran_dry();
            window.largest(share, pressed)
        } else {
            let limit = window.limit(share, pressed);
            if held >= limit {
                window.note_stopped();
                return None;
            }
            limit - held
        };
        Some(round(credit, window.is_squeezed(share)))
    }

    /// Counts received bytes.
    pub(crate) fn count(&self, bytes: usize) {
        self.meter.received(bytes);
    }

    /// Counts bytes that the kernel has moved, and that were not read.
    pub(crate) fn count_spliced(&self, bytes: usize) {
        self.count(bytes);
        self.meter.count_spliced(bytes);
    }

    /// The pool that holds the bytes.
    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The body has ended.
    pub(crate) fn end(&mut self) {
        if std::mem::take(&mut self.counted) {
            self.meter.closed();
        }
    }
}

impl Drop for Allowance {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for Allowance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Allowance").field("window", &self.window).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::testing::config;
    use crate::pool::{Purpose, REGION};

    const KIB: usize = 1024;
    const FLOW: FlowConfig = FlowConfig { floor: 64 * KIB, ceiling: 256 * KIB };

    fn of(budget: usize) -> (Pool, Arc<Meter>, Allowance) {
        let (pool, meter) = (Pool::new(config(budget)).unwrap(), Arc::new(Meter::default()));
        let allowance = Allowance::new(&pool, FLOW, &meter);
        (pool, meter, allowance)
    }

    #[test]
    fn what_waits_to_be_sent_takes_of_what_may_be_read() {
        let (_pool, _meter, mut allowance) = of(16 * KIB * KIB);
        assert_eq!(allowance.credit(60 * KIB), Some(4 * KIB));
        assert_eq!(allowance.credit(64 * KIB), None);
        assert_eq!(allowance.credit(65 * KIB), None);
    }

    #[test]
    fn whoever_has_sent_all_may_have_the_most_and_has_a_larger_window_if_it_was_stopped() {
        let (_pool, _meter, mut allowance) = of(16 * KIB * KIB);
        assert_eq!(allowance.credit(0), Some(FLOW.ceiling));
        assert_eq!(allowance.credit(64 * KIB), None, "it was not stopped before");
        assert_eq!(allowance.credit(0), Some(FLOW.ceiling));
        assert_eq!(allowance.credit(64 * KIB), Some(64 * KIB));
        assert_eq!(allowance.credit(128 * KIB), None);
    }

    #[test]
    fn the_share_of_a_small_pool_bounds_it() {
        let (pool, meter, mut allowance) = of(256 * KIB);
        let others = [(); 7].map(|()| Allowance::new(&pool, FLOW, &meter));
        assert_eq!(allowance.credit(16 * KIB), None, "an eighth of half of the pool");
        drop(others);
        assert!(allowance.credit(16 * KIB).is_some());
    }

    #[test]
    fn what_others_hold_on_its_way_bounds_it_and_what_is_stored_does_not() {
        let (pool, _meter, mut allowance) = of(16 * REGION);
        let _held: Vec<_> = (0..7).map(|_| pool.writer(REGION, Purpose::Bulk).unwrap()).collect();
        assert_eq!(allowance.credit(0), Some(REGION), "the eighth part of half of the pool is left");
        let _last = pool.writer(REGION, Purpose::Bulk).unwrap();
        assert_eq!(allowance.credit(0), Some(4 * KIB));
        assert_eq!(allowance.credit(4 * KIB), None, "and no more while that is not sent");
        pool.stored().add(REGION);
        assert_eq!(allowance.credit(0), Some(REGION));
        pool.stored().remove(REGION);
    }

    #[test]
    fn it_counts_as_one_stream_until_its_end() {
        let (_pool, meter, mut allowance) = of(256 * KIB);
        assert_eq!((meter.live(), meter.started()), (1, 1));
        allowance.count(5);
        allowance.end();
        assert_eq!((meter.live(), meter.bytes()), (0, 5));
        drop(allowance);
        assert_eq!(meter.live(), 0);
    }
}
