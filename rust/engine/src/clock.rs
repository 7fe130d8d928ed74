//! The time of day as text: for the Date field (RFC 9110, section 6.6.1), and for lines of a log.

use std::fmt::Display;
use std::time::UNIX_EPOCH;

use penstock_memory::sys::since_1970;

use crate::wire::http_date;

/// Now, displayed as the Date field has it.
pub(crate) fn date() -> impl Display {
    http_date(since_1970().as_secs())
}

/// Now, displayed as RFC 3339 with milliseconds.
pub(crate) fn stamp() -> impl Display {
    humantime::format_rfc3339_millis(UNIX_EPOCH + since_1970())
}
