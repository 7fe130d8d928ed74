//! A message that a stream sends, read from what would be sent over HTTP/1.1 (RFC 9113, section 8.1).

use std::fmt;
use std::io;
use std::ops::Range;

use memchr::memchr;
use penstock_http2::OF_CONNECTION;

use crate::error::Error;
use crate::wire::{
    BodyFraming, BodyLimits, Chunked, HeadLimits, Names, body_of, grpc_kind, has_no_body, is_same_name,
    members, parse_head, trim,
};

/// The head was written or checked here: these keep an endless one from filling the memory. Arbitrary.
const HEAD: HeadLimits =
    HeadLimits { head_bytes: 256 * 1024, head_fields: 4096, interim_responses: usize::MAX };
const BODY: BodyLimits = BodyLimits { chunk_extension_bytes: usize::MAX, trailer_bytes: HEAD.head_bytes };
/// Room for the fields of a head. Arbitrary.
const USUAL_FIELDS: usize = 16;
/// Fields about one connection.
const NOT_SENT: Names = Names::new(&OF_CONNECTION);

/// Reads the heads of messages of one kind.
pub(super) trait Heads: fmt::Debug {
    /// A head, in the bytes that it is read from.
    type Head<'a>: fmt::Debug;

    /// The head that `lines` are, of `bytes`; with how the body is delimited, unless another head follows.
    fn read<'a>(
        &mut self,
        bytes: &'a [u8],
        lines: Lines<'a>,
    ) -> io::Result<(Self::Head<'a>, Option<BodyFraming>)>;
}

/// The heads of the response to a request.
#[derive(Debug)]
pub(super) struct Responses {
    is_head_request: bool,
}

/// The head of a request to an origin.
#[derive(Debug)]
pub(super) struct Requests {
    /// `http` or `https`.
    pub(super) scheme: &'static str,
}

/// Names and values.
pub(super) type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// How far a message has come.
#[derive(Debug)]
enum State {
    /// Before the end of a head, of which this has come.
    Head(Vec<u8>),
    Length(u64),
    Chunked(Box<Chunked>),
    UntilClose,
    Ended,
}

/// What comes next of a message.
#[derive(Debug)]
pub(super) enum Step {
    /// A head.
    Head,
    /// Bytes of the body, by their place in what was given.
    Data(Range<usize>),
    /// The end of the body, and the fields after it.
    End(Fields),
}

/// Reads a message.
#[derive(Debug)]
pub(super) struct Message<H> {
    heads: H,
    state: State,
}

impl Message<Responses> {
    /// The response to a request; `is_head_request` if its method is HEAD.
    pub(super) fn response(is_head_request: bool) -> Self {
        Self::new(Responses { is_head_request })
    }
}

impl<H: Heads> Message<H> {
    pub(super) fn new(heads: H) -> Self {
        Self { heads, state: State::Head(Vec::new()) }
    }

    /// Whether all of it has come.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    /// Whether the next byte is one of a head.
    pub(super) fn is_within_head(&self) -> bool {
        matches!(self.state, State::Head(..))
    }

    /// Whether it ends where the connection would.
    pub(super) fn ends_with_connection(&self) -> bool {
        matches!(self.state, State::UntilClose)
    }

    /// It ends here, as the connection would.
    pub(super) fn end(&mut self) {
        self.state = State::Ended;
    }

    /// What comes next in `bytes` from `at` on, which moves after it; nothing if the rest is still to come. `take` gets a head, and
    /// whether that is all.
    ///
    /// # Errors
    /// It is not such a message, or there is more than one. Those of `take`.
    pub(super) fn next(
        &mut self,
        bytes: &[u8],
        at: &mut usize,
        take: impl FnOnce(&H::Head<'_>, bool) -> io::Result<()>,
    ) -> io::Result<Option<Step>> {
        let rest = &bytes[*at..];
        if rest.is_empty() {
            return Ok(None);
        }
        match &mut self.state {
            State::Head(_) => self.head(rest, at, take),
            State::Length(length) => {
                let count = usize::try_from(*length).map_or(rest.len(), |length| length.min(rest.len()));
                *length -= count as u64;
                if *length == 0 {
                    self.state = State::Ended;
                }
                *at += count;
                Ok(Some(Step::Data(*at - count..*at)))
            }
            State::Chunked(chunks) => {
                if let Some(range) = chunks.next(bytes, at).map_err(|error| wrong(&error))? {
                    return Ok(Some(Step::Data(range)));
                }
                if !chunks.is_done() {
                    return Ok(None);
                }
                let trailers = chunks.trailers().iter();
                let trailers = trailers.cloned().collect();
                self.state = State::Ended;
                Ok(Some(Step::End(trailers)))
            }
            State::UntilClose => {
                *at = bytes.len();
                Ok(Some(Step::Data(bytes.len() - rest.len()..bytes.len())))
            }
            State::Ended => Err(invalid("bytes after the message")),
        }
    }

    fn head(
        &mut self,
        rest: &[u8],
        at: &mut usize,
        take: impl FnOnce(&H::Head<'_>, bool) -> io::Result<()>,
    ) -> io::Result<Option<Step>> {
        let State::Head(held) = &mut self.state else { return Ok(None) };
        let mut held = std::mem::take(held);
        let before = held.len();
        // Nearly always the whole head is here.
        let all = if before == 0 {
            rest
        } else {
            held.extend_from_slice(rest);
            &held
        };
        let Some(lines) = Lines::read(all)? else {
            if before == 0 {
                held.extend_from_slice(rest);
            }
            self.state = State::Head(held);
            *at += rest.len();
            return Ok(None);
        };
        let length = lines.length;
        let (begun, body) = self.heads.read(&all[..length], lines)?;
        *at += length - before;
        self.state = match body {
            None => State::Head(Vec::new()),
            Some(BodyFraming::Empty | BodyFraming::Length(0)) => State::Ended,
            Some(BodyFraming::Length(length)) => State::Length(length),
            Some(BodyFraming::Chunked) => State::Chunked(Box::new(Chunked::of_response(BODY))),
            Some(BodyFraming::UntilClose | BodyFraming::Tunnel) => State::UntilClose,
        };
        take(&begun, self.has_ended())?;
        Ok(Some(Step::Head))
    }
}

/// The lines of a head. It was written or checked here: that its names and values are well-formed is not asked again, which took
/// 5,000 instructions of each response.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    first: &'a [u8],
    fields: Vec<(&'a [u8], &'a [u8])>,
    /// Bytes of all of it, with the empty line.
    length: usize,
}

impl<'a> Lines<'a> {
    /// Of the head at the front of `bytes`, if all of it is there.
    fn read(bytes: &'a [u8]) -> io::Result<Option<Self>> {
        let mut at = 0;
        let mut next = || {
            let rest = &bytes[at..];
            let line = &rest[..memchr(b'\n', rest)?];
            at += line.len() + 1;
            Some((line.strip_suffix(b"\r").unwrap_or(line), at))
        };
        let mut fields = Vec::new();
        if let Some((first, _)) = next() {
            fields.reserve(USUAL_FIELDS);
            while let Some((line, length)) = next() {
                if line.is_empty() {
                    return Ok(Some(Self { first, fields, length }));
                }
                let colon = line.iter().position(|byte| *byte == b':').filter(|colon| *colon > 0);
                let colon = colon.ok_or_else(|| invalid("no field"))?;
                fields.push((&line[..colon], trim(&line[colon + 1..])));
            }
        }
        if bytes.len() > HEAD.head_bytes || fields.len() > HEAD.head_fields {
            return Err(invalid("a head without an end"));
        }
        Ok(None)
    }
}

/// The head of a response.
#[derive(Debug)]
pub(super) struct ResponseHead<'a> {
    /// Its digits.
    status: &'a [u8],
    content_type: Option<&'a [u8]>,
    /// The fields that are not about the connection.
    fields: Vec<(&'a [u8], &'a [u8])>,
}

impl<'a> ResponseHead<'a> {
    pub(super) fn status(&self) -> &'a [u8] {
        self.status
    }

    pub(super) fn content_type(&self) -> Option<&'a [u8]> {
        self.content_type
    }

    pub(super) fn fields(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        self.fields.iter().copied()
    }
}

impl Heads for Responses {
    type Head<'a> = ResponseHead<'a>;

    fn read<'a>(
        &mut self,
        bytes: &'a [u8],
        Lines { first, mut fields, .. }: Lines<'a>,
    ) -> io::Result<(ResponseHead<'a>, Option<BodyFraming>)> {
        let [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'0' | b'1', b' ', rest @ ..] = first else {
            return Err(invalid("no response of HTTP/1.1"));
        };
        let status = rest.get(..3).filter(|_| rest.get(3).is_none_or(|byte| *byte == b' '));
        let status = status.ok_or_else(|| invalid("no status"))?;
        let number = std::str::from_utf8(status).ok().and_then(|digits| digits.parse().ok());
        let number: u16 = number.filter(|number| *number >= 100).ok_or_else(|| invalid("no status"))?;
        let (mut lengths, mut codings, mut calls) = (None, false, false);
        let (mut is_plain, mut content_type) = (number != 101, None);
        for (name, value) in &fields {
            match name.len() {
                11 if is_same_name(name, b"grpc-status") => calls = true,
                12 if content_type.is_none() && is_same_name(name, b"content-type") => {
                    content_type = Some(*value);
                }
                14 if is_same_name(name, b"content-length") => {
                    let is_digits = value.iter().all(u8::is_ascii_digit);
                    let length =
                        std::str::from_utf8(value).ok().and_then(|digits| digits.parse::<u64>().ok());
                    is_plain &=
                        is_digits && lengths.is_none() && length.is_some_and(|length| length >> 63 == 0);
                    lengths = length;
                }
                17 if is_same_name(name, b"transfer-encoding") => {
                    is_plain &= !codings && value.eq_ignore_ascii_case(b"chunked");
                    codings = true;
                }
                _ => {}
            }
        }
        let body = match lengths {
            _ if !is_plain || (codings && lengths.is_some()) => self.careful(bytes)?,
            _ if self.is_head_request || has_no_body(number) => BodyFraming::Empty,
            _ if codings => BodyFraming::Chunked,
            Some(length) => BodyFraming::Length(length),
            None => BodyFraming::UntilClose,
        };
        // Content-Length is there for HTTP/1.1 alone, and clients of gRPC would show it as metadata.
        let hides_length = calls && body == BodyFraming::Length(0);
        if hides_length || fields.iter().any(|(name, _)| NOT_SENT.has(name)) {
            fields = sent(&fields, hides_length);
        }
        Ok((ResponseHead { status, content_type, fields }, (number >= 200).then_some(body)))
    }
}

impl Responses {
    /// How the body is delimited that something unusual is said of.
    #[cold]
    fn careful(&self, bytes: &[u8]) -> io::Result<BodyFraming> {
        let head = parse_head(bytes, &HEAD).map_err(|error| wrong(&error))?;
        body_of(&head, if self.is_head_request { "HEAD" } else { "GET" }).map_err(|error| wrong(&error))
    }
}

/// The fields that are not about the connection, by their own names or as a field of it says.
fn sent<'a>(fields: &[(&'a [u8], &'a [u8])], hides_length: bool) -> Vec<(&'a [u8], &'a [u8])> {
    let named = fields.iter().filter(|(name, _)| is_same_name(name, b"connection"));
    let named: Vec<_> = named.flat_map(|(_, value)| members(value)).collect();
    let is_sent = |name: &[u8]| {
        !(NOT_SENT.has(name)
            || named.iter().any(|named| is_same_name(name, named))
            || (hides_length && is_same_name(name, b"content-length")))
    };
    fields.iter().filter(|(name, _)| is_sent(name)).copied().collect()
}

/// The head of a request.
#[derive(Debug)]
pub(super) struct RequestHead {
    scheme: &'static str,
    method: Vec<u8>,
    authority: Vec<u8>,
    path: Vec<u8>,
    fields: Fields,
}

impl RequestHead {
    pub(super) fn scheme(&self) -> &[u8] {
        self.scheme.as_bytes()
    }

    pub(super) fn method(&self) -> &[u8] {
        &self.method
    }

    pub(super) fn authority(&self) -> &[u8] {
        &self.authority
    }

    pub(super) fn path(&self) -> &[u8] {
        &self.path
    }

    pub(super) fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter().map(|(name, value)| (&**name, &**value))
    }
}

impl Heads for Requests {
    type Head<'a> = RequestHead;

    fn read<'a>(
        &mut self,
        _bytes: &'a [u8],
        lines: Lines<'a>,
    ) -> io::Result<(RequestHead, Option<BodyFraming>)> {
        let [method, target, _] = words(lines.first).ok_or_else(|| invalid("no request line"))?;
        let (mut host, mut body, mut fields) = (&b""[..], BodyFraming::Empty, Fields::new());
        for (name, value) in lines.fields {
            if is_same_name(name, b"host") {
                host = value;
            } else if is_same_name(name, b"transfer-encoding") {
                body = BodyFraming::Chunked;
            } else if !NOT_SENT.has(name) {
                if is_same_name(name, b"content-length") {
                    let length = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
                    body = BodyFraming::Length(length.ok_or_else(|| invalid("no length"))?);
                }
                fields.push((name.to_vec(), value.to_vec()));
            }
        }
        let is_grpc = |(name, value): &(Vec<u8>, Vec<u8>)| {
            is_same_name(name, b"content-type") && grpc_kind(value).is_some()
        };
        if body == BodyFraming::Length(0) && fields.iter().any(is_grpc) {
            // As of a response: a server of gRPC would show it as metadata.
            fields.retain(|(name, _)| !is_same_name(name, b"content-length"));
        }
        let (method, authority, path) = (method.to_vec(), host.to_vec(), path(target));
        Ok((RequestHead { scheme: self.scheme, method, authority, path, fields }, Some(body)))
    }
}

fn words(line: &[u8]) -> Option<[&[u8]; 3]> {
    let mut words = line.split(|byte| *byte == b' ');
    Some([words.next()?, words.next()?, words.next()?])
}

/// What `:path` is made of (RFC 9113, section 8.3.1).
fn path(target: &[u8]) -> Vec<u8> {
    // In absolute-form the host is another one's, which the field `Host` has as well.
    let path = match target.windows(3).position(|window| window == b"://") {
        Some(at) if target.first() != Some(&b'/') => {
            let rest = &target[at + 3..];
            rest.iter().position(|byte| *byte == b'/').map_or(&b"/"[..], |at| &rest[at..])
        }
        _ => target,
    };
    // A fragment is the client's own (RFC 9110, section 7.1).
    let path = path.split(|byte| *byte == b'#').next().unwrap_or_default();
    path.iter().flat_map(|byte| encoded(*byte)).collect()
}

/// What RFC 3986 does not allow in a path is sent over HTTP/1.1 as it was given. Servers of HTTP/2 refuse it.
fn encoded(byte: u8) -> Vec<u8> {
    match byte {
        b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' => format!("%{byte:02X}").into_bytes(),
        byte => vec![byte],
    }
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

fn wrong(error: &Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> String {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        fields.fold(String::new(), |all, (name, value)| all + &text(name) + "=" + &text(value) + ";")
    }

    /// What `bytes` are read as, given in pieces of `size`.
    fn read(bytes: &[u8], size: usize, is_head_request: bool) -> io::Result<(String, bool)> {
        use std::fmt::Write;
        let (mut message, mut seen, mut last_was_data) =
            (Message::response(is_head_request), String::new(), false);
        for piece in bytes.chunks(size) {
            let mut at = 0;
            loop {
                let mut head = String::new();
                let step = message.next(piece, &mut at, |response, is_all| {
                    let status = String::from_utf8(response.status().to_vec()).unwrap();
                    head = format!("{status} {is_all} {}", listed(response.fields()));
                    Ok(())
                })?;
                let Some(step) = step else { break };
                let is_data = matches!(step, Step::Data(_));
                if !(seen.is_empty() || is_data && last_was_data) {
                    seen.push_str(" | ");
                }
                last_was_data = is_data;
                match step {
                    Step::Data(range) => seen.push_str(std::str::from_utf8(&piece[range]).unwrap()),
                    Step::Head => seen.push_str(&head),
                    Step::End(trailers) => {
                        let fields = trailers.iter().map(|(name, value)| (&**name, &**value));
                        write!(seen, "{}", listed(fields)).unwrap();
                    }
                }
            }
        }
        Ok((seen, message.has_ended()))
    }

    #[test]
    fn a_response_is_read_however_its_bytes_come() {
        for (bytes, is_head_request, seen, has_ended) in [
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody",
                false,
                "200 false Content-Length=4; | body",
                true,
            ),
            ("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n", true, "200 true Content-Length=4;", true),
            ("HTTP/1.1 204 No Content\r\nA: b\r\na: c\r\n\r\n", false, "204 true A=b;a=c;", true),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nbo\r\n2\r\ndy\r\n0\r\nX: y\r\n\r\n",
                false,
                "200 false  | body | X=y;",
                true,
            ),
            (
                "HTTP/1.1 103 Early\r\nLink: </a>\r\n\r\nHTTP/1.0 200 OK\r\nConnection: close, Foo\r\nFoo: 1\r\n\r\nall",
                false,
                "103 false Link=</a>; | 200 false  | all",
                false,
            ),
        ] {
            for size in 1..=bytes.len() {
                assert_eq!(
                    read(bytes.as_bytes(), size, is_head_request).unwrap(),
                    (seen.to_owned(), has_ended),
                    "{size}"
                );
            }
        }
    }

    #[test]
    fn what_is_no_response_is_refused() {
        for bytes in [
            "HTTP/2 200\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 101 Switching\r\n\r\n",
            "HTTP/1.1 204 No Content\r\n\r\nx",
        ] {
            for size in 1..=bytes.len() {
                assert!(read(bytes.as_bytes(), size, false).is_err(), "{bytes:?} by {size}");
            }
        }
    }

    #[test]
    fn a_request_is_as_it_was_written() {
        let text = b"POST http://b.example/a<b>?c=%7E#d HTTP/1.1\r\nHost: a.example:81\r\nX-A:  1 \r\nTE: trailers\r\n\
            Connection: TE\r\nContent-Length: 2\r\n\r\nok";
        let mut message = Message::new(Requests { scheme: "https" });
        let mut at = 0;
        let head = message.next(text, &mut at, |request, is_all| {
            assert_eq!((request.scheme(), request.authority()), (&b"https"[..], &b"a.example:81"[..]));
            assert_eq!((request.method(), request.path()), (&b"POST"[..], &b"/a%3Cb%3E?c=%7E"[..]));
            assert_eq!(listed(request.fields()), "X-A=1;TE=trailers;Content-Length=2;");
            assert!(!is_all);
            Ok(())
        });
        assert!(matches!(head, Ok(Some(Step::Head))));
        let body = message.next(text, &mut at, |_, _| panic!("another head"));
        assert!(matches!(body, Ok(Some(Step::Data(range))) if &text[range.clone()] == b"ok"));
        assert!(message.has_ended());
    }
}
