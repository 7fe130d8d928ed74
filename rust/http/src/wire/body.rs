//! How a body is delimited (RFC 9112, section 6.3), and whether its connection may serve again. The framing of a
//! request is decided in [`super::Incoming`].
//!
//! The decision is made once, from the head alone, and [`super::Decoder`] carries it out. A conflict that a
//! lenient client resolves by precedence is refused here: the next recipient may resolve it the other way.

use super::head::Head;
use super::section;
use super::text::{is_same_name, members, quoted, trim};
use penstock_error::{Code, Result};

/// How a body is delimited, of a request or of a response (RFC 9112, section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyFraming {
    /// There is no body: a request that announces none, the response to HEAD, or a status that has none.
    Empty,
    /// It has that many bytes, and the head says so.
    Length(u64),
    /// It ends with the last chunk and the trailer section.
    Chunked,
    /// It ends with the connection, which then cannot serve again. Never of a request.
    UntilClose,
    /// There is no body, but another protocol, WebSocket, to the end of the connection (RFC 6455, section 4.1).
    Tunnel,
}

impl BodyFraming {
    /// How a body of a response that is delimited like this is sent on to a client of HTTP/1.`minor_version`: HTTP/1.0 has no
    /// chunks.
    #[must_use]
    pub fn sent_to(self, minor_version: u8) -> Self {
        match self {
            Self::Chunked | Self::UntilClose if minor_version == 1 => Self::Chunked,
            Self::Chunked | Self::UntilClose => Self::UntilClose,
            Self::Empty | Self::Length(_) | Self::Tunnel => self,
        }
    }
}

/// The limits of a chunked body besides its payload.
#[derive(Debug, Clone, Copy)]
pub struct BodyLimits {
    /// Bytes of chunk extensions in one body, all chunks together.
    pub chunk_extension_bytes: usize,
    /// Bytes of the trailer fields, without the empty line that ends them.
    pub trailer_bytes: usize,
}

/// The error codes of a body: they depend on its sender.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) chunk: Code,
    pub(super) bare: Code,
    pub(super) extension: Code,
    pub(super) trailer: &'static section::Kind,
    pub(super) truncated: Code,
}

pub(super) const RESPONSE: &Kind = &Kind {
    chunk: Code::BadChunk,
    bare: Code::BareLineFeed,
    extension: Code::ChunkExtensionTooLarge,
    trailer: section::TRAILER,
    truncated: Code::BodyTruncated,
};

pub(super) const REQUEST: &Kind = &Kind {
    chunk: Code::BadRequestBody,
    bare: Code::BadRequestBody,
    extension: Code::BadRequestBody,
    trailer: section::REQUEST_TRAILER,
    truncated: Code::RequestTruncated,
};

/// How the body of the response to a `method` request ends.
///
/// Lengths and codings are checked even if the status or the method allows no body, because they are forwarded.
///
/// # Errors
/// `BAD_LENGTH`, `CONFLICTING_LENGTH`, `LENGTH_AND_CHUNKED`, `BAD_TRANSFER_ENCODING`, and `UNEXPECTED_UPGRADE` for
/// 101, which no request has asked for.
pub fn body_of(head: &Head, method: &str) -> Result<BodyFraming> {
    let length = content_length(head.get_all("content-length"))?;
    let chunked = transfer_encoding(head)?;
    if chunked && length.is_some() {
        return Err(Code::LengthAndChunked.error("both Content-Length and Transfer-Encoding are given"));
    }
    if head.status == 101 {
        return Err(Code::UnexpectedUpgrade.error("the origin switched protocols without being asked"));
    }
    if method == "HEAD" || has_no_body(head.status) {
        return Ok(BodyFraming::Empty);
    }
    Ok(match length {
        _ if chunked => BodyFraming::Chunked,
        Some(length) => BodyFraming::Length(length),
        None => BodyFraming::UntilClose,
    })
}

/// Statuses whose response ends with its head, whatever its fields are.
pub fn has_no_body(status: u16) -> bool {
    matches!(status, 100..=199 | 204 | 304)
}

/// The longest body. Many parsers count in signed numbers, and one treats the largest unsigned number as no length.
const LONGEST: u64 = i64::MAX.unsigned_abs();

/// The one length that all fields and their list members agree on (RFC 9112, section 6.3, item 5).
pub(super) fn content_length<'a>(values: impl Iterator<Item = &'a [u8]>) -> Result<Option<u64>> {
    let mut first: Option<&[u8]> = None;
    // One loop in the other: the same as one iterator takes 700 instructions for a field, not 150.
    for value in values {
        for member in members(value) {
            if member.is_empty() || !member.iter().all(u8::is_ascii_digit) {
                return Err(Code::BadLength.error(format!("Content-Length is {}", quoted(member))));
            }
            match first {
                // Compared as text: not every parser takes 5 and 05 for the same number.
                Some(first) if first != member => {
                    return Err(Code::ConflictingLength.error(format!(
                        "Content-Length is both {} and {}",
                        quoted(first),
                        quoted(member)
                    )));
                }
                _ => first = Some(member),
            }
        }
    }
    let Some(digits) = first else { return Ok(None) };
    let mut length: u64 = 0;
    for digit in digits {
        length = length
            .checked_mul(10)
            .and_then(|length| length.checked_add(u64::from(digit - b'0')))
            .filter(|length| *length <= LONGEST)
            .ok_or_else(|| {
                Code::BadLength.error(format!("Content-Length {} is too large", quoted(digits)))
            })?;
    }
    Ok(Some(length))
}

/// Whether the body is chunked. Only `chunked`, once, is supported (RFC 9112, section 6.1).
fn transfer_encoding(head: &Head) -> Result<bool> {
    let mut codings = head.get_all("transfer-encoding");
    let Some(coding) = codings.next() else { return Ok(false) };
    let refused = |why: String| Err(Code::BadTransferEncoding.error(why));
    if codings.next().is_some() {
        return refused("Transfer-Encoding is given more than once".to_owned());
    }
    if !trim(coding).eq_ignore_ascii_case(b"chunked") {
        return refused(format!("Transfer-Encoding is {}, not chunked", quoted(coding)));
    }
    if head.minor_version == 0 {
        return refused("Transfer-Encoding in an HTTP/1.0 response".to_owned());
    }
    Ok(true)
}

/// Whether the connection may carry another request after this response has ended as its framing says (RFC 9112,
/// section 9.3). A body of [`BodyFraming::UntilClose`] never leaves one.
pub fn keeps_alive(head: &Head) -> bool {
    !announces_bytes_it_cannot_have(head) && persists(head.minor_version, head.get_all("connection"))
}

/// Whether a message of this version keeps its connection, by the values of its Connection fields.
pub(super) fn persists<'a>(minor_version: u8, values: impl Iterator<Item = &'a [u8]>) -> bool {
    let (mut closes, mut keeps) = (false, minor_version == 1);
    for value in values {
        for member in members(value) {
            closes |= is_same_name(member, b"close");
            keeps |= is_same_name(member, b"keep-alive");
        }
    }
    keeps && !closes
}

/// Whether a 204 announces a body: its bytes may still come, and would be read as the next response.
fn announces_bytes_it_cannot_have(head: &Head) -> bool {
    (head.status < 200 || head.status == 204)
        && (head.get("transfer-encoding").is_some()
            || head.get_all("content-length").flat_map(members).any(|length| length != b"0"))
}
