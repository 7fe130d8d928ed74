//! A message that a stream sends, read from what would be sent over HTTP/1.1 (RFC 9113, section 8.1).

use std::fmt;
use std::io;
use std::ops::Range;

use http::header::{CONTENT_LENGTH, HeaderName, HeaderValue};
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, Version};

use crate::error::Error;
use crate::wire::{
    BodyFraming, BodyLimits, Chunked, HeadLimits, HeadScanner, body_of, is_one_of, is_same_name, members,
    trim,
};

/// The head was written or checked here: these keep an endless one from filling the memory. Arbitrary.
const HEAD: HeadLimits =
    HeadLimits { head_bytes: 256 * 1024, head_fields: 4096, interim_responses: usize::MAX };
const BODY: BodyLimits = BodyLimits { chunk_extension_bytes: usize::MAX, trailer_bytes: HEAD.head_bytes };

/// Fields that are about the connection, of which HTTP/2 has no notion (section 8.2.2).
const HOP: [&str; 5] = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

/// Reads the heads of messages of one kind.
pub(super) trait Heads: fmt::Debug {
    /// A head, for the `h2` crate.
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
    /// A head before the final one.
    Interim(H),
    /// The head; whether that is all.
    Head(H, bool),
    /// Bytes of the body, by their place in what was given.
    Data(Range<usize>),
    /// The end of the body, and the fields after it.
    End(HeaderMap),
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
                let trailers = fields(chunks.trailers().iter().map(|(name, value)| (&**name, &**value)))?;
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
            None => {
                self.state = State::Head(Vec::new());
                return Ok(Some(Step::Interim(begun)));
            }
            Some(BodyFraming::Empty | BodyFraming::Length(0)) => State::Ended,
            Some(BodyFraming::Length(length)) => State::Length(length),
            Some(BodyFraming::Chunked) => State::Chunked(Box::new(Chunked::of_response(BODY))),
            Some(BodyFraming::UntilClose | BodyFraming::Tunnel) => State::UntilClose,
        };
        Ok(Some(Step::Head(begun, self.has_ended())))
    }
}

impl Heads for Responses {
    type Head = Response<()>;

    fn scan(&mut self, bytes: &[u8]) -> Result<Option<usize>, Error> {
        self.scanner.scan(bytes)
    }

    fn parse(&mut self, bytes: &[u8]) -> io::Result<(Self::Head, Option<BodyFraming>)> {
        let head = self.scanner.parse(bytes).map_err(|error| wrong(&error))?;
        let method = if self.is_head_request { "HEAD" } else { "GET" };
        let body = body_of(&head, method).map_err(|error| wrong(&error))?;
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::from_u16(head.status).map_err(io::Error::other)?;
        let has_named = head.get("connection").is_some();
        let is_named =
            |name: &[u8]| head.get_all("connection").flat_map(members).any(|named| is_same_name(name, named));
        let is_kept = |name: &[u8]| !(is_one_of(name, &HOP) || has_named && is_named(name));
        *response.headers_mut() = fields(head.headers().filter(|(name, _)| is_kept(name)))?;
        if body == BodyFraming::Length(0) && response.headers().contains_key("grpc-status") {
            // It is there for HTTP/1.1 alone, and clients would show it as metadata.
            response.headers_mut().remove(CONTENT_LENGTH);
        }
        if head.status < 200 {
            self.scanner = HeadScanner::new(&HEAD);
            return Ok((response, None));
        }
        Ok((response, Some(body)))
    }
}

impl Heads for Requests {
    type Head = Request<()>;

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
        let (mut host, mut body, mut map) = (&b""[..], BodyFraming::Empty, HeaderMap::new());
        for line in lines.take_while(|line| !line.is_empty()) {
            let at = line.iter().position(|byte| *byte == b':').ok_or_else(|| invalid("no field"))?;
            let (name, value) = (&line[..at], trim(&line[at + 1..]));
            if is_same_name(name, b"host") {
                host = value;
            } else if is_same_name(name, b"transfer-encoding") {
                body = BodyFraming::Chunked;
            } else if !is_one_of(name, &HOP) {
                if is_same_name(name, b"content-length") {
                    let length = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
                    body = BodyFraming::Length(length.ok_or_else(|| invalid("no length"))?);
                }
                append(&mut map, name, value)?;
            }
        }
        let mut request = Request::new(());
        *request.version_mut() = Version::HTTP_2;
        *request.method_mut() = Method::from_bytes(method).map_err(io::Error::other)?;
        *request.uri_mut() = uri(self.scheme, host, target)?;
        *request.headers_mut() = map;
        Ok((request, Some(body)))
    }
}

/// The end of a head.
const END: &[u8] = b"\r\n\r\n";

fn words(line: &[u8]) -> Option<[&[u8]; 3]> {
    let mut words = line.split(|byte| *byte == b' ');
    Some([words.next()?, words.next()?, words.next()?])
}

/// What `:scheme`, `:authority` and `:path` are made of (RFC 9113, section 8.3.1).
fn uri(scheme: &str, host: &[u8], target: &[u8]) -> io::Result<Uri> {
    let target = std::str::from_utf8(target).map_err(io::Error::other)?;
    let path = match target.split_once("://") {
        // In absolute-form the host is another one's, which the field `Host` has as well.
        Some((_, rest)) if !target.starts_with('/') => rest.find('/').map_or("/", |at| &rest[at..]),
        _ => target,
    };
    let path = PathAndQuery::try_from(path).or_else(|_| PathAndQuery::try_from(encoded(path)));
    let uri = Uri::builder().scheme(scheme).authority(host);
    uri.path_and_query(path.map_err(io::Error::other)?).build().map_err(io::Error::other)
}

/// What RFC 3986 does not allow in a path, which over HTTP/1.1 is sent as it was given, and the `h2` crate refuses.
fn encoded(path: &str) -> String {
    let encode = |byte: u8| match byte {
        b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' => format!("%{byte:02X}"),
        byte => char::from(byte).into(),
    };
    path.bytes().map(encode).collect()
}

/// With names in lower case.
fn fields<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> io::Result<HeaderMap> {
    let mut map = HeaderMap::with_capacity(fields.size_hint().1.unwrap_or_default());
    for (name, value) in fields {
        append(&mut map, name, value)?;
    }
    Ok(map)
}

fn append(map: &mut HeaderMap, name: &[u8], value: &[u8]) -> io::Result<()> {
    let name = HeaderName::from_bytes(name).map_err(io::Error::other)?;
    map.append(name, HeaderValue::from_bytes(value).map_err(io::Error::other)?);
    Ok(())
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
                    Step::Interim(response) => write!(seen, "{}", response.status()).unwrap(),
                    Step::Head(response, is_all) => {
                        write!(seen, "{} {is_all} {:?}", response.status().as_u16(), response.headers())
                            .unwrap();
                    }
                    Step::End(trailers) => write!(seen, "{trailers:?}").unwrap(),
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
                r#"200 false {"content-length": "4"} | body"#,
                true,
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n",
                true,
                r#"200 true {"content-length": "4"}"#,
                true,
            ),
            (
                "HTTP/1.1 204 No Content\r\nA: b\r\na: c\r\n\r\n",
                false,
                r#"204 true {"a": "b", "a": "c"}"#,
                true,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nbo\r\n2\r\ndy\r\n0\r\nX: y\r\n\r\n",
                false,
                r#"200 false {} | body | {"x": "y"}"#,
                true,
            ),
            (
                "HTTP/1.1 103 Early\r\nLink: </a>\r\n\r\nHTTP/1.0 200 OK\r\nConnection: close, Foo\r\nFoo: 1\r\n\r\nall",
                false,
                "103 Early Hints | 200 false {} | all",
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
        assert_eq!(request.uri(), "https://a.example:81/a%3Cb%3E?c=%7E");
        let fields = request.headers();
        assert_eq!(format!("{fields:?}"), r#"{"x-a": "1", "te": "trailers", "content-length": "2"}"#);
        assert!(
            matches!(message.next(text, &mut at), Ok(Some(Step::Data(range))) if &text[range.clone()] == b"ok")
        );
        assert!(message.has_ended());
    }
}
