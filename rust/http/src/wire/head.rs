//! The head of a response: its status line and its fields.
//!
//! [`HeadScanner`] finds the end of the head while bytes arrive, and parses the whole head. It
//! refuses errors that RFC 9112 allows a lenient client to repair: a proxy that repairs would forward its guess.

use std::fmt;
use std::ops::Range;

use super::section::{self, Field, Scanner};
use super::text::write_field;
use super::text::{is_text, quoted};
use penstock_error::{Code, Error, Result};

/// The limits of a response head.
#[derive(Debug, Clone, Copy)]
pub struct HeadLimits {
    /// Bytes of one head, from the status line to the empty line.
    pub head_bytes: usize,
    /// Fields of one head.
    pub head_fields: usize,
    /// Interim (1xx) responses before the final one. The reader of the responses counts them.
    pub interim_responses: usize,
}

/// Finds the end of a response head in a buffer that grows. Reads each byte once.
#[derive(Debug)]
pub struct HeadScanner {
    section: Scanner,
    max_bytes: usize,
    version_seen: bool,
}

/// The only supported versions; the digit that follows is 0 or 1.
const VERSION: &[u8] = b"HTTP/1.";

impl HeadScanner {
    /// A scanner for one head. The next head, after an interim response, needs a new one.
    pub fn new(limits: &HeadLimits) -> Self {
        Self {
            section: Scanner::new(section::HEAD, limits.head_bytes, limits.head_fields),
            max_bytes: limits.head_bytes,
            version_seen: false,
        }
    }

    /// The length of the head, its empty line included, once `buffer` holds all of it. `buffer` must begin with the
    /// bytes of the last call. Bytes after the head are not read.
    ///
    /// # Errors
    /// At the first offending byte: `BAD_HEAD` (not HTTP/1.x, NUL, an empty first line), `BARE_LINE_FEED`,
    /// `FOLDED_HEADER`, `HEAD_TOO_LARGE`.
    pub fn scan(&mut self, buffer: &[u8]) -> Result<Option<usize>> {
        if !self.version_seen {
            // Refused at once, because a server of another protocol may wait for our first message.
            let seen = &buffer[..buffer.len().min(VERSION.len()).min(self.max_bytes)];
            if !VERSION.starts_with(seen) {
                return Err(not_http(seen));
            }
            self.version_seen = seen.len() == VERSION.len();
        }
        self.section.scan(buffer)
    }

    /// Parses the head whose end [`HeadScanner::scan`] has found. `bytes` is the head alone: its lines are not checked again.
    ///
    /// # Errors
    /// `BAD_HEAD` for a status line or a field that RFC 9112 (sections 4 and 5) does not allow: a version other than 1.0 and
    /// 1.1, a status that is not three digits from 100 on, a field name that is not a token, whitespace before a colon, a
    /// control character; and if `bytes` is longer or shorter than the head.
    pub fn parse(&mut self, bytes: &[u8]) -> Result<Head> {
        if !self.section.has_ended_at(bytes.len()) {
            return Err(section::HEAD.malformed("bytes before or after it"));
        }
        let (minor_version, status, reason) = status_line(&bytes[..self.section.start()])?;
        let fields = self.section.take_fields(bytes)?;
        Ok(Head { status, minor_version, reason, fields, bytes: bytes.into() })
    }
}

/// A parsed response head. It owns its bytes, so that the slab into which they were read is free for the
/// body.
#[derive(Clone, PartialEq, Eq)]
pub struct Head {
    /// 100 to 999.
    pub status: u16,
    /// 1 for HTTP/1.1, 0 for HTTP/1.0.
    pub minor_version: u8,
    reason: Range<usize>,
    fields: Vec<Field>,
    bytes: Box<[u8]>,
}

impl Head {
    /// A head of HTTP/1.1 that was composed here. Nothing is checked: names, values and the reason come from heads
    /// that were parsed.
    pub fn new<'a>(
        status: u16,
        reason: &[u8],
        headers: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Self {
        let mut bytes = reason.to_vec();
        let mut append = |part: &[u8]| {
            let start = bytes.len();
            bytes.extend_from_slice(part);
            start..bytes.len()
        };
        let fields = headers
            .into_iter()
            .map(|(name, value)| {
                Field::new(append(name), append(value)).expect("a head is shorter than 4 GiB")
            })
            .collect();
        Self { status, minor_version: 1, reason: 0..reason.len(), fields, bytes: bytes.into() }
    }

    /// The head as it could have been sent, with its empty line.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes.len() + 64);
        write_status_line(&mut bytes, self.status, self.reason());
        bytes[VERSION.len()] = b'0' + self.minor_version;
        for (name, value) in self.headers() {
            write_field(&mut bytes, name, value);
        }
        bytes.extend_from_slice(b"\r\n");
        bytes
    }

    /// The reason phrase, often empty. It may have obs-text, whose character set is not known.
    pub fn reason(&self) -> &[u8] {
        &self.bytes[self.reason.clone()]
    }

    /// Names as they were sent, and values without surrounding whitespace, in their order.
    pub fn headers(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> {
        self.fields.iter().map(|field| (field.name(&self.bytes), field.value(&self.bytes)))
    }

    /// The value of the first field of that name, ignoring case.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.get_all(name).next()
    }

    /// The values of all fields of that name, ignoring case.
    pub fn get_all(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        section::values(&self.fields, &self.bytes, name)
    }
}

/// Appends the status line that a client of HTTP/1.1 gets.
pub fn write_status_line(out: &mut Vec<u8>, status: u16, reason: &[u8]) {
    let digit = |place: u16| b'0' + u8::try_from(status / place % 10).unwrap_or_default();
    out.reserve(reason.len() + 15);
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(&[digit(100), digit(10), digit(1), b' ']);
    out.extend_from_slice(reason);
    out.extend_from_slice(b"\r\n");
}

impl fmt::Debug for Head {
    /// Without the values, because logs show heads and values can be cookies.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers().map(|(name, _)| String::from_utf8_lossy(name)).collect();
        f.debug_struct("Head")
            .field("status", &self.status)
            .field("minor_version", &self.minor_version)
            .field("names", &names)
            .finish_non_exhaustive()
    }
}

/// Parses a head that has come in one piece. `bytes` is the head alone.
///
/// # Errors
/// The errors of [`HeadScanner::scan`] and of [`HeadScanner::parse`].
pub fn parse_head(bytes: &[u8], limits: &HeadLimits) -> Result<Head> {
    let mut scanner = HeadScanner::new(limits);
    match scanner.scan(bytes)? {
        Some(_) => scanner.parse(bytes),
        None => Err(section::HEAD.malformed("no empty line")),
    }
}

/// `HTTP/1.1 200 OK`, RFC 9112, section 4. Many servers leave out the last space when there is no reason.
fn status_line(line: &[u8]) -> Result<(u8, u16, Range<usize>)> {
    let malformed = || section::HEAD.malformed(format!("the status line {}", quoted(line)));
    let rest = line.strip_prefix(VERSION).ok_or_else(|| not_http(line))?;
    let (minor, rest) = match rest {
        [b'0', b' ', rest @ ..] => (0, rest),
        [b'1', b' ', rest @ ..] => (1, rest),
        _ => return Err(not_http(line)),
    };
    let (digits, rest) = rest.split_first_chunk::<3>().ok_or_else(malformed)?;
    let reason = match rest {
        [] => line.len()..line.len(),
        [b' ', reason @ ..] => line.len() - reason.len()..line.len(),
        _ => return Err(malformed()),
    };
    if digits[0] == b'0' || !digits.iter().all(u8::is_ascii_digit) {
        return Err(malformed());
    }
    if !line[reason.clone()].iter().all(|byte| is_text(*byte)) {
        return Err(malformed());
    }
    let status = digits.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0'));
    Ok((minor, status, reason))
}

fn not_http(start: &[u8]) -> Error {
    // An alert or a handshake of TLS (RFC 8446, section 5.1).
    if let [0x15 | 0x16, 3, ..] = start {
        return Code::BadHead
            .error("the origin speaks TLS and the request was sent without it: begin its URL with https://");
    }
    Code::BadHead.error(format!("the response begins with {} instead of HTTP/1.0 or HTTP/1.1", quoted(start)))
}
