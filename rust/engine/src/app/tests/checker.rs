//! One response, however it is written.

use proptest::prelude::*;

use super::response_reference::{Stand, response};
use super::written::{assert_judged, assert_passed, write};
use crate::app::{Checker, asks_to_switch};
use crate::error::Code;
use crate::wire::BodyFraming;

const SHORT: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const CHUNKS: &[u8] =
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3;ext=1\r\n!!!\r\n0\r\nDigest: x\r\n\r\n";

/// Feeds byte after byte, and returns how many were fed when the response became complete.
fn complete_after(method: &str, bytes: &[u8]) -> Option<usize> {
    let mut checker = Checker::new(method, false);
    for (at, byte) in bytes.iter().enumerate() {
        checker.feed(&[*byte]).unwrap();
        if checker.is_complete() {
            return Some(at + 1);
        }
    }
    None
}

#[track_caller]
fn refused(method: &str, bytes: &[u8], why: &str) {
    let mut checker = Checker::new(method, false);
    let error = checker.feed(bytes).and_then(|_| checker.finish()).unwrap_err();
    assert_eq!(error.code(), Code::BadResponse);
    assert!(error.detail().contains(why), "{}", error.detail());
}

#[test]
fn the_end_is_where_the_framing_says() {
    for whole in
        [SHORT, CHUNKS, b"HTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 304 x\r\nContent-Length: 9\r\n\r\n"]
    {
        assert_eq!(complete_after("GET", whole), Some(whole.len()));
    }
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    assert_eq!(complete_after("HEAD", head), Some(head.len()));
    let interim = [b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 x\r\nLink: y\r\n\r\n", SHORT].concat();
    assert_eq!(complete_after("POST", &interim), Some(interim.len()));
}

#[test]
fn more_bytes_than_the_framing_has_are_refused() {
    refused("GET", &[SHORT, b"!"].concat(), "1 bytes after the end");
    refused("GET", &[CHUNKS, b"0"].concat(), "after the end");
    refused("GET", &[SHORT, SHORT].concat(), "after the end");
    refused("GET", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nx", "1 bytes after the end");
}

#[test]
fn fewer_bytes_than_the_framing_has_are_refused() {
    refused("GET", &SHORT[..SHORT.len() - 2], "2 bytes of the body are missing");
    refused("GET", &CHUNKS[..CHUNKS.len() - 2], "trailer section is missing");
    refused("GET", &SHORT[..20], "the end of the head is missing");
    refused("GET", b"", "there is no response");
    refused("GET", b"HTTP/1.1 100 Continue\r\n\r\n", "there is no response");
}

#[test]
fn what_is_no_response_is_refused() {
    refused("GET", b"HTTP/2 200 OK\r\n\r\n", "HTTP");
    refused("GET", b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "Content-Length");
    refused("GET", b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "both");
    refused("GET", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "not chunked");
    refused("GET", b"HTTP/1.1 200 OK\nContent-Length: 1\n\n", "LF");
    refused("GET", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello", "chunk size");
    refused("GET", b"HTTP/1.1 101 Switching Protocols\r\n\r\n", "not asked");
    let endless = [b"HTTP/1.1 200 OK\r\n".as_slice(), b"A: ", &b"b".repeat(300_000)].concat();
    refused("GET", &endless, "exceeds");
}

#[test]
fn a_body_without_framing_ends_where_the_application_says() {
    let mut checker = Checker::new("GET", false);
    checker.feed(b"HTTP/1.1 200 OK\r\n\r\nsome").unwrap();
    checker.feed(b"thing").unwrap();
    assert!(!checker.is_complete());
    checker.finish().unwrap();
    assert!(checker.is_complete());
    assert!(!checker.keeps_alive(), "its end is that of the connection");
}

#[test]
fn a_connection_goes_on_when_both_versions_allow_it() {
    let goes_on = |bytes: &[u8]| {
        let mut checker = Checker::new("GET", false);
        checker.feed(bytes).unwrap();
        assert!(checker.is_complete());
        checker.keeps_alive()
    };
    assert!(goes_on(SHORT));
    assert!(goes_on(CHUNKS));
    assert!(!goes_on(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"));
    assert!(!goes_on(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"));
    assert!(goes_on(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n"));
}

#[test]
fn behind_a_switch_that_was_asked_for_anything_goes() {
    let mut checker = Checker::new("GET", true);
    checker.feed(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n\x81\x02hi").unwrap();
    assert!(checker.has_switched());
    assert_eq!(checker.status(), Some(101));
    checker.feed(SHORT).unwrap();
    checker.finish().unwrap();
    assert!(checker.has_switched() && !checker.keeps_alive());
}

#[test]
fn a_refused_switch_is_a_response_like_any_other() {
    let mut checker = Checker::new("GET", true);
    checker.feed(SHORT).unwrap();
    assert!(checker.is_complete() && checker.keeps_alive());
}

#[test]
fn a_head_in_pieces_is_not_sent_before_it_is_whole() {
    let mut checker = Checker::new("GET", false);
    assert!(!checker.is_within_head());
    checker.feed(&SHORT[..10]).unwrap();
    assert!(checker.is_within_head());
    checker.feed(&SHORT[10..]).unwrap();
    assert!(!checker.is_within_head());
    assert_eq!(checker.status(), Some(200));
}

#[test]
fn the_rest_can_be_sent_by_somebody_else() {
    let mut checker = Checker::new("GET", false);
    assert_eq!(checker.rest().unwrap_err().code(), Code::BadResponse, "there is no head");
    checker.feed(&SHORT[..SHORT.len() - 4]).unwrap();
    assert_eq!(checker.rest().unwrap(), BodyFraming::Length(4));
    checker.pass(3).unwrap();
    assert!(checker.finish_rest().unwrap_err().detail().contains("1 bytes of the body are missing"));
    assert!(checker.pass(2).unwrap_err().detail().contains("1 bytes more than Content-Length"));
    checker.pass(1).unwrap();
    checker.finish_rest().unwrap();
    assert_eq!(checker.rest().unwrap(), BodyFraming::Empty);
    assert!(checker.pass(1).is_err());

    let mut checker = Checker::new("GET", false);
    checker.feed(&CHUNKS[..47]).unwrap();
    assert_eq!(checker.rest().unwrap(), BodyFraming::Chunked);
    checker.feed(b"5\r\nhe").unwrap();
    assert!(checker.rest().unwrap_err().detail().contains("within a chunk"));
    checker.feed(b"llo\r\n").unwrap();
    checker.pass(1 << 40).unwrap();
    checker.finish_rest().unwrap();
    assert!(checker.keeps_alive());
}

#[test]
fn a_switch_is_asked_for_by_both_fields() {
    let fields = |pairs: &[(&'static str, &'static str)]| -> Vec<(&'static [u8], &'static [u8])> {
        pairs.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect()
    };
    let asks = |pairs| asks_to_switch(fields(pairs).into_iter());
    assert!(asks(&[("upgrade", "websocket"), ("Connection", "keep-alive, Upgrade")]));
    assert!(!asks(&[("Upgrade", "websocket")]));
    assert!(!asks(&[("Connection", "Upgrade")]));
    assert!(!asks(&[("Upgrade", "websocket"), ("Connection", "keep-alive")]));
}

#[derive(Debug, Clone)]
enum Shape {
    Length(Vec<u8>),
    Chunks(Vec<Vec<u8>>),
    Empty,
}

fn shape() -> impl Strategy<Value = Shape> {
    let bytes = || proptest::collection::vec(any::<u8>(), 1..40);
    prop_oneof![
        bytes().prop_map(Shape::Length),
        proptest::collection::vec(bytes(), 0..5).prop_map(Shape::Chunks),
        Just(Shape::Empty),
    ]
}

/// The response of a shape, serialised without any code of the engine.
fn serialised(shape: &Shape) -> Vec<u8> {
    match shape {
        Shape::Length(body) => {
            [format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len()).as_bytes(), body].concat()
        }
        Shape::Chunks(chunks) => {
            let mut bytes = b"HTTP/1.1 200 OK\r\nTransfer-encoding: Chunked\r\n\r\n".to_vec();
            for chunk in chunks {
                bytes.extend_from_slice(format!("{:X}\r\n", chunk.len()).as_bytes());
                bytes.extend_from_slice(chunk);
                bytes.extend_from_slice(b"\r\n");
            }
            bytes.extend_from_slice(b"0\r\n\r\n");
            bytes
        }
        Shape::Empty => b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n".to_vec(),
    }
}

proptest! {
    /// Whatever the application's writes are: complete with the last byte and not before, and one more is too many.
    #[test]
    fn writes_do_not_matter(shape in shape(), interim in 0..3_usize, cuts in proptest::collection::vec(any::<u16>(), 0..8)) {
        let mut bytes = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n".repeat(interim);
        bytes.extend(serialised(&shape));
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| usize::from(cut) % bytes.len()).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let mut checker = Checker::new("GET", false);
        for pair in cuts.windows(2) {
            prop_assert!(!checker.is_complete());
            checker.feed(&bytes[pair[0]..pair[1]]).unwrap();
        }
        prop_assert!(checker.is_complete() && checker.keeps_alive());
        prop_assert!(checker.finish().is_ok());
        match shape {
            Shape::Empty => prop_assert_eq!(checker.feed(b"H").unwrap(), 0),
            _ => prop_assert!(checker.feed(b"H").is_err()),
        }
    }

    /// What any bytes are taken for, and how much of them is let through, is what the reference says, whatever the
    /// application's writes are.
    #[test]
    fn any_bytes_any_split(
        start in 0..4_usize,
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        cuts in proptest::collection::vec(any::<u16>(), 0..4),
        count in 0..8_u64,
        (is_head_request, may_switch) in any::<(bool, bool)>(),
    ) {
        let start = [CHUNKS, &CHUNKS[..60], &SHORT[..17], &SHORT[..36]][start];
        let bytes = [start, &bytes].concat();
        let expected = response(&bytes, is_head_request, may_switch);
        assert_judged(&expected, is_head_request, may_switch, vec![&bytes]);
        assert_judged(&expected, is_head_request, may_switch, bytes.chunks(1).collect());
        assert_judged(&expected, is_head_request, may_switch, pieces(&bytes, &cuts));
        for end in 0..bytes.len() {
            let stand = response(&bytes[..end], is_head_request, may_switch).stand;
            if stand != Stand::Refused {
                assert_passed(stand, count, write(is_head_request, may_switch, [&bytes[..end]]).1);
            }
        }
    }
}

fn pieces<'a>(bytes: &'a [u8], cuts: &[u16]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| usize::from(*cut) % (bytes.len() + 1)).collect();
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

#[test]
fn a_body_that_nobody_may_be_sent_is_dropped() {
    let heads: [(&str, &[u8]); 4] = [
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),
        ("HEAD", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
        ("GET", b"HTTP/1.1 204 No Content\r\n\r\n"),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 1\r\n\r\n"),
    ];
    for (method, head) in heads {
        let mut checker = Checker::new(method, false);
        assert_eq!(checker.feed(&[head, b"a body"].concat()).unwrap(), head.len());
        assert_eq!(checker.feed(SHORT).unwrap(), 0);
        assert!(checker.drops_body() && checker.is_complete() && checker.keeps_alive());
        assert_eq!(checker.rest().unwrap(), BodyFraming::Empty);
        checker.finish().unwrap();
    }
}
