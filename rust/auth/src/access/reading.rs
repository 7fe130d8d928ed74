//! Cookies and query parameters, in the way that hooks may read them.
//!
//! If a key missed a value that a hook sees, the answer for one client would be cached for all clients without that value.
//! So every occurrence counts, names are compared after decoding, and malformed values are not skipped.

use percent_encoding::percent_decode_str;

/// Calls `see` with each value of a cookie called `name` in a Cookie field (RFC 6265, section 5.4), not decoded.
pub fn cookies<'a>(line: &'a [u8], name: &[u8], see: &mut dyn FnMut(&'a [u8])) {
    for pair in line.split(|byte| *byte == b';') {
        let (known, value) = match memchr::memchr(b'=', pair) {
            Some(at) => (&pair[..at], &pair[at + 1..]),
            // Without `=`, some parsers see a value and others a name.
            None => (pair, &b""[..]),
        };
        if known.trim_ascii() == name {
            see(value.trim_ascii());
        }
    }
}

/// Calls `see` with each value of a parameter called `name` of a query (URL Living Standard 5.1), not decoded.
pub fn parameters<'a>(query: &'a str, name: &[u8], see: &mut dyn FnMut(&'a str)) {
    for pair in query.split('&') {
        let (known, value) = pair.split_once('=').unwrap_or((pair, ""));
        if decoded(known).eq(name.iter().copied()) {
            see(value);
        }
    }
}

/// The decoded bytes of a part of a query, with `+` as a space. A `%` without two digits is kept. `form_urlencoded` would
/// allocate, and would replace all bytes that are not UTF-8 by one character: two values would have one key.
pub fn decoded(part: &str) -> impl Iterator<Item = u8> {
    part.split('+')
        .enumerate()
        .flat_map(|(index, text)| (index > 0).then_some(b' ').into_iter().chain(percent_decode_str(text)))
}
