//! The counts of all inspected responses of a route. Each engine thread adds to its own counts, without a lock and
//! without writing memory that another thread writes; a reader sums them.

use std::time::Duration;

use super::content::Content;
use super::report::Report;
use crate::counters::{Buckets, Counter, Histogram};

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
    streams: Counter,
    responses: Counter,
    hidden: Counter,
    with_usage: Counter,
    events: Counter,
    bytes: Counter,
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
            count.add(more);
        }
        set.first.merge(&sums.first);
        set.gaps.merge(&sums.gaps);
        set.totals.merge(&sums.totals);
    }

    /// The counts as they are now.
    pub fn sums(&self) -> Sums {
        let mut sums = Sums::default();
        for set in &self.0 {
            sums.streams += set.streams.get();
            sums.responses += set.responses.get();
            sums.hidden += set.hidden.get();
            sums.with_usage += set.with_usage.get();
            sums.events += set.events.get();
            sums.bytes += set.bytes.get();
            sums.first.add(&set.first);
            sums.gaps.add(&set.gaps);
            sums.totals.add(&set.totals);
        }
        sums
    }
}

impl Set {
    pub(super) fn block(&self, bytes: usize, is_event: bool) {
        self.bytes.add(bytes as u64);
        if is_event {
            self.events.add(1);
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
            self.streams.add(1);
            self.totals.add(report.total);
        } else {
            self.responses.add(1);
        }
        self.hidden.add(u64::from(report.hidden.is_some()));
        self.with_usage.add(u64::from(report.usage.is_some()));
    }
}
