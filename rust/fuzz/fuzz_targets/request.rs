//! All that a client sends on one connection, whole and in pieces, against the plain second reading of the same rules;
//! and each request written anew is the request that was read, with one framing and one Host.
#![no_main]

#[path = "../../http/src/wire/tests/connection.rs"]
mod connection;
#[path = "../../http/src/wire/tests/reference.rs"]
#[expect(dead_code, reason = "the other targets use the rest")]
mod reference;
#[path = "../../http/src/wire/tests/request_reference.rs"]
mod request_reference;
mod support;

use connection::{Arrived, Limits, read};
use libfuzzer_sys::fuzz_target;
use penstock_engine::Result;
use penstock_engine::wire::{
    BodyFraming, BodyLimits, Decoder, Fields, Incoming, IncomingLimits, IncomingScanner, encode_request,
    parse_incoming,
};
use reference::End;
use request_reference::{Maxima, ParsedRequest, requests};
use support::slice;

/// Small, so that inputs of the usual size reach them.
const LIMITS: Limits = Limits {
    head: IncomingLimits { line_bytes: 48, head_bytes: 200, head_fields: 6 },
    body: BodyLimits { chunk_extension_bytes: 24, trailer_bytes: 48 },
};

/// What is written anew may be longer: a Host, a length, a space after each colon.
const ROOM: IncomingLimits = IncomingLimits { line_bytes: 64, head_bytes: 400, head_fields: 8 };

/// What the writer adds by itself or refuses to take from a caller.
const OURS: [&str; 10] = [
    "host",
    "content-length",
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
];

fuzz_target!(|input: &[u8]| {
    let Some((seed, bytes)) = input.split_first() else { return };
    let expected = requests(bytes, LIMITS.maxima());
    let (arrived, left) = read(LIMITS, [bytes]);
    assert_eq!((arrived.iter().map(Arrived::plain).collect(), left.end()), expected);
    assert_eq!(read(LIMITS, support::pieces(bytes, *seed)), (arrived.clone(), left));
    for request in arrived {
        check_written_anew(&request.head);
    }
});

fn pairs(head: &Incoming) -> Vec<(Vec<u8>, Vec<u8>)> {
    head.headers().map(|(name, value)| (name.to_vec(), value.to_vec())).collect()
}

fn check_written_anew(head: &Incoming) {
    if head.authority().is_empty() {
        return;
    }
    let ours = |name: &[u8]| OURS.iter().any(|ours| name.eq_ignore_ascii_case(ours.as_bytes()));
    let kept: Vec<_> = pairs(head).into_iter().filter(|(name, _)| !ours(name)).collect();
    let framing = head.body().expect("checked when it was read");
    let fields: Fields = kept.iter().cloned().collect();
    let bytes = encode_request(head.method(), &head.origin_form(), head.authority(), &fields, framing)
        .expect("what was read can be written");
    let range = IncomingScanner::new(&ROOM).scan(&bytes).expect("a head").expect("a whole one");
    assert_eq!(range, 0..bytes.len());
    let again = parse_incoming(&bytes, &ROOM).expect("a head of ours");
    assert_eq!(again.method(), head.method());
    assert_eq!(again.target(), head.origin_form());
    assert_eq!(again.path(), again.target());
    assert_eq!(again.authority(), head.authority());
    assert!(again.minor_version == 1 && again.keeps_alive());
    let body = match (head.body().expect("as before"), head.method()) {
        (BodyFraming::Empty, "POST" | "PUT" | "PATCH") => BodyFraming::Length(0),
        (body, _) => body,
    };
    assert_eq!(again.body().expect("one framing"), body);
    assert_eq!(again.get_all("host").count(), 1);
    let lengths = again.get_all("content-length").count();
    let codings = again.get_all("transfer-encoding").count();
    assert!(lengths + codings <= 1);
    let written: Vec<_> = pairs(&again).into_iter().filter(|(name, _)| !ours(name)).collect();
    assert_eq!(written, kept);
}
