//! Whole responses, by each way that a body can end.

use penstock_engine::framing::Framing;
use penstock_engine::origin::RequestBody;

use crate::rig::{Rig, get, pattern, request};
use crate::server::{Server, ok};

#[tokio::test]
async fn bodies_arrive_however_they_are_delimited() {
    for (response, body) in [
        (ok("hello"), "hello"),
        (ok(""), ""),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n"
                .into(),
            "hello",
        ),
        ("HTTP/1.1 200 OK\r\n\r\nhello".into(), "hello"),
        ("HTTP/1.0 200 OK\r\n\r\nhello".into(), "hello"),
        ("HTTP/1.1 204 No Content\r\n\r\n".into(), ""),
        ("HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n".into(), ""),
    ] {
        let (rig, server) = (Rig::new(), Server::once(response.clone()).await);
        let got = rig.get(&server).await.unwrap();
        assert_eq!(got.bytes, body.as_bytes(), "{response}");
        rig.check().await;
    }
}

#[tokio::test]
async fn a_response_may_come_byte_by_byte() {
    let response =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\nA: b\r\n\r\n";
    let server = Server::start(move |mut peer, _| async move {
        peer.request().await;
        for byte in response.as_bytes() {
            peer.send([*byte]).await;
            tokio::task::yield_now().await;
        }
    })
    .await;
    let rig = Rig::new();
    let got = rig.get(&server).await.unwrap();
    assert_eq!(got.bytes, b"hello");
    assert_eq!(got.ending.trailers, [(b"A".to_vec(), b"b".to_vec())]);
    rig.check().await;
}

#[tokio::test]
async fn the_answer_to_head_has_no_body_and_leaves_the_connection_usable() {
    let server = Server::always("HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n").await;
    let rig = Rig::new();
    for reused in [false, true] {
        let got = rig.fetch(request("HEAD", &server, RequestBody::None)).collect().await.unwrap();
        assert_eq!((got.status, got.bytes.len(), got.reused), (200, 0, reused));
    }
    rig.check().await;
}

#[tokio::test]
async fn interim_responses_are_skipped() {
    let interim = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n";
    let server = Server::always(format!("{interim}{}", ok("hello"))).await;
    let rig = Rig::new();
    for _ in 0..2 {
        assert_eq!(rig.get(&server).await.unwrap().bytes, b"hello");
    }
    assert_eq!(server.connections(), 1);
    rig.check().await;
}

#[tokio::test]
async fn a_head_larger_than_a_page_is_read_whole() {
    let value = "x".repeat(9000);
    let server =
        Server::always(format!("HTTP/1.1 200 OK\r\nA: {value}\r\nContent-Length: 5\r\n\r\nhello")).await;
    let rig = Rig::new();
    let reply = rig.fetch(get(&server));
    assert_eq!(reply.head().await.unwrap().head.get("a").unwrap(), value.as_bytes());
    assert_eq!(reply.collect().await.unwrap().bytes, b"hello");
    rig.check().await;
}

#[tokio::test]
async fn raw_payload_of_plain_http_is_never_copied() {
    let payload = pattern(3_000_000);
    let mut response = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", payload.len()).into_bytes();
    response.extend(&payload);
    let server = Server::always(response).await;
    let rig = Rig::new();
    let got = rig.get(&server).await.unwrap();
    assert!(got.bytes == payload, "the payload was altered");
    assert_eq!(rig.pool.stats().bytes_copied.iter().sum::<usize>(), 0);
    rig.check().await;
}

#[tokio::test]
async fn a_large_frame_lies_in_one_piece_and_only_its_first_bytes_are_moved() {
    const FRAME: usize = 700_000;
    let payload = pattern(3 * FRAME);
    for framing in [format!("Content-Length: {}\r\n", payload.len()), String::new()] {
        let mut response = format!("HTTP/1.1 200 OK\r\n{framing}\r\n").into_bytes();
        response.extend(&payload);
        let (rig, server) = (Rig::new(), Server::once(response).await);
        let got = rig.fetch_framed(get(&server), &Framing::Fixed { size: FRAME }).collect().await.unwrap();
        assert!(got.bytes == payload, "the payload was altered");
        assert_eq!(got.frames, 3);
        let copied = rig.pool.stats().bytes_copied.iter().sum::<usize>();
        assert!(copied < 4096, "{copied} bytes were copied, more than came with the head");
        rig.check().await;
    }
}

#[tokio::test]
async fn frames_that_lie_several_to_a_slab_are_not_copied_either() {
    const FRAME: usize = 100_000;
    let payload = pattern(20 * FRAME);
    let mut response = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", payload.len()).into_bytes();
    response.extend(&payload);
    let (rig, server) = (Rig::new(), Server::once(response).await);
    let got = rig.fetch_framed(get(&server), &Framing::Fixed { size: FRAME }).collect().await.unwrap();
    assert!(got.bytes == payload, "the payload was altered");
    assert_eq!(got.frames, 20);
    let copied = rig.pool.stats().bytes_copied.iter().sum::<usize>();
    assert!(copied < 4096, "{copied} bytes were copied, more than came with the head");
    rig.check().await;
}

/// As small as a frame can be that is worth memory of its own, and what comes with the head is much of it.
#[tokio::test]
async fn frames_that_are_barely_worth_it_are_not_copied_either() {
    const FRAME: usize = 17_000;
    let payload = pattern(100 * FRAME);
    let mut response = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", payload.len()).into_bytes();
    response.extend(&payload);
    let (rig, server) = (Rig::new(), Server::once(response).await);
    let got = rig.fetch_framed(get(&server), &Framing::Fixed { size: FRAME }).collect().await.unwrap();
    assert!(got.bytes == payload, "the payload was altered");
    let copied = rig.pool.stats().bytes_copied.iter().sum::<usize>();
    assert!(copied < 4096, "{copied} bytes were copied, more than came with the head");
    rig.check().await;
}

/// Senders that write the length and the frame apart: the memory taken for one must not be filled with the next.
#[tokio::test]
async fn frames_that_come_after_their_lengths_are_not_copied() {
    const FRAME: usize = 100_000;
    const FRAMES: usize = 6;
    let rig = Rig::new();
    let meter = std::sync::Arc::clone(&rig.meter);
    let server = Server::start(move |mut peer, _| {
        let meter = std::sync::Arc::clone(&meter);
        async move {
            peer.request().await;
            let length = FRAMES * (FRAME + 4);
            peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n")).await;
            let mut sent = 0;
            for piece in [&u32::try_from(FRAME).unwrap().to_be_bytes()[..], &pattern(FRAME)].repeat(FRAMES) {
                peer.send(piece).await;
                sent += piece.len() as u64;
                while meter.bytes() < sent {
                    tokio::task::yield_now().await;
                }
            }
        }
    })
    .await;
    let framing = Framing::LengthPrefixed { width: 4, little_endian: false, max_frame: FRAME };
    let got = rig.fetch_framed(get(&server), &framing).collect().await.unwrap();
    assert!(got.bytes == pattern(FRAME).repeat(FRAMES), "the payload was altered");
    assert_eq!(rig.pool.stats().bytes_copied.iter().sum::<usize>(), 0);
    rig.check().await;
}

/// A frame's size is known only when its prefix has been read, together with some of the frame: that is moved to where
/// the rest is read. Chunks are joined, but never twice.
#[tokio::test]
async fn of_length_prefixed_frames_only_the_beginning_is_moved() {
    let sizes = [10, 0, 70_000, 4096, 300_000, 1, 1_000_000, 20_000];
    let mut payload = Vec::new();
    for size in sizes {
        payload.extend(u32::try_from(size).unwrap().to_be_bytes());
        payload.extend(pattern(size));
    }
    for chunked in [false, true] {
        let mut response = if chunked {
            format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n", payload.len())
                .into_bytes()
        } else {
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", payload.len()).into_bytes()
        };
        response.extend(&payload);
        response.extend(if chunked { &b"\r\n0\r\n\r\n"[..] } else { b"" });
        let (rig, server) = (Rig::new(), Server::once(response).await);
        let framing = Framing::LengthPrefixed { width: 4, little_endian: false, max_frame: 1 << 20 };
        let got = rig.fetch_framed(get(&server), &framing).collect().await.unwrap();
        assert_eq!(got.frames, sizes.len());
        assert_eq!(got.bytes.len(), sizes.iter().sum::<usize>());
        let copied = rig.pool.stats().bytes_copied.iter().sum::<usize>();
        // Three frames begin in reads of at most 256 KiB and end outside.
        let most = if chunked { payload.len() } else { 3 * (256 << 10) };
        assert!(copied <= most, "{copied} of {} bytes were copied", payload.len());
        rig.check().await;
    }
}
