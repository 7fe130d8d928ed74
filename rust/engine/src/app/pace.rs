//! How fast requests are taken from a queue, and so how long one that comes will wait. It knows no clock.
//!
//! The wait of the first request tells late how long the last one will wait: at three times the capacity the requests that come
//! while the first waits for 50 ms take 150 ms. What counts is how many wait, and how long each takes.

use std::time::{Duration, Instant};

/// The time over which is counted: some turns of a busy event loop. Arbitrary.
const WINDOW: Duration = Duration::from_millis(50);

/// Counts while requests wait; when none does, how fast they are taken says nothing.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Since when requests have waited and been counted.
    since: Option<Instant>,
    taken: u32,
    /// The time from one to the next, in the last whole window.
    each: Duration,
}

impl Pace {
    /// A request has come to a queue in which none waited.
    pub(super) fn begin(&mut self, now: Instant) {
        (self.since, self.taken) = (Some(now), 0);
    }

    /// A request was taken; `is_last`: none waits any more.
    pub(super) fn take(&mut self, now: Instant, is_last: bool) {
        let Some(since) = self.since else { return };
        self.taken += 1;
        let passed = now.saturating_duration_since(since);
        if passed >= WINDOW {
            self.each = passed / self.taken;
            self.begin(now);
        }
        if is_last {
            self.since = None;
        }
    }

    /// For how long a request will wait that comes after `waiting` others.
    pub(super) fn wait(&self, waiting: usize) -> Duration {
        self.each.saturating_mul(u32::try_from(waiting).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn a_request_waits_for_as_long_as_those_before_take() {
        let (mut pace, begun) = (Pace::default(), Instant::now());
        assert_eq!(pace.wait(100), Duration::ZERO, "nothing is known");
        pace.begin(begun);
        for taken in 1..=30 {
            pace.take(begun + 2 * taken * MILLISECOND, false);
        }
        assert_eq!(pace.wait(10), 20 * MILLISECOND);
        assert_eq!(pace.wait(usize::MAX), pace.wait(u32::MAX as usize), "no overflow");
    }

    #[test]
    fn what_is_taken_while_few_wait_says_nothing() {
        let (mut pace, begun) = (Pace::default(), Instant::now());
        // One a second, taken at once.
        for second in 0..100 {
            let now = begun + second * 1000 * MILLISECOND;
            pace.begin(now);
            pace.take(now + MILLISECOND, true);
        }
        assert_eq!(pace.wait(10), Duration::ZERO);
    }

    #[test]
    fn the_last_window_counts() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        pace.begin(now);
        for each in [10, 1] {
            for _ in 0..200 {
                now += each * MILLISECOND;
                pace.take(now, false);
            }
        }
        assert_eq!(pace.wait(10), 10 * MILLISECOND);
    }
}
