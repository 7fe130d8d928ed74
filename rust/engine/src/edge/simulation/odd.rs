//! Requests that are refused for what they are, each on a connection of its own.

use super::codes;
use super::http::{self, Parsed};
use super::link::{Ended, Link};
use crate::net::simulated::End;
use crate::simulation::{Trace, Verdict, hold};

/// Beginnings of requests, with the codes that they are refused with; each ends with a host and an empty line.
const ODD: [(&str, &str); KINDS] = [
    ("BAD_REQUEST_HEAD", "GET /relay/0 HTTP/1.1\r\nno field\r\n"),
    ("BAD_HOST", "GET /relay/0 HTTP/1.1\r\nHost: other.test\r\n"),
    ("BAD_REQUEST_FRAMING", "POST /relay/0 HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n"),
    ("UNSUPPORTED_CODING", "POST /relay/0 HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n"),
    ("UNSUPPORTED_VERSION", "GET /relay/0 HTTP/3.0\r\n"),
    ("EXPECTATION_FAILED", "GET /relay/0 HTTP/1.1\r\nExpect: anything\r\n"),
    ("NO_ROUTE", "GET /none HTTP/1.1\r\n"),
    ("BAD_TOPIC", "GET /cut/%ff HTTP/1.1\r\n"),
    ("TARGET_TOO_LONG", "GET /long/"),
    ("REQUEST_HEAD_TOO_LARGE", "GET /relay/0 HTTP/1.1\r\nLong: "),
];
pub(super) const KINDS: usize = 10;
/// Bytes after a beginning that has no end of a line.
const LONG: usize = 5000;

/// One of them.
pub(super) struct Odd {
    code: &'static str,
    link: Link,
    got: Vec<u8>,
    is_over: bool,
}

impl Odd {
    pub(super) fn new(kind: usize, end: End) -> Self {
        let (code, beginning) = ODD[kind % KINDS];
        let mut link = Link::new(end);
        link.push(beginning.bytes());
        if !beginning.ends_with('\n') {
            link.push(std::iter::repeat_n(b'x', LONG));
            link.push(*b"\r\n");
        }
        link.push(*b"Host: edge.test\r\n\r\n");
        Self { code, link, got: Vec::new(), is_over: false }
    }

    /// Sends and reads what can be. It gets its refusal, whole.
    pub(super) fn go_on(&mut self, trace: &mut Trace) -> Verdict {
        if self.is_over {
            return Ok(());
        }
        self.link.send();
        while let Some(bytes) = self.link.receive() {
            self.got.extend(bytes);
        }
        let (code, ended) = (self.code, self.link.ended);
        if let Parsed::Whole(message, _) = http::response(&self.got, true, ended == Some(Ended::Orderly))? {
            let body = String::from_utf8_lossy(&message.body).into_owned();
            hold!(body.contains(&format!("\"{code}\"")), "for {code} a request got {body}");
            self.is_over = true;
            trace.note(codes::line(code));
        }
        hold!(self.is_over || ended.is_none(), "a request for {code} has no answer: {ended:?}");
        Ok(())
    }

    /// When nothing is on its way any more.
    pub(super) fn check_rest(&self) -> Verdict {
        hold!(self.is_over, "a request for {} has no answer at rest", self.code);
        Ok(())
    }
}
