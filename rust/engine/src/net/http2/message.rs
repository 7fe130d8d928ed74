//! A message that a stream sends, read from what would be sent over HTTP/1.1 (RFC 9113, section 8.1).

use std::fmt;
use std::io;
use std::ops::Range;

use penstock_http2::OF_CONNECTION;

use crate::error::Error;
use crate::wire::{
    BodyFraming, BodyLimits, Chunked, Head, HeadLimits, HeadScanner, body_of, grpc_kind, is_one_of,
    is_same_name, members, trim,
};

/// The head was written or checked here: these keep an endless one from filling the memory. Arbitrary.
const HEAD: HeadLimits =
    HeadLimits { head_bytes: 256 * 1024, head_fields: 4096, interim_responses: usize::MAX };
const BODY: BodyLimits = BodyLimits { chunk_extension_bytes: usize::MAX, trailer_bytes: HEAD.head_bytes };

/// Reads the heads of messages of one kind.
pub(super) trait Heads: fmt::Debug {
    /// A head.
    type Head: fmt::Debug;

    /// The end of the head at the front of `bytes`, which begin with those of the last call.
    fn scan(&mut self, bytes: &[u8]) -> Result<Option<usize>, Error>;

    /// Reads the head that [`Heads::scan`] has found; with how the body is delimited, unless another head follows.
    fn parse(&mut self, bytes: &[u8]) -> io::Result<(Self::Head, Option<BodyFraming>)>;
}

/// The heads of the response to a request.
#[derive(Debug)]
pub(super) struct Responses {
    scanner: HeadScanner,
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
pub(super) enum Step<H> {
    /// A head; whether that is all.
    Head(H, bool),
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
        Self::new(Responses { scanner: HeadScanner::new(&HEAD), is_head_request })
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

    /// What comes next in `bytes` from `at` on, which moves after it; nothing if the rest is still to come.
    ///
    /// # Errors
    /// It is not such a message, or there is more than one.
    pub(super) fn next(&mut self, bytes: &[u8], at: &mut usize) -> io::Result<Option<Step<H::Head>>> {
        let rest = &bytes[*at..];
        if rest.is_empty() {
            return Ok(None);
        }
        match &mut self.state {
            State::Head(_) => self.head(rest, at),
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

    fn head(&mut self, rest: &[u8], at: &mut usize) -> io::Result<Option<Step<H::Head>>> {
        let State::Head(held) = &mut self.state else { return Ok(None) };
        let before = held.len();
        // Nearly always the whole head is here.
        let found = if before == 0 {
            self.heads.scan(rest)
        } else {
            held.extend_from_slice(rest);
            self.heads.scan(held)
        };
        let Some(end) = found.map_err(|error| wrong(&error))? else {
            if before == 0 {
                held.extend_from_slice(rest);
            }
            *at += rest.len();
            return Ok(None);
        };
        let parsed = self.heads.parse(if before == 0 { &rest[..end] } else { &held[..end] });
        *at += end - before;
        let (begun, body) = parsed?;
        self.state = match body {
            None => State::Head(Vec::new()),
            Some(BodyFraming::Empty | BodyFraming::Length(0)) => State::Ended,
            Some(BodyFraming::Length(length)) => State::Length(length),
            Some(BodyFraming::Chunked) => State::Chunked(Box::new(Chunked::of_response(BODY))),
            Some(BodyFraming::UntilClose | BodyFraming::Tunnel) => State::UntilClose,
        };
        Ok(Some(Step::Head(begun, self.has_ended())))
    }
}

/// The head of a response.
#[derive(Debug)]
pub(super) struct ResponseHead {
    head: Head,
    /// It has fields that are named as about the connection.
    names: bool,
    /// Content-Length is there for HTTP/1.1 alone, and clients of gRPC would show it as metadata.
    hides_length: bool,
}

impl ResponseHead {
    /// Its digits.
    pub(super) fn status(&self) -> [u8; 3] {
        let digit = |place: u16| b'0' + (self.head.status / place % 10).to_le_bytes()[0];
        [digit(100), digit(10), digit(1)]
    }

    pub(super) fn get(&self, name: &str) -> Option<&[u8]> {
        self.head.get(name)
    }

    /// The fields that are not about the connection.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let is_named = |name: &[u8]| {
            self.head.get_all("connection").flat_map(members).any(|named| is_same_name(name, named))
        };
        self.head.headers().filter(move |(name, _)| {
            !(is_one_of(name, &OF_CONNECTION)
                || (self.names && is_named(name))
                || (self.hides_length && is_same_name(name, b"content-length")))
        })
    }
}

impl Heads for Responses {
    type Head = ResponseHead;

    fn scan(&mut self, bytes: &[u8]) -> Result<Option<usize>, Error> {
        self.scanner.scan(bytes)
    }

    fn parse(&mut self, bytes: &[u8]) -> io::Result<(Self::Head, Option<BodyFraming>)> {
        let head = self.scanner.parse(bytes).map_err(|error| wrong(&error))?;
        let method = if self.is_head_request { "HEAD" } else { "GET" };
        let body = body_of(&head, method).map_err(|error| wrong(&error))?;
        let names = head.get("connection").is_some();
        let hides_length = body == BodyFraming::Length(0) && head.get("grpc-status").is_some();
        let is_interim = head.status < 200;
        let head = ResponseHead { head, names, hides_length };
        if is_interim {
            self.scanner = HeadScanner::new(&HEAD);
            return Ok((head, None));
        }
        Ok((head, Some(body)))
    }
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
    type Head = RequestHead;

    fn scan(&mut self, bytes: &[u8]) -> Result<Option<usize>, Error> {
        // It was written here, and is short: it is looked through again only where it came in parts.
        let end = bytes.windows(END.len()).position(|window| window == END);
        Ok(end.map(|at| at + END.len()))
    }

    fn parse(&mut self, bytes: &[u8]) -> io::Result<(Self::Head, Option<BodyFraming>)> {
        // It was written and checked here.
        let mut lines =
            bytes.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let [method, target, _] = lines.next().and_then(words).ok_or_else(|| invalid("no request line"))?;
        let (mut host, mut body, mut fields) = (&b""[..], BodyFraming::Empty, Fields::new());
        for line in lines.take_while(|line| !line.is_empty()) {
            let at = line.iter().position(|byte| *byte == b':').ok_or_else(|| invalid("no field"))?;
            let (name, value) = (&line[..at], trim(&line[at + 1..]));
            if is_same_name(name, b"host") {
                host = value;
            } else if is_same_name(name, b"transfer-encoding") {
                body = BodyFraming::Chunked;
            } else if !is_one_of(name, &OF_CONNECTION) {
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

/// The end of a head.
const END: &[u8] = b"\r\n\r\n";

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
            while let Some(step) = message.next(piece, &mut at)? {
                let is_data = matches!(step, Step::Data(_));
                if !(seen.is_empty() || is_data && last_was_data) {
                    seen.push_str(" | ");
                }
                last_was_data = is_data;
                match step {
                    Step::Data(range) => seen.push_str(std::str::from_utf8(&piece[range]).unwrap()),
                    Step::Head(response, is_all) => {
                        let status = String::from_utf8(response.status().to_vec()).unwrap();
                        write!(seen, "{status} {is_all} {}", listed(response.fields())).unwrap();
                    }
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
        let Some(Step::Head(request, false)) = message.next(text, &mut at).unwrap() else {
            panic!("no head")
        };
        assert_eq!((request.scheme(), request.authority()), (&b"https"[..], &b"a.example:81"[..]));
        assert_eq!((request.method(), request.path()), (&b"POST"[..], &b"/a%3Cb%3E?c=%7E"[..]));
        assert_eq!(listed(request.fields()), "X-A=1;TE=trailers;Content-Length=2;");
        assert!(
            matches!(message.next(text, &mut at), Ok(Some(Step::Data(range))) if &text[range.clone()] == b"ok")
        );
        assert!(message.has_ended());
    }
}
