//! Cookies and query parameters, as whoever decides by them would read them.
//!
//! A key that misses what a hook sees would have one client's answer remembered for all who seem to have nothing. So these
//! readers are generous: every occurrence counts, names are compared as they are after decoding, and what is malformed is taken as
//! it is and not passed over.

use percent_encoding::percent_decode_str;

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
pub fn parameters<'a>(query: &'a str, name: &[u8], see: &mut dyn FnMut(&'a str)) {
    for pair in query.split('&') {
        let (known, value) = pair.split_once('=').unwrap_or((pair, ""));
        if decoded(known).eq(name.iter().copied()) {
            see(value);
        }
    }
}

/// The bytes that a part of a query stands for: percent-decoded, with `+` as a space. A `%` that begins no byte stands for
/// itself. `form_urlencoded` would allocate, and would make one character of all bytes that are not UTF-8: two values would
/// have one key.
pub fn decoded(part: &str) -> impl Iterator<Item = u8> {
    part.split('+')
        .enumerate()
        .flat_map(|(index, text)| (index > 0).then_some(b' ').into_iter().chain(percent_decode_str(text)))
}
