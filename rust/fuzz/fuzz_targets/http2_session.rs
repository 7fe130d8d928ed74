//! Whatever a client of HTTP/2 sends, whole and in pieces, it gets the same answers, and each head that comes of it is one request
//! of HTTP/1.1 or none.
#![no_main]

mod support;

use libfuzzer_sys::fuzz_target;
use penstock_engine::wire::{IncomingLimits, parse_incoming};
use penstock_http2::{First, Item, Limits, Session};

const LIMITS: Limits = Limits { streams: 8, window: 1000, connection_window: 70_000, head_bytes: 4096 };
const HEAD: IncomingLimits = IncomingLimits { line_bytes: 1 << 16, head_bytes: 1 << 16, head_fields: 1 << 12 };
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// What is answered to these pieces, and the heads that came.
fn answered<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<u8>, Vec<Vec<u8>>) {
    let (mut session, mut heads) = (Session::server(LIMITS), Vec::new());
    session.receive(PREFACE).expect("it is a preface");
    for piece in pieces {
        if let Err(failure) = session.receive(piece) {
            session.fail(failure.code);
            break;
        }
    }
    while let Some(stream) = session.accept() {
        while let Some(item) = session.read(stream) {
            match item {
                Item::Head(text) => heads.push(text),
                Item::Data(data) => session.release(stream, data.len()),
                Item::Trailers(_) => {}
            }
        }
        session.send_head(stream, First::Status(b"200"), [], false);
        session.offer(stream, 3);
        session.end(stream, []);
        session.close(stream);
    }
    let mut said = std::mem::take(session.control());
    while session.frame(2, 3, &mut said).is_some() {
        said.append(session.control());
    }
    (said, heads)
}

fuzz_target!(|input: &[u8]| {
    let Some((seed, bytes)) = input.split_first() else { return };
    let (said, heads) = answered([bytes]);
    assert_eq!(answered(support::pieces(bytes, *seed)), (said, heads.clone()));
    for mut head in heads {
        head.extend_from_slice(b"\r\n");
        if let Ok(incoming) = parse_incoming(&head, &HEAD) {
            assert_eq!(incoming.minor_version, 1);
            assert_eq!(incoming.get_all("host").count(), 1);
            assert_eq!(incoming.get_all("transfer-encoding").count(), 0);
        }
    }
});
