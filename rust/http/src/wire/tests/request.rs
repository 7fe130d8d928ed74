use super::*;

type Header<'a> = (&'a [u8], &'a [u8]);

fn encode(
    method: &str,
    target: &str,
    headers: &[Header<'_>],
    upload: BodyFraming,
) -> std::result::Result<String, Error> {
    let headers = headers.iter().copied().collect();
    let head = encode_request(method, target, "origin.example:8080", &headers, upload)?;
    Ok(String::from_utf8_lossy(&head).into_owned())
}

fn refused(method: &str, target: &str, headers: &[Header<'_>], upload: BodyFraming) -> Error {
    match encode(method, target, headers, upload) {
        Ok(head) => panic!("encoded {head:?}"),
        Err(error) => {
            assert_eq!(name(&error), "BAD_REQUEST");
            error
        }
    }
}

#[test]
fn a_request_is_written() {
    let head = encode("GET", "/a/b?c=d", &[(b"Accept", b"*/*"), (b"x-a", b"")], BodyFraming::Empty).unwrap();
    assert_eq!(head, "GET /a/b?c=d HTTP/1.1\r\nHost: origin.example:8080\r\nAccept: */*\r\nx-a: \r\n\r\n");
}

#[test]
fn the_body_decides_the_framing() {
    let framing = |method: &str, upload| {
        let head = encode(method, "/", &[], upload).unwrap();
        head.strip_prefix(&format!("{method} / HTTP/1.1\r\nHost: origin.example:8080\r\n"))
            .unwrap()
            .to_owned()
    };
    assert_eq!(framing("GET", BodyFraming::Empty), "\r\n");
    assert_eq!(framing("DELETE", BodyFraming::Empty), "\r\n");
    assert_eq!(framing("POST", BodyFraming::Empty), "Content-Length: 0\r\n\r\n");
    assert_eq!(framing("PUT", BodyFraming::Empty), "Content-Length: 0\r\n\r\n");
    assert_eq!(
        framing("POST", BodyFraming::Length(u64::MAX)),
        format!("Content-Length: {}\r\n\r\n", u64::MAX)
    );
    assert_eq!(framing("GET", BodyFraming::Length(0)), "Content-Length: 0\r\n\r\n");
    assert_eq!(framing("POST", BodyFraming::Chunked), "Transfer-Encoding: chunked\r\n\r\n");
}

#[test]
fn a_length_of_the_caller_must_agree_and_is_sent_once() {
    let head =
        encode("POST", "/", &[(b"content-length", b"5"), (b"Content-Length", b"5")], BodyFraming::Length(5));
    assert_eq!(head.unwrap().to_ascii_lowercase().matches("content-length").count(), 1);
    encode("GET", "/", &[(b"Content-Length", b"0")], BodyFraming::Empty).unwrap();
    for (value, upload) in [
        (b"6".as_slice(), BodyFraming::Length(5)),
        (b"05", BodyFraming::Length(5)),
        (b"5, 5", BodyFraming::Length(5)),
        (b" 5", BodyFraming::Length(5)),
        (b"+5", BodyFraming::Length(5)),
        (b"", BodyFraming::Length(0)),
        (b"5", BodyFraming::Empty),
        (b"5", BodyFraming::Chunked),
    ] {
        refused("POST", "/", &[(b"Content-Length", value)], upload);
    }
}

#[test]
fn a_host_of_the_caller_wins() {
    let head = encode("GET", "/", &[(b"A", b"b"), (b"hOsT", b"other.example")], BodyFraming::Empty).unwrap();
    assert_eq!(head, "GET / HTTP/1.1\r\nHost: other.example\r\nA: b\r\n\r\n");
    refused("GET", "/", &[(b"Host", b"a"), (b"host", b"a")], BodyFraming::Empty);
}

#[test]
fn hosts_are_names_or_addresses_with_an_optional_port() {
    for host in
        ["a", "a.b-c_d", "127.0.0.1:80", "[::1]", "[::ffff:1.2.3.4]:8080", "xn--caf-dma.example:", "a%20b"]
    {
        encode_request("GET", "/", host, &Fields::default(), BodyFraming::Empty).unwrap();
    }
    for host in [
        "",
        ":80",
        "a b",
        " a",
        "a ",
        "a/b",
        "a?b",
        "a#b",
        "u@a",
        "a:b",
        "a:80:80",
        "a:123456",
        "a\r\nX: y",
        "a\0",
        "café",
        "[::1",
        "::1",
        "[]",
        "[::1]x",
        "[a]b]",
        "[g::1]",
        "a, b",
        "a\\b",
    ] {
        let error = encode_request("GET", "/", host, &Fields::default(), BodyFraming::Empty).unwrap_err();
        assert_eq!(name(&error), "BAD_REQUEST", "{host:?}");
        refused("GET", "/", &[(b"Host", host.as_bytes())], BodyFraming::Empty);
    }
}

#[test]
fn methods_are_tokens() {
    for method in ["GET", "PROPFIND", "M-SEARCH", "get", "x!#$%&'*+-.^_`|~1"] {
        encode(method, "/", &[], BodyFraming::Empty).unwrap();
    }
    for method in ["", "GE T", "GET\r\n", "GET\t", "GÉT", "G:T", "G/T", "GET\0", "CONNECT"] {
        refused(method, "/", &[], BodyFraming::Empty);
    }
}

#[test]
fn targets_have_no_byte_that_could_end_them() {
    for (method, target) in [
        ("GET", "/"),
        ("GET", "//a"),
        ("GET", "/a|b{c}\"<>^`\\?x=[1]&y=%0d%0a"),
        ("GET", "http://origin.example/a?b"),
        ("GET", "custom+scheme.1://x"),
        ("OPTIONS", "*"),
    ] {
        encode(method, target, &[], BodyFraming::Empty).unwrap();
    }
    for target in [
        "",
        "a",
        "?a",
        "*",
        "origin.example:80",
        "://a",
        "1http://a",
        "http://",
        "ht tp://a",
        "/a b",
        "/a\tb",
        "/a\r\nX: y",
        "/a\n",
        "/a\0",
        "/a\u{7f}",
        "/é",
        "/a#b",
        " /",
    ] {
        refused("GET", target, &[], BodyFraming::Empty);
    }
}

#[test]
fn no_header_can_start_a_line_of_its_own() {
    for value in [b"a\r\nX: y".as_slice(), b"a\n", b"a\r", b"a\0b", b"\x0b", b"\x7f", b"\x1b[0m"] {
        refused("GET", "/", &[(b"A", value)], BodyFraming::Empty);
    }
    for header in [b"".as_slice(), b"A ", b" A", b"A:", b"A\r\nB", b"\xc3\xa9", b"A B", b"A\0", b"A(b)"] {
        refused("GET", "/", &[(header, b"x")], BodyFraming::Empty);
    }
    let headers = [(b"A", b"caf\xe9\tx")].into_iter().collect();
    let head = encode_request("GET", "/", "a", &headers, BodyFraming::Empty).unwrap();
    assert!(head.ends_with(b"\r\nA: caf\xe9\tx\r\n\r\n"));
}

#[test]
fn fields_of_the_connection_are_not_the_callers() {
    for header in [
        "Connection",
        "KEEP-ALIVE",
        "Proxy-Connection",
        "te",
        "Trailer",
        "Transfer-Encoding",
        "Upgrade",
        "HTTP2-Settings",
    ] {
        let error = refused("POST", "/", &[(header.as_bytes(), b"chunked")], BodyFraming::Chunked);
        assert!(error.detail().contains(header), "{error}");
    }
}

#[test]
fn errors_do_not_quote_values() {
    let error = refused("GET", "/", &[(b"Authorization", b"Bearer secret\n")], BodyFraming::Empty);
    assert_eq!(error.detail(), r#"the header "Authorization" has a "\n" in its value"#);
}

#[test]
fn chunks_that_are_written_can_be_read() {
    let mut bytes = Vec::new();
    let mut expected = Vec::new();
    for length in [1, 9, 10, 15, 16, 255, 4096, 65_536] {
        let payload = vec![b'x'; length];
        bytes.extend_from_slice(&encode_chunk_head(length.try_into().unwrap()));
        bytes.extend_from_slice(&payload);
        bytes.extend_from_slice(CHUNK_END);
        expected.extend_from_slice(&payload);
    }
    bytes.extend_from_slice(LAST_CHUNK);
    let decoded = decode(BodyFraming::Chunked, [bytes.as_slice()]);
    assert_eq!((decoded.payload, decoded.end), (expected, End::Done));
    assert_eq!(&*encode_chunk_head(usize::MAX.try_into().unwrap()), b"ffffffffffffffff\r\n");
}

#[test]
fn a_request_cannot_end_with_its_connection() {
    let error = refused("POST", "/", &[], BodyFraming::UntilClose);
    assert!(error.detail().contains("end with its connection"), "{}", error.detail());
}
