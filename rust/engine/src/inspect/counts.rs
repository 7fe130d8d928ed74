//! The counts of all inspected responses of a route. Each engine thread adds to its own counts, without a lock and
//! without writing memory that another thread writes; a reader sums them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::content::Content;
use super::report::Report;
use crate::counters::{Buckets, Histogram};

/// The number of sets of counts. Further threads share a set, which is slower and still correct.
/// Arbitrary.
const SETS: usize = 8;

/// The counts of a route.
#[derive(Debug, Default)]
pub struct Counts([Set; SETS]);

/// On cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Set {
    streams: AtomicU64,
    responses: AtomicU64,
    hidden: AtomicU64,
    with_usage: AtomicU64,
    events: AtomicU64,
    bytes: AtomicU64,
    first: Buckets,
    gaps: Buckets,
    totals: Buckets,
}

/// A snapshot of a route's counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sums {
    /// Event streams that have ended.
    pub streams: u64,
    /// Other responses that have ended.
    pub responses: u64,
    /// Of both, the responses that could not be inspected.
    pub hidden: u64,
    /// Of both, the responses with a usage.
    pub with_usage: u64,
    /// Events so far, also of streams that have not ended.
    pub events: u64,
    /// Bytes of the blocks of these events.
    pub bytes: u64,
    /// From the request to the first token.
    pub first: Histogram,
    /// From one token to the next.
    pub gaps: Histogram,
    /// From the request to the end of a stream.
    pub totals: Histogram,
}

impl std::ops::AddAssign<&Self> for Sums {
    fn add_assign(&mut self, other: &Self) {
        self.streams += other.streams;
        self.responses += other.responses;
        self.hidden += other.hidden;
        self.with_usage += other.with_usage;
        self.events += other.events;
        self.bytes += other.bytes;
        self.first += &other.first;
        self.gaps += &other.gaps;
        self.totals += &other.totals;
    }
}

impl Counts {
    pub(super) fn set(&self, thread: usize) -> &Set {
        &self.0[thread % SETS]
    }

    /// Adds counts of responses that another process has fetched.
    pub fn add(&self, sums: &Sums) {
        let set = self.set(0);
        for (count, more) in [
            (&set.streams, sums.streams),
            (&set.responses, sums.responses),
            (&set.hidden, sums.hidden),
            (&set.with_usage, sums.with_usage),
            (&set.events, sums.events),
            (&set.bytes, sums.bytes),
        ] {
            count.fetch_add(more, Ordering::Relaxed);
        }
        set.first.merge(&sums.first);
        set.gaps.merge(&sums.gaps);
        set.totals.merge(&sums.totals);
    }

    /// The counts as they are now.
    pub fn sums(&self) -> Sums {
        let mut sums = Sums::default();
        for set in &self.0 {
            // Relaxed, here and below: counts, which order nothing.
            sums.streams += set.streams.load(Ordering::Relaxed);
            sums.responses += set.responses.load(Ordering::Relaxed);
            sums.hidden += set.hidden.load(Ordering::Relaxed);
            sums.with_usage += set.with_usage.load(Ordering::Relaxed);
            sums.events += set.events.load(Ordering::Relaxed);
            sums.bytes += set.bytes.load(Ordering::Relaxed);
            sums.first.add(&set.first);
            sums.gaps.add(&set.gaps);
            sums.totals.add(&set.totals);
        }
        sums
    }
}

impl Set {
    pub(super) fn block(&self, bytes: usize, is_event: bool) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        if is_event {
            self.events.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn first(&self, took: Duration) {
        self.first.add(took);
    }

    pub(super) fn gap(&self, took: Duration) {
        self.gaps.add(took);
    }

    pub(super) fn end(&self, report: &Report) {
        if report.content == Content::Events {
            self.streams.fetch_add(1, Ordering::Relaxed);
            self.totals.add(report.total);
        } else {
            self.responses.fetch_add(1, Ordering::Relaxed);
        }
        self.hidden.fetch_add(u64::from(report.hidden.is_some()), Ordering::Relaxed);
        self.with_usage.fetch_add(u64::from(report.usage.is_some()), Ordering::Relaxed);
    }
}
