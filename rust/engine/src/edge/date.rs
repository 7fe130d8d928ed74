//! The Date field (RFC 9110, section 6.6.1): a string that is made anew once a second.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time of day, as the field has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Date(u64);

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

impl Date {
    /// Now; a clock before 1970 is taken for 1970.
    pub(super) fn now() -> Self {
        Self(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
    }
}

/// A point of time in the civil calendar, in UTC.
struct Civil {
    year: u64,
    month: u64,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
}

impl Civil {
    /// From a count of seconds since 1970, by Howard Hinnant's `civil_from_days`.
    fn of(seconds: u64) -> Self {
        let (days, second) = (seconds / 86_400, seconds % 86_400);
        let shifted = days + 719_468;
        let era = shifted / 146_097;
        let day_of_era = shifted % 146_097;
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        Self {
            year: year_of_era + era * 400 + u64::from(month <= 2),
            month,
            day: day_of_year - (153 * shifted_month + 2) / 5 + 1,
            hour: second / 3600,
            minute: second / 60 % 60,
            second: second % 60,
        }
    }
}

impl fmt::Display for Date {
    /// IMF-fixdate.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Civil { year, month, day, hour, minute, second } = Civil::of(self.0);
        let name = |names: &[&'static str], index: u64| names[usize::try_from(index).unwrap_or(0)];
        let weekday = name(&DAYS, self.0 / 86_400 % 7);
        let month = name(&MONTHS, month - 1);
        write!(f, "{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
    }
}

/// The time of day for logs: ISO 8601 with milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stamp(Duration);

impl Stamp {
    /// Now; a clock before 1970 is taken for 1970.
    pub(super) fn now() -> Self {
        Self(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
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
