//! Lists of fields: members between commas, of which quoted strings may hold some too (RFC 9110, sections 5.5 and 5.6).
//!
//! A quote that never closes is a character like any other: to swallow all that follows would hide a `no-store`.

use std::borrow::Cow;

use super::trim;

/// The fields of a message, in their order, collected once for all who look at them.
pub type Lines<'a> = [(&'a [u8], &'a [u8])];

/// The values of all fields of that name, in whatever case.
pub fn values<'a>(lines: &Lines<'a>, name: &str) -> impl Iterator<Item = &'a [u8]> {
    lines.iter().filter(move |line| line.0.eq_ignore_ascii_case(name.as_bytes())).map(|line| line.1)
}

/// The members of a list, without the whitespace around them and without the empty ones.
pub fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    split(value, b',').filter(|element| !element.is_empty())
}

/// What lies between separators that are not within quotes, trimmed.
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
                    // Without a partner there is none for those that follow either: asked once, the work stays linear.
                    None => quotes = false,
                }
            }
            position += 1;
        }
        rest = bytes.get(position + 1..);
        Some(trim(&bytes[..position]))
    })
}

/// Where the quote is that ends a string which begins before `bytes`.
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

/// What a quoted string says, or none if this is not exactly one.
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

/// A number without a sign, or none. More than fits is the most that fits.
pub fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |number: u64, digit: &u8| number.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    Some(digits.iter().fold(0, add))
}
