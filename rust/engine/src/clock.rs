//! The time of day as text, for the Date field (RFC 9110, section 6.6.1) and for lines of a log; and the time that passes,
//! for a connection's task.

use std::cell::Cell;
use std::fmt::Display;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, UNIX_EPOCH};

use penstock_memory::sys::since_1970;
use tokio::time::Instant;

use crate::wire::http_date;

/// Now, displayed as the Date field has it.
pub(crate) fn date() -> impl Display {
    http_date(since_1970().as_secs())
}

/// Now, displayed as RFC 3339 with milliseconds.
pub(crate) fn stamp() -> impl Display {
    humantime::format_rfc3339_millis(UNIX_EPOCH + since_1970())
}

thread_local! {
    static READING: Cell<Reading> = const { Cell::new(Reading::Each) };
}

/// How [`now`] reads the clock.
#[derive(Debug, Clone, Copy)]
enum Reading {
    /// Anew for each caller.
    Each,
    /// In a poll that has not read it.
    Due,
    /// In a poll that has.
    At(Instant),
}

/// The time; within [`poll_at_one_time`] it is read once. A reading takes 25 to 65 ns, and a relay of 16 KiB, which takes
/// 20 us, asked for it 13 times.
pub(crate) fn now() -> Instant {
    READING.with(|reading| match reading.get() {
        Reading::At(now) => now,
        Reading::Each => Instant::now(),
        Reading::Due => {
            let now = Instant::now();
            reading.set(Reading::At(now));
            now
        }
    })
}

/// The time since `begun`, by [`now`].
pub(crate) fn since(begun: Instant) -> Duration {
    now().saturating_duration_since(begun)
}

/// Polls `future`, for which the time stands still meanwhile.
pub(crate) fn poll_at_one_time<F: Future>(future: Pin<&mut F>, context: &mut Context<'_>) -> Poll<F::Output> {
    /// Also after a panic, because the thread goes on.
    struct End<'a>(&'a Cell<Reading>);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.set(Reading::Each);
        }
    }
    READING.with(|reading| {
        reading.set(Reading::Due);
        let _end = End(reading);
        future.poll(context)
    })
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Waker;

    use super::*;

    const PAUSE: Duration = Duration::from_millis(2);

    #[test]
    fn the_time_stands_still_within_a_poll_and_goes_on_in_the_next() {
        let mut times = Vec::new();
        let mut work = pin!(poll_fn(|_| {
            times.push(now());
            std::thread::sleep(PAUSE);
            times.push(now());
            Poll::<()>::Pending
        }));
        let context = &mut Context::from_waker(Waker::noop());
        for _ in 0..2 {
            assert!(poll_at_one_time(work.as_mut(), context).is_pending());
        }
        assert_eq!(times[0], times[1]);
        assert!(times[2] >= times[0] + PAUSE);
        assert_eq!(times[2], times[3]);
    }

    #[test]
    fn a_poll_that_panics_leaves_no_time_that_stands_still() {
        let mut work = pin!(poll_fn(|_| -> Poll<()> { panic!("{:?} is read", now()) }));
        let context = &mut Context::from_waker(Waker::noop());
        let poll = std::panic::AssertUnwindSafe(|| poll_at_one_time(work.as_mut(), context));
        assert!(std::panic::catch_unwind(poll).is_err());
        let before = now();
        std::thread::sleep(PAUSE);
        assert!(since(before) >= PAUSE);
    }
}
