//! The response of a stream, read from what would be sent over HTTP/1.1 (RFC 9113, section 8.1).

use std::io;
use std::ops::Range;

use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Response, StatusCode};

use crate::error::Error;
use crate::wire::{
    BodyFraming, BodyLimits, Chunked, Head, HeadLimits, HeadScanner, body_of, is_one_of, is_same_name,
    members,
};

/// The head was written or checked here: these keep an endless one from filling the memory. Arbitrary.
const HEAD: HeadLimits =
    HeadLimits { head_bytes: 256 * 1024, head_fields: 4096, interim_responses: usize::MAX };
const BODY: BodyLimits = BodyLimits { chunk_extension_bytes: usize::MAX, trailer_bytes: HEAD.head_bytes };

/// Fields that are about the connection, of which HTTP/2 has no notion (section 8.2.2).
const HOP: [&str; 5] = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

/// How far a response has come.
#[derive(Debug)]
enum State {
    /// Before the end of a head, of which this has come.
    Head(HeadScanner, Vec<u8>),
    Length(u64),
    Chunked(Box<Chunked>),
    UntilClose,
    Ended,
}

/// What comes next of a response.
#[derive(Debug)]
pub(super) enum Step {
    /// An interim response.
    Interim(Response<()>),
    /// The head; whether that is all.
    Head(Response<()>, bool),
    /// Bytes of the body, by their place in what was given.
    Data(Range<usize>),
    /// The end of the body, and the fields after it.
    End(HeaderMap),
}

/// Reads a response.
#[derive(Debug)]
pub(super) struct Reply {
    state: State,
    is_head_request: bool,
}

impl Reply {
    /// To a request; `is_head_request` if its method is HEAD.
    pub(super) fn new(is_head_request: bool) -> Self {
        Self { state: State::Head(HeadScanner::new(&HEAD), Vec::new()), is_head_request }
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
    /// It is not a response, or there is more than one.
    pub(super) fn next(&mut self, bytes: &[u8], at: &mut usize) -> io::Result<Option<Step>> {
        let rest = &bytes[*at..];
        if rest.is_empty() {
            return Ok(None);
        }
        match &mut self.state {
            State::Head(..) => self.head(rest, at),
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
            State::Ended => Err(io::Error::new(io::ErrorKind::InvalidData, "bytes after the response")),
        }
    }

    fn head(&mut self, rest: &[u8], at: &mut usize) -> io::Result<Option<Step>> {
        let State::Head(scanner, held) = &mut self.state else { return Ok(None) };
        let before = held.len();
        // Nearly always the whole head is here.
        let found = if before == 0 {
            scanner.scan(rest)
        } else {
            held.extend_from_slice(rest);
            scanner.scan(held)
        };
        let Some(end) = found.map_err(|error| wrong(&error))? else {
            if before == 0 {
                held.extend_from_slice(rest);
            }
            *at += rest.len();
            return Ok(None);
        };
        let parsed = scanner.parse(if before == 0 { &rest[..end] } else { &held[..end] });
        *at += end - before;
        self.begin(&parsed.map_err(|error| wrong(&error))?).map(Some)
    }

    fn begin(&mut self, head: &Head) -> io::Result<Step> {
        let method = if self.is_head_request { "HEAD" } else { "GET" };
        let body = body_of(head, method).map_err(|error| wrong(&error))?;
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::from_u16(head.status).map_err(io::Error::other)?;
        let is_named =
            |name: &[u8]| head.get_all("connection").flat_map(members).any(|named| is_same_name(name, named));
        let has_named = head.get("connection").is_some();
        let is_kept = |name: &[u8]| !(is_one_of(name, &HOP) || has_named && is_named(name));
        *response.headers_mut() = fields(head.headers().filter(|(name, _)| is_kept(name)))?;
        if head.status < 200 {
            self.state = State::Head(HeadScanner::new(&HEAD), Vec::new());
            return Ok(Step::Interim(response));
        }
        self.state = match body {
            BodyFraming::Empty | BodyFraming::Length(0) => State::Ended,
            BodyFraming::Length(length) => State::Length(length),
            BodyFraming::Chunked => State::Chunked(Box::new(Chunked::of_response(BODY))),
            BodyFraming::UntilClose | BodyFraming::Tunnel => State::UntilClose,
        };
        Ok(Step::Head(response, self.has_ended()))
    }
}

/// As HTTP/2 has them: with names in lower case.
fn fields<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> io::Result<HeaderMap> {
    let mut map = HeaderMap::with_capacity(fields.size_hint().1.unwrap_or_default());
    for (name, value) in fields {
        let name = HeaderName::from_bytes(name).map_err(io::Error::other)?;
        map.append(name, HeaderValue::from_bytes(value).map_err(io::Error::other)?);
    }
    Ok(map)
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
        let (mut reply, mut seen, mut last_was_data) = (Reply::new(is_head_request), String::new(), false);
        for piece in bytes.chunks(size) {
            let mut at = 0;
            while let Some(step) = reply.next(piece, &mut at)? {
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
        Ok((seen, reply.has_ended()))
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
}
