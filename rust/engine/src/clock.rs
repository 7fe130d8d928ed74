//! The time of day: as a span since 1970, for the Date field (RFC 9110, section 6.6.1), and for log lines.

#[cfg(not(loom))]
use std::fmt::Display;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[cfg(not(loom))]
use crate::wire::http_date;

/// The span since the beginning of 1970; zero if the clock is set to an earlier time.
pub(crate) fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Now, displayed as in the Date field.
#[cfg(not(loom))]
pub(crate) fn date() -> impl Display {
    http_date(since_1970().as_secs())
}

/// Now, displayed as RFC 3339 with milliseconds.
#[cfg(not(loom))]
pub(crate) fn stamp() -> impl Display {
    humantime::format_rfc3339_millis(UNIX_EPOCH + since_1970())
}
