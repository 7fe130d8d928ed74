//! The request of a stream, as it would be sent over HTTP/1.1: what reads that reads this, with the same limits and refusals.

use std::io;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::RecvStream;
use http::header::{CONTENT_LENGTH, COOKIE, HOST};
use http::{HeaderMap, HeaderValue, Method, request};

use crate::wire::is_same_name;

/// Reads the request of a stream.
#[derive(Debug)]
pub(super) struct Asking {
    /// The head, or the framing around `data`, of which `at` bytes are read.
    text: Vec<u8>,
    at: usize,
    /// Bytes of the body that are here.
    data: Bytes,
    /// The rest of the body, if any.
    body: Option<RecvStream>,
    is_chunked: bool,
    /// The line end after a chunk is still to come.
    ends_chunk: bool,
}

impl Asking {
    /// The request that begins with `head`.
    ///
    /// # Errors
    /// Two parsers could read it differently (RFC 9113, section 8.3.1), as HTTP/1.1.
    pub(super) fn new(head: &request::Parts, body: RecvStream) -> io::Result<Self> {
        let body = Some(body).filter(|body| !body.is_end_stream());
        let is_chunked = body.is_some() && !head.headers.contains_key(CONTENT_LENGTH);
        Ok(Self {
            text: text(head, is_chunked)?,
            at: 0,
            data: Bytes::new(),
            body,
            is_chunked,
            ends_chunk: false,
        })
    }

    /// Whether all of it has been read.
    pub(super) fn has_ended(&self) -> bool {
        self.at == self.text.len() && self.data.is_empty() && self.body.is_none()
    }

    /// Ready when there is something to read. Not after the end.
    pub(super) fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.at == self.text.len() && self.data.is_empty() {
            if std::mem::take(&mut self.ends_chunk) {
                self.say(b"\r\n");
                break;
            }
            let Some(body) = &mut self.body else { return Poll::Ready(Ok(())) };
            match ready!(body.poll_data(context)) {
                Some(Ok(data)) if data.is_empty() => {}
                Some(Ok(data)) => {
                    if self.is_chunked {
                        self.ends_chunk = true;
                        self.say(format!("{:x}\r\n", data.len()).as_bytes());
                    }
                    self.data = data;
                }
                Some(Err(error)) => return Poll::Ready(Err(broken(error))),
                None => {
                    let trailers = ready!(body.poll_trailers(context)).map_err(broken)?;
                    self.body = None;
                    if self.is_chunked {
                        let mut end = b"0\r\n".to_vec();
                        write_fields(&mut end, &trailers.unwrap_or_default());
                        end.extend_from_slice(b"\r\n");
                        self.say(&end);
                    }
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    fn say(&mut self, text: &[u8]) {
        self.text.clear();
        self.text.extend_from_slice(text);
        self.at = 0;
    }

    /// Reads what is there and fits; 0 only if nothing does. The client may send as much again.
    pub(super) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        memory: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut count = 0;
        while count < memory.len() && !self.has_ended() {
            match self.poll_readable(context) {
                Poll::Ready(Ok(())) => {}
                Poll::Pending if count == 0 => return Poll::Pending,
                // It is met again.
                Poll::Ready(Err(_)) | Poll::Pending if count > 0 => break,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => break,
            }
            let text = &self.text[self.at..];
            let rest = &mut memory[count..];
            if text.is_empty() {
                let taken = self.data.split_to(rest.len().min(self.data.len()));
                rest[..taken.len()].copy_from_slice(&taken);
                count += taken.len();
                if let Some(body) = &mut self.body {
                    // An error means that the stream has ended.
                    let _ = body.flow_control().release_capacity(taken.len());
                }
            } else {
                let taken = rest.len().min(text.len());
                rest[..taken].copy_from_slice(&text[..taken]);
                self.at += taken;
                count += taken;
            }
        }
        if self.has_ended() {
            // A response may take hours.
            self.text = Vec::new();
            self.at = 0;
        }
        Poll::Ready(Ok(count))
    }
}

/// The head as that of HTTP/1.1 (RFC 9113, section 8.2).
fn text(head: &request::Parts, is_chunked: bool) -> io::Result<Vec<u8>> {
    let authority = head.uri.authority().map(|authority| authority.as_str().as_bytes());
    let mut hosts = head.headers.get_all(HOST).iter();
    let host = hosts.next().map(HeaderValue::as_bytes);
    if hosts.next().is_some() || authority.zip(host).is_some_and(|(one, other)| !is_same_name(one, other)) {
        return Err(malformed("there is more than one host"));
    }
    // RFC 9113, section 8.2.1.
    if head.headers.values().any(|value| value.as_bytes() != value.as_bytes().trim_ascii()) {
        return Err(malformed("a value begins or ends with a blank"));
    }
    let authority = authority.or(host).ok_or_else(|| malformed("there is no host"))?;
    let target = match (head.uri.path_and_query(), &head.method) {
        (None, &Method::CONNECT) => authority,
        // An asterisk is the server as a whole (RFC 9110, section 7.1).
        (target, _) => target.map_or(&b"/"[..], |target| target.as_str().as_bytes()),
    };
    let mut text = Vec::with_capacity(512);
    for part in [head.method.as_str().as_bytes(), b" ", target, b" HTTP/1.1\r\nHost: ", authority, b"\r\n"] {
        text.extend_from_slice(part);
    }
    write_fields(&mut text, &head.headers);
    let mut cookies = head.headers.get_all(COOKIE).iter().peekable();
    if cookies.peek().is_some() {
        // One field over HTTP/1.1 (RFC 9113, section 8.2.3).
        text.extend_from_slice(b"cookie: ");
        for (number, cookie) in cookies.enumerate() {
            text.extend_from_slice(if number > 0 { b"; " } else { b"" });
            text.extend_from_slice(cookie.as_bytes());
        }
        text.extend_from_slice(b"\r\n");
    }
    text.extend_from_slice(if is_chunked { b"transfer-encoding: chunked\r\n\r\n" } else { b"\r\n" });
    Ok(text)
}

/// All but the fields that [`text`] writes.
fn write_fields(text: &mut Vec<u8>, fields: &HeaderMap) {
    for (name, value) in fields {
        if name != HOST && name != COOKIE {
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                text.extend_from_slice(part);
            }
        }
    }
}

fn malformed(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// The stream, or its connection, has ended.
pub(super) fn broken(error: h2::Error) -> io::Error {
    let kind = match error.reason() {
        Some(_) => io::ErrorKind::ConnectionReset,
        None => io::ErrorKind::BrokenPipe,
    };
    error.into_io().unwrap_or_else(|| kind.into())
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn written(request: Request<()>, is_chunked: bool) -> io::Result<String> {
        text(&request.into_parts().0, is_chunked).map(|text| String::from_utf8(text).unwrap())
    }

    #[test]
    fn a_head_is_that_of_http_1() {
        let request = Request::builder()
            .method("POST")
            .uri("https://a.example:8443/b?c=d")
            .header("host", "A.example:8443")
            .header("cookie", "a=1")
            .header("accept", "*/*")
            .header("cookie", "b=2")
            .body(())
            .unwrap();
        assert_eq!(
            written(request, true).unwrap(),
            "POST /b?c=d HTTP/1.1\r\nHost: a.example:8443\r\naccept: */*\r\ncookie: a=1; b=2\r\n\
             transfer-encoding: chunked\r\n\r\n"
        );
        let request = Request::builder().method("OPTIONS").uri("*").header("host", "a").body(()).unwrap();
        assert_eq!(written(request, false).unwrap(), "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n");
    }

    #[test]
    fn a_value_has_no_blanks_around_it() {
        for value in [" a", "a ", "\ta", "a\t", " "] {
            let request = Request::builder().uri("https://a.example/").header("x", value).body(()).unwrap();
            assert!(written(request, false).is_err(), "{value:?}");
        }
    }

    #[test]
    fn a_request_has_one_host() {
        for hosts in [&["b.example"][..], &["a.example", "a.example"]] {
            let mut request = Request::builder().uri("https://a.example/");
            for host in hosts {
                request = request.header("host", *host);
            }
            assert_eq!(
                written(request.body(()).unwrap(), false).unwrap_err().kind(),
                io::ErrorKind::InvalidData
            );
        }
        let request = Request::builder().uri("/").body(()).unwrap();
        assert!(written(request, false).is_err());
    }
}
