//! Cookies and query parameters, as whoever decides by them would read them.
//!
//! A key that misses what a hook sees would have one client's answer remembered for all who seem to have nothing. So these
//! readers are generous: every occurrence counts, names are compared as they are after decoding, and what is malformed is taken as
//! it is and not passed over.

use crate::wire::byte_of;

/// Calls `see` with each value of a cookie called `name` in a Cookie field (RFC 6265, section 5.4), as it is written.
pub fn cookies<'a>(line: &'a [u8], name: &[u8], see: &mut dyn FnMut(&'a [u8])) {
    for pair in line.split(|byte| *byte == b';') {
        let (known, value) = match memchr::memchr(b'=', pair) {
            Some(at) => (&pair[..at], &pair[at + 1..]),
            // What has no name is a value for some, and a name without a value for others.
            None => (pair, &b""[..]),
        };
        if known.trim_ascii() == name {
            see(value.trim_ascii());
        }
    }
}

/// Calls `see` with each value of a parameter called `name` of a query (URL Living Standard 5.1), as it is written.
pub fn parameters<'a>(query: &'a str, name: &[u8], see: &mut dyn FnMut(Decoded<'a>)) {
    for pair in query.split('&') {
        let (known, value) = pair.split_once('=').unwrap_or((pair, ""));
        if Decoded(known.as_bytes()).eq(name.iter().copied()) {
            see(Decoded(value.as_bytes()));
        }
    }
}

/// The bytes that a part of a query stands for: percent-decoded, with `+` as a space. A `%` that begins no byte is one itself.
/// Allocates nothing: each request is read so.
#[derive(Debug, Clone)]
pub struct Decoded<'a>(&'a [u8]);

impl Iterator for Decoded<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        if let [b'%', high, low, rest @ ..] = self.0 {
            if let Some(byte) = byte_of(*high, *low) {
                self.0 = rest;
                return Some(byte);
            }
        }
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(if *byte == b'+' { b' ' } else { *byte })
    }
}
