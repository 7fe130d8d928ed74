//! Durations, counted in the same buckets for all: from the gap between two tokens to a long
//! response.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The upper bounds of the buckets in milliseconds and tenths of them; the last bucket has no bound. There are four or
/// five buckets in a decade from 1 ms to 2 minutes: gaps between tokens are 5 to 100 ms, first tokens come after 0.05
/// to 30 s. Prometheus uses the same bounds.
pub const BOUNDS: [Duration; 26] = {
    const TENTHS: [u64; 26] = [
        10, 20, 30, 50, 75, 100, 200, 300, 500, 750, 1_000, 2_000, 3_000, 5_000, 7_500, 10_000, 20_000,
        30_000, 50_000, 75_000, 100_000, 200_000, 300_000, 600_000, 900_000, 1_200_000,
    ];
    let mut bounds = [Duration::ZERO; 26];
    let mut at = 0;
    while at < TENTHS.len() {
        bounds[at] = Duration::from_micros(TENTHS[at] * 100);
        at += 1;
    }
    bounds
};

/// Counts to which mostly one thread adds, and which any thread reads.
#[derive(Debug, Default)]
pub struct Buckets {
    counts: [AtomicU64; BOUNDS.len() + 1],
    /// The sum in nanoseconds. It overflows after 580 years.
    sum: AtomicU64,
}

impl Buckets {
    /// Counts one.
    pub fn add(&self, took: Duration) {
        // Relaxed, here and below: counts, which order nothing.
        self.counts[bucket(took)].fetch_add(1, Ordering::Relaxed);
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.sum.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// Adds what was counted elsewhere.
    pub fn merge(&self, other: &Histogram) {
        for (count, more) in self.counts.iter().zip(other.counts) {
            count.fetch_add(more, Ordering::Relaxed);
        }
        let nanoseconds = u64::try_from(other.sum.as_nanos()).unwrap_or(u64::MAX);
        self.sum.fetch_add(nanoseconds, Ordering::Relaxed);
    }
}

/// The index of the bucket of a duration.
fn bucket(took: Duration) -> usize {
    BOUNDS.partition_point(|bound| *bound < took)
}

/// A snapshot, or counts that one lock guards. Counts of [`Buckets`] are read one after the other, so that under load the sum may be a few behind or ahead.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    /// How many durations were within the bound at the same index of [`BOUNDS`] and above the bound before it; the last is
    /// the number of durations above all bounds.
    pub counts: [u64; BOUNDS.len() + 1],
    /// The sum of all durations.
    pub sum: Duration,
}

impl Histogram {
    /// Counts one.
    pub fn count(&mut self, took: Duration) {
        self.counts[bucket(took)] += 1;
        self.sum += took;
    }

    /// Adds what has been counted so far.
    pub fn add(&mut self, buckets: &Buckets) {
        for (count, more) in self.counts.iter_mut().zip(&buckets.counts) {
            *count += more.load(Ordering::Relaxed);
        }
        self.sum += Duration::from_nanos(buckets.sum.load(Ordering::Relaxed));
    }
}

impl std::ops::AddAssign<&Self> for Histogram {
    fn add_assign(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self.sum += other.sum;
    }
}
