//! HTTP-date (RFC 9110, section 5.6.7), by `httpdate`: written in one form, read in three.
//!
//! A date must be valid in all but its case: a date that two caches could understand differently, as with the wrong day
//! of the week, must not keep a response fresh. Seconds count from 1970.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use httpdate::HttpDate;

/// The last second of the year 9999, the latest date that the format has.
const LAST_SECOND: u64 = 253_402_300_799;

/// The longest form, `Wednesday, 09-Nov-94 08:49:37 GMT`.
const LONGEST_DATE: usize = 33;

/// Displays `seconds` since 1970 as an IMF-fixdate. A time after the year 9999 is displayed as its last second.
pub fn http_date(seconds: u64) -> HttpDate {
    HttpDate::from(UNIX_EPOCH + Duration::from_secs(seconds.min(LAST_SECOND)))
}

/// Seconds since 1970 of a date in any of the three forms. `None` if it is not a date, or is before
/// 1970.
///
/// A year of two digits is one from 1970 to 2069, which is never more than 50 years ahead, as section 5.6.7 asks. The day
/// of the week distinguishes 1970 from 2070.
pub fn parse_date(value: &[u8]) -> Option<u64> {
    let mut room = [0; LONGEST_DATE];
    let date = httpdate::parse_http_date(std::str::from_utf8(value).ok()?)
        .or_else(|_| httpdate::parse_http_date(canonical(value, &mut room).unwrap_or_default()))
        .ok()?;
    date.duration_since(SystemTime::UNIX_EPOCH).ok().map(|since| since.as_secs())
}

/// The date in the form that `httpdate` requires: words in the case of the grammar, which caches have to ignore (RFC
/// 9111, section 4.2), and the second before a leap second in its place.
fn canonical<'a>(value: &[u8], room: &'a mut [u8; LONGEST_DATE]) -> Option<&'a str> {
    let text = room.get_mut(..value.len())?;
    text.copy_from_slice(value);
    let mut is_inside_word = false;
    for byte in &mut *text {
        *byte = if is_inside_word { byte.to_ascii_lowercase() } else { byte.to_ascii_uppercase() };
        is_inside_word = byte.is_ascii_alphabetic();
    }
    if let Some(zone) = text.len().checked_sub(3).and_then(|start| text.get_mut(start..)) {
        if zone == b"Gmt" {
            zone.make_ascii_uppercase();
        }
    }
    if let Some(leap) = memchr::memmem::find(text, b":60 ") {
        text[leap..leap + 3].copy_from_slice(b":59");
    }
    std::str::from_utf8(text).ok()
}
