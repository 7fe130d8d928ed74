//! All that a client sends on one connection: any splitting gives the same requests and the same end, and they are
//! the reference's.

use proptest::collection::vec;
use proptest::prelude::*;

use super::connection::{Arrived, Left, Limits, read};
use super::request_reference::{Maxima, ParsedRequest, requests};
use super::splits::{edited, pieces, some};
use super::*;

const LIMITS: Limits = Limits { head: IncomingLimits { line: 40, bytes: 160, fields: 5 }, body: BODY_LIMITS };
const MAXIMA: Maxima = Maxima {
    line: LIMITS.head.line,
    head: LIMITS.head.bytes,
    fields: LIMITS.head.fields,
    extensions: LIMITS.body.chunk_extension_bytes,
    trailer: LIMITS.body.trailer_bytes,
};

fn plain(arrived: &Arrived) -> ParsedRequest {
    let head = &arrived.head;
    ParsedRequest {
        method: head.method().to_owned(),
        target: head.origin_form().into_owned(),
        authority: head.authority().to_owned(),
        minor_version: head.minor_version,
        fields: head.headers().map(|(name, value)| (name.to_vec(), value.to_vec())).collect(),
        body: arrived.body.clone(),
        trailers: arrived.trailers.clone(),
        keeps_alive: head.keeps_alive(),
        expects_continue: arrived.expects_continue,
    }
}

fn outcome<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<ParsedRequest>, End) {
    let (arrived, left) = read(LIMITS, pieces);
    let end = match left {
        Left::Idle | Left::Head => End::Open,
        Left::Closed => End::Done,
        Left::Refused(name) => End::Fault(name),
    };
    (arrived.iter().map(plain).collect(), end)
}

fn connection() -> impl Strategy<Value = Vec<u8>> {
    let parts: &[&str] = &[
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http://b:8?q HTTP/1.1\r\nHost: a\r\nConnection: x, close\r\n\r\n",
        "OPTIONS * HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        "POST /aaaaaaaaaaaaaaaaaaaaaaaaaaa HTTP/1.1\r\nHost: [::1]:8\r\n",
        "PUT / HTTP/1.1\r\nHost: a%20\r\nExpect: 100-continue\r\n",
        "Content-Length: 5\r\n\r\nhello",
        "Content-Length: 5, 5\r\nContent-Length: 5\r\n\r\nhello",
        "Transfer-Encoding: chunked\r\n\r\n5;a=\"b\"\r\nhello\r\n0\r\nA: b\r\n\r\n",
        "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "\r\n",
    ];
    edited(some(parts, 6))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn requests_are_the_same_in_any_pieces(bytes in connection(), cuts in vec(any::<usize>(), 0..12)) {
        let expected = requests(&bytes, MAXIMA);
        prop_assert_eq!(&outcome([bytes.as_slice()]), &expected);
        prop_assert_eq!(&outcome(pieces(&bytes, &cuts)), &expected);
        prop_assert_eq!(&outcome(bytes.chunks(1)), &expected);
    }
}
