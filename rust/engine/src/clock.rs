//! The time of day.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Since the beginning of 1970. A clock before that is taken for one that stands there.
pub(crate) fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
