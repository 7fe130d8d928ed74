//! Any splitting of any bytes gives the result of the reference.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use reference::ParsedHead;

/// The pieces of `bytes` between `cuts`, which may lie beyond the end.
pub(super) fn pieces<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<_> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).chain([0, bytes.len()]).collect();
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

/// Up to `count` of `parts`, one after another.
pub(super) fn some(parts: &'static [&'static str], count: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(prop::sample::select(parts), 0..=count).prop_map(|parts| parts.concat().into_bytes())
}

/// Replacements for bytes: bytes with a meaning in HTTP, or any others.
fn edit() -> impl Strategy<Value = Vec<u8>> {
    let telling: &[&[u8]] = &[
        b"",
        b"\r",
        b"\n",
        b"\r\n",
        b"\r\n\r\n",
        b"\0",
        b" ",
        b"\t",
        b":",
        b";",
        b"\"",
        b"\\",
        b"0",
        b"5",
        b"f",
        b"x",
        b"\x7f",
        b"\xff",
    ];
    prop_oneof![4 => prop::sample::select(telling).prop_map(<[u8]>::to_vec), 1 => vec(any::<u8>(), 1..4)]
}

/// The bytes of `made`, mostly well-formed, with a few of them replaced, because errors lie close to valid
/// messages.
pub(super) fn edited(made: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let edits = vec((any::<prop::sample::Index>(), 0..3_usize, edit()), 0..3);
    (made, edits).prop_map(|(mut bytes, edits)| {
        for (index, replaced, by) in edits {
            let start = index.index(bytes.len() + 1);
            let end = bytes.len().min(start + replaced);
            bytes.splice(start..end, by);
        }
        bytes
    })
}

fn chunked_body() -> impl Strategy<Value = Vec<u8>> {
    let chunk: &[&str] = &[
        "1\r\na\r\n",
        "5\r\nhello\r\n",
        "A\r\n0123456789\r\n",
        "2\r\n\r\n\r\n",
        "0000000000000001\r\nx\r\n",
        "1;x\r\na\r\n",
        "2;a=\"b\"\r\nab\r\n",
        "2;a=\"\\\"\r\nab\r\n",
        "1;eeeeeeeeeeeeeeeeeeeeeeeeeeeeeee\r\na\r\n",
    ];
    let last: &[&str] = &["0\r\n", "0\r\n", "0;end\r\n", "000\r\n", "ffffffffffffffff\r\n", ""];
    let trailer: &[&str] = &[
        "A: b\r\n",
        "X:\t y \r\n",
        "empty:\r\n",
        "B: ttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttt\r\n",
        "Content-Length: 5\r\n",
    ];
    let end: &[&str] = &["\r\n", "\r\n", "\r\n", "", "\r\nHTTP/1.1 200 OK\r\n"];
    let parts = (some(chunk, 6), prop::sample::select(last), some(trailer, 3), prop::sample::select(end));
    edited(parts.prop_map(|(chunks, last, trailers, end)| {
        [&chunks, last.as_bytes(), &trailers, end.as_bytes()].concat()
    }))
}

fn response_head() -> impl Strategy<Value = Vec<u8>> {
    let start: &[&str] =
        &["HTTP/1.1 200 OK\r\n", "HTTP/1.0 404 \r\n", "HTTP/1.1 204\r\n", "HTTP/1.1 503 Caf\u{e9} \r\n"];
    let field: &[&str] = &[
        "A: b\r\n",
        "Content-Length: 5\r\n",
        "x:\t y \r\n",
        "empty:\r\n",
        "!#$: \u{e9}\r\n",
        "a:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n",
    ];
    let end: &[&str] = &["\r\n", "\r\n", "\r\n", "", "\r\n0\r\n\r\n"];
    let parts = (prop::sample::select(start), some(field, 6), prop::sample::select(end));
    edited(parts.prop_map(|(start, fields, end)| [start.as_bytes(), &fields, end.as_bytes()].concat()))
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
    fn a_chunked_body_is_the_same_in_any_pieces(bytes in chunked_body(), cuts in vec(any::<usize>(), 0..12)) {
        let expected = reference::chunked(&bytes, BODY_LIMITS.chunk_extension_bytes, BODY_LIMITS.trailer_bytes);
        prop_assert_eq!(&decode(BodyFraming::Chunked, [bytes.as_slice()]), &expected);
        prop_assert_eq!(&decode(BodyFraming::Chunked, pieces(&bytes, &cuts)), &expected);
        prop_assert_eq!(&decode(BodyFraming::Chunked, bytes.chunks(1)), &expected);
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
        prop_assert_eq!(decode(BodyFraming::Chunked, pieces(&bytes, &cuts)), expected);
    }

    #[test]
    fn a_head_is_the_same_in_any_pieces(
        bytes in response_head(),
        cuts in vec(any::<usize>(), 0..12),
        max_bytes in 0..200_usize,
        max_fields in 0..6_usize,
    ) {
        let limits = HeadLimits { head_bytes: max_bytes, head_fields: max_fields, interim_responses: 0 };
        let expected = reference::head(&bytes, max_bytes, max_fields);
        prop_assert_eq!(&scanned(&bytes, &[], &limits), &expected);
        prop_assert_eq!(&scanned(&bytes, &cuts, &limits), &expected);
        prop_assert_eq!(&scanned(&bytes, &(0..bytes.len()).collect::<Vec<_>>(), &limits), &expected);
    }

    #[test]
    fn a_length_is_the_same_in_any_pieces(bytes in vec(any::<u8>(), 0..200), length in 0..200_u64, cuts in vec(any::<usize>(), 0..12)) {
        let size = usize::try_from(length).unwrap();
        let decoded = decode(BodyFraming::Length(length), pieces(&bytes, &cuts));
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
        method in edited(Just(b"GET".to_vec())),
        target in edited(some(&["/a", "?b=c", "%20", "/"], 3).prop_map(|path| [b"/", path.as_slice()].concat())),
        name in edited(prop::sample::select(&["A", "x-b", "Host", "Content-Length"]).prop_map(Vec::from)),
        value in edited(some(&["5", "chunked", "a.example", " "], 2)),
    ) {
        let (Ok(method), Ok(target)) = (String::from_utf8(method), String::from_utf8(target)) else { return Ok(()) };
        let ours = ["host", "content-length"].iter().any(|ours| name.eq_ignore_ascii_case(ours.as_bytes()));
        let headers = [(name, value)].into_iter().collect();
        if let Ok(head) = encode_request(&method, &target, "origin.example", &headers, BodyFraming::Length(5)) {
            let lines: Vec<_> = head.split(|byte| *byte == b'\n').collect();
            prop_assert_eq!(lines.len(), if ours { 5 } else { 6 }, "request line, fields, the empty line, nothing");
            prop_assert_eq!(head.split(|byte| *byte == b'\r').count(), lines.len());
            let request_line = format!("{method} {target} HTTP/1.1\r");
            prop_assert_eq!(lines[0], request_line.as_bytes());
            prop_assert_eq!(lines[0].split(|byte| *byte == b' ').count(), 3);
            prop_assert_eq!(lines[lines.len() - 3], b"Content-Length: 5\r");
        }
    }
}
