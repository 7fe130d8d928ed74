//! The window: how many bytes a consumer may hold or have queued. Its credit decides whether the source is
//! read.
//!
//! A frame is charged when it is queued and given back when its last handle drops (for a relay: when the kernel took
//! it). The window starts at the floor and doubles only on evidence that it was the bottleneck: the consumer ran
//! dry although the producer had been stopped for want of credit. A slow consumer never runs dry, so its window
//! stays at the floor; a fast one reaches the ceiling within a few round trips.

use super::Meter;
use crate::pool::{CLASSES, Pool, PoolState};

/// Bounds of the window, in bytes. Declared and validated in Python.
#[derive(Debug, Clone, Copy)]
pub struct FlowConfig {
    /// The bytes that every stream may hold.
    pub floor: usize,
    /// The limit of every stream; a slab of 64 KiB, or a frame that is larger, may exceed it.
    pub ceiling: usize,
}

/// The charge of a queued frame besides its bytes. Without it, a body of empty lines would be queued
/// without limit.
const FRAME_COST: usize = 64;

/// The smallest share of a stream, whatever their number.
const LEAST: usize = CLASSES[0];

#[derive(Debug)]
pub(super) struct Window {
    config: FlowConfig,
    size: usize,
    used: usize,
    /// Frames that the consumer holds.
    held: usize,
    /// Frames that the consumer took the last time: one, or a batch.
    taken: usize,
    /// The producer has been stopped since the window last grew.
    stopped: bool,
    /// The engine alone takes what comes.
    sent_on: bool,
}

/// The charge of a frame of `length` bytes.
pub(crate) fn charge(length: usize) -> usize {
    length + FRAME_COST
}

/// A fair share of the pool, and whether the pool is pressed. The shares make half of the pool, so that streams whose
/// consumers have all stalled leave room for new ones. What the engine `sends_on` gets no more than what is on its way has
/// left of that half: the first to stall had larger shares than there are now, and keep them.
pub(super) fn share(pool: &Pool, meter: &Meter, sends_on: bool) -> (usize, bool) {
    let half = pool.budget() / 2;
    let fair = half / meter.live().max(1);
    let left = if sends_on { half.saturating_sub(pool.in_transit()) } else { half };
    (fair.min(left), pool.state() != PoolState::Open)
}

/// How many bytes a read within `credit` should bring at most: rounded up to a slab, which is taken whole for it. The
/// largest slab, 256 KiB, is too large for that, and is filled in part. If memory is short, the credit is rounded down:
/// otherwise many streams would take several times their shares.
pub(super) fn round(credit: usize, squeezed: bool) -> usize {
    let [small, medium, large, _] = CLASSES;
    if squeezed {
        return [large, medium].into_iter().find(|&slab| credit >= slab).unwrap_or(small);
    }
    [small, medium].into_iter().find(|&slab| credit <= slab).unwrap_or_else(|| credit.next_multiple_of(large))
}

impl Window {
    pub(super) fn new(config: FlowConfig) -> Self {
        Self { config, size: config.floor, used: 0, held: 0, taken: 0, stopped: false, sent_on: false }
    }

    /// The engine alone takes what comes.
    #[cfg(not(loom))]
    pub(super) fn send_on(&mut self) {
        self.sent_on = true;
    }

    /// Whether the engine alone takes what comes.
    pub(super) fn is_sent_on(&self) -> bool {
        self.sent_on
    }

    /// A frame was queued.
    pub(super) fn take(&mut self, charge: usize) {
        self.used += charge;
    }

    /// A queued frame was dropped unread.
    pub(super) fn give(&mut self, charge: usize) {
        self.used -= charge;
    }

    /// A queued frame went to the consumer, as the `first` that it took this time or along with that.
    pub(super) fn hand_over(&mut self, first: bool) {
        self.held += 1;
        self.taken = if first { 1 } else { self.taken + 1 };
    }

    /// The consumer has dropped a frame.
    pub(super) fn hand_back(&mut self, charge: usize) {
        self.held -= 1;
        self.used -= charge;
    }

    /// Whether the consumer holds no more than the frame, or the batch, that a loop's variable still names while it
    /// awaits the next.
    pub(super) fn holds_little(&self) -> bool {
        self.held <= self.taken
    }

    /// Bytes charged now.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// The size in force when a fair share of the pool is `share` bytes and the pool is `pressed` or not.
    pub(super) fn limit(&self, share: usize, pressed: bool) -> usize {
        let size = if pressed { self.config.floor } else { self.size };
        size.min(share.max(LEAST))
    }

    /// Whether a fair share of the pool is less than the floor.
    pub(super) fn is_squeezed(&self, share: usize) -> bool {
        share < self.config.floor
    }

    /// The size that it may grow to meanwhile.
    pub(super) fn largest(&self, share: usize, pressed: bool) -> usize {
        let size = if pressed { self.config.floor } else { self.config.ceiling };
        size.min(share.max(LEAST))
    }

    /// The producer wanted to read and may not.
    pub(super) fn note_stopped(&mut self) {
        self.stopped = true;
    }

    /// The consumer ran dry. If the producer had been stopped, the window doubles until what is held fits.
    pub(super) fn ran_dry(&mut self) {
        if std::mem::take(&mut self.stopped) {
            self.size = (self.size * 2).min(self.config.ceiling);
            while self.size <= self.used && self.size < self.config.ceiling {
                self.size = (self.size * 2).min(self.config.ceiling);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const CONFIG: FlowConfig = FlowConfig { floor: 64 * 1024, ceiling: 256 * 1024 };

    #[test]
    fn a_window_that_never_stopped_the_producer_does_not_grow() {
        let mut window = Window::new(CONFIG);
        window.ran_dry();
        assert_eq!(window.limit(usize::MAX, false), CONFIG.floor);
    }

    #[test]
    fn running_dry_after_a_stop_doubles_up_to_the_ceiling() {
        let mut window = Window::new(CONFIG);
        for expected in [128 * 1024, 256 * 1024, 256 * 1024] {
            window.note_stopped();
            window.ran_dry();
            assert_eq!(window.limit(usize::MAX, false), expected);
        }
    }

    #[test]
    fn the_share_and_a_pressed_pool_bound_the_window() {
        let mut window = Window::new(CONFIG);
        window.note_stopped();
        window.ran_dry();
        assert_eq!(window.limit(usize::MAX, true), CONFIG.floor);
        assert_eq!(window.limit(10_000, false), 10_000);
        assert_eq!(window.limit(0, false), LEAST);
    }
}
