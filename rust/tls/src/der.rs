//! DER (X.690) as far as certificates, revocation lists and OCSP responses need it: elements one after another, and times.
//!
//! It reads no signature and decides nothing: rustls parses and verifies the same bytes. What it cannot read gives `None`.

use std::time::{Duration, SystemTime};

pub(crate) const BOOLEAN: u8 = 0x01;
pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const OBJECT_IDENTIFIER: u8 = 0x06;
pub(crate) const ENUMERATED: u8 = 0x0a;
pub(crate) const SEQUENCE: u8 = 0x30;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The elements of one constructed element, read from the front.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(content: &'a [u8]) -> Self {
        Self(content)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The tag and the content of the next element.
    pub(crate) fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&[tag, first], rest) = self.0.split_first_chunk()?;
        // Tags of several bytes stand in none of what is read.
        if tag & 0x1f == 0x1f {
            return None;
        }
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            0x81..=0x84 => {
                let (length, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
                (length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }

    /// The content of the next element, which must have `tag`.
    pub(crate) fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        let mut ahead = *self;
        let (found, content) = ahead.next()?;
        (found == tag).then(|| {
            *self = ahead;
            content
        })
    }

    /// The elements within the next element, which must have `tag`.
    pub(crate) fn within(&mut self, tag: u8) -> Option<Reader<'a>> {
        self.take(tag).map(Reader)
    }

    /// The next element, which must be a time (RFC 5280, section 4.1.2.5).
    pub(crate) fn time(&mut self) -> Option<SystemTime> {
        match self.next()? {
            (UTC_TIME, text) => {
                let (year, rest) = digits(text, 2)?;
                time(if year < 50 { 2000 + year } else { 1900 + year }, rest)
            }
            (GENERALIZED_TIME, text) => {
                let (year, rest) = digits(text, 4)?;
                time(year, rest)
            }
            _ => None,
        }
    }
}

/// Month, day, hour, minute and second of `text`, after the year. A time before 1970 is taken for 1970.
fn time(year: u64, text: &[u8]) -> Option<SystemTime> {
    let (month, text) = digits(text, 2)?;
    let (day, text) = digits(text, 2)?;
    let (hour, text) = digits(text, 2)?;
    let (minute, text) = digits(text, 2)?;
    let (second, text) = digits(text, 2)?;
    let fits =
        (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 60;
    if !fits || text != b"Z" {
        return None;
    }
    if year < 1970 {
        return Some(SystemTime::UNIX_EPOCH);
    }
    let seconds = days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// Days since 1970: years begin in March, so that the day of a leap year is the last one.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468
}

fn digits(text: &[u8], count: usize) -> Option<(u64, &[u8])> {
    let (digits, rest) = text.split_at_checked(count)?;
    let number =
        std::str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    Some((number.parse().ok()?, rest))
}
