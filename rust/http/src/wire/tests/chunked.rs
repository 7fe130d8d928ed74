use super::*;

fn feed(bytes: impl AsRef<[u8]>) -> (String, End) {
    let decoded = decode(BodyFraming::Chunked, [bytes.as_ref()]);
    (String::from_utf8_lossy(&decoded.payload).into_owned(), decoded.end)
}

fn done(bytes: &str) -> String {
    let (payload, end) = feed(bytes);
    assert_eq!(end, End::Done, "{bytes:?}");
    payload
}

fn fault(bytes: &str) -> &'static str {
    match feed(bytes).1 {
        End::Fault(name) => name,
        end => panic!("{bytes:?} is {end:?}"),
    }
}

#[test]
fn bodies_that_are_well_formed() {
    for (bytes, payload) in [
        ("0\r\n\r\n", ""),
        ("5\r\nhello\r\n0\r\n\r\n", "hello"),
        ("5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", "hello world"),
        ("1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\n\r\n", "abc"),
        ("a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n", "01234567890123456789"),
        ("4\r\n\r\n\r\n\r\n0\r\n\r\n", "\r\n\r\n"),
        ("5\r\n0\r\n\r\n\r\n0\r\n\r\n", "0\r\n\r\n"),
        ("0000000000000005\r\nhello\r\n0000000000000000\r\n\r\n", "hello"),
        ("5;a\r\nhello\r\n0;last\r\n\r\n", "hello"),
        ("5;\r\nhello\r\n0\r\n\r\n", "hello"),
        ("5;a=\"b;c\" ;d=\u{e9}\t\r\nhello\r\n0\r\n\r\n", "hello"),
        ("5;a=\"\\\"\\\\\";b=\"\"\r\nhello\r\n0\r\n\r\n", "hello"),
    ] {
        assert_eq!(done(bytes), payload);
    }
}

#[test]
fn sizes_that_are_refused() {
    for size in [
        "",
        " ",
        " 5",
        "\t5",
        "5 ",
        "5\t",
        "5 ;a",
        "+5",
        "-5",
        "0x5",
        "5h",
        "5_0",
        "5.",
        "5,5",
        "\"5\"",
        ";a",
        "g",
        "\u{b}5",
        "5\u{b}",
        "5\0",
        "\u{665}",
        "\u{feff}5",
        "00000000000000005",
        "10000000000000005",
        "fffffffffffffffff",
        "5\u{1}",
    ] {
        assert_eq!(fault(&format!("{size}\r\nhello\r\n0\r\n\r\n")), "BAD_CHUNK", "{size:?}");
    }
    assert_eq!(feed("ffffffffffffffff\r\nhello").1, End::Open, "the largest size is a size");
}

#[test]
fn lines_of_sizes_end_in_crlf() {
    for line in ["5\n", "5\r", "5;a\n", "5;a\r", "5\r\r\n", "5;a\rb\r\n", "5;a\nb\r\n", "5;\"\n\"\r\n"] {
        assert_eq!(fault(&format!("{line}hello\r\n0\r\n\r\n")), "BARE_LINE_FEED", "{line:?}");
    }
    assert_eq!(fault("0\n\n"), "BARE_LINE_FEED");
    assert_eq!(fault("5;a\0\r\nhello\r\n0\r\n\r\n"), "BAD_CHUNK");
    assert_eq!(fault("5;a\u{7f}\r\nhello\r\n0\r\n\r\n"), "BAD_CHUNK");
}

#[test]
fn a_quoted_string_of_an_extension_is_closed_on_its_line() {
    for extension in ["a=\"", "a=\"b", "a=\"b\\\"", "a=\"b\\", "a=\"b\";\"", "\"\\\\\"\""] {
        let bytes = format!("5;{extension}\r\nhello\r\n0\r\n\r\n");
        assert_eq!(fault(&bytes), "BAD_CHUNK", "{extension:?}");
    }
}

#[test]
fn a_chunk_ends_in_crlf_where_its_size_says() {
    for rest in [
        "hello\n0\r\n\r\n",
        "hello\r0\r\n\r\n",
        "hello0\r\n\r\n",
        "hello!\r\n0\r\n\r\n",
        "hello\r\r\n",
        "hell\r\n0\r\n",
    ] {
        assert_eq!(fault(&format!("5\r\n{rest}")), "BAD_CHUNK", "{rest:?}");
    }
}

#[test]
fn extensions_are_charged_over_the_whole_body() {
    let limit = BODY_LIMITS.chunk_extension_bytes;
    let chunk = |extension: usize| format!("1;{}\r\nx\r\n", "e".repeat(extension - 1));
    assert_eq!(done(&format!("{}0\r\n\r\n", chunk(limit))), "x");
    assert_eq!(fault(&chunk(limit + 1)), "CHUNK_EXTENSION_TOO_LARGE");
    assert_eq!(done(&format!("{}0\r\n\r\n", chunk(1).repeat(limit))), "x".repeat(limit));
    assert_eq!(fault(&chunk(1).repeat(limit + 1)), "CHUNK_EXTENSION_TOO_LARGE");
    assert_eq!(fault(&format!("1;{}", "e".repeat(1 << 16))), "CHUNK_EXTENSION_TOO_LARGE");
}

#[test]
fn trailers_are_kept() {
    let decoded = decode(
        BodyFraming::Chunked,
        [b"1\r\nx\r\n0\r\nDigest: \tabc \r\nX: caf\xe9\r\nX:\r\n\r\n".as_slice()],
    );
    assert_eq!((decoded.payload, decoded.end), (b"x".to_vec(), End::Done));
    let pair = |name: &[u8], value: &[u8]| (name.to_vec(), value.to_vec());
    assert_eq!(decoded.trailers, [pair(b"Digest", b"abc"), pair(b"X", b"caf\xe9"), pair(b"X", b"")]);
}

#[test]
fn trailers_that_are_refused() {
    for (code, section) in [
        ("BAD_TRAILER", "A\r\n"),
        ("BAD_TRAILER", ": b\r\n"),
        ("BAD_TRAILER", "A : b\r\n"),
        ("BAD_TRAILER", " A: b\r\n"),
        ("BAD_TRAILER", "A: b\0\r\n"),
        ("BAD_TRAILER", "A: \u{7f}\r\n"),
        ("FOLDED_HEADER", "A: b\r\n c\r\n"),
        ("BARE_LINE_FEED", "A: b\n"),
        ("BARE_LINE_FEED", "\n"),
        ("BARE_LINE_FEED", "A: b\rC: d\r\n"),
        ("BAD_TRAILER", "Content-Length: 5\r\n"),
        ("BAD_TRAILER", "A: b\r\nTRANSFER-ENCODING: chunked\r\n"),
        ("BAD_TRAILER", "Host: a\r\n"),
        ("BAD_TRAILER", "Connection: close\r\n"),
        ("BAD_TRAILER", "Trailer: A\r\n"),
        ("BAD_TRAILER", "Content-Encoding: gzip\r\n"),
    ] {
        assert_eq!(fault(&format!("1\r\nx\r\n0\r\n{section}\r\n")), code, "{section:?}");
    }
}

#[test]
fn the_trailer_section_is_bounded() {
    let limit = BODY_LIMITS.trailer_bytes;
    let section = |size: usize| format!("0\r\nA: {}\r\n\r\n", "x".repeat(size - "A: \r\n".len()));
    assert_eq!(done(&section(limit)), "");
    assert_eq!(fault(&section(limit + 1)), "BAD_TRAILER");
    assert_eq!(fault(&format!("0\r\n{}", "a:\r\n".repeat(1000))), "BAD_TRAILER");
    assert_eq!(fault(&format!("0\r\n{}", "x".repeat(1 << 16))), "BAD_TRAILER");
    let nothing = BodyLimits { chunk_extension_bytes: 0, trailer_bytes: 0 };
    let mut decoder = Decoder::new(BodyFraming::Chunked, nothing);
    decoder.decode(slice(b"0\r\n\r\n"), &mut |_| {}).unwrap();
    assert!(decoder.is_done(), "a body without extensions and trailers needs no room for them");
}

#[test]
fn a_body_cut_short_anywhere_is_truncated() {
    let bytes = "5;a\r\nhello\r\n6\r\n world\r\n0\r\nA: b\r\n\r\n";
    for end in 0..bytes.len() {
        assert_eq!(feed(&bytes[..end]).1, End::Open, "{:?}", &bytes[..end]);
    }
    assert_eq!(feed(bytes).1, End::Done);
    for (bytes, missing) in [
        ("", "the last chunk is missing"),
        ("5\r\nhel", "2 bytes of a chunk are missing"),
        ("5\r\nhello\r", "the line end of a chunk is missing"),
        ("0\r\nA: b\r\n", "the end of the trailer section is missing"),
    ] {
        let mut decoder = Decoder::new(BodyFraming::Chunked, BODY_LIMITS);
        decoder.decode(slice(bytes.as_bytes()), &mut |_| {}).unwrap();
        assert_eq!(decoder.at_eof().unwrap_err().detail(), format!("the connection ended: {missing}"));
    }
}

#[test]
fn bytes_after_the_end_are_told_from_the_payload() {
    assert_eq!(
        feed("5\r\nhello\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n"),
        ("hello".to_owned(), End::Fault("EXCESS_BYTES"))
    );
    assert_eq!(feed("0\r\n\r\n\r\n"), (String::new(), End::Fault("EXCESS_BYTES")));
    let decoded = decode(BodyFraming::Chunked, [b"0\r\n\r\n".as_slice(), b"", b"x"]);
    assert_eq!(decoded.end, End::Fault("EXCESS_BYTES"));
}

#[test]
fn a_chunk_over_several_reads_is_several_pieces_of_their_memory() {
    let mut decoder = Decoder::new(BodyFraming::Chunked, BODY_LIMITS);
    let reads = [slice(b"b\r\nhello"), slice(b" "), slice(b"world\r\n1\r\n!\r\n0\r\n\r\n")];
    let mut pieces = Vec::new();
    for read in &reads {
        decoder.decode(read.clone(), &mut |piece| pieces.push(piece)).unwrap();
    }
    assert!(decoder.is_done());
    let at = |read: usize, from: usize| reads[read][from..].as_ptr();
    let expected: [(&[u8], *const u8); 4] =
        [(b"hello", at(0, 3)), (b" ", at(1, 0)), (b"world", at(2, 0)), (b"!", at(2, 10))];
    assert_eq!(pieces.len(), expected.len());
    for (piece, (payload, address)) in pieces.iter().zip(expected) {
        assert_eq!((&**piece, piece.as_ptr()), (payload, address));
    }
}
