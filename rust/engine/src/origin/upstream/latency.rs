//! The times to the first byte of the latest requests of an upstream.

use std::time::Duration;

/// The number of requests that count: enough for a 99th percentile, few enough to follow changes.
const RECENT: usize = 128;

/// The least number of requests. Arbitrary; with fewer, a percentile is the slowest or next to it.
const FEWEST: usize = 32;

/// The latest times.
#[derive(Debug)]
pub(super) struct Latencies {
    recent: [Duration; RECENT],
    count: usize,
}

impl Latencies {
    pub(super) fn new() -> Self {
        Self { recent: [Duration::ZERO; RECENT], count: 0 }
    }

    pub(super) fn record(&mut self, took: Duration) {
        self.recent[self.count % RECENT] = took;
        self.count += 1;
    }

    /// The time below which `percent` of them are; `None` if there are too few.
    pub(super) fn percentile(&self, percent: u8) -> Option<Duration> {
        if self.count < FEWEST {
            return None;
        }
        let mut recent = self.recent;
        let known = &mut recent[..self.count.min(RECENT)];
        let place = (known.len() * usize::from(percent) / 100).min(known.len() - 1);
        Some(*known.select_nth_unstable(place).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn milliseconds(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn a_few_say_nothing() {
        let mut latencies = Latencies::new();
        for _ in 1..FEWEST {
            latencies.record(milliseconds(1));
        }
        assert_eq!(latencies.percentile(95), None);
        latencies.record(milliseconds(1));
        assert_eq!(latencies.percentile(95), Some(milliseconds(1)));
    }

    #[test]
    fn so_many_of_a_hundred_stay_below() {
        let mut latencies = Latencies::new();
        for took in (0..100).rev() {
            latencies.record(milliseconds(took));
        }
        assert_eq!(latencies.percentile(50), Some(milliseconds(50)));
        assert_eq!(latencies.percentile(95), Some(milliseconds(95)));
        assert_eq!(latencies.percentile(99), Some(milliseconds(99)));
    }

    #[test]
    fn the_latest_count() {
        let mut latencies = Latencies::new();
        for took in 0..1000 {
            latencies.record(milliseconds(if took < 500 { 1000 } else { 1 }));
        }
        assert_eq!(latencies.percentile(99), Some(milliseconds(1)));
    }
}
