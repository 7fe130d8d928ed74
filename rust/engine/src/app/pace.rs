//! How fast requests are taken from a queue, and so how long one that comes will wait. It knows no clock.
//!
//! The wait of the first request tells late how long the last one will wait: at three times the capacity the requests that come
//! while the first waits for 50 ms take 150 ms. What counts is how many wait, how long each takes, and what was begun: an event
//! loop takes some at a time, and nothing is taken while it serves them.

use std::time::{Duration, Instant};

/// The time over which is counted: some turns of a busy event loop. Arbitrary.
const WINDOW: Duration = Duration::from_millis(50);
/// What is taken in it is taken together. asyncio's loop may take some a second time before it runs the first handler.
const TURN: Duration = Duration::from_millis(2);
/// What has waited for less may have come to a loop that did nothing.
const LEAST_WAIT: Duration = Duration::from_millis(1);
/// For so long a window counts.
const KNOWN: Duration = Duration::from_secs(1);

/// Counts the turns of the event loop in which requests came that had to wait for the next; of others it cannot be told when they
/// ended. A window is made of such turns, however few at a time: where hardly any request has to wait, one that was slow would
/// otherwise count for ever.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// The last.
    turn: Option<Turn>,
    /// The time of the turns in this window, and what was taken in them.
    counted: Duration,
    taken: u32,
    /// The time from one to the next, in the last whole window, and when that ended.
    each: Option<(Duration, Instant)>,
}

/// Requests that were taken together.
#[derive(Debug)]
struct Turn {
    begun: Instant,
    taken: u32,
}

impl Pace {
    /// A request was taken, when the first had waited for `oldest`.
    pub(super) fn take(&mut self, now: Instant, oldest: Duration) {
        match &mut self.turn {
            Some(turn) if now.saturating_duration_since(turn.begun) < TURN => {
                turn.taken = turn.taken.saturating_add(1);
            }
            _ => self.next_turn(now, oldest),
        }
    }

    fn next_turn(&mut self, now: Instant, oldest: Duration) {
        let Some(turn) = self.turn.replace(Turn { begun: now, taken: 1 }) else { return };
        let took = now.saturating_duration_since(turn.begun);
        if oldest < LEAST_WAIT || oldest < took / 2 {
            return;
        }
        self.counted += took;
        self.taken = self.taken.saturating_add(turn.taken);
        if self.counted >= WINDOW {
            self.each = Some((self.counted / self.taken, now));
            (self.counted, self.taken) = (Duration::ZERO, 0);
        }
    }

    /// For how long a request will wait that comes after `waiting` others.
    pub(super) fn wait(&self, now: Instant, waiting: usize) -> Duration {
        let waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
        self.rest(now) + self.each(now).saturating_mul(waiting)
    }

    /// How much of the last turn is left.
    fn rest(&self, now: Instant) -> Duration {
        let Some(turn) = &self.turn else { return Duration::ZERO };
        let whole = self.each(now).saturating_mul(turn.taken);
        whole.saturating_sub(now.saturating_duration_since(turn.begun))
    }

    /// How long each takes, as far as is known.
    fn each(&self, now: Instant) -> Duration {
        let known = self.each.filter(|(_, ended)| now.saturating_duration_since(*ended) < KNOWN);
        known.map_or(Duration::ZERO, |(each, _)| each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    /// Turns with so many requests in each that take so many milliseconds, and when the last began. More than can be taken wait.
    fn turn(pace: &mut Pace, mut now: Instant, turns: u32, taken: u32, took: u32) -> Instant {
        for _ in 0..turns {
            now += took * MILLISECOND;
            for _ in 0..taken {
                pace.take(now, took * MILLISECOND);
            }
        }
        now
    }

    fn counted(each: u32) -> (Pace, Instant) {
        let mut pace = Pace::default();
        let now = turn(&mut pace, Instant::now(), 101, 1, each);
        (pace, now)
    }

    #[test]
    fn a_request_waits_for_as_long_as_those_before_take() {
        assert_eq!(Pace::default().wait(Instant::now(), 100), Duration::ZERO, "nothing is known");
        let (pace, now) = counted(2);
        assert_eq!(pace.wait(now, 10), 22 * MILLISECOND, "and for the one that was begun");
        assert_eq!(pace.wait(now + MILLISECOND, 10), 21 * MILLISECOND);
        assert_eq!(pace.wait(now + 2 * MILLISECOND, 10), 20 * MILLISECOND);
        assert_eq!(pace.wait(now, usize::MAX), pace.wait(now, u32::MAX as usize), "no overflow");
    }

    #[test]
    fn what_is_taken_at_once_is_served_one_after_the_other() {
        let (mut pace, now) = counted(2);
        let now = turn(&mut pace, now, 100, 8, 16);
        assert_eq!(pace.wait(now, 0), 16 * MILLISECOND);
        assert_eq!(pace.wait(now, 4), 24 * MILLISECOND);
    }

    #[test]
    fn a_turn_counts_if_a_request_has_waited_for_most_of_it() {
        for (waited, each) in [(16, 2), (8, 2), (7, 0), (0, 0)] {
            let (mut pace, mut now) = (Pace::default(), Instant::now());
            for _ in 0..100 {
                now += 16 * MILLISECOND;
                for _ in 0..8 {
                    pace.take(now, waited * MILLISECOND);
                }
            }
            assert_eq!(pace.each(now), each * MILLISECOND, "{waited} ms");
        }
    }

    #[test]
    fn what_is_taken_at_once_says_nothing() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        for _ in 0..1000 {
            now += MILLISECOND;
            pace.take(now, MILLISECOND * 9 / 10);
        }
        assert_eq!(pace.wait(now, 10), Duration::ZERO);
    }

    #[test]
    fn a_request_that_was_slow_is_forgotten_though_hardly_any_waits() {
        let mut pace = Pace::default();
        let now = turn(&mut pace, Instant::now(), 2, 1, 500);
        assert_eq!(pace.each(now), 500 * MILLISECOND);
        let now = turn(&mut pace, now, 25, 1, 2);
        assert_eq!(pace.each(now), 2 * MILLISECOND);
    }

    #[test]
    fn what_was_counted_a_second_ago_says_nothing() {
        let (pace, now) = counted(2);
        assert_eq!(pace.wait(now + 999 * MILLISECOND, 10), 20 * MILLISECOND);
        assert_eq!(pace.wait(now + 1000 * MILLISECOND, 10), Duration::ZERO);
    }

    #[test]
    fn the_last_window_counts() {
        let (mut pace, now) = counted(10);
        let now = turn(&mut pace, now, 200, 3, 3);
        assert_eq!(pace.each(now), MILLISECOND);
    }

    #[test]
    fn what_is_taken_in_one_turn_and_soon_after_is_served_together() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        for _ in 0..100 {
            for (pause, taken) in [(19, 8), (1, 2)] {
                now += pause * MILLISECOND;
                for _ in 0..taken {
                    pace.take(now, pause * MILLISECOND);
                }
            }
        }
        assert_eq!(pace.each(now), 2 * MILLISECOND);
    }
}
