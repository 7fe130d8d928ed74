//! The Date field (RFC 9110, section 6.6.1): a string that is made anew once a second.

use std::fmt;
use std::time::Duration;

use crate::clock::since_1970;
use crate::wire::{Civil, HttpDate};

/// The time of day, as the field has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Date(u64);

impl Date {
    /// Now.
    pub(super) fn now() -> Self {
        Self(since_1970().as_secs())
    }
}

impl fmt::Display for Date {
    /// IMF-fixdate.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        HttpDate(self.0).fmt(f)
    }
}

/// The time of day for logs: ISO 8601 with milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stamp(Duration);

impl Stamp {
    /// Now.
    pub(super) fn now() -> Self {
        Self(since_1970())
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Civil { year, month, day, hour, minute, second } = Civil::of(self.0.as_secs());
        let milliseconds = self.0.subsec_millis();
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
        ] {
            assert_eq!(Date(seconds).to_string(), text);
        }
    }

    #[test]
    fn stamps_have_milliseconds() {
        assert_eq!(Stamp(Duration::from_millis(784_111_777_042)).to_string(), "1994-11-06T08:49:37.042Z");
    }
}
