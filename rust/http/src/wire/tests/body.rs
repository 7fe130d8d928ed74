use super::*;

fn decide(method: &str, head_text: &str) -> std::result::Result<BodyFraming, &'static str> {
    let head = head(head_text).unwrap_or_else(|error| panic!("{head_text:?}: {error}"));
    body_of(&head, method).map_err(|error| name(&error))
}

/// The framing of a 200 to GET with these fields.
fn framed(fields: &str) -> std::result::Result<BodyFraming, &'static str> {
    decide("GET", &format!("HTTP/1.1 200 OK\r\n{fields}\r\n"))
}

#[test]
fn the_fields_decide_where_a_body_ends() {
    for (fields, body) in [
        ("", BodyFraming::UntilClose),
        ("Content-Length: 0\r\n", BodyFraming::Length(0)),
        ("content-length:5\r\n", BodyFraming::Length(5)),
        ("Content-Length: \t5\t \r\n", BodyFraming::Length(5)),
        ("Content-Length: 0005\r\n", BodyFraming::Length(5)),
        ("Content-Length: 9223372036854775807\r\n", BodyFraming::Length(u64::MAX / 2)),
        ("Content-Length: 5\r\nContent-Length: 5\r\n", BodyFraming::Length(5)),
        ("Content-Length: 5, 5\r\n", BodyFraming::Length(5)),
        ("Content-Length: 5\t,5 ,5\r\n", BodyFraming::Length(5)),
        ("Transfer-Encoding: chunked\r\n", BodyFraming::Chunked),
        ("transfer-encoding:CHUNKED \r\n", BodyFraming::Chunked),
    ] {
        assert_eq!(framed(fields), Ok(body), "{fields:?}");
    }
}

#[test]
fn lengths_that_are_refused() {
    for value in [
        "",
        "+5",
        "-5",
        "5 5",
        "5\t5",
        "0x5",
        "5.0",
        "5e0",
        "5_0",
        "5;",
        "\"5\"",
        "5,",
        ",5",
        ",",
        "5,,5",
        "a",
        "\u{665}",
        "\u{a0}5",
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "99999999999999999999999",
    ] {
        assert_eq!(framed(&format!("Content-Length: {value}\r\n")), Err("BAD_LENGTH"), "{value:?}");
    }
    for fields in [
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5, 6\r\n",
        "Content-Length: 5\r\nContent-Length: 05\r\n",
        "Content-Length: 5, 5\r\nA: b\r\nCONTENT-LENGTH: 5, 4\r\n",
    ] {
        assert_eq!(framed(fields), Err("CONFLICTING_LENGTH"), "{fields:?}");
    }
}

#[test]
fn codings_that_are_refused() {
    for value in [
        "",
        "identity",
        "gzip",
        "gzip, chunked",
        "chunked, gzip",
        "chunked, chunked",
        "chunked,",
        ",chunked",
        "chunked, identity",
        "xchunked",
        "chunkedx",
        "chunk",
        "chunked;q=1",
        "\"chunked\"",
        "chun ked",
        "\u{a0}chunked",
    ] {
        let fields = format!("Transfer-Encoding: {value}\r\n");
        assert_eq!(framed(&fields), Err("BAD_TRANSFER_ENCODING"), "{value:?}");
    }
    let twice = "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n";
    assert_eq!(framed(twice), Err("BAD_TRANSFER_ENCODING"));
    let old = "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(decide("GET", old), Err("BAD_TRANSFER_ENCODING"));
    for control in ['\u{b}', '\u{c}', '\u{1}'] {
        let text = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: {control}chunked\r\n\r\n");
        assert_eq!(name(&head(text).unwrap_err()), "BAD_HEAD");
    }
}

#[test]
fn a_length_and_a_coding_together_are_refused() {
    for fields in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n",
    ] {
        for (method, status) in [("GET", 200), ("HEAD", 200), ("GET", 304), ("GET", 204)] {
            let text = format!("HTTP/1.1 {status} x\r\n{fields}\r\n");
            assert_eq!(decide(method, &text), Err("LENGTH_AND_CHUNKED"), "{method} {text:?}");
        }
    }
}

#[test]
fn some_responses_have_no_body_whatever_their_fields_say() {
    for fields in ["", "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"] {
        for (method, status) in
            [("HEAD", 200), ("HEAD", 404), ("GET", 204), ("GET", 304), ("GET", 100), ("GET", 103)]
        {
            let text = format!("HTTP/1.1 {status} x\r\n{fields}\r\n");
            assert_eq!(decide(method, &text), Ok(BodyFraming::Empty), "{method} {text:?}");
        }
    }
    assert_eq!(
        decide("head", "HTTP/1.1 200 OK\r\n\r\n"),
        Ok(BodyFraming::UntilClose),
        "methods are case-sensitive"
    );
    assert_eq!(decide("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"), Err("BAD_LENGTH"));
    assert_eq!(decide("GET", "HTTP/1.1 101 x\r\nUpgrade: websocket\r\n\r\n"), Err("UNEXPECTED_UPGRADE"));
}

#[test]
fn a_connection_is_kept_by_the_rules_of_its_version() {
    for (text, kept) in [
        ("HTTP/1.1 200 OK\r\n\r\n", true),
        ("HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n\r\n", true),
        ("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", false),
        ("HTTP/1.1 200 OK\r\nConnection: CLOSE\r\n\r\n", false),
        ("HTTP/1.1 200 OK\r\nConnection: x, , close , y\r\n\r\n", false),
        ("HTTP/1.1 200 OK\r\nConnection: x\r\nconnection: close\r\n\r\n", false),
        ("HTTP/1.1 200 OK\r\nConnection: keep-alive, close\r\n\r\n", false),
        ("HTTP/1.1 200 OK\r\nConnection: closed\r\n\r\n", true),
        ("HTTP/1.0 200 OK\r\n\r\n", false),
        ("HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n\r\n", true),
        ("HTTP/1.0 200 OK\r\nConnection: keep-alive, close\r\n\r\n", false),
        ("HTTP/1.1 204 x\r\nContent-Length: 0\r\n\r\n", true),
        ("HTTP/1.1 204 x\r\nContent-Length: 5\r\n\r\n", false),
        ("HTTP/1.1 204 x\r\nTransfer-Encoding: chunked\r\n\r\n", false),
        ("HTTP/1.1 304 x\r\nContent-Length: 5\r\n\r\n", true),
    ] {
        assert_eq!(keeps_alive(&head(text).unwrap()), kept, "{text:?}");
    }
}

fn feed(body: BodyFraming, pieces: &[&str]) -> (String, End) {
    let decoded = decode(body, pieces.iter().map(|piece| piece.as_bytes()));
    (String::from_utf8(decoded.payload).unwrap(), decoded.end)
}

#[test]
fn a_body_ends_where_its_length_says() {
    for (length, pieces, payload, end) in [
        (5, ["hel", "lo"].as_slice(), "hello", End::Done),
        (5, &["hel", "", "l"], "hell", End::Open),
        (5, &[], "", End::Open),
        (0, &[], "", End::Done),
        (0, &[""], "", End::Done),
        (0, &["x"], "", End::Fault("EXCESS_BYTES")),
        (5, &["hello!"], "hello", End::Fault("EXCESS_BYTES")),
        (5, &["hel", "lo", "!"], "hello", End::Fault("EXCESS_BYTES")),
        (u64::MAX, &["hello"], "hello", End::Open),
    ] {
        assert_eq!(
            feed(BodyFraming::Length(length), pieces),
            (payload.to_owned(), end),
            "{length} {pieces:?}"
        );
    }
    assert_eq!(feed(BodyFraming::Empty, &[]), (String::new(), End::Done));
    assert_eq!(feed(BodyFraming::Empty, &["x"]), (String::new(), End::Fault("EXCESS_BYTES")));
    assert_eq!(feed(BodyFraming::UntilClose, &["hel", "lo"]), ("hello".to_owned(), End::Done));
}

#[test]
fn a_decoder_knows_what_is_still_to_come_and_whether_it_is_done() {
    let mut decoder = Decoder::new(BodyFraming::Length(5), BODY_LIMITS);
    assert_eq!((decoder.remaining(), decoder.is_done()), (Some(5), false));
    decoder.decode(slice(b"hel"), &mut |_| {}).unwrap();
    assert_eq!((decoder.remaining(), decoder.is_done()), (Some(2), false));
    let error = decoder.at_eof().unwrap_err();
    assert_eq!(error.detail(), "the connection ended with 2 of 5 bytes missing");
    decoder.decode(slice(b"lo"), &mut |_| {}).unwrap();
    assert_eq!((decoder.remaining(), decoder.is_done()), (Some(0), true));
    assert_eq!(Decoder::new(BodyFraming::Empty, BODY_LIMITS).remaining(), Some(0));
    assert_eq!(Decoder::new(BodyFraming::Chunked, BODY_LIMITS).remaining(), None);
    let open = Decoder::new(BodyFraming::UntilClose, BODY_LIMITS);
    assert_eq!((open.remaining(), open.is_done()), (None, false));
}

#[test]
fn an_error_is_final() {
    let mut decoder = Decoder::new(BodyFraming::Chunked, BODY_LIMITS);
    let mut payload = Vec::new();
    let mut decode =
        |bytes: &[u8]| decoder.decode(slice(bytes), &mut |part| payload.extend_from_slice(&part));
    assert_eq!(name(&decode(b"1\r\nab").unwrap_err()), "BAD_CHUNK");
    assert_eq!(name(&decode(b"").unwrap_err()), "BAD_CHUNK");
    assert_eq!(name(&decode(b"\r\n0\r\n\r\n").unwrap_err()), "BAD_CHUNK");
    assert_eq!(payload, b"a");
    assert!(!decoder.is_done());
}

#[test]
fn a_client_of_http_1_0_is_sent_no_chunks() {
    use BodyFraming::{Chunked, Empty, Length, Tunnel, UntilClose};
    for (received, to_1_1, to_1_0) in [
        (Empty, Empty, Empty),
        (Length(5), Length(5), Length(5)),
        (Chunked, Chunked, UntilClose),
        (UntilClose, Chunked, UntilClose),
        (Tunnel, Tunnel, Tunnel),
    ] {
        assert_eq!((received.sent_to(1), received.sent_to(0)), (to_1_1, to_1_0), "{received:?}");
    }
}
