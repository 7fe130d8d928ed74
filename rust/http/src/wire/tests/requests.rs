//! All bytes of a client on one connection: any splitting gives the same requests and the same end as the
//! reference.

use proptest::collection::vec;
use proptest::prelude::*;

use super::connection::{Arrived, Limits, read};
use super::request_reference::requests;
use super::splits::{edited, pieces, some};
use super::*;

const LIMITS: Limits =
    Limits { head: IncomingLimits { line_bytes: 40, head_bytes: 160, head_fields: 5 }, body: BODY_LIMITS };

fn outcome<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<ParsedRequest>, End) {
    let (arrived, left) = read(LIMITS, pieces);
    (arrived.iter().map(Arrived::plain).collect(), left.end())
}

fn request() -> impl Strategy<Value = Vec<u8>> {
    let start: &[&str] = &[
        "GET / HTTP/1.1\r\nHost: a\r\n",
        "POST / HTTP/1.1\r\nHost: [::1]:8\r\n",
        "POST / HTTP/1.1\r\nHost: a%20\r\n",
        "GET http://b:8?q HTTP/1.1\r\nHost: a\r\n",
        "OPTIONS http://b HTTP/1.0\r\n",
        "PUT /aaaaaaaaaaaaaaaaaaaaaaaaaaa HTTP/1.1\r\nHost: a\r\n",
        "\r\nGET / HTTP/1.0\r\nConnection: keep-alive\r\n",
    ];
    let field: &[&str] = &[
        "A: b\r\n",
        "Content-Length: 5\r\n",
        "Content-Length: 5, 5\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Transfer-Encoding: gzip, Chunked\r\n",
        "Connection: x, close\r\n",
        "Expect: 100-continue\r\n",
        "Host: b\r\n",
    ];
    let body: &[&str] = &[
        "",
        "hello",
        "5;a=\"b\"\r\nhello\r\n0\r\nA: b\r\n\r\n",
        "2\r\nhi\r\nA\r\n0123456789\r\n000\r\n\r\n",
        "0\r\n\r\n",
    ];
    let parts = (prop::sample::select(start), some(field, 2), prop::sample::select(body));
    parts.prop_map(|(start, fields, body)| [start.as_bytes(), &fields, b"\r\n", body.as_bytes()].concat())
}

fn connection() -> impl Strategy<Value = Vec<u8>> {
    edited(vec(request(), 1..4).prop_map(|requests| requests.concat()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn requests_are_the_same_in_any_pieces(bytes in connection(), cuts in vec(any::<usize>(), 0..12)) {
        let expected = requests(&bytes, LIMITS.maxima());
        prop_assert_eq!(&outcome([bytes.as_slice()]), &expected);
        prop_assert_eq!(&outcome(pieces(&bytes, &cuts)), &expected);
        prop_assert_eq!(&outcome(bytes.chunks(1)), &expected);
    }
}
