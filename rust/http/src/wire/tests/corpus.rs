//! Whole responses by which parsers were fooled in the past: from advisories about proxies and servers, from the
//! framing chapters of RFC 9112, and from differences found between implementations. Each has its verdict here.

use super::*;

/// A response to GET and its result: the payload, or the name of the error.
type Case = (&'static str, &'static [u8], std::result::Result<&'static str, &'static str>);

const RESPONSES: &[Case] = &[
    ("plain", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", Ok("hello")),
    (
        "chunked with everything that is allowed",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5;a=\"b\"\r\nhello\r\n0\r\nA: b\r\n\r\n",
        Ok("hello"),
    ),
    (
        "delimited by the end of the connection",
        b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nhello",
        Ok("hello"),
    ),
    (
        "a second response glued to the first",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
        Err("EXCESS_BYTES"),
    ),
    (
        "a second response behind a 204 that has a length",
        b"HTTP/1.1 204 No Content\r\nContent-Length: 37\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        Err("EXCESS_BYTES"),
    ),
    (
        "a body behind a 304",
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nhello",
        Err("EXCESS_BYTES"),
    ),
    (
        "length and coding, the classic of smuggling",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        Err("LENGTH_AND_CHUNKED"),
    ),
    (
        "two lengths",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        Err("CONFLICTING_LENGTH"),
    ),
    (
        "two lengths that are the same in base ten alone",
        b"HTTP/1.1 200 OK\r\nContent-Length: 010\r\nContent-Length: 10\r\n\r\n0123456789",
        Err("CONFLICTING_LENGTH"),
    ),
    (
        "a length that a lenient parser reads up to the space",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5 0\r\n\r\nhello",
        Err("BAD_LENGTH"),
    ),
    (
        "a length with a sign, as integer parsers of most languages take it",
        b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
        Err("BAD_LENGTH"),
    ),
    (
        "a length with an underscore, as Python's int takes it",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1_0\r\n\r\n0123456789",
        Err("BAD_LENGTH"),
    ),
    (
        "a length that wraps round at 64 bits to 5",
        b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551621\r\n\r\nhello",
        Err("BAD_LENGTH"),
    ),
    (
        "a length hidden from one side by a space before the colon",
        b"HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\nhello",
        Err("BAD_HEAD"),
    ),
    (
        "a coding hidden by a vertical tab",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding:\x0bchunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        Err("BAD_HEAD"),
    ),
    (
        "a coding hidden by a control byte at its end",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\x1f\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        Err("BAD_HEAD"),
    ),
    (
        "a coding hidden by a fold",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding:\r\n chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        Err("FOLDED_HEADER"),
    ),
    (
        "a coding behind a bare CR",
        b"HTTP/1.1 200 OK\r\nA: b\rTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        Err("BARE_LINE_FEED"),
    ),
    (
        "a coding behind a bare LF",
        b"HTTP/1.1 200 OK\r\nA: b\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        Err("BARE_LINE_FEED"),
    ),
    (
        "a coding whose name only resembles chunked",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\nA: b\r\n\r\nhello",
        Err("BAD_TRANSFER_ENCODING"),
    ),
    (
        "chunked twice",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        Err("BAD_TRANSFER_ENCODING"),
    ),
    (
        "chunked, but not last",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, identity\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        Err("BAD_TRANSFER_ENCODING"),
    ),
    (
        "chunked in a version that has no chunks",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        Err("BAD_TRANSFER_ENCODING"),
    ),
    (
        "an empty size, which some take for the end",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n\r\n",
        Err("BAD_CHUNK"),
    ),
    (
        "no size but an extension",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n;a\r\n\r\n",
        Err("BAD_CHUNK"),
    ),
    (
        "a size that wraps round at 64 bits to 5",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000005\r\nhello\r\n0\r\n\r\n",
        Err("BAD_CHUNK"),
    ),
    (
        "a size with the prefix of hexadecimal literals",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
        Err("BAD_CHUNK"),
    ),
    (
        "a negative size",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nhello\r\n0\r\n\r\n",
        Err("BAD_CHUNK"),
    ),
    (
        "a size padded with spaces",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5   \r\nhello\r\n0\r\n\r\n",
        Err("BAD_CHUNK"),
    ),
    (
        "an extension that ends in LF, where another parser reads on",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;\n\r\nhello\r\n0\r\n\r\n",
        Err("BARE_LINE_FEED"),
    ),
    (
        "an extension with a quoted line end",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=\"\n0\r\n\r\n\"\r\nhello\r\n0\r\n\r\n",
        Err("BARE_LINE_FEED"),
    ),
    (
        "a chunk longer than its size",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhello\r\n0\r\n\r\n",
        Err("BAD_CHUNK"),
    ),
    (
        "a chunk whose two bytes of line end are other bytes",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n",
        Err("BAD_CHUNK"),
    ),
    (
        "a chunk that ends in LF alone",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\n0\r\n\r\n",
        Err("BAD_CHUNK"),
    ),
    (
        "a last chunk that ends in LF alone",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\n\n",
        Err("BARE_LINE_FEED"),
    ),
    (
        "no last chunk",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        Err("BODY_TRUNCATED"),
    ),
    (
        "no line after the last chunk",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
        Err("BODY_TRUNCATED"),
    ),
    (
        "a second response behind the last chunk",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
        Err("EXCESS_BYTES"),
    ),
    (
        "a second response in the place of the trailer section",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nHTTP/1.1 200 OK\r\nA: b\r\n\r\n",
        Err("BAD_TRAILER"),
    ),
    (
        "a length in the trailer section",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 5\r\n\r\n",
        Err("BAD_TRAILER"),
    ),
    ("short of its length", b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello", Err("BODY_TRUNCATED")),
    (
        "a status line that a lenient parser reads as 200",
        b"HTTP/1.1 200OK\r\nContent-Length: 0\r\n\r\n",
        Err("BAD_HEAD"),
    ),
    (
        "a field in front of which a space hides it",
        b"HTTP/1.1 200 OK\r\n Content-Length: 5\r\n\r\nhello",
        Err("FOLDED_HEADER"),
    ),
    (
        "a NUL at which C ends a value",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\0 6\r\n\r\nhello",
        Err("BAD_HEAD"),
    ),
    (
        "an empty line before the status line",
        b"\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        Err("BAD_HEAD"),
    ),
    ("no head at all, as HTTP/0.9", b"<html>hello</html>", Err("BAD_HEAD")),
    (
        "a protocol switch without a request for it",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n",
        Err("UNEXPECTED_UPGRADE"),
    ),
];

/// Reads a whole response to GET from a connection that ends after `pieces`.
fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> std::result::Result<Vec<u8>, &'static str> {
    let mut pieces = pieces.into_iter();
    let mut scanner = HeadScanner::new(&HEAD_LIMITS);
    let mut buffer = Vec::new();
    let end = loop {
        let Some(piece) = pieces.next() else { return Err("ORIGIN_CLOSED") };
        buffer.extend_from_slice(piece);
        if let Some(end) = scanner.scan(&buffer).map_err(|error| name(&error))? {
            break end;
        }
    };
    let head = parse_head(&buffer[..end], &HEAD_LIMITS).map_err(|error| name(&error))?;
    let body = body_of(&head, "GET").map_err(|error| name(&error))?;
    let rest = buffer.split_off(end);
    let decoded = decode(body, std::iter::once(rest).chain(pieces.map(<[u8]>::to_vec)));
    match decoded.end {
        End::Done => Ok(decoded.payload),
        End::Open => Err("BODY_TRUNCATED"),
        End::Fault(name) => Err(name),
    }
}

#[test]
fn every_response_gets_its_verdict() {
    for (what, bytes, verdict) in RESPONSES {
        assert_eq!(read([*bytes]), verdict.map(|payload| payload.as_bytes().to_vec()), "{what}");
    }
}

#[test]
fn the_verdict_does_not_depend_on_how_the_bytes_arrive() {
    for (what, bytes, verdict) in RESPONSES {
        let verdict = verdict.map(|payload| payload.as_bytes().to_vec());
        assert_eq!(read(bytes.chunks(1)), verdict, "{what}, byte by byte");
        for cut in 0..=bytes.len() {
            assert_eq!(read([&bytes[..cut], &bytes[cut..]]), verdict, "{what}, cut at {cut}");
        }
    }
}
