//! HTTP-date (RFC 9110, section 5.6.7): written in one form, read in three.
//!
//! Reading is strict in shape, because a date that two caches could understand differently must not keep a response
//! alive, and lenient in case, as caches should be (RFC 9111, section 4.2). Seconds count from 1970.

use std::fmt;

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const LONG_DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A point of time in the civil calendar, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Civil {
    pub(crate) year: u64,
    pub(crate) month: u64,
    pub(crate) day: u64,
    pub(crate) hour: u64,
    pub(crate) minute: u64,
    pub(crate) second: u64,
}

impl Civil {
    /// From a count of seconds since 1970, by Howard Hinnant's `civil_from_days`.
    pub(crate) fn of(seconds: u64) -> Self {
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

    /// Seconds since 1970, by Hinnant's `days_from_civil`. What lies before is taken for 1970: it is past either way.
    fn seconds(&self) -> u64 {
        let year = self.year - u64::from(self.month <= 2);
        let era = year / 400;
        let year_of_era = year % 400;
        let shifted_month = if self.month > 2 { self.month - 3 } else { self.month + 9 };
        let day_of_year = (153 * shifted_month + 2) / 5 + self.day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        let days = (era * 146_097 + day_of_era).saturating_sub(719_468);
        if self.year < 1970 { 0 } else { days * 86_400 + self.hour * 3600 + self.minute * 60 + self.second }
    }

    /// Whether the calendar has this day, and the clock this second; 60 is a leap second.
    fn exists(&self) -> bool {
        let leap = self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0);
        let days = match self.month {
            2 if leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        (1..=days).contains(&self.day)
            && self.hour < 24
            && self.minute < 60
            && self.second <= 60
            && self.year > 0
    }
}

/// Seconds since 1970, displayed as an IMF-fixdate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HttpDate(pub(crate) u64);

impl fmt::Display for HttpDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Civil { year, month, day, hour, minute, second } = Civil::of(self.0);
        let name = |names: &[&'static str], index: u64| names[usize::try_from(index).unwrap_or(0)];
        let weekday = name(&DAYS, self.0 / 86_400 % 7);
        let month = name(&MONTHS, month - 1);
        write!(f, "{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
    }
}

/// Seconds since 1970 of a date in any of the three forms, or none. `now`, in the same unit, decides which century a
/// year of two digits is in. The day of the week must be one, but not the right one: nothing depends on it.
pub(crate) fn parse_date(value: &[u8], now: u64) -> Option<u64> {
    let mut rest = Rest(value);
    let civil = if let Some(comma) = value.iter().position(|byte| *byte == b',') {
        rest.0 = &value[comma + 1..];
        if DAYS.iter().any(|day| value[..comma].eq_ignore_ascii_case(day.as_bytes())) {
            rest.fixed()?
        } else if LONG_DAYS.iter().any(|day| value[..comma].eq_ignore_ascii_case(day.as_bytes())) {
            rest.rfc850(now)?
        } else {
            return None;
        }
    } else {
        rest.word(&DAYS)?;
        rest.asctime()?
    };
    (rest.0.is_empty() && civil.exists()).then(|| civil.seconds())
}

/// What has not been read yet.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    /// ` 06 Nov 1994 08:49:37 GMT`
    fn fixed(&mut self) -> Option<Civil> {
        self.text(b" ")?;
        let day = self.digits(2)?;
        self.text(b" ")?;
        let month = self.word(&MONTHS)?;
        self.text(b" ")?;
        let year = self.digits(4)?;
        self.text(b" ")?;
        let civil = self.time(year, month, day)?;
        self.text(b" GMT")?;
        Some(civil)
    }

    /// ` 06-Nov-94 08:49:37 GMT`
    fn rfc850(&mut self, now: u64) -> Option<Civil> {
        self.text(b" ")?;
        let day = self.digits(2)?;
        self.text(b"-")?;
        let month = self.word(&MONTHS)?;
        self.text(b"-")?;
        let short = self.digits(2)?;
        self.text(b" ")?;
        // More than 50 years in the future is the most recent year in the past with these digits.
        let this_year = Civil::of(now).year;
        let year = this_year - this_year % 100 + short;
        let mut civil = self.time(year, month, day)?;
        self.text(b" GMT")?;
        let limit = Civil { year: this_year + 50, ..Civil::of(now) };
        if civil > limit {
            civil.year -= 100;
        } else if (Civil { year: year + 100, ..civil }) <= limit {
            civil.year += 100;
        }
        Some(civil)
    }

    /// ` Nov  6 08:49:37 1994`
    fn asctime(&mut self) -> Option<Civil> {
        self.text(b" ")?;
        let month = self.word(&MONTHS)?;
        self.text(b" ")?;
        let day = if self.text(b" ").is_some() { self.digits(1)? } else { self.digits(2)? };
        self.text(b" ")?;
        let mut civil = self.time(0, month, day)?;
        self.text(b" ")?;
        civil.year = self.digits(4)?;
        Some(civil)
    }

    /// `08:49:37`
    fn time(&mut self, year: u64, month: u64, day: u64) -> Option<Civil> {
        let hour = self.digits(2)?;
        self.text(b":")?;
        let minute = self.digits(2)?;
        self.text(b":")?;
        let second = self.digits(2)?;
        Some(Civil { year, month, day, hour, minute, second })
    }

    fn text(&mut self, text: &[u8]) -> Option<()> {
        let (start, rest) = self.0.split_at_checked(text.len())?;
        self.0 = start.eq_ignore_ascii_case(text).then_some(rest)?;
        Some(())
    }

    fn digits(&mut self, count: usize) -> Option<u64> {
        let (digits, rest) = self.0.split_at_checked(count)?;
        self.0 = digits.iter().all(u8::is_ascii_digit).then_some(rest)?;
        Some(digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
    }

    /// A word of three letters: its place among `words`, from 1 on.
    fn word(&mut self, words: &[&str]) -> Option<u64> {
        let (word, rest) = self.0.split_at_checked(3)?;
        let place = words.iter().position(|other| word.eq_ignore_ascii_case(other.as_bytes()))?;
        self.0 = rest;
        u64::try_from(place + 1).ok()
    }
}
