//! What a hub counts, by topic. A topic that goes leaves its sums to the hub.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a topic, or of the topics that are gone.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) events: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) delivered: AtomicU64,
    pub(super) subscribed: AtomicU64,
    pub(super) resumed: AtomicU64,
    pub(super) gaps: AtomicU64,
    pub(super) slow: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) conflated: AtomicU64,
}

/// What has been counted so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// Events that were published.
    pub events: u64,
    /// Bytes of them, as they stand on the wire.
    pub bytes: u64,
    /// Events that were given to subscribers to be sent, once for each.
    pub delivered: u64,
    /// Subscriptions.
    pub subscribed: u64,
    /// Those of them that had something before and got all that they lacked.
    pub resumed: u64,
    /// Gaps that were announced.
    pub gaps: u64,
    /// Subscribers that were cut off because they did not keep up.
    pub slow: u64,
    /// Events that subscribers missed and went on after a gap.
    pub dropped: u64,
    /// Events that newer ones of their keys stood for.
    pub conflated: u64,
}

// Relaxed throughout: counts, which order nothing.

pub(super) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

impl Counts {
    pub(super) fn snapshot(&self) -> Counted {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counted {
            events: read(&self.events),
            bytes: read(&self.bytes),
            delivered: read(&self.delivered),
            subscribed: read(&self.subscribed),
            resumed: read(&self.resumed),
            gaps: read(&self.gaps),
            slow: read(&self.slow),
            dropped: read(&self.dropped),
            conflated: read(&self.conflated),
        }
    }
}

impl std::ops::AddAssign for Counted {
    fn add_assign(&mut self, other: Self) {
        self.events += other.events;
        self.bytes += other.bytes;
        self.delivered += other.delivered;
        self.subscribed += other.subscribed;
        self.resumed += other.resumed;
        self.gaps += other.gaps;
        self.slow += other.slow;
        self.dropped += other.dropped;
        self.conflated += other.conflated;
    }
}
