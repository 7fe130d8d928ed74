//! Two sessions that talk to each other, and frames that break the rules.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use proptest::prelude::*;

use crate::frame::{FrameHead, HEAD, PREFACE, flag, kind, write};
use crate::{ErrorCode, First, Item, Limits, Priority, Reset, Session};

const LIMITS: Limits = Limits { streams: 4, window: 70_000, connection_window: 100_000, head_bytes: 4096 };
const GET: First<'_> =
    First::Request { method: b"GET", scheme: b"https", authority: b"a.example", path: b"/" };

/// What is to be sent now; a body is zeros.
fn sent(session: &mut Session) -> Vec<u8> {
    let mut bytes = std::mem::take(session.control());
    while let Some(frame) = session.frame(16 << 10, 16 << 10, &mut bytes) {
        bytes.resize(bytes.len() + frame.bytes, 0);
        bytes.append(session.control());
    }
    bytes
}

/// Both sides say all that they have to say.
fn settle(client: &mut Session, server: &mut Session) {
    loop {
        let (there, back) = (sent(client), sent(server));
        if there.is_empty() && back.is_empty() {
            return;
        }
        server.receive(&there).unwrap();
        client.receive(&back).unwrap();
    }
}

fn pair() -> (Session, Session) {
    let (mut client, mut server) = (Session::client(LIMITS), Session::server(LIMITS));
    settle(&mut client, &mut server);
    assert!(client.is_open() && server.is_open());
    (client, server)
}

fn asked(client: &mut Session, server: &mut Session, ends: bool) -> u32 {
    let stream = client.open().unwrap();
    client.send_head(stream, GET, [], ends);
    settle(client, server);
    assert_eq!(server.accept(), Some(stream));
    assert_eq!(server.read(stream), Some(Item::Head(b"GET / HTTP/1.1\r\nHost: a.example\r\n".to_vec())));
    stream
}

/// Reads a body, as far as it is there, and releases it.
fn drain(session: &mut Session, stream: u32) -> usize {
    let mut count = 0;
    while let Some(item) = session.read(stream) {
        if let Item::Data(data) = item {
            assert!(data.iter().all(|byte| *byte == 0));
            session.release(stream, data.len());
            count += data.len();
        }
    }
    count
}

#[test]
fn a_message_goes_each_way_with_its_trailers() {
    let (mut client, mut server) = pair();
    let stream = asked(&mut client, &mut server, false);
    client.offer(stream, 10);
    client.end(stream, []);
    settle(&mut client, &mut server);
    assert_eq!(server.read(stream), Some(Item::Data([0; 10][..].into())));
    assert!(server.has_received_all(stream) && server.read(stream).is_none());
    server.send_head(stream, First::Status(b"103"), [(&b"Link"[..], &b"</a>"[..])], false);
    server.send_head(stream, First::Status(b"200"), [(&b"X-A"[..], &b"1"[..])], false);
    server.offer(stream, 3);
    server.end(stream, [(&b"grpc-status"[..], &b"0"[..])]);
    settle(&mut client, &mut server);
    for item in [
        Item::Head(b"HTTP/1.1 103 \r\nlink: </a>\r\n".to_vec()),
        Item::Head(b"HTTP/1.1 200 \r\nx-a: 1\r\n".to_vec()),
        Item::Data([0; 3][..].into()),
        Item::Trailers(b"grpc-status: 0\r\n".to_vec()),
    ] {
        assert_eq!(client.read(stream), Some(item));
    }
    assert!(client.has_received_all(stream) && server.has_sent_all(stream));
    client.close(stream);
    server.close(stream);
    assert!(client.is_empty() && server.is_empty());
    assert!(client.control().is_empty() && server.control().is_empty(), "neither has anything to say");
}

#[test]
fn windows_hold_what_is_not_read() {
    let (mut client, mut server) = pair();
    let (first, second) = (asked(&mut client, &mut server, true), asked(&mut client, &mut server, true));
    for stream in [first, second] {
        server.send_head(stream, First::Status(b"200"), [], false);
        server.offer(stream, 200_000);
    }
    settle(&mut client, &mut server);
    // The first one has its window, the second one what is left of the connection's.
    assert_eq!((server.unsent(first), server.unsent(second)), (130_000, 170_000));
    assert!(server.is_held(first) && server.is_held(second));
    let mut read = drain(&mut client, second);
    while read < 200_000 {
        settle(&mut client, &mut server);
        let more = drain(&mut client, second);
        assert!(more > 0, "a stream that is not read holds up another one after {read} bytes");
        read += more;
    }
    assert_eq!(server.unsent(first), 130_000);
}

#[test]
fn the_most_urgent_body_goes_first_and_parts_take_turns() {
    let (mut client, mut server) = pair();
    let streams = [(3, false), (1, false), (3, true), (3, true)].map(|(urgency, incremental)| {
        let stream = client.open().unwrap();
        let value = format!("u={urgency}{}", if incremental { ", i" } else { "" });
        client.send_head(stream, GET, [(&b"priority"[..], value.as_bytes())], true);
        stream
    });
    settle(&mut client, &mut server);
    for stream in streams {
        assert_eq!(server.accept(), Some(stream));
        server.send_head(stream, First::Status(b"200"), [], false);
        server.offer(stream, 2);
    }
    let mut order = Vec::new();
    while let Some(frame) = server.frame(1, 1, &mut Vec::new()) {
        order.push(frame.stream);
    }
    let [whole, urgent, part, other] = streams;
    assert_eq!(order[..2], [urgent, urgent]);
    let count = |stream| order.iter().filter(|one| **one == stream).count();
    assert_eq!(order.len(), 8);
    assert_eq!((count(whole), count(part), count(other)), (2, 2, 2));
    assert_ne!(order[2], order[3], "neither kind starves the other: {order:?}");
}

/// How long the frames of a body are that is `offered`, and ends there or not.
fn lengths(offered: usize, ends: bool) -> Vec<usize> {
    let (mut client, mut server) = pair();
    let stream = asked(&mut client, &mut server, true);
    server.send_head(stream, First::Status(b"200"), [], false);
    server.offer(stream, offered);
    if ends {
        server.end(stream, []);
    }
    std::iter::from_fn(|| Some(server.frame(90, 100, &mut Vec::new())?.bytes)).collect()
}

#[test]
fn the_end_of_a_body_has_longer_frames_where_they_are_fewer() {
    assert_eq!(lengths(200, true), [100, 100]);
    assert_eq!(lengths(100, true), [100]);
    assert_eq!(lengths(95, true), [95]);
    assert_eq!(lengths(90, true), [90]);
    assert_eq!(lengths(110, true), [90, 20], "as many frames");
    assert_eq!(lengths(200, false), [90, 90, 20]);
}

#[test]
fn what_is_said_of_a_stream_before_it_begins_holds() {
    let (mut client, mut server) = pair();
    for stream in (1..200u32).step_by(2) {
        let mut update = Vec::new();
        write(kind::PRIORITY_UPDATE, 0, 0, &[&stream.to_be_bytes()[..], b"u=0"].concat(), &mut update);
        server.receive(&update).unwrap();
    }
    assert!(server.early.len() <= 32);
    server.keep_early(1, Priority { urgency: 0, incremental: true });
    let stream = asked(&mut client, &mut server, true);
    assert_eq!(server.stream(stream).unwrap().priority, Priority { urgency: 0, incremental: true });
}

#[test]
fn a_stream_that_is_closed_is_sent_to_its_end_or_broken_off() {
    let (mut client, mut server) = pair();
    let (whole, part) = (asked(&mut client, &mut server, true), asked(&mut client, &mut server, true));
    for stream in [whole, part] {
        server.send_head(stream, First::Status(b"200"), [], false);
        server.offer(stream, 10);
    }
    server.end(whole, []);
    server.close(whole);
    server.close(part);
    assert_eq!(server.streams.len(), 1, "one is still being sent");
    settle(&mut client, &mut server);
    assert!(server.is_empty());
    assert!(client.has_received_all(whole) && client.reset_of(whole).is_none());
    assert_eq!(client.reset_of(part), Some(Reset::Received(ErrorCode::CANCEL)));
}

#[test]
fn the_rest_of_a_request_is_of_no_use_after_the_response() {
    let (mut client, mut server) = pair();
    let stream = asked(&mut client, &mut server, false);
    server.send_head(stream, First::Status(b"204"), [], true);
    server.close(stream);
    // On its way meanwhile.
    client.offer(stream, 60_000);
    settle(&mut client, &mut server);
    assert!(client.has_received_all(stream));
    assert_eq!(client.reset_of(stream), Some(Reset::Received(ErrorCode::NO_ERROR)));
    assert_eq!(server.receive_window.room() + server.released, 100_000);
}

#[test]
fn no_more_streams_than_are_allowed() {
    let (mut client, mut server) = pair();
    let streams: Vec<_> = std::iter::from_fn(|| client.open()).collect();
    assert_eq!((streams.len(), client.room()), (4, 0));
    // A client that does not keep to it.
    let mut rogue = Session::client(LIMITS);
    let _ = sent(&mut rogue);
    rogue.peer.streams = 10;
    for _ in 0..5 {
        let stream = rogue.open().unwrap();
        rogue.send_head(stream, GET, [], false);
    }
    server.receive(&sent(&mut rogue)).unwrap();
    assert_eq!(std::iter::from_fn(|| server.accept()).count(), 4);
    rogue.has_settings = true;
    rogue.receive(&sent(&mut server)).unwrap();
    assert_eq!(rogue.reset_of(9), Some(Reset::Refused));
}

#[test]
fn draining_lets_what_has_begun_end() {
    let (mut client, mut server) = pair();
    let stream = asked(&mut client, &mut server, true);
    server.drain();
    settle(&mut client, &mut server);
    assert!(client.is_refused() && client.open().is_none() && !server.is_over());
    server.send_head(stream, First::Status(b"200"), [], true);
    server.close(stream);
    settle(&mut client, &mut server);
    assert!(server.is_over());
    assert_eq!((client.has_received_all(stream), client.reset_of(stream)), (true, None));
}

#[test]
fn streams_above_the_last_of_a_goaway_are_refused() {
    let (mut client, _) = pair();
    let (first, second) = (client.open().unwrap(), client.open().unwrap());
    let mut goaway = Vec::new();
    write(kind::GOAWAY, 0, 0, &[&first.to_be_bytes()[..], &[0; 4]].concat(), &mut goaway);
    client.receive(&goaway).unwrap();
    assert_eq!((client.reset_of(first), client.reset_of(second)), (None, Some(Reset::Refused)));
}

#[test]
fn a_head_that_is_too_large_is_answered() {
    let (mut client, mut server) = pair();
    let stream = client.open().unwrap();
    let value = vec![b'a'; 5000];
    client.send_head(stream, GET, [(&b"x"[..], &value[..])], true);
    settle(&mut client, &mut server);
    assert_eq!(server.accept(), None);
    assert_eq!(client.read(stream), Some(Item::Head(b"HTTP/1.1 431 \r\n".to_vec())));
    assert!(client.has_received_all(stream) && server.is_empty());
}

#[test]
fn a_waker_is_called_when_something_changes() {
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let count = Arc::new(Count(0.into()));
    let woken = || count.0.swap(0, Ordering::Relaxed);
    let (mut client, mut server) = pair();
    let stream = asked(&mut client, &mut server, false);
    let waker = Waker::from(Arc::clone(&count));
    server.watch(stream, &waker);
    client.offer(stream, 1);
    settle(&mut client, &mut server);
    assert!(woken() > 0, "data came");
    server.send_head(stream, First::Status(b"200"), [], false);
    server.offer(stream, 1);
    settle(&mut client, &mut server);
    assert_eq!(woken(), 0, "an event was taken, and nothing waits for room");
    server.watch_room(stream, &waker);
    server.offer(stream, 1);
    settle(&mut client, &mut server);
    assert!(woken() > 0, "there is room");
    client.reset(stream, ErrorCode::CANCEL);
    settle(&mut client, &mut server);
    assert!(woken() > 0, "it was reset");
    assert_eq!(server.reset_of(stream), Some(Reset::Received(ErrorCode::CANCEL)));
}

#[test]
fn streams_are_sparse_once_some_have_come_one_at_a_time() {
    let (mut client, mut server) = pair();
    let first = asked(&mut client, &mut server, true);
    assert!(server.is_sparse());
    asked(&mut client, &mut server, true);
    assert!(!server.is_sparse(), "two at a time");
    let paced = |server: &mut Session| {
        (0..20)
            .take_while(|_| {
                server.note_pace(false);
                !server.is_sparse()
            })
            .count()
    };
    let count = paced(&mut server);
    assert!((1..20).contains(&count));
    server.note_pace(true);
    assert_eq!(paced(&mut server), count);
    server.close(first);
    assert!(server.is_sparse());
}

/// A server that has had a request on stream 1, whose body is to come, and one on stream 3, which it has answered.
fn begun() -> Session {
    let (mut client, mut server) = pair();
    asked(&mut client, &mut server, false);
    let answered = asked(&mut client, &mut server, true);
    server.send_head(answered, First::Status(b"204"), [], true);
    server.close(answered);
    let _ = sent(&mut server);
    server
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(kind, flags, stream, payload, &mut bytes);
    bytes
}

#[test]
fn what_breaks_the_rules_of_a_connection_ends_it() {
    const PROTOCOL: ErrorCode = ErrorCode::PROTOCOL_ERROR;
    const SIZE: ErrorCode = ErrorCode::FRAME_SIZE_ERROR;
    let setting = |number: u16, value: u32| [&number.to_be_bytes()[..], &value.to_be_bytes()].concat();
    let cases = [
        (frame(kind::DATA, 0, 0, b"a"), PROTOCOL),
        (frame(kind::DATA, 0, 5, b"a"), PROTOCOL),
        (frame(kind::DATA, flag::PADDED, 1, &[5, 0]), PROTOCOL),
        (frame(kind::DATA, 0, 3, b"a"), ErrorCode::STREAM_CLOSED),
        (frame(kind::HEADERS, flag::END_HEADERS, 0, b"\x82"), PROTOCOL),
        (frame(kind::HEADERS, flag::END_HEADERS, 6, b"\x82"), PROTOCOL),
        (frame(kind::HEADERS, flag::END_HEADERS, 3, b"\x82"), ErrorCode::STREAM_CLOSED),
        (frame(kind::HEADERS, flag::END_HEADERS, 5, b"\xff\xff\xff\xff\xff"), ErrorCode::COMPRESSION_ERROR),
        ([frame(kind::HEADERS, 0, 5, b"\x82"), frame(kind::PING, 0, 0, &[0; 8])].concat(), PROTOCOL),
        ([frame(kind::HEADERS, 0, 5, b"\x82"), frame(kind::CONTINUATION, 0, 7, b"")].concat(), PROTOCOL),
        (frame(kind::CONTINUATION, flag::END_HEADERS, 5, b"\x82"), PROTOCOL),
        (frame(kind::PRIORITY, 0, 0, &[0; 5]), PROTOCOL),
        (frame(kind::PRIORITY, 0, 7, &[0; 4]), SIZE),
        (frame(kind::RST_STREAM, 0, 1, &[0; 3]), SIZE),
        (frame(kind::RST_STREAM, 0, 0, &[0; 4]), PROTOCOL),
        (frame(kind::RST_STREAM, 0, 5, &[0; 4]), PROTOCOL),
        (frame(kind::SETTINGS, 0, 1, &[]), PROTOCOL),
        (frame(kind::SETTINGS, 0, 0, &[0; 5]), SIZE),
        (frame(kind::SETTINGS, flag::ACK, 0, &[0; 6]), SIZE),
        (frame(kind::SETTINGS, 0, 0, &setting(2, 2)), PROTOCOL),
        (frame(kind::SETTINGS, 0, 0, &setting(4, 1 << 31)), ErrorCode::FLOW_CONTROL_ERROR),
        (frame(kind::SETTINGS, 0, 0, &setting(5, 100)), PROTOCOL),
        (frame(kind::PUSH_PROMISE, 0, 1, &[0; 4]), PROTOCOL),
        (frame(kind::PING, 0, 0, &[0; 7]), SIZE),
        (frame(kind::PING, 0, 1, &[0; 8]), PROTOCOL),
        (frame(kind::GOAWAY, 0, 0, &[0; 7]), SIZE),
        (frame(kind::GOAWAY, 0, 1, &[0; 8]), PROTOCOL),
        (frame(kind::WINDOW_UPDATE, 0, 0, &[0; 4]), PROTOCOL),
        (frame(kind::WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff]), ErrorCode::FLOW_CONTROL_ERROR),
        (frame(kind::WINDOW_UPDATE, 0, 5, &[0, 0, 0, 1]), PROTOCOL),
        (frame(kind::WINDOW_UPDATE, 0, 1, &[0; 3]), SIZE),
        (FrameHead { length: 20_000, kind: kind::DATA, flags: 0, stream: 1 }.bytes().to_vec(), SIZE),
        (vec![0; 16_393].into_iter().chain(frame(kind::DATA, 0, 0, b"")).collect(), PROTOCOL),
    ];
    for (bytes, code) in cases {
        let failure = begun().receive(&bytes).expect_err("it is against the rules");
        assert_eq!(failure.code, code, "{bytes:?}: {}", failure.why);
    }
    assert!(Session::server(LIMITS).receive(b"GET / HTTP/1.1\r\n").is_err());
    let ping = [&PREFACE[..], &frame(kind::PING, 0, 0, &[0; 8])].concat();
    assert!(Session::server(LIMITS).receive(&ping).is_err());
}

#[test]
fn what_breaks_the_rules_of_a_stream_ends_that() {
    for (bytes, code) in [
        (frame(kind::WINDOW_UPDATE, 0, 1, &[0; 4]), ErrorCode::PROTOCOL_ERROR),
        (frame(kind::WINDOW_UPDATE, 0, 1, &[0x7f, 0xff, 0xff, 0xff]), ErrorCode::FLOW_CONTROL_ERROR),
        // Trailers that do not end the stream, and with a pseudo-field.
        (frame(kind::HEADERS, flag::END_HEADERS, 1, b"\x00\x01a\x01b"), ErrorCode::PROTOCOL_ERROR),
        (frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, b"\x82"), ErrorCode::PROTOCOL_ERROR),
        (frame(kind::PRIORITY, 0, 1, &[0, 0, 0, 1, 0]), ErrorCode::PROTOCOL_ERROR),
        (frame(kind::PRIORITY, 0, 1, &[0; 4]), ErrorCode::FRAME_SIZE_ERROR),
    ] {
        let mut server = begun();
        server.receive(&bytes).unwrap();
        assert_eq!(server.reset_of(1), Some(Reset::Sent(code)), "{bytes:?}");
        let said = frame(kind::RST_STREAM, 0, 1, &code.0.to_be_bytes());
        assert_eq!(*server.control(), said);
    }
    // More than the window of the stream, which the one of the connection has.
    let mut server = begun();
    for _ in 0..5 {
        server.receive(&frame(kind::DATA, 0, 1, &[0; 16_000])).unwrap();
    }
    assert_eq!(server.reset_of(1), Some(Reset::Sent(ErrorCode::FLOW_CONTROL_ERROR)));
}

#[test]
fn a_body_has_the_length_that_its_head_says() {
    for (length, data, is_whole) in [(5, 5, true), (5, 4, false), (5, 6, false), (0, 0, true), (0, 1, false)]
    {
        let (mut client, mut server) = pair();
        let stream = client.open().unwrap();
        let value = length.to_string();
        client.send_head(stream, GET, [(&b"content-length"[..], value.as_bytes())], false);
        client.offer(stream, data);
        client.end(stream, []);
        settle(&mut client, &mut server);
        let reset = client.reset_of(stream);
        assert_eq!(reset.is_none(), is_whole, "{length} {data}: {reset:?}");
    }
}

#[test]
fn a_response_without_a_body_may_tell_its_length() {
    let (mut client, mut server) = pair();
    let stream = asked(&mut client, &mut server, true);
    server.send_head(stream, First::Status(b"304"), [(&b"content-length"[..], &b"7"[..])], false);
    server.end(stream, []);
    settle(&mut client, &mut server);
    assert!(client.has_received_all(stream));
    assert_eq!(client.reset_of(stream), None);
}

#[test]
fn a_small_window_holds_once_the_other_side_knows_it() {
    let limits = Limits { window: 1000, ..LIMITS };
    let (mut client, mut server) = (Session::client(LIMITS), Session::server(limits));
    // Before anything has come of the server.
    let stream = client.open().unwrap();
    client.send_head(stream, GET, [], false);
    client.offer(stream, 20_000);
    server.receive(&sent(&mut client)).unwrap();
    settle(&mut client, &mut server);
    assert_eq!(server.accept(), Some(stream));
    assert_eq!((server.reset_of(stream), drain(&mut server, stream)), (None, 20_000));
    let later = asked(&mut client, &mut server, false);
    client.offer(later, 20_000);
    settle(&mut client, &mut server);
    assert_eq!(client.unsent(later), 19_000);
}

#[test]
fn small_payloads_take_the_memory_of_their_bytes() {
    let mut server = begun();
    for _ in 0..20_000 {
        server.receive(&frame(kind::DATA, 0, 1, b"a")).unwrap();
    }
    assert!(server.stream(1).unwrap().inbound.count() <= 5);
    assert_eq!(drain_any(&mut server), 20_000);
}

fn drain_any(session: &mut Session) -> usize {
    std::iter::from_fn(|| session.read(1))
        .map(|item| if let Item::Data(data) = item { data.len() } else { 0 })
        .sum()
}

#[test]
fn fields_that_unpack_to_much_are_read_and_not_kept() {
    let mut server = begun();
    // A field of 4,000 bytes, and references to it.
    let mut block = vec![0x3f, 0xe1, 0x1f, 0x82, 0x87, 0x84, 0x41, 1, b'a', 0x40, 1, b'x', 0x7f, 0xa1, 0x1e];
    block.resize(block.len() + 4000, b'y');
    block.resize(16_000, 0xbe);
    server.receive(&frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 5, &block)).unwrap();
    assert_eq!(server.accept(), None);
    // It can be read on.
    server.receive(&frame(kind::PING, 0, 0, &[0; 8])).unwrap();
}

/// The order of [`Session::frame`], by a look through all streams.
fn needed_most(session: &Session) -> Option<u32> {
    let room = session.send_window.room();
    let ready = || session.streams.iter().filter(|stream| stream.is_ready(room));
    let urgency = ready().map(|stream| stream.priority.urgency).min()?;
    let of = |incremental| ready().filter(move |stream| stream.priority == Priority { urgency, incremental });
    let whole = of(false).map(|stream| stream.id).min();
    let part = of(true).min_by_key(|stream| (stream.turn, stream.id)).map(|stream| stream.id);
    if session.was_incremental { whole.or(part) } else { part.or(whole) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn of_the_streams_that_have_something_the_most_needed_one_is_found(
        asked in prop::collection::vec((0u8..3, any::<bool>()), 4),
        steps in prop::collection::vec((0u8..6, 0usize..4, 0usize..30_000), 0..80),
    ) {
        let (mut client, mut server) = pair();
        let streams: Vec<u32> = asked.into_iter().map(|(urgency, incremental)| {
            let stream = client.open().unwrap();
            let value = format!("u={urgency}{}", if incremental { ", i" } else { "" });
            client.send_head(stream, GET, [(&b"priority"[..], value.as_bytes())], true);
            stream
        }).collect();
        settle(&mut client, &mut server);
        for (step, which, bytes) in steps {
            let stream = streams[which];
            let is_over = server.stream(stream).is_none_or(|stream| stream.end.is_some() || stream.has_ended());
            match step {
                0 if !is_over => server.offer(stream, bytes),
                1 if !is_over => server.end(stream, [(&b"x"[..], &b"y"[..])][..which % 2].iter().copied()),
                2 if bytes < 3000 => server.reset(stream, ErrorCode::CANCEL),
                3 if bytes < 3000 => server.close(stream),
                4 => server.send_head(stream, First::Status(b"200"), [], false),
                _ => {
                    let expected = needed_most(&server);
                    let frame = server.frame(bytes.max(1), bytes.max(1), &mut Vec::new());
                    prop_assert_eq!(frame.map(|frame| frame.stream), expected);
                }
            }
        }
        while let Some(expected) = needed_most(&server) {
            prop_assert_eq!(server.frame(9000, 9000, &mut Vec::new()).map(|frame| frame.stream), Some(expected));
        }
        prop_assert!(server.frame(1, 1, &mut Vec::new()).is_none());
    }

    #[test]
    fn frames_are_read_however_their_bytes_come(sizes in prop::collection::vec(1usize..20_000, 1..30)) {
        let mut client = Session::client(LIMITS);
        let stream = client.open().unwrap();
        client.send_head(stream, GET, [], false);
        client.offer(stream, 60_000);
        client.end(stream, [(&b"x"[..], &b"y"[..])]);
        let bytes = sent(&mut client);
        let mut server = Session::server(LIMITS);
        let (mut at, mut sizes) = (0, sizes.into_iter().cycle());
        while at < bytes.len() {
            let end = bytes.len().min(at + sizes.next().unwrap());
            server.receive(&bytes[at..end]).unwrap();
            at = end;
        }
        prop_assert_eq!(server.accept(), Some(stream));
        prop_assert!(matches!(server.read(stream), Some(Item::Head(_))));
        let mut count = 0;
        while let Some(Item::Data(data)) = server.read(stream) {
            count += data.len();
        }
        prop_assert_eq!(count, 60_000);
        prop_assert!(server.has_received_all(stream));
    }

    #[test]
    fn any_frames_are_taken_or_refused(frames in prop::collection::vec((0u8..18, any::<u8>(), 0u32..8, prop::collection::vec(any::<u8>(), 0..40)), 0..40)) {
        let mut server = begun();
        for (kind, flags, stream, payload) in frames {
            if let Err(failure) = server.receive(&frame(kind, flags, stream, &payload)) {
                server.fail(failure.code);
                break;
            }
            while let Some(stream) = server.accept() {
                server.send_head(stream, First::Status(b"200"), [], false);
                server.offer(stream, 5);
                server.end(stream, []);
                server.close(stream);
            }
            let _ = sent(&mut server);
            prop_assert!(server.streams.len() <= 200);
        }
        let said = sent(&mut server);
        prop_assert!(said.is_empty() || said.len() >= HEAD);
    }
}
