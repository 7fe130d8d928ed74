//! Values that are lists: members between commas. A comma within a quoted string does not separate (RFC 9110, sections
//! 5.5 and 5.6).
//!
//! A quote that is never closed is a plain character: a string to the end of the field could hide a `no-store`.

use std::borrow::Cow;

use super::trim;

/// The fields of a message, in their order, collected once for all readers.
pub type Lines<'a> = [(&'a [u8], &'a [u8])];

/// The values of all fields of that name, ignoring case.
pub fn values<'a>(lines: &Lines<'a>, name: &str) -> impl Iterator<Item = &'a [u8]> {
    lines.iter().filter(move |line| line.0.eq_ignore_ascii_case(name.as_bytes())).map(|line| line.1)
}

/// The members of a list, without the whitespace around them and without the empty ones.
pub fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    split(value, b',').filter(|element| !element.is_empty())
}

/// The parts between separators that are not within quotes, trimmed.
pub fn split(value: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(value);
    let mut quotes = true;
    std::iter::from_fn(move || {
        let bytes = rest?;
        let mut position = 0;
        while position < bytes.len() && bytes[position] != separator {
            if bytes[position] == b'"' && quotes {
                match closing(&bytes[position + 1..]) {
                    Some(length) => position += length + 1,
                    // If this quote has no partner, no later quote has one: one search keeps the work linear.
                    None => quotes = false,
                }
            }
            position += 1;
        }
        rest = bytes.get(position + 1..);
        Some(trim(&bytes[..position]))
    })
}

/// The position of the quote that ends a string which begins before `bytes`.
fn closing(bytes: &[u8]) -> Option<usize> {
    let mut position = 0;
    loop {
        match bytes.get(position)? {
            b'"' => return Some(position),
            b'\\' => position += 2,
            _ => position += 1,
        }
    }
}

/// The text of a quoted string; `None` if this is not exactly one.
pub fn unquoted(value: &[u8]) -> Option<Cow<'_, [u8]>> {
    let inner = value.strip_prefix(b"\"")?;
    if closing(inner)? + 1 != inner.len() {
        return None;
    }
    let inner = &inner[..inner.len() - 1];
    if !inner.contains(&b'\\') {
        return Some(Cow::Borrowed(inner));
    }
    let mut text = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter();
    while let Some(byte) = bytes.next() {
        text.extend(if *byte == b'\\' { bytes.next() } else { Some(byte) });
    }
    Some(Cow::Owned(text))
}

/// A number without a sign; `None` if it is not one. A number that is too large gives the largest.
pub fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |number: u64, digit: &u8| number.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    Some(digits.iter().fold(0, add))
}
