//! The head of a request, and the chunked coding of its body.
//!
//! Only this file writes the fields that delimit the body or describe the connection; a caller that sets them gets an
//! error. No value of a caller can start a new line.

use std::num::NonZeroUsize;
use std::ops::Deref;

use super::body::BodyFraming;
use super::fields::Fields;
use super::text::{
    Characters, Names, is_same_name, is_token, quoted, text_length, write_field, write_number,
};
use penstock_error::{Code, Error, Result};

/// Fields about the connection or the body's coding, which a caller must not set (RFC 9110, section 7.6.1, and
/// RFC 9112).
pub const HOP_BY_HOP: Names = Names::new(&[
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
]);

/// Encodes the head of a request.
///
/// `target` is in origin-form (`/path?query`), absolute-form, or `*` for OPTIONS. `authority` becomes the `Host` field
/// unless `headers` has one. A `Content-Length` in `headers` must agree with `framing`; it is sent once. Except for a
/// tunnel there is no `Connection` field, which in HTTP/1.1 asks to keep the connection; with `TE: trailers` in `headers` there is
/// the one that belongs to it (RFC 9110, section 10.1.4).
///
/// # Errors
/// `BAD_REQUEST`, naming what is wrong: a method or field name that is not a token, CONNECT, a target with whitespace,
/// controls, non-ASCII bytes or a fragment, a control character in a value, a malformed or repeated `Host`, a length that
/// contradicts `framing`, a body that would end with the connection, or a hop-by-hop field. Values are never quoted in the
/// error, because they may be secret.
pub fn encode_request(
    method: &str,
    target: &str,
    authority: &str,
    headers: &Fields,
    framing: BodyFraming,
) -> Result<Vec<u8>> {
    check_method(method)?;
    check_target(method, target)?;
    let host = host(authority, headers)?;
    let size = headers.size() + 4 * headers.len();
    // And for the trace, which is told after this.
    let mut head = Vec::with_capacity(method.len() + target.len() + host.len() + size + 160);
    head.extend_from_slice(method.as_bytes());
    head.extend_from_slice(b" ");
    head.extend_from_slice(target.as_bytes());
    head.extend_from_slice(b" HTTP/1.1\r\n");
    write_field(&mut head, b"Host", host);
    let mut takes_trailers = false;
    for (name, value) in headers.iter() {
        if !is_token(name) {
            return Err(bad(format!("the header name {} is not a token", quoted(name))));
        }
        if let Some(byte) = value.get(text_length(value)) {
            return Err(bad(format!("the header {} has a {} in its value", quoted(name), quoted(&[*byte]))));
        }
        if HOP_BY_HOP.has(name) {
            if is_same_name(name, b"te") && value == b"trailers" {
                takes_trailers = true;
                continue;
            }
            return Err(bad(format!(
                "the header {} concerns the connection and cannot be set by the caller",
                quoted(name)
            )));
        }
        if name.eq_ignore_ascii_case(b"host") {
            continue;
        }
        if is_same_name(name, b"content-length") {
            check_length(value, framing)?;
            continue;
        }
        write_field(&mut head, name, value);
    }
    if takes_trailers {
        head.extend_from_slice(b"TE: trailers\r\nConnection: TE\r\n");
    }
    match framing {
        BodyFraming::Length(length) => write_length(&mut head, length),
        BodyFraming::Chunked => head.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        BodyFraming::Tunnel => head.extend_from_slice(b"Connection: Upgrade\r\nUpgrade: websocket\r\n"),
        // RFC 9110, section 8.6: methods that usually have a body send a length of 0 without one.
        BodyFraming::Empty if matches!(method, "POST" | "PUT" | "PATCH") => write_length(&mut head, 0),
        BodyFraming::Empty => {}
        BodyFraming::UntilClose => return Err(bad("a request cannot end with its connection".to_owned())),
    }
    head.extend_from_slice(b"\r\n");
    Ok(head)
}

fn write_length(head: &mut Vec<u8>, length: u64) {
    head.extend_from_slice(b"Content-Length: ");
    write_number(head, length);
    head.extend_from_slice(b"\r\n");
}

fn check_method(method: &str) -> Result<()> {
    if !is_token(method.as_bytes()) {
        return Err(bad(format!("the method {} is not a token", quoted(method.as_bytes()))));
    }
    if method == "CONNECT" {
        return Err(bad("CONNECT is not supported: its answer has no end".to_owned()));
    }
    Ok(())
}

/// RFC 9112, section 3.2.
fn check_target(method: &str, target: &str) -> Result<()> {
    let absolute = || {
        target.split_once("://").is_some_and(|(scheme, rest)| {
            let mut bytes = scheme.bytes();
            bytes.next().is_some_and(|first| first.is_ascii_alphabetic())
                && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
                && !rest.is_empty()
        })
    };
    if !(target.starts_with('/') || (target == "*" && method == "OPTIONS") || absolute()) {
        return Err(bad(format!(
            "the target {} is neither a path nor a URL",
            quoted(super::shown(target).as_bytes())
        )));
    }
    if let Some(byte) = target.bytes().find(|byte| !byte.is_ascii_graphic() || *byte == b'#') {
        return Err(bad(format!("the target has a {}, which must be percent-encoded", quoted(&[byte]))));
    }
    Ok(())
}

/// The caller's `Host` if there is one, else the authority of the URL (RFC 9110, section 7.2).
fn host<'a>(authority: &'a str, headers: &'a Fields) -> Result<&'a [u8]> {
    let mut given = headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"host"));
    let host = given.next().map_or(authority.as_bytes(), |(_, value)| value);
    if given.next().is_some() {
        return Err(bad("more than one Host header".to_owned()));
    }
    if !is_host(host) {
        return Err(bad(format!("the host {} is not a name or address with an optional port", quoted(host))));
    }
    Ok(host)
}

/// `uri-host [ ":" port ]` with a host that is not empty (RFC 3986, section 3.2.2).
pub(super) fn is_host(value: &[u8]) -> bool {
    let (port, valid) = if let [b'[', rest @ ..] = value {
        let Some(end) = rest.iter().position(|byte| *byte == b']') else { return false };
        let address = &rest[..end];
        let valid = address.iter().all(|byte| byte.is_ascii_hexdigit() || b":.".contains(byte));
        (&rest[end + 1..], valid && !address.is_empty())
    } else {
        let end = value.iter().position(|byte| *byte == b':').unwrap_or(value.len());
        (&value[end..], is_name(&value[..end]))
    };
    let port_is_valid = match port {
        [] => true,
        [b':', digits @ ..] => is_port(digits),
        _ => false,
    };
    valid && port_is_valid
}

/// Unreserved characters and sub-delimiters.
const NAME: &Characters = &Characters::new(b"-._~!$&'()*+,;=");

/// A registered name: unreserved characters, sub-delimiters, and percent signs that encode something.
fn is_name(mut name: &[u8]) -> bool {
    let valid = !name.is_empty();
    loop {
        let plain = name.iter().position(|byte| !NAME.has(*byte)).unwrap_or(name.len());
        name = match &name[plain..] {
            [] => return valid,
            [b'%', high, low, rest @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => rest,
            _ => return false,
        };
    }
}

/// The most digits of a port. 65616 would be 80 for a parser that keeps 16 bits.
fn is_port(digits: &[u8]) -> bool {
    let number = || digits.iter().fold(0, |port, digit| port * 10 + u32::from(digit - b'0'));
    digits.len() <= 5 && digits.iter().all(u8::is_ascii_digit) && u16::try_from(number()).is_ok()
}

fn check_length(value: &[u8], framing: BodyFraming) -> Result<()> {
    let agreed = match framing {
        BodyFraming::Empty | BodyFraming::UntilClose | BodyFraming::Tunnel => value == b"0",
        BodyFraming::Length(length) => value == length.to_string().as_bytes(),
        BodyFraming::Chunked => false,
    };
    if agreed {
        return Ok(());
    }
    let body = match framing {
        BodyFraming::Empty | BodyFraming::UntilClose | BodyFraming::Tunnel => "there is no body".to_owned(),
        BodyFraming::Length(length) => format!("the body has {length} bytes"),
        BodyFraming::Chunked => "the body's length is not known".to_owned(),
    };
    Err(bad(format!("the header Content-Length is {}, but {body}", quoted(value))))
}

fn bad(what: String) -> Error {
    Code::BadRequest.error(what)
}

/// The bytes after the payload of every chunk.
pub const CHUNK_END: &[u8] = b"\r\n";

/// The end of a chunked body: the chunk of size 0 and a trailer section without fields.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// The end of a chunked body with `trailers`, which were parsed as such (RFC 9112, section 7.1.2).
pub fn encode_last_chunk<'a>(trailers: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Vec<u8> {
    let mut end = b"0\r\n".to_vec();
    for (name, value) in trailers {
        write_field(&mut end, name, value);
    }
    end.extend_from_slice(b"\r\n");
    end
}

/// The size line of a chunk; dereferences to its bytes.
#[derive(Debug, Clone, Copy)]
pub struct ChunkHead {
    bytes: [u8; ChunkHead::MAX],
    length: u32,
}

impl ChunkHead {
    const MAX: usize = usize::BITS as usize / 4 + CHUNK_END.len();
}

impl Deref for ChunkHead {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length as usize]
    }
}

/// The size line of a chunk of `length` bytes, which is never 0: that would be the last chunk.
pub fn encode_chunk_head(length: NonZeroUsize) -> ChunkHead {
    // Without `write!`, which takes 300 instructions, for each event of a relay.
    let digits = (usize::BITS - length.leading_zeros()).div_ceil(4);
    let mut bytes = [0; ChunkHead::MAX];
    let (line, rest) = bytes.split_at_mut(digits as usize);
    let mut left = length.get();
    for place in line.iter_mut().rev() {
        *place = b"0123456789abcdef"[left & 0xf];
        left >>= 4;
    }
    rest[..CHUNK_END.len()].copy_from_slice(CHUNK_END);
    // At most 18.
    ChunkHead { bytes, length: digits + 2 }
}
