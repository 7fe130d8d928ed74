//! The time of day.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Since the beginning of 1970. A clock that is set to an earlier time is taken for one that is set to 1970.
pub fn since_1970() -> Duration {
    #[cfg(feature = "testing")]
    if let Some(now) = testing::simulated() {
        return now;
    }
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The time of day in a simulation: of the calling thread alone.
#[cfg(feature = "testing")]
pub mod testing {
    use std::cell::Cell;
    use std::time::Duration;

    thread_local! {
        static NOW: Cell<Option<Duration>> = const { Cell::new(None) };
    }

    pub(super) fn simulated() -> Option<Duration> {
        NOW.get()
    }

    /// It is `now` since the beginning of 1970, until the next call.
    pub fn now_is(now: Duration) {
        NOW.set(Some(now));
    }

    /// It is the time that the system has.
    pub fn real_time() {
        NOW.set(None);
    }
}
