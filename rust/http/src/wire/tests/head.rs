use super::*;

fn refused(head_bytes: impl AsRef<[u8]>) -> &'static str {
    let bytes = head_bytes.as_ref();
    match head(bytes) {
        Ok(head) => panic!("{} was taken for {head:?}", bytes.escape_ascii()),
        Err(error) => name(&error),
    }
}

#[test]
fn a_head_is_taken_apart() {
    let head = head(
        "HTTP/1.1 206 Partial Content\r\nA: b\r\nset-cookie:x\r\nSet-Cookie: \t y z \t\r\nEmpty:\r\n\r\n",
    );
    let head = head.unwrap();
    assert_eq!((head.status, head.minor_version, head.reason()), (206, 1, b"Partial Content".as_slice()));
    let fields: Vec<_> = head.headers().collect();
    let expected: [(&[u8], &[u8]); 4] =
        [(b"A", b"b"), (b"set-cookie", b"x"), (b"Set-Cookie", b"y z"), (b"Empty", b"")];
    assert_eq!(fields, expected);
    assert_eq!(head.headers().len(), 4);
    assert_eq!(head.get("SET-COOKIE"), Some(b"x".as_slice()));
    assert_eq!(head.get_all("Set-cookie").collect::<Vec<_>>(), [b"x".as_slice(), b"y z"]);
    assert_eq!(head.get("Absent"), None);
}

#[test]
fn status_lines_that_are_allowed() {
    for (line, status, minor, reason) in [
        ("HTTP/1.0 200 OK", 200, 0, "OK"),
        ("HTTP/1.1 204 ", 204, 1, ""),
        ("HTTP/1.1 200", 200, 1, ""),
        ("HTTP/1.1 100 Continue", 100, 1, "Continue"),
        ("HTTP/1.1 999 a\tb  c ", 999, 1, "a\tb  c "),
        ("HTTP/1.1 404 Où ça", 404, 1, "Où ça"),
    ] {
        let head = head(format!("{line}\r\n\r\n")).unwrap();
        assert_eq!((head.status, head.minor_version, head.reason()), (status, minor, reason.as_bytes()));
    }
}

#[test]
fn status_lines_that_are_not_http_1() {
    for line in [
        "HTTP/1.2 200 OK",
        "HTTP/1.11 200 OK",
        "HTTP/1. 200 OK",
        "HTTP/2.0 200 OK",
        "HTTP/2 200",
        "HTTP/0.9 200 OK",
        "HTTP/01.1 200 OK",
        "http/1.1 200 OK",
        "HTTP 1.1 200 OK",
        " HTTP/1.1 200 OK",
        "ICY 200 OK",
        "RTSP/1.0 200 OK",
        "SSH-2.0-x",
        "\u{16}\u{3}\u{1}",
        "HTTP/1.1",
        "HTTP/1.1 ",
        "HTTP/1.1\t200 OK",
        "HTTP/1.1  200 OK",
        "HTTP/1.1200 OK",
        "HTTP/1.1 20 OK",
        "HTTP/1.1 2000 OK",
        "HTTP/1.1 099 OK",
        "HTTP/1.1 000 OK",
        "HTTP/1.1 -20 OK",
        "HTTP/1.1 +20 OK",
        "HTTP/1.1 2x0 OK",
        "HTTP/1.1 20\u{663} OK",
        "HTTP/1.1 200OK",
        "HTTP/1.1 200\tOK",
        "HTTP/1.1 200 O\u{7}K",
        "HTTP/1.1 200 O\u{7f}K",
        "HTTP/1.1 200 O\0K",
        "",
    ] {
        assert_eq!(refused(format!("{line}\r\n\r\n")), "BAD_HEAD", "{line:?}");
    }
}

#[test]
fn another_protocol_is_refused_at_its_first_byte() {
    for (bytes, seen) in [("S", 1), ("HTTP/2", 6), ("\r\n", 1), ("\n", 1)] {
        let mut scanner = HeadScanner::new(&HEAD_LIMITS);
        for end in 0..seen {
            assert_eq!(scanner.scan(&bytes.as_bytes()[..end]).unwrap(), None);
        }
        assert_eq!(name(&scanner.scan(&bytes.as_bytes()[..seen]).unwrap_err()), "BAD_HEAD");
    }
}

#[test]
fn fields_that_are_refused() {
    for (code, lines) in [
        ("BARE_LINE_FEED", "A: b\n"),
        ("BARE_LINE_FEED", "A: b\nC: d\r\n"),
        ("BARE_LINE_FEED", "A: b\r"),
        ("BARE_LINE_FEED", "A: b\rC: d\r\n"),
        ("BARE_LINE_FEED", "A: b\r\r\n"),
        ("BARE_LINE_FEED", "A: b\r\n\n"),
        ("BARE_LINE_FEED", "A: b\r\0\r\n"),
        ("FOLDED_HEADER", "A: b\r\n c\r\n"),
        ("FOLDED_HEADER", "A: b\r\n\tc\r\n"),
        ("FOLDED_HEADER", "A: b\r\n \r\n"),
        ("FOLDED_HEADER", " A: b\r\n"),
        ("BAD_HEAD", "A : b\r\n"),
        ("BAD_HEAD", "A\t: b\r\n"),
        ("BAD_HEAD", "A B: c\r\n"),
        ("BAD_HEAD", ": b\r\n"),
        ("BAD_HEAD", "A\r\n"),
        ("BAD_HEAD", "Ä: b\r\n"),
        ("BAD_HEAD", "A(x): b\r\n"),
        ("BAD_HEAD", "A\"x: b\r\n"),
        ("BAD_HEAD", "A\u{b}: b\r\n"),
        ("BAD_HEAD", "A: b\0c\r\n"),
        ("BAD_HEAD", "A: b\u{b}c\r\n"),
        ("BAD_HEAD", "A: b\u{1b}c\r\n"),
        ("BAD_HEAD", "A: b\u{7f}\r\n"),
        ("BAD_HEAD", "A: b\r\nHTTP/1.1 200 OK\r\n"),
    ] {
        assert_eq!(refused(format!("HTTP/1.1 200 OK\r\nFirst: 1\r\n{lines}\r\n")), code, "{lines:?}");
    }
    assert_eq!(
        refused("HTTP/1.1 200 OK\r\n A: b\r\n\r\n"),
        "FOLDED_HEADER",
        "whitespace before the first field"
    );
    assert_eq!(refused("HTTP/1.1 200 OK\nA: b\n\n"), "BARE_LINE_FEED");
}

#[test]
fn values_may_hold_obs_text_and_tabs() {
    let head = head(b"HTTP/1.1 200 OK\r\nA: caf\xe9\tx\r\nB:\xff\r\n\r\n").unwrap();
    assert_eq!(head.get("a"), Some(b"caf\xe9\tx".as_slice()));
    assert_eq!(head.get("b"), Some(b"\xff".as_slice()));
}

#[test]
fn every_token_byte_is_allowed_in_a_name_and_no_other() {
    for byte in (0..=u8::MAX).filter(|byte| !b"\r\n\0:".contains(byte)) {
        let mut bytes = b"HTTP/1.1 200 OK\r\nx".to_vec();
        bytes.push(byte);
        bytes.extend_from_slice(b": y\r\n\r\n");
        let allowed = byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        assert_eq!(head(&bytes).is_ok(), allowed, "byte {byte:#x}");
    }
}

#[test]
fn a_head_may_be_as_large_as_its_limit_and_not_a_byte_larger() {
    let build = |size: usize| {
        let frame = "HTTP/1.1 200 OK\r\nA: \r\n\r\n".len();
        format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "x".repeat(size - frame))
    };
    let largest = build(HEAD_LIMITS.head_bytes);
    assert_eq!(
        HeadScanner::new(&HEAD_LIMITS).scan(largest.as_bytes()).unwrap(),
        Some(HEAD_LIMITS.head_bytes)
    );
    assert_eq!(parse_head(largest.as_bytes(), &HEAD_LIMITS).unwrap().headers().len(), 1);
    assert_eq!(refused(build(HEAD_LIMITS.head_bytes + 1)), "HEAD_TOO_LARGE");
}

#[test]
fn an_endless_head_is_refused_at_its_limit() {
    for endless in ["HTTP/1.1 200 ", "HTTP/1.1 200 OK\r\nA: ", "HTTP/1.1 200 OK\r\nA"] {
        let mut scanner = HeadScanner::new(&HEAD_LIMITS);
        let mut bytes = endless.to_owned();
        while bytes.len() < HEAD_LIMITS.head_bytes {
            assert_eq!(scanner.scan(bytes.as_bytes()).unwrap(), None);
            bytes.push('x');
        }
        assert_eq!(name(&scanner.scan(bytes.as_bytes()).unwrap_err()), "HEAD_TOO_LARGE");
    }
}

#[test]
fn no_byte_beyond_the_limit_decides() {
    let limits = HeadLimits { head_bytes: 3, ..HEAD_LIMITS };
    for bytes in ["HTT", "HTTX", "HTTP/1.1 200 OK\r\n\r\n"] {
        assert_eq!(name(&HeadScanner::new(&limits).scan(bytes.as_bytes()).unwrap_err()), "HEAD_TOO_LARGE");
    }
    assert_eq!(name(&HeadScanner::new(&limits).scan(b"HTX").unwrap_err()), "BAD_HEAD");
}

#[test]
fn the_number_of_fields_is_limited() {
    let build = |count: usize| format!("HTTP/1.1 200 OK\r\n{}\r\n", "a:\r\n".repeat(count));
    assert_eq!(head(build(HEAD_LIMITS.head_fields)).unwrap().headers().len(), HEAD_LIMITS.head_fields);
    assert_eq!(refused(build(HEAD_LIMITS.head_fields + 1)), "HEAD_TOO_LARGE");
    assert_eq!(head(build(0)).unwrap().headers().len(), 0);
}

#[test]
fn the_scanner_looks_at_no_byte_twice() {
    let bytes = b"HTTP/1.1 200 OK\r\nSome: thing\r\nOther: thing\r\n\r\nbody";
    let mut scanner = HeadScanner::new(&HEAD_LIMITS);
    let mut found = None;
    for end in 1..=bytes.len() {
        let mut buffer = bytes[..end].to_vec();
        if end > 10 {
            // Bytes that were read before would now be an error; the last byte may be a CR that waits for its
            // LF.
            buffer[8..end - 2].fill(0);
        }
        found = scanner.scan(&buffer).unwrap();
        if found.is_some() {
            break;
        }
    }
    assert_eq!(found, Some(bytes.len() - "body".len()));
}

#[test]
fn parsing_takes_one_whole_head() {
    for bytes in ["HTTP/1.1 200 OK\r\nA: b\r\n", "HTTP/1.1 200 OK\r\n\r\nbody", ""] {
        assert_eq!(name(&parse_head(bytes.as_bytes(), &HEAD_LIMITS).unwrap_err()), "BAD_HEAD");
    }
}

#[test]
fn errors_show_little_of_what_was_sent_and_logs_no_values() {
    let error = head(format!("HTTP/1.1 200 OK\r\n{}\x1b: b\r\n\r\n", "x".repeat(1000))).unwrap_err();
    assert!(error.detail().len() < 150, "{}", error.detail());
    let error = head("HTTP/1.1 200 OK\r\nA\x1b[0m: b\r\n\r\n").unwrap_err();
    assert_eq!(error.detail(), r#"the field name "A\x1b[0m" in the response head"#);
    let head = head("HTTP/1.1 200 OK\r\nSet-Cookie: secret\r\n\r\n").unwrap();
    let shown = format!("{head:?}");
    assert!(shown.contains("Set-Cookie") && !shown.contains("secret"), "{shown}");
}

#[test]
fn a_scanner_parses_only_the_head_that_it_has_found() {
    let head = b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n";
    let mut scanner = HeadScanner::new(&HEAD_LIMITS);
    assert_eq!(name(&scanner.parse(head).unwrap_err()), "BAD_HEAD", "it has found none");
    assert_eq!(scanner.scan(&head[..20]).unwrap(), None);
    assert_eq!(name(&scanner.parse(&head[..20]).unwrap_err()), "BAD_HEAD", "it is not whole");
    assert_eq!(scanner.scan(head).unwrap(), Some(head.len()));
    assert_eq!(name(&scanner.parse(&head[..head.len() - 1]).unwrap_err()), "BAD_HEAD", "a byte is missing");
    assert_eq!(scanner.parse(head).unwrap(), parse_head(head, &HEAD_LIMITS).unwrap());
}
