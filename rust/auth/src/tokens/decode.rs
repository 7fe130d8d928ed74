//! Decoders: Base64, hexadecimal digits, percent-encoding.
//!
//! Base64 and hexadecimal digits are strict: for any bytes, one text alone is accepted. A token with two spellings would
//! be cached and counted as two.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use percent_encoding::percent_decode;

/// Decodes Base64url without padding (RFC 7515, section 2) into `room`. `None` if it is malformed, has bits set
/// after its last byte, or does not fit.
pub(super) fn base64url<'a>(text: &[u8], room: &'a mut [u8]) -> Option<&'a [u8]> {
    let length = URL_SAFE_NO_PAD.decode_slice(text, room).ok()?;
    room.get(..length)
}

/// As [`base64url`], without a limit: for a part of a key, or of a token with a valid signature.
pub(super) fn base64url_vec(text: &[u8]) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

/// Base64 with padding, as in PEM without line ends.
pub(super) fn base64_vec(text: &[u8]) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// Decodes exactly `2 * N` hexadecimal digits in lower case.
pub(super) fn hex<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    if text.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, digits) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(digits[0])? << 4 | digit(digits[1])?;
    }
    Some(bytes)
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

/// Percent-decodes into `room` (RFC 3986, section 2.1); returns `text` itself if nothing is encoded. A `%` without two
/// digits is kept. `None` if it does not fit.
pub(super) fn percent<'a>(text: &'a [u8], room: &'a mut [u8]) -> Option<&'a [u8]> {
    if memchr::memchr(b'%', text).is_none() {
        return Some(text);
    }
    let mut length = 0;
    for byte in percent_decode(text) {
        *room.get_mut(length)? = byte;
        length += 1;
    }
    room.get(..length)
}
