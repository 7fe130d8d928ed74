//! The Date field (RFC 9110, section 6.6.1): a string that is made anew once a second.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

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

impl fmt::Display for Date {
    /// IMF-fixdate. The civil calendar from a count of days is Howard Hinnant's `civil_from_days`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, second) = (self.0 / 86_400, self.0 % 86_400);
        let shifted = days + 719_468;
        let era = shifted / 146_097;
        let day_of_era = shifted % 146_097;
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        let year = year_of_era + era * 400 + u64::from(month <= 2);
        let name = |names: &[&'static str], index: u64| names[usize::try_from(index).unwrap_or(0)];
        write!(
            f,
            "{}, {day:02} {} {year:04} {:02}:{:02}:{:02} GMT",
            name(&DAYS, days % 7),
            name(&MONTHS, month - 1),
            second / 3600,
            second / 60 % 60,
            second % 60
        )
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
}
