//! The request of a stream, as it would come over HTTP/1.1.

use std::io;

use h2::RecvStream;
use http::header::{CONTENT_LENGTH, COOKIE, HOST};
use http::{HeaderValue, Method, request};

use super::received::{Received, write_fields};
use crate::wire::is_same_name;

/// The request that begins with `head`.
///
/// # Errors
/// Two parsers could read it differently (RFC 9113, section 8.3.1), as HTTP/1.1.
pub(super) fn received(head: &request::Parts, body: RecvStream) -> io::Result<Received> {
    let body = Some(body).filter(|body| !body.is_end_stream());
    let is_chunked = body.is_some() && !head.headers.contains_key(CONTENT_LENGTH);
    Ok(Received::new(text(head, is_chunked)?, body, is_chunked))
}

/// The head as that of HTTP/1.1 (RFC 9113, section 8.2).
///
/// # Errors
/// As of [`received`].
pub fn text(head: &request::Parts, is_chunked: bool) -> io::Result<Vec<u8>> {
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

fn malformed(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
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
