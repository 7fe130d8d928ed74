//! Any splitting of any bytes gives the same result, and it is the reference's result.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use reference::ParsedHead;

/// The pieces of `bytes` between `cuts`, which may lie beyond the end.
fn pieces<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<_> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).chain([0, bytes.len()]).collect();
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

/// Parts that make something well-formed more often than random bytes do, and something nearly well-formed often.
fn soup(parts: &'static [&'static [u8]]) -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        8 => prop::sample::select(parts).prop_map(<[u8]>::to_vec),
        1 => vec(any::<u8>(), 1..4),
    ];
    vec(part, 0..24).prop_map(|parts| parts.concat())
}

fn chunk_soup() -> impl Strategy<Value = Vec<u8>> {
    soup(&[
        b"0\r\n\r\n",
        b"0\r\n",
        b"1\r\na\r\n",
        b"5\r\nhello\r\n",
        b"a\r\n0123456789\r\n",
        b"1\r\n\r\r\n",
        b"\r\n",
        b"1;x\r\na\r\n",
        b"2;a=\"b\"\r\nab\r\n",
        b"A: b\r\n",
        b"Content-Length: 5\r\n",
        b"X:\t y \r\n",
        b" fold\r\n",
        b"5",
        b"F",
        b"0",
        b"\r",
        b"\n",
        b";",
        b":",
        b" ",
        b"\0",
        b"0000000000000001\r\nx\r\n",
        b"ffffffffffffffff",
        b";eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee",
        b"A: ttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttt\r\n",
    ])
}

fn head_soup() -> impl Strategy<Value = Vec<u8>> {
    let rest = soup(&[
        b"200 OK\r\n",
        b"HTTP/1.1 200 OK\r\n",
        b"204\r\n",
        b"099 x\r\n",
        b"A: b\r\n",
        b"Content-Length: 5\r\n",
        b"x:\t y \r\n",
        b" fold\r\n",
        b"\r\n",
        b"\r\n\r\n",
        b"\r",
        b"\n",
        b":",
        b" ",
        b"\t",
        b"\0",
        b"A",
        b": ",
        b"\x7f",
        b"\xff",
        b"a:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n",
    ]);
    let start =
        prop::sample::select(vec!["HTTP/1.1 200 OK\r\n", "HTTP/1.0 404 \r\n", "HTTP/1.1 ", "HTTP/1.", ""]);
    (start, rest).prop_map(|(start, rest)| [start.as_bytes(), &rest].concat())
}

fn scanned(bytes: &[u8], cuts: &[usize], limits: &HeadLimits) -> std::result::Result<ParsedHead, End> {
    let mut scanner = HeadScanner::new(limits);
    let mut buffer = Vec::new();
    for piece in pieces(bytes, cuts) {
        buffer.extend_from_slice(piece);
        let fault = |error| End::Fault(name(&error));
        if let Some(length) = scanner.scan(&buffer).map_err(fault)? {
            let head = parse_head(&buffer[..length], limits).map_err(fault)?;
            return Ok(ParsedHead {
                length,
                minor_version: head.minor_version,
                status: head.status,
                reason: head.reason().to_vec(),
                fields: head.headers().map(|(name, value)| (name.to_vec(), value.to_vec())).collect(),
            });
        }
    }
    Err(End::Open)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_chunked_body_is_the_same_in_any_pieces(bytes in chunk_soup(), cuts in vec(any::<usize>(), 0..12)) {
        let expected = reference::chunked(&bytes, BODY_LIMITS.chunk_extension_bytes, BODY_LIMITS.trailer_bytes);
        prop_assert_eq!(&decode(Body::Chunked, [bytes.as_slice()]), &expected);
        prop_assert_eq!(&decode(Body::Chunked, pieces(&bytes, &cuts)), &expected);
        prop_assert_eq!(&decode(Body::Chunked, bytes.chunks(1)), &expected);
    }

    #[test]
    fn what_is_encoded_is_decoded(chunks in vec(vec(any::<u8>(), 1..600), 0..12), cuts in vec(any::<usize>(), 0..12)) {
        let mut bytes = Vec::new();
        for chunk in &chunks {
            bytes.extend_from_slice(&encode_chunk_head(chunk.len().try_into().unwrap()));
            bytes.extend_from_slice(chunk);
            bytes.extend_from_slice(CHUNK_END);
        }
        bytes.extend_from_slice(LAST_CHUNK);
        let expected = Decoded { payload: chunks.concat(), trailers: Vec::new(), end: End::Done };
        prop_assert_eq!(decode(Body::Chunked, pieces(&bytes, &cuts)), expected);
    }

    #[test]
    fn a_head_is_the_same_in_any_pieces(
        bytes in head_soup(),
        cuts in vec(any::<usize>(), 0..12),
        max_bytes in 0..200_usize,
        max_fields in 0..6_usize,
    ) {
        let limits = HeadLimits { bytes: max_bytes, fields: max_fields, interim: 0 };
        let expected = reference::head(&bytes, max_bytes, max_fields);
        prop_assert_eq!(&scanned(&bytes, &[], &limits), &expected);
        prop_assert_eq!(&scanned(&bytes, &cuts, &limits), &expected);
        prop_assert_eq!(&scanned(&bytes, &(0..bytes.len()).collect::<Vec<_>>(), &limits), &expected);
    }

    #[test]
    fn a_length_is_the_same_in_any_pieces(bytes in vec(any::<u8>(), 0..200), length in 0..200_u64, cuts in vec(any::<usize>(), 0..12)) {
        let size = usize::try_from(length).unwrap();
        let decoded = decode(Body::Length(length), pieces(&bytes, &cuts));
        let end = match bytes.len().cmp(&size) {
            std::cmp::Ordering::Less => End::Open,
            std::cmp::Ordering::Equal => End::Done,
            std::cmp::Ordering::Greater => End::Fault("EXCESS_BYTES"),
        };
        prop_assert_eq!(decoded.end, end);
        prop_assert_eq!(decoded.payload, &bytes[..bytes.len().min(size)]);
    }

    #[test]
    fn a_request_is_one_head_whatever_the_caller_passes(
        header in soup(&[b"A", b"Host", b"Content-Length", b"Transfer-Encoding", b"-", b" ", b":", b"\r\n"]),
        value in soup(&[b"5", b"chunked", b"a.example", b"\r\n", b"\n", b"X: y", b" "]),
        target in "/?[ -~\r\n]{0,8}",
        method in "[A-Z \r\n:]{0,5}",
    ) {
        let headers = [(header, value)];
        if let Ok(head) = encode_request(&method, &target, "origin.example", &headers, &Upload::Length(5)) {
            let text = head.escape_ascii().to_string();
            prop_assert_eq!(text.matches(r"\r\n\r\n").count(), 1);
            let lines = text.matches(r"\r\n").count();
            let own = ["host", "content-length"].iter().any(|own| headers[0].0.eq_ignore_ascii_case(own.as_bytes()));
            prop_assert_eq!(lines, if own { 4 } else { 5 }, "{}", text);
            prop_assert_eq!(text.matches(r"\n").count(), lines);
            prop_assert_eq!(text.split(' ').count() >= 3 && text.starts_with(&method), true);
        }
    }
}
