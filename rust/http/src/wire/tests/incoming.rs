use proptest::prelude::*;

use super::*;

const LIMITS: IncomingLimits = IncomingLimits { line_bytes: 64, head_bytes: 512, head_fields: 8 };

fn parse(bytes: impl AsRef<[u8]>) -> Result<Incoming> {
    let bytes = bytes.as_ref();
    let range = IncomingScanner::new(&LIMITS).scan(bytes)?.expect("a whole head");
    parse_incoming(&bytes[range], &LIMITS)
}

fn code(bytes: impl AsRef<[u8]>) -> &'static str {
    let bytes = bytes.as_ref();
    match parse(bytes) {
        Ok(head) => panic!("{} was taken for {head:?}", bytes.escape_ascii()),
        Err(error) => name(&error),
    }
}

/// A request of one line, with a Host.
fn line(line: &str) -> String {
    format!("{line}\r\nHost: a\r\n\r\n")
}

/// A request with those fields besides a Host.
fn with(fields: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

#[test]
fn a_head_is_taken_apart() {
    let head = parse("PATCH /a%20b?c=/d HTTP/1.1\r\nHost: a.test:81\r\nX-A:\t b c \r\nx-a:\r\n\r\n").unwrap();
    assert_eq!((head.method(), head.target(), head.path()), ("PATCH", "/a%20b?c=/d", "/a%20b?c=/d"));
    assert_eq!((head.authority(), head.minor_version), ("a.test:81", 1));
    let fields: Vec<_> = head.headers().collect();
    let expected: [(&[u8], &[u8]); 3] = [(b"Host", b"a.test:81"), (b"X-A", b"b c"), (b"x-a", b"")];
    assert_eq!(fields, expected);
}

#[test]
fn forms_of_a_target() {
    for (request, authority, path) in [
        ("GET http://b.test:8080/p?q HTTP/1.1", "b.test:8080", "/p?q"),
        ("GET HTTPS://b.test HTTP/1.1", "b.test", ""),
        ("GET http://b.test?q HTTP/1.1", "b.test", "?q"),
        ("GET http://[2001:db8::1]:8/ HTTP/1.1", "[2001:db8::1]:8", "/"),
        ("OPTIONS * HTTP/1.1", "a", "*"),
        ("GET //b.test/p HTTP/1.1", "a", "//b.test/p"),
        ("GET /p|^[]\\?{}`|^[]\\%zz HTTP/1.1", "a", "/p|^[]\\?{}`|^[]\\%zz"),
    ] {
        let head = parse(line(request)).unwrap();
        assert_eq!((head.authority(), head.path()), (authority, path), "{request}");
    }
}

#[test]
fn an_empty_line_before_a_request_is_not_its_beginning() {
    let mut scanner = IncomingScanner::new(&LIMITS);
    for (bytes, begun) in [("", false), ("\r", false), ("\r\n", false), ("\r\nG", true)] {
        assert_eq!(scanner.scan(bytes.as_bytes()).unwrap(), None);
        assert_eq!(scanner.has_begun(), begun, "{bytes:?}");
    }
}

#[test]
fn the_target_that_is_sent_on() {
    for (request, origin_form) in [
        ("GET /p?q HTTP/1.1", "/p?q"),
        ("GET http://b.test/p?q HTTP/1.1", "/p?q"),
        ("GET http://b.test HTTP/1.1", "/"),
        ("GET http://b.test?q=/ HTTP/1.1", "/?q=/"),
        ("OPTIONS http://b.test HTTP/1.1", "*"),
        ("OPTIONS http://b.test?q HTTP/1.1", "/?q"),
        ("OPTIONS http://b.test/ HTTP/1.1", "/"),
        ("OPTIONS * HTTP/1.1", "*"),
    ] {
        assert_eq!(parse(line(request)).unwrap().origin_form(), origin_form, "{request}");
    }
}

#[test]
fn request_lines_that_are_refused() {
    for request in [
        "GET / HTTP/1.1 ",
        " GET / HTTP/1.1",
        "GET  / HTTP/1.1",
        "GET /  HTTP/1.1",
        "GET\t/ HTTP/1.1",
        "GET /\tHTTP/1.1",
        "GET / HTTP/1.1\t",
        "GET /",
        "GET",
        "GET / http/1.1",
        "GET / HTTP/1",
        "GET / HTTP/1.1.1",
        "GET / HTTP/11.1",
        "GET / HTTP 1.1",
        "GET / ICY/1.1",
        "G\u{e9}T / HTTP/1.1",
        "G(T / HTTP/1.1",
        "GET /\u{e9} HTTP/1.1",
        "GET /a b HTTP/1.1",
        "GET /#a HTTP/1.1",
        "GET /\u{7f} HTTP/1.1",
        "GET a HTTP/1.1",
        "GET * HTTP/1.1",
        "GET ftp://a/ HTTP/1.1",
        "GET http:///p HTTP/1.1",
        "GET http://u@a/ HTTP/1.1",
        "GET http://a:b/ HTTP/1.1",
        "GET http://a\\b/ HTTP/1.1",
        "GET a:80 HTTP/1.1",
    ] {
        assert_eq!(code(line(request)), "BAD_REQUEST_HEAD", "{request}");
    }
    for version in ["0.9", "1.2", "2.0", "9.9"] {
        assert_eq!(code(line(&format!("GET / HTTP/{version}"))), "UNSUPPORTED_VERSION");
    }
    assert_eq!(code(line("CONNECT a:80 HTTP/1.1")), "UNSUPPORTED_METHOD");
}

#[test]
fn there_is_one_host() {
    for fields in ["", "X: a\r\n", "Host: a\r\nHost: a\r\n", "Host: a, b\r\n", "Host:\r\n", "Host: a b\r\n"] {
        assert_eq!(code(format!("GET / HTTP/1.1\r\n{fields}\r\n")), "BAD_HOST", "{fields}");
    }
    for host in [
        "a/b", "u@a", "a:", "[::1", "[]", "[]:80", ":80", "a:123456", "a:65536", "a:8o", "a%", "a%2", "a%2g",
        "\u{e9}",
    ] {
        let accepted = parse(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")).is_ok();
        assert_eq!(accepted, host == "a:", "{host}: an empty port is a port (RFC 3986, section 3.2.3)");
    }
    for host in ["a:65535", "a%2Fb", "[::1]:1", "a_b", "1.2.3.4:080"] {
        assert!(parse(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")).is_ok(), "{host}");
    }
    // A Host that contradicts the target is ignored, but an invalid one is refused.
    assert_eq!(parse("GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n").unwrap().authority(), "b");
    assert_eq!(code("GET http://b/ HTTP/1.1\r\n\r\n"), "BAD_HOST");
    assert_eq!(code("GET http://b/ HTTP/1.1\r\nHost: a b\r\n\r\n"), "BAD_HOST");
    assert_eq!(parse("GET / HTTP/1.0\r\n\r\n").unwrap().authority(), "");
    assert_eq!(code("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n"), "BAD_HOST");
}

#[test]
fn fields_that_are_refused() {
    for fields in [
        "A : b\r\n",
        " A: b\r\n",
        "A: b\r\n c\r\n",
        "A: b\r\n\tc: d\r\n",
        "A\r\n",
        ": b\r\n",
        "A: b\n",
        "A: b\rC: d\r\n",
        "A: \0\r\n",
        "A: \u{b}\r\n",
        "A\u{e9}: b\r\n",
        "A(: b\r\n",
    ] {
        assert_eq!(code(with(fields)), "BAD_REQUEST_HEAD", "{fields:?}");
    }
}

#[test]
fn one_empty_line_may_come_first() {
    assert_eq!(parse(format!("\r\n{}", line("GET / HTTP/1.1"))).unwrap().method(), "GET");
    assert_eq!(code(format!("\r\n\r\n{}", line("GET / HTTP/1.1"))), "BAD_REQUEST_HEAD");
    assert_eq!(code(format!("\n{}", line("GET / HTTP/1.1"))), "BAD_REQUEST_HEAD");
}

#[test]
fn what_is_too_long_says_what() {
    let target = |length: usize| line(&format!("GET /{} HTTP/1.1", "a".repeat(length)));
    let room = LIMITS.line_bytes - "GET / HTTP/1.1".len();
    assert!(parse(target(room)).is_ok());
    assert_eq!(code(target(room + 1)), "TARGET_TOO_LONG");
    assert_eq!(code(target(4096)), "TARGET_TOO_LONG");
    assert_eq!(code("a".repeat(LIMITS.line_bytes + 2)), "TARGET_TOO_LONG");
    assert!(parse(with(&"A: b\r\n".repeat(LIMITS.head_fields - 1))).is_ok());
    assert_eq!(code(with(&"A: b\r\n".repeat(LIMITS.head_fields))), "REQUEST_HEAD_TOO_LARGE");
    assert_eq!(code(with(&format!("A: {}\r\n", "b".repeat(LIMITS.head_bytes)))), "REQUEST_HEAD_TOO_LARGE");
}

#[test]
fn how_a_body_ends() {
    let body = |fields: &str| parse(with(fields)).unwrap().body();
    for (fields, expected) in [
        ("", BodyFraming::Empty),
        ("Content-Length: 0\r\n", BodyFraming::Length(0)),
        ("Content-Length: 5\r\nContent-Length: 5\r\n", BodyFraming::Length(5)),
        ("content-length: 5, 5\r\n", BodyFraming::Length(5)),
        ("Transfer-Encoding: Chunked\r\n", BodyFraming::Chunked),
    ] {
        assert_eq!(body(fields).unwrap(), expected, "{fields}");
    }
    for (fields, expected) in [
        ("Content-Length: 5\r\nContent-Length: 6\r\n", "BAD_REQUEST_FRAMING"),
        ("Content-Length: 5, 6\r\n", "BAD_REQUEST_FRAMING"),
        ("Content-Length: +5\r\n", "BAD_REQUEST_FRAMING"),
        ("Content-Length: 0x5\r\n", "BAD_REQUEST_FRAMING"),
        ("Content-Length: 5 5\r\n", "BAD_REQUEST_FRAMING"),
        ("Content-Length:\r\n", "BAD_REQUEST_FRAMING"),
        ("Content-Length: 99999999999999999999\r\n", "BAD_REQUEST_FRAMING"),
        ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "BAD_REQUEST_FRAMING"),
        ("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "BAD_REQUEST_FRAMING"),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "BAD_REQUEST_FRAMING"),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "BAD_REQUEST_FRAMING"),
        ("Transfer-Encoding: gzip\r\n", "BAD_REQUEST_FRAMING"),
        ("Transfer-Encoding: chunked, gzip\r\n", "BAD_REQUEST_FRAMING"),
        ("Transfer-Encoding: xchunked\r\n", "BAD_REQUEST_FRAMING"),
        ("Transfer-Encoding: \"chunked\"\r\n", "BAD_REQUEST_FRAMING"),
        ("Transfer-Encoding:\r\n", "BAD_REQUEST_FRAMING"),
        ("Transfer-Encoding: gzip, chunked\r\n", "UNSUPPORTED_CODING"),
        ("Transfer-Encoding: gzip, deflate,chunked\r\n", "UNSUPPORTED_CODING"),
        ("Transfer-Encoding: chunked, chunked\r\n", "BAD_REQUEST_FRAMING"),
        ("Transfer-Encoding: chunked, gzip, chunked\r\n", "BAD_REQUEST_FRAMING"),
        ("Transfer-Encoding: , chunked\r\n", "BAD_REQUEST_FRAMING"),
        ("Transfer-Encoding: chunked, \r\n", "BAD_REQUEST_FRAMING"),
    ] {
        assert_eq!(name(&body(fields).unwrap_err()), expected, "{fields}");
    }
    let old = parse("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    assert_eq!(name(&old.body().unwrap_err()), "BAD_REQUEST_FRAMING");
}

#[test]
fn whether_the_connection_goes_on() {
    for (version, connection, expected) in [
        ("1.1", "", true),
        ("1.1", "Connection: x, Close\r\n", false),
        ("1.1", "Connection: x\r\nConnection: close\r\n", false),
        ("1.0", "", false),
        ("1.0", "Connection: Keep-Alive\r\n", true),
        ("1.0", "Connection: keep-alive, close\r\n", false),
    ] {
        let head = parse(format!("GET / HTTP/{version}\r\nHost: a\r\n{connection}\r\n")).unwrap();
        assert_eq!(head.keeps_alive(), expected, "{version} {connection}");
    }
}

#[test]
fn only_100_continue_can_be_expected() {
    let expects = |fields: &str| parse(with(fields)).unwrap().expects_continue();
    assert!(!expects("").unwrap());
    assert!(expects("Expect: 100-Continue\r\n").unwrap());
    for fields in ["Expect: 200-ok\r\n", "Expect: 100-continue, x\r\n", "Expect:\r\n"] {
        assert_eq!(name(&expects(fields).unwrap_err()), "EXPECTATION_FAILED", "{fields}");
    }
    let old = parse("POST / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n").unwrap();
    assert!(!old.expects_continue().unwrap());
}

#[test]
fn values_are_not_printed() {
    let head = parse(with("Cookie: secret\r\n")).unwrap();
    assert!(!format!("{head:?}").contains("secret"));
}

proptest! {
    #[test]
    fn pieces_make_no_difference(
        parts in prop::collection::vec(prop::sample::select(vec![
            "\r\n", "GET / HTTP/1.1\r\n", "Host: a\r\n", "A: b", "\r", "\n", " ", "\0", "x", "POST /y HTTP/1.0\r\n",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "\r\n\r\n",
        ]), 0..14),
        cuts in prop::collection::vec(1_usize..9, 0..40),
    ) {
        let bytes = parts.concat().into_bytes();
        let whole = IncomingScanner::new(&LIMITS).scan(&bytes).map_err(|error| name(&error));
        let mut scanner = IncomingScanner::new(&LIMITS);
        let mut end = 0;
        let mut found = Ok(None);
        let mut cuts = cuts.into_iter();
        while end < bytes.len() && found == Ok(None) {
            end = (end + cuts.next().unwrap_or(usize::MAX / 2)).min(bytes.len());
            found = scanner.scan(&bytes[..end]).map_err(|error| name(&error));
        }
        prop_assert_eq!(found, whole);
    }
}

#[test]
fn a_scanner_parses_only_the_request_that_it_has_found() {
    let bytes = b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut scanner = IncomingScanner::new(&LIMITS);
    assert_eq!(name(&scanner.parse(&bytes[2..]).unwrap_err()), "BAD_REQUEST_HEAD", "it has found none");
    let range = scanner.scan(bytes).unwrap().expect("a whole head");
    assert_eq!(name(&scanner.parse(bytes).unwrap_err()), "BAD_REQUEST_HEAD", "an empty line is before it");
    assert_eq!(
        scanner.parse(&bytes[range.clone()]).unwrap(),
        parse_incoming(&bytes[range], &LIMITS).unwrap()
    );
}
