//! What the application reads of a request.

use crate::app::serialise;
use crate::wire::{IncomingLimits, parse_incoming};

fn rewritten(head: &str) -> String {
    let limits = IncomingLimits { line_bytes: 8192, head_bytes: 65_536, head_fields: 100 };
    let head = parse_incoming(head.as_bytes(), &limits).unwrap();
    String::from_utf8(serialise(&head, head.body().unwrap(), &[])).unwrap()
}

#[test]
fn one_host_and_one_framing_come_first() {
    assert_eq!(
        rewritten("GET /a?b=c HTTP/1.1\r\nX: 1\r\nHost: example\r\nCookie: d\r\n\r\n"),
        "GET /a?b=c HTTP/1.1\r\nHost: example\r\nX: 1\r\nCookie: d\r\n\r\n"
    );
    assert_eq!(
        rewritten("POST / HTTP/1.1\r\nContent-Length: 5, 5\r\nHost: a\r\ncontent-length: 5\r\n\r\n"),
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n"
    );
    assert_eq!(
        rewritten("POST / HTTP/1.1\r\nHost: a\r\nTRANSFER-ENCODING:  Chunked \r\nA: b\r\n\r\n"),
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nA: b\r\n\r\n"
    );
}

#[test]
fn a_url_becomes_a_path_and_its_host_counts() {
    assert_eq!(
        rewritten("GET http://real/x HTTP/1.1\r\nHost: other\r\n\r\n"),
        "GET /x HTTP/1.1\r\nHost: real\r\n\r\n"
    );
    assert_eq!(
        rewritten("GET http://real?q HTTP/1.1\r\nHost: real\r\n\r\n"),
        "GET /?q HTTP/1.1\r\nHost: real\r\n\r\n"
    );
    assert_eq!(
        rewritten("GET http://real HTTP/1.1\r\nHost: real\r\n\r\n"),
        "GET / HTTP/1.1\r\nHost: real\r\n\r\n"
    );
    assert_eq!(
        rewritten("OPTIONS http://real HTTP/1.1\r\nHost: real\r\n\r\n"),
        "OPTIONS * HTTP/1.1\r\nHost: real\r\n\r\n"
    );
}

#[test]
fn what_is_between_client_and_application_stays() {
    let head = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nExpect: 100-continue\r\n\r\n";
    assert_eq!(rewritten(head), head);
    let old = "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    assert_eq!(rewritten(old), old);
}
