//! The head of a request that a client has sent (RFC 9112, sections 2, 3 and 5).
//!
//! Two parsers read a request, the gateway's and the origin's. A request that they could read differently is
//! refused here, and any other is written again with one framing and one Host (section 11.2). Lines end in CRLF,
//! a field is on one line, and a name ends at its colon.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use super::body::{BodyFraming, content_length, persists};
use super::method;
use super::request::is_host;
use super::section::{self, Field, Scanner};
use super::target;
use super::text::{is_token, members, quoted, trim};
use penstock_error::{Code, Result};

/// The limits of a request head.
#[derive(Debug, Clone, Copy)]
pub struct IncomingLimits {
    /// Bytes of the request line.
    pub line_bytes: usize,
    /// Bytes of one head, from the request line to the empty line.
    pub head_bytes: usize,
    /// Fields of one head.
    pub head_fields: usize,
}

/// The number of empty lines before a request that are skipped: old clients send one after a body (RFC 9112,
/// section 2.2).
const LEADING_LINES: usize = 1;

/// Finds a request head in a buffer that grows. Reads each byte once.
#[derive(Debug)]
pub struct IncomingScanner {
    section: Scanner,
    limits: IncomingLimits,
    start: usize,
}

impl IncomingScanner {
    /// A scanner for one head.
    pub fn new(limits: &IncomingLimits) -> Self {
        Self {
            section: Scanner::new(section::REQUEST_HEAD, limits.head_bytes, limits.head_fields),
            limits: *limits,
            start: 0,
        }
    }

    /// Whether a byte of the head has been read. An empty line before the head does not count: a client that sends
    /// only that, after a body, waits for no response.
    pub fn has_begun(&self) -> bool {
        self.section.has_begun()
    }

    /// The range of the head in `buffer`, with its empty line, if it is complete. `buffer` must begin with the bytes
    /// of the last call. Bytes after the head are not read.
    ///
    /// # Errors
    /// `TARGET_TOO_LONG`, `REQUEST_HEAD_TOO_LARGE`, and `BAD_REQUEST_HEAD` for a line that ends in LF or CR alone, a
    /// field that is continued on the next line, a NUL, or an empty first line.
    pub fn scan(&mut self, buffer: &[u8]) -> Result<Option<Range<usize>>> {
        if !self.section.has_begun() {
            while self.start < 2 * LEADING_LINES && buffer[self.start..].starts_with(b"\r\n") {
                self.start += 2;
            }
            if self.start < 2 * LEADING_LINES && b"\r\n".starts_with(&buffer[self.start..]) {
                return Ok(None);
            }
        }
        let head = &buffer[self.start..];
        if !self.section.has_started() {
            // No byte beyond the limit is read: the error must not depend on how the bytes were split.
            let line = &head[..head.len().min(self.limits.line_bytes.saturating_add(2))];
            let found = self.section.scan(line)?;
            if !self.section.has_started() {
                if line.len() < head.len() || line.len() == self.limits.line_bytes.saturating_add(2) {
                    let detail = format!("the request line exceeds {} bytes", self.limits.line_bytes);
                    return Err(Code::TargetTooLong.error(detail));
                }
                return Ok(None);
            }
            if let Some(end) = found {
                return Ok(Some(self.start..self.start + end));
            }
        }
        let found = self.section.scan(head)?;
        Ok(found.map(|end| self.start..self.start + end))
    }

    /// Parses the head that [`IncomingScanner::scan`] has found. `bytes` is the head alone: its lines are not checked again.
    ///
    /// # Errors
    /// `BAD_REQUEST_HEAD` for a request line, a target or a field that RFC 9112 does not allow, and if `bytes` is longer or
    /// shorter than the head; `UNSUPPORTED_VERSION`; `UNSUPPORTED_METHOD` for CONNECT; `BAD_HOST`.
    pub fn parse(&mut self, bytes: &[u8]) -> Result<Incoming> {
        if !self.section.has_ended_at(bytes.len()) {
            return Err(section::REQUEST_HEAD.malformed("bytes before or after it"));
        }
        let line = request_line(&bytes[..self.section.start()])?;
        let fields = self.section.take_fields(bytes)?;
        let mut head = Incoming {
            minor_version: line.minor_version,
            method: method::kept(&bytes[line.method]),
            authority: line.authority.clone().unwrap_or_default(),
            path: line.path,
            target: line.target,
            fields,
            bytes: bytes.into(),
        };
        let host = host(&head)?;
        if line.authority.is_none() {
            head.authority = host;
        }
        Ok(head)
    }
}

/// A parsed request head. It owns its bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Incoming {
    /// 1 for HTTP/1.1, 0 for HTTP/1.0.
    pub minor_version: u8,
    method: Cow<'static, str>,
    target: Range<usize>,
    authority: Range<usize>,
    path: Range<usize>,
    fields: Vec<Field>,
    bytes: Box<[u8]>,
}

impl Incoming {
    /// As it was sent, with its empty line.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A token.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// As [`Incoming::method`], for an owner that may outlive this.
    pub fn shared_method(&self) -> Cow<'static, str> {
        self.method.clone()
    }

    /// As the client wrote it: in origin-form, absolute-form, or `*`.
    pub fn target(&self) -> &str {
        self.text(&self.target)
    }

    /// The part of the target after its authority, or `*`. Empty, or a query alone, if an absolute URL has no path.
    pub fn path(&self) -> &str {
        self.text(&self.path)
    }

    /// The target as it is sent on: in origin-form, or `*` (RFC 9112, sections 3.2.1 and 3.2.4).
    pub fn origin_form(&self) -> Cow<'_, str> {
        match self.path() {
            "" if self.method == "OPTIONS" => Cow::Borrowed("*"),
            "" => Cow::Borrowed("/"),
            query if query.starts_with('?') => Cow::Owned(format!("/{query}")),
            path => Cow::Borrowed(path),
        }
    }

    /// The host and port of the request: from the target if it is absolute, else from `Host` (RFC 9112, section 3.3).
    /// Empty in HTTP/1.0 without both.
    pub fn authority(&self) -> &str {
        self.text(&self.authority)
    }

    /// As [`Incoming::authority`].
    pub fn authority_bytes(&self) -> &[u8] {
        &self.bytes[self.authority.clone()]
    }

    /// Names as they were sent and values without surrounding whitespace, in their order.
    pub fn headers(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> + Clone {
        self.fields.iter().map(|field| (field.name(&self.bytes), field.value(&self.bytes)))
    }

    /// The values of all fields of that name, ignoring case.
    pub fn get_all(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        section::values(&self.fields, &self.bytes, name)
    }

    /// How its body is delimited (RFC 9112, section 6.3). Never by the end of the connection: a whole body would
    /// then look like a part.
    ///
    /// # Errors
    /// `BAD_REQUEST_FRAMING` and `UNSUPPORTED_CODING`; the connection must close after either.
    pub fn body(&self) -> Result<BodyFraming> {
        let refused = |detail: String| Err(Code::BadRequestFraming.error(detail));
        let length = match content_length(self.get_all("content-length")) {
            Ok(length) => length,
            Err(error) => return refused(error.detail().to_owned()),
        };
        let mut codings = self.get_all("transfer-encoding");
        let Some(coding) = codings.next() else {
            return Ok(length.map_or(BodyFraming::Empty, BodyFraming::Length));
        };
        if codings.next().is_some() {
            return refused("Transfer-Encoding is given more than once".to_owned());
        }
        if length.is_some() {
            return refused("both Content-Length and Transfer-Encoding are given".to_owned());
        }
        if self.minor_version == 0 {
            return refused("Transfer-Encoding in an HTTP/1.0 request".to_owned());
        }
        if trim(coding).eq_ignore_ascii_case(b"chunked") {
            return Ok(BodyFraming::Chunked);
        }
        let detail = format!("Transfer-Encoding is {}, not chunked", quoted(coding));
        // 501 for a body of an unknown coding whose end is known; 400 for a body whose end is not
        // known.
        let chunked = |member: &[u8]| member.eq_ignore_ascii_case(b"chunked");
        let once = members(coding).filter(|member| chunked(member)).count() == 1;
        let sound = once && members(coding).all(is_token) && members(coding).last().is_some_and(chunked);
        Err(if sound { Code::UnsupportedCoding.error(detail) } else { Code::BadRequestFraming.error(detail) })
    }

    /// Whether the client may send another request after this one (RFC 9112, section 9.3).
    pub fn keeps_alive(&self) -> bool {
        persists(self.minor_version, self.get_all("connection"))
    }

    /// Whether the client waits for 100 (Continue) before it sends the body (RFC 9110, section 10.1.1). In HTTP/1.0
    /// the field is ignored.
    ///
    /// # Errors
    /// `EXPECTATION_FAILED`: it expects something else.
    pub fn expects_continue(&self) -> Result<bool> {
        let mut expected = false;
        for expectation in self.get_all("expect").flat_map(members) {
            if !expectation.eq_ignore_ascii_case(b"100-continue") {
                let detail = format!("the request expects {}", quoted(expectation));
                return Err(Code::ExpectationFailed.error(detail));
            }
            expected = self.minor_version == 1;
        }
        Ok(expected)
    }

    fn text(&self, range: &Range<usize>) -> &str {
        // Checked to be ASCII when the head was parsed.
        std::str::from_utf8(&self.bytes[range.clone()]).unwrap_or_default()
    }
}

impl fmt::Debug for Incoming {
    /// Without the values, because logs show heads and values can be cookies.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers().map(|(name, _)| String::from_utf8_lossy(name)).collect();
        f.debug_struct("Incoming")
            .field("method", &self.method())
            .field("path", &self.path())
            .field("minor_version", &self.minor_version)
            .field("names", &names)
            .finish_non_exhaustive()
    }
}

/// Parses a head that has come in one piece. `bytes` is the head alone.
///
/// # Errors
/// The errors of [`IncomingScanner::scan`] and of [`IncomingScanner::parse`].
pub fn parse_incoming(bytes: &[u8], limits: &IncomingLimits) -> Result<Incoming> {
    let mut scanner = IncomingScanner::new(limits);
    match scanner.scan(bytes)? {
        Some(range) if range.start == 0 => scanner.parse(bytes),
        _ => Err(section::REQUEST_HEAD.malformed("bytes before or after it")),
    }
}

struct RequestLine {
    minor_version: u8,
    method: Range<usize>,
    target: Range<usize>,
    /// The authority of a target in absolute-form.
    authority: Option<Range<usize>>,
    path: Range<usize>,
}

/// `GET /path HTTP/1.1` with one space between (RFC 9112, section 3).
fn request_line(line: &[u8]) -> Result<RequestLine> {
    let malformed = || section::REQUEST_HEAD.malformed(format!("the request line {}", quoted(line)));
    let first = memchr::memchr(b' ', line).ok_or_else(malformed)?;
    let last = memchr::memrchr(b' ', line).filter(|last| *last > first).ok_or_else(malformed)?;
    let (method, target) = (0..first, first + 1..last);
    if !is_token(&line[method.clone()]) {
        return Err(malformed());
    }
    let minor_version = match &line[last + 1..] {
        b"HTTP/1.1" => 1,
        b"HTTP/1.0" => 0,
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            return Err(
                Code::UnsupportedVersion.error(format!("the request is in {}", quoted(&line[last + 1..])))
            );
        }
        _ => return Err(malformed()),
    };
    // Bytes that are not ASCII, or not allowed in a target, are refused: the next parser may cut or
    // repair them.
    if !line[target.clone()].iter().all(|byte| byte.is_ascii_graphic() && *byte != b'#') {
        return Err(malformed());
    }
    if &line[method.clone()] == b"CONNECT" {
        return Err(Code::UnsupportedMethod.error("CONNECT asks for a tunnel, which is not offered"));
    }
    let (authority, path) = match &line[target.clone()] {
        [b'/', ..] => (None, target.clone()),
        b"*" if &line[method.clone()] == b"OPTIONS" => (None, target.clone()),
        url => {
            let (authority, path) = absolute(url).ok_or_else(malformed)?;
            let shifted = |part: Range<usize>| part.start + target.start..part.end + target.start;
            (Some(shifted(authority)), shifted(path))
        }
    };
    if let Some(bad) = target::fault(&line[path.clone()]) {
        return Err(section::REQUEST_HEAD.malformed(format!("{} in the target", quoted(bad))));
    }
    Ok(RequestLine { minor_version, method, target, authority, path })
}

/// Authority and path of `http://authority/path` (RFC 9112, section 3.2.2).
fn absolute(url: &[u8]) -> Option<(Range<usize>, Range<usize>)> {
    let schemes: [&[u8]; 2] = [b"http://", b"https://"];
    let has = |scheme: &[u8]| url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    let start = schemes.into_iter().find(|scheme| has(scheme))?.len();
    let rest = &url[start..];
    let length = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
    is_host(&rest[..length]).then_some((start..start + length, start + length..url.len()))
}

/// The position of the value of the one `Host` (RFC 9112, section 3.2).
fn host(head: &Incoming) -> Result<Range<usize>> {
    let mut hosts = head.fields.iter().filter(|field| field.is("host", &head.bytes));
    let refused = |detail: String| Err(Code::BadHost.error(detail));
    let Some(host) = hosts.next() else {
        return if head.minor_version == 0 { Ok(0..0) } else { refused("there is no Host field".to_owned()) };
    };
    if hosts.next().is_some() {
        return refused("there is more than one Host field".to_owned());
    }
    let value = host.value(&head.bytes);
    if !is_host(value) {
        return refused(format!("the Host is {}", quoted(value)));
    }
    Ok(host.value_range())
}
