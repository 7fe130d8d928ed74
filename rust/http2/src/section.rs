//! A section of fields, as that of HTTP/1.1: the head of a message or what follows its body (RFC 9113, section 8).
//!
//! What HTTP/1.1 would read in another way is refused here: names that are no names in lower case, values with line ends or
//! with blanks around them, fields about the connection, and pseudo-fields that are missing, twice, unknown or late.

use std::ops::Range;

/// What a field counts for besides its bytes (RFC 9113, section 6.5.2).
const OVERHEAD: usize = 32;
/// Fields about one connection of HTTP/1.1, of which HTTP/2 has no notion (section 8.2.2).
pub const OF_CONNECTION: [&str; 5] =
    ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];
/// Bytes of a request, mostly. Arbitrary.
const USUAL: usize = 256;
/// Room for what is said after the fields of a head: how the body is delimited, and the empty line.
const END: usize = 32;
const PSEUDO: [&[u8]; 5] = [b":method", b":scheme", b":authority", b":path", b":status"];

/// Which of [`PSEUDO`].
#[derive(Debug, Clone, Copy)]
#[repr(usize)]
enum Pseudo {
    Method,
    Scheme,
    Authority,
    Path,
    Status,
}

/// What a section is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Request,
    Response,
    Trailers,
}

/// Why a section is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// RFC 9113, section 8.1.1.
    Malformed(&'static str),
    /// It has more bytes than it may.
    TooLarge,
}

/// Fields as they come.
#[derive(Debug)]
pub(crate) struct Section {
    kind: Kind,
    /// Bytes that are left of what it may have.
    left: usize,
    fault: Option<Fault>,
    /// Values that have their place in the first lines, and the other fields after them, but for host and cookies.
    text: Vec<u8>,
    /// Where the values are.
    pseudo: [Option<Range<usize>>; PSEUDO.len()],
    /// Where the other fields begin, once there are any.
    lines: Option<usize>,
    host: Option<Vec<u8>>,
    cookies: Vec<u8>,
    pub(crate) length: Option<u64>,
    pub(crate) priority: Option<Vec<u8>>,
}

/// The head of a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// As over HTTP/1.1, without the empty line.
    pub(crate) text: Vec<u8>,
    /// What it says of its body.
    pub(crate) length: Option<u64>,
    /// The value of the field `Priority`.
    pub(crate) priority: Option<Vec<u8>>,
    /// Of a response; 0 of a request.
    pub(crate) status: u16,
}

impl Section {
    pub(crate) fn new(kind: Kind, most: usize) -> Self {
        Self {
            kind,
            left: most,
            fault: None,
            text: Vec::new(),
            pseudo: [const { None }; PSEUDO.len()],
            lines: None,
            host: None,
            cookies: Vec::new(),
            length: None,
            priority: None,
        }
    }

    /// Takes a field. After a fault the rest is of no use, but has to be read, for the sake of the table.
    pub(crate) fn push(&mut self, name: &[u8], value: &[u8]) {
        if self.fault.is_some() {
            return;
        }
        let result = match self.left.checked_sub(name.len() + value.len() + OVERHEAD) {
            None => Err(Fault::TooLarge),
            Some(left) => {
                self.left = left;
                self.take(name, value).map_err(Fault::Malformed)
            }
        };
        self.fault = result.err();
    }

    fn take(&mut self, name: &[u8], value: &[u8]) -> Result<(), &'static str> {
        // Not ended at the first one: so the compiler looks at many at once.
        if value.iter().fold(false, |has, byte| has | matches!(byte, 0..=8 | 10..=31 | 127)) {
            return Err("a value has a control character");
        }
        if value.len() != value.trim_ascii().len() {
            return Err("a value begins or ends with a blank");
        }
        if self.text.capacity() == 0 {
            self.text.reserve(USUAL);
        }
        if name.first() == Some(&b':') {
            return self.take_pseudo(name, value);
        }
        self.lines.get_or_insert(self.text.len());
        if name.is_empty() || !name.iter().all(|byte| is_lower(*byte)) {
            return Err("a name is no name in lower case");
        }
        let is_of_connection = OF_CONNECTION.iter().any(|known| known.as_bytes() == name);
        if is_of_connection || (name == b"te" && value != b"trailers") {
            return Err("a field is about a connection of HTTP/1.1");
        }
        match name {
            b"host" if self.kind == Kind::Request => {
                let is_second = self.host.replace(value.to_vec()).is_some();
                return if is_second { Err("there is more than one host") } else { Ok(()) };
            }
            b"cookie" if self.kind == Kind::Request => {
                // One field over HTTP/1.1 (section 8.2.3).
                self.cookies.extend_from_slice(if self.cookies.is_empty() { b"cookie: " } else { b"; " });
                self.cookies.extend_from_slice(value);
                return Ok(());
            }
            b"content-length" if self.kind != Kind::Trailers => {
                let length = length(value).ok_or("Content-Length is no number")?;
                if self.length.replace(length).is_some_and(|other| other != length) {
                    return Err("there is more than one length");
                }
            }
            b"priority" => self.priority = Some(value.to_vec()),
            _ => {}
        }
        for part in [name, b": ", value, b"\r\n"] {
            self.text.extend_from_slice(part);
        }
        Ok(())
    }

    fn take_pseudo(&mut self, name: &[u8], value: &[u8]) -> Result<(), &'static str> {
        if self.lines.is_some() {
            return Err("a pseudo-field comes after a field");
        }
        let of_kind: &[Pseudo] = match self.kind {
            Kind::Request => &[Pseudo::Method, Pseudo::Scheme, Pseudo::Authority, Pseudo::Path],
            Kind::Response => &[Pseudo::Status],
            Kind::Trailers => &[],
        };
        let known = of_kind.iter().find(|known| PSEUDO[**known as usize] == name);
        let known = *known.ok_or("a pseudo-field is not known")?;
        let start = self.text.len();
        self.text.extend_from_slice(value);
        if self.pseudo[known as usize].replace(start..self.text.len()).is_some() {
            return Err("a pseudo-field comes twice");
        }
        Ok(())
    }

    fn pseudo(&self, which: Pseudo) -> Option<&[u8]> {
        self.pseudo[which as usize].clone().map(|place| &self.text[place])
    }

    fn lines(&self) -> &[u8] {
        self.lines.map_or(&[], |start| &self.text[start..])
    }

    /// The head of a message.
    pub(crate) fn head(self) -> Result<Head, Fault> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let (text, status) = match self.kind {
            Kind::Response => self.response(),
            _ => self.request().map(|text| (text, 0)),
        }
        .map_err(Fault::Malformed)?;
        Ok(Head { text, length: self.length, priority: self.priority, status })
    }

    /// The fields after a body.
    pub(crate) fn trailers(self) -> Result<Vec<u8>, Fault> {
        self.fault.map_or(Ok(self.text), Err)
    }

    fn request(&self) -> Result<Vec<u8>, &'static str> {
        let method = self.pseudo(Pseudo::Method).filter(|method| is_token(method));
        let method = method.ok_or("there is no method")?;
        let (named, host) = (self.pseudo(Pseudo::Authority), self.host.as_deref());
        if named.zip(host).is_some_and(|(one, other)| !one.eq_ignore_ascii_case(other)) {
            return Err("there is more than one host");
        }
        let authority = named.or(host).filter(|authority| !authority.is_empty());
        let authority = authority.ok_or("there is no host")?;
        let target = match (self.pseudo(Pseudo::Scheme), self.pseudo(Pseudo::Path)) {
            // Section 8.5.
            (None, None) if method == b"CONNECT" => authority,
            (Some(_), Some(_)) if method == b"CONNECT" => return Err("CONNECT has no path"),
            (Some(scheme), Some(path))
                if is_scheme(scheme) && (path.first() == Some(&b'/') || path == b"*") =>
            {
                path
            }
            _ => return Err("there is no scheme, or no path"),
        };
        if [target, authority]
            .iter()
            .any(|text| !text.iter().all(|byte| matches!(byte, 0x21..=0x7e | 0x80..)))
        {
            return Err("the target has a blank");
        }
        let end: &[u8] = if self.cookies.is_empty() { b"" } else { b"\r\n" };
        let first = [method, b" ", target, b" HTTP/1.1\r\nHost: ", authority, b"\r\n"];
        Ok(text(&[&first[..], &[self.lines(), &self.cookies, end]]))
    }

    fn response(&self) -> Result<(Vec<u8>, u16), &'static str> {
        let status = self.pseudo(Pseudo::Status).unwrap_or_default();
        let number = match status {
            [b'1'..=b'9', b'0'..=b'9', b'0'..=b'9'] => {
                status.iter().fold(0, |number, digit| number * 10 + u16::from(digit - b'0'))
            }
            _ => return Err("there is no status"),
        };
        if number == 101 {
            return Err("101 has no place in HTTP/2 (section 8.6)");
        }
        Ok((text(&[&[b"HTTP/1.1 ", status, b" \r\n", self.lines()]]), number))
    }
}

/// All of it as one, with room for the end of the head.
fn text(parts: &[&[&[u8]]]) -> Vec<u8> {
    let parts = || parts.iter().copied().flatten();
    let mut text = Vec::with_capacity(parts().map(|part| part.len()).sum::<usize>() + END);
    parts().for_each(|part| text.extend_from_slice(part));
    text
}

fn is_lower(byte: u8) -> bool {
    is_token_byte(byte) && !byte.is_ascii_uppercase()
}

/// RFC 9110, section 5.6.2.
fn is_token_byte(byte: u8) -> bool {
    TOKEN[usize::from(byte)]
}

/// A table, because each byte of each name is looked up.
const TOKEN: [bool; 256] = {
    let mut token = [false; 256];
    let mut byte = 0_u8;
    while byte < 127 {
        token[byte as usize] = byte.is_ascii_alphanumeric()
            || matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~');
        byte += 1;
    }
    token
};

fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|byte| is_token_byte(*byte))
}

fn is_scheme(text: &[u8]) -> bool {
    text.first().is_some_and(u8::is_ascii_alphabetic)
        && text.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte))
}

fn length(value: &[u8]) -> Option<u64> {
    let digits = value.iter().all(u8::is_ascii_digit).then_some(value)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(kind: Kind, fields: &[(&str, &str)]) -> Section {
        let mut section = Section::new(kind, 1000);
        for (name, value) in fields {
            section.push(name.as_bytes(), value.as_bytes());
        }
        section
    }

    const GET: [(&str, &str); 4] =
        [(":method", "GET"), (":scheme", "https"), (":authority", "a.example"), (":path", "/b?c")];

    fn request(more: &[(&str, &str)]) -> Result<String, Fault> {
        let fields = [&GET, more].concat();
        section(Kind::Request, &fields).head().map(|head| String::from_utf8(head.text).unwrap())
    }

    #[test]
    fn a_request_is_that_of_http_1() {
        assert_eq!(request(&[]).unwrap(), "GET /b?c HTTP/1.1\r\nHost: a.example\r\n");
        assert_eq!(
            request(&[("cookie", "a=1"), ("host", "A.example"), ("accept", "*/*"), ("cookie", "b=2")])
                .unwrap(),
            "GET /b?c HTTP/1.1\r\nHost: a.example\r\naccept: */*\r\ncookie: a=1; b=2\r\n"
        );
        let head = section(Kind::Request, &[(":method", "CONNECT"), (":authority", "a:1")]).head().unwrap();
        assert_eq!(head.text, b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n");
        let head = section(Kind::Response, &[(":status", "204"), ("content-length", "7")]).head().unwrap();
        assert_eq!((&head.text[..], head.length), (&b"HTTP/1.1 204 \r\ncontent-length: 7\r\n"[..], Some(7)));
    }

    #[test]
    fn what_http_1_would_read_otherwise_is_refused() {
        for fields in [
            &[("A", "b")][..],
            &[("", "b")],
            &[("a b", "c")],
            &[("a:", "b")],
            &[("a\r\nb", "c")],
            &[("a", "b\r\nc: d")],
            &[("a", "b\0")],
            &[("a", " b")],
            &[("a", "b\t")],
            &[("connection", "close")],
            &[("transfer-encoding", "chunked")],
            &[("upgrade", "websocket")],
            &[("te", "gzip")],
            &[("host", "b.example")],
            &[("host", "a.example"), ("host", "a.example")],
            &[("content-length", "1"), ("content-length", "2")],
            &[("content-length", "+1")],
            &[("content-length", "99999999999999999999")],
            &[("a", "b"), (":method", "GET")],
            &[(":method", "GET")],
            &[(":protocol", "websocket")],
            &[(":status", "200")],
        ] {
            assert!(matches!(request(fields), Err(Fault::Malformed(_))), "{fields:?}");
        }
        for without in 0..GET.len() {
            let mut fields = GET.to_vec();
            fields.remove(without);
            let result = section(Kind::Request, &fields).head();
            assert!(matches!(result, Err(Fault::Malformed(_))), "{fields:?}");
        }
        for path in ["", "b", "/a b", "/a\tb", "http://a/"] {
            let mut fields = GET;
            fields[3].1 = path;
            assert!(section(Kind::Request, &fields).head().is_err(), "{path:?}");
        }
        for status in ["", "20", "2000", "abc", "101", "099"] {
            assert!(section(Kind::Response, &[(":status", status)]).head().is_err(), "{status:?}");
        }
        assert!(section(Kind::Trailers, &[(":status", "200")]).trailers().is_err());
    }

    #[test]
    fn a_section_that_is_too_large_costs_no_more_memory() {
        let mut section = Section::new(Kind::Trailers, 100);
        for _ in 0..10 {
            section.push(b"a", &[b'b'; 40]);
        }
        assert!(section.text.len() < 100);
        assert_eq!(section.trailers(), Err(Fault::TooLarge));
    }
}
