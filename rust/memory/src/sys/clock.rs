//! The time of day.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Since the beginning of 1970. A clock that is set to an earlier time is taken for one that is set to 1970.
pub fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
