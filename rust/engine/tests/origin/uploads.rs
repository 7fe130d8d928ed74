//! Request bodies.

use std::sync::{Arc, Mutex};

use penstock_engine::Code;
use penstock_engine::framing::Framing;
use penstock_engine::origin::RequestBody;
use penstock_engine::pool::{Purpose, Slice};
use penstock_engine::stream::{Ending, Feed, FlowConfig};
use tokio::io::AsyncReadExt;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::rig::{AMPLE, Rig, SHORT, pattern, request};
use crate::server::{Server, ok};

fn slice(rig: &Rig, bytes: &[u8]) -> Slice {
    let mut writer = rig.pool.writer(bytes.len(), Purpose::Bulk).unwrap();
    writer.spare()[..bytes.len()].copy_from_slice(bytes);
    writer.commit(bytes.len())
}

fn streamed(rig: &Rig, length: Option<u64>) -> (Feed, RequestBody) {
    let (feed, stream) = rig.channel(&Framing::Raw);
    (feed, RequestBody::Stream { stream, length })
}

/// Takes whole requests with a Content-Length, and keeps head and body.
async fn keeping() -> (Server, Arc<Mutex<Vec<(String, Vec<u8>)>>>) {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&kept);
    let server = Server::start(move |mut peer, _| {
        let log = Arc::clone(&log);
        async move {
            while let Some(head) = peer.request().await {
                let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
                let body = peer.take(length.map_or(0, |length| length.parse().unwrap())).await;
                log.lock().unwrap().push((head, body));
                peer.send(&ok("done")[..]).await;
            }
        }
    })
    .await;
    (server, kept)
}

#[tokio::test]
async fn bytes_are_sent_with_their_length() {
    let (server, kept) = keeping().await;
    let rig = Rig::new();
    for size in [0, 5, 3_000_000] {
        let body = pattern(size);
        let got =
            rig.fetch(request("PUT", &server, RequestBody::Bytes(body.clone()))).collect().await.unwrap();
        assert_eq!(got.bytes, b"done");
        let (head, sent) = kept.lock().unwrap().pop().unwrap();
        assert!(head.contains(&format!("Content-Length: {size}\r\n")), "{head}");
        assert!(sent == body, "the body was altered");
    }
    assert_eq!(server.connections(), 1);
    rig.check().await;
}

#[tokio::test]
async fn a_stream_of_known_length_is_sent_as_it_comes() {
    let (server, kept) = keeping().await;
    let rig = Rig::new();
    let (feed, body) = streamed(&rig, Some(10));
    let reply = rig.fetch(request("POST", &server, body));
    for part in [&b"01234"[..], b"", b"56789"] {
        feed.room().await.unwrap();
        if !part.is_empty() {
            feed.push(slice(&rig, part)).await.unwrap();
        }
    }
    feed.finish(Ending::default());
    assert_eq!(reply.collect().await.unwrap().bytes, b"done");
    assert_eq!(kept.lock().unwrap()[0].1, b"0123456789");
    assert_eq!(rig.connections(), (0, 1, 0), "the connection is as good as before");
    rig.check().await;
}

#[tokio::test]
async fn a_stream_of_unknown_length_is_sent_in_chunks() {
    let (sender, receiver) = oneshot::channel();
    let sender = Arc::new(Mutex::new(Some(sender)));
    let server = Server::start(move |mut peer, _| {
        let sender = sender.lock().unwrap().take();
        async move {
            let head = peer.request().await.unwrap();
            assert!(head.contains("Transfer-Encoding: chunked\r\n"), "{head}");
            let body = peer.take(b"3\r\nabc\r\n5\r\ndefgh\r\n0\r\n\r\n".len()).await;
            sender.unwrap().send(body).unwrap();
            peer.send(&ok("done")[..]).await;
        }
    })
    .await;
    let rig = Rig::new();
    let (feed, body) = streamed(&rig, None);
    let reply = rig.fetch(request("POST", &server, body));
    for part in [&b"abc"[..], b"defgh"] {
        feed.room().await.unwrap();
        feed.push(slice(&rig, part)).await.unwrap();
    }
    feed.finish(Ending::default());
    assert_eq!(reply.collect().await.unwrap().bytes, b"done");
    assert_eq!(receiver.await.unwrap(), b"3\r\nabc\r\n5\r\ndefgh\r\n0\r\n\r\n");
    rig.check().await;
}

#[tokio::test]
async fn head_and_first_piece_leave_in_one_write() {
    let (sender, receiver) = oneshot::channel();
    let sender = Arc::new(Mutex::new(Some(sender)));
    let server = Server::start(move |mut peer, _| {
        let sender = sender.lock().unwrap().take();
        async move {
            let mut buffer = vec![0; 4096];
            let count = peer.stream.read(&mut buffer).await.unwrap();
            buffer.truncate(count);
            sender.unwrap().send(buffer).unwrap();
            peer.send(&ok("done")[..]).await;
        }
    })
    .await;
    let rig = Rig::new();
    let (feed, body) = streamed(&rig, None);
    feed.push(slice(&rig, b"abc")).await.unwrap();
    feed.finish(Ending::default());
    rig.fetch(request("POST", &server, body)).collect().await.unwrap();
    let first = receiver.await.unwrap();
    assert!(first.ends_with(b"\r\n\r\n3\r\nabc\r\n0\r\n\r\n"), "{}", String::from_utf8_lossy(&first));
    rig.check().await;
}

#[tokio::test]
async fn a_body_larger_than_every_buffer_goes_through_a_small_window() {
    const SIZE: usize = 20 << 20;
    let (server, kept) = keeping().await;
    let rig = Rig::new();
    let (feed, body) = streamed(&rig, Some(SIZE as u64));
    let reply = rig.fetch(request("PUT", &server, body));
    for _ in 0..SIZE / (64 << 10) {
        feed.room().await.unwrap();
        feed.push(slice(&rig, &vec![7; 64 << 10])).await.unwrap();
    }
    feed.finish(Ending::default());
    assert_eq!(reply.collect().await.unwrap().bytes, b"done");
    assert_eq!(kept.lock().unwrap()[0].1.len(), SIZE);
    rig.check().await;
}

/// While the socket takes nothing, the pieces that wait for it are the whole window: that is no failure.
#[tokio::test]
async fn a_window_smaller_than_one_write_is_enough() {
    const SIZE: usize = 12 << 20;
    let server = Server::start(|mut peer, _| async move {
        peer.request().await;
        // Every buffer between here and there is full by then.
        tokio::time::sleep(SHORT * 2).await;
        let body = peer.take(SIZE).await;
        peer.send(&ok(&body.len().to_string())[..]).await;
    })
    .await;
    let mut rig = Rig::new();
    rig.flow = FlowConfig { floor: 16 << 10, ceiling: 16 << 10 };
    let (feed, body) = streamed(&rig, Some(SIZE as u64));
    let reply = rig.fetch(request("PUT", &server, body));
    for _ in 0..SIZE / (4 << 10) {
        feed.room().await.unwrap();
        feed.push(slice(&rig, &[7; 4 << 10])).await.unwrap();
    }
    feed.finish(Ending::default());
    assert_eq!(reply.collect().await.unwrap().bytes, SIZE.to_string().as_bytes());
    rig.check().await;
}

#[tokio::test]
async fn a_length_that_was_wrong_fails_and_closes_the_connection() {
    for (announced, parts) in [(10, vec![&b"01234"[..]]), (4, vec![b"01234"]), (5, vec![b"01234", b"5"])] {
        let (sender, receiver) = oneshot::channel();
        let sender = Arc::new(Mutex::new(Some(sender)));
        let server = Server::start(move |mut peer, _| {
            let sender = sender.lock().unwrap().take();
            async move {
                peer.request().await;
                peer.until_closed().await;
                sender.unwrap().send(()).unwrap();
            }
        })
        .await;
        let rig = Rig::new();
        let (feed, body) = streamed(&rig, Some(announced));
        for part in parts {
            feed.push(slice(&rig, part)).await.unwrap();
        }
        feed.finish(Ending::default());
        let error = rig.failure(request("POST", &server, body)).await;
        assert_eq!(error.code(), Code::UploadFailed, "{error}");
        timeout(AMPLE, receiver).await.expect("the connection was not closed").unwrap();
        rig.check().await;
    }
}

#[tokio::test]
async fn a_source_that_fails_fails_the_request_and_the_body_never_looks_whole() {
    let (sender, receiver) = oneshot::channel();
    let sender = Arc::new(Mutex::new(Some(sender)));
    let server = Server::start(move |mut peer, _| {
        let sender = sender.lock().unwrap().take();
        async move {
            peer.request().await;
            let sent = peer.take(usize::MAX).await;
            sender.unwrap().send(sent).unwrap();
        }
    })
    .await;
    let rig = Rig::new();
    let (feed, body) = streamed(&rig, None);
    let reply = rig.fetch(request("POST", &server, body));
    feed.push(slice(&rig, b"abc")).await.unwrap();
    feed.room().await.unwrap();
    feed.fail(Code::FileFailed.error("the disk is gone"));
    let error = reply.collect().await.unwrap_err();
    assert_eq!(error.code(), Code::UploadFailed);
    assert!(error.detail().contains("the disk is gone"), "{error}");
    let sent = timeout(AMPLE, receiver).await.expect("the connection was not closed").unwrap();
    assert!(!sent.ends_with(b"0\r\n\r\n"), "the body looks whole");
    rig.check().await;
}

#[tokio::test]
async fn an_early_answer_is_delivered_and_the_connection_not_kept() {
    for response in [
        "HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    ] {
        let server = Server::start(move |mut peer, _| async move {
            peer.request().await;
            peer.send(response).await;
            peer.until_closed().await;
        })
        .await;
        let rig = Rig::new();
        let (feed, body) = streamed(&rig, None);
        let got = rig.fetch(request("POST", &server, body)).collect().await.unwrap();
        assert_eq!(got.bytes.len(), 2);
        assert_eq!(rig.connections(), (0, 0, 0), "the request was not sent to its end");
        assert_eq!(feed.room().await.unwrap_err().code(), Code::StreamClosed, "the source was not told");
        drop(feed);
        rig.check().await;
    }
}

#[tokio::test]
async fn an_answer_counts_even_if_the_origin_refused_the_body() {
    let server = Server::start(|mut peer, _| async move {
        peer.request().await;
        peer.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno").await;
        // What was sent and not read makes this a reset.
    })
    .await;
    let rig = Rig::new();
    let body = RequestBody::Bytes(vec![7; 16 << 20]);
    // Linux keeps what has arrived readable after a reset.
    let got = rig.fetch(request("POST", &server, body)).collect().await.unwrap();
    assert_eq!((got.status, &got.bytes[..]), (413, &b"no"[..]));
    rig.check().await;
}

#[tokio::test]
async fn upload_and_download_go_on_at_the_same_time() {
    // Echoes each byte as a chunk, and ends with the request.
    let server = Server::start(|mut peer, _| async move {
        peer.request().await;
        peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await;
        for _ in 0..3 {
            let chunk = peer.take(6).await;
            peer.send(&chunk).await;
        }
        peer.take(5).await;
        peer.send("0\r\n\r\n").await;
    })
    .await;
    let rig = Rig::new();
    let (feed, body) = streamed(&rig, None);
    let reply = rig.fetch(request("POST", &server, body));
    for byte in [b"a", b"b", b"c"] {
        feed.room().await.unwrap();
        feed.push(slice(&rig, byte)).await.unwrap();
        assert_eq!(reply.next().await.unwrap().unwrap(), byte);
    }
    feed.finish(Ending::default());
    assert!(reply.next().await.is_none());
    drop(reply);
    rig.check().await;
}

#[tokio::test]
async fn an_origin_that_takes_no_body_runs_into_the_limit() {
    let server = Server::start(|peer, _| async move {
        // Held open and never read.
        let _peer = peer;
        std::future::pending::<()>().await;
    })
    .await;
    let rig = Rig::new();
    let mut request = request("POST", &server, RequestBody::Bytes(vec![7; 64 << 20]));
    request.timeouts.between_bytes = Some(SHORT);
    let error = rig.failure(request).await;
    assert_eq!(error.code(), Code::IoTimeout, "{error}");
    rig.check().await;
}

#[tokio::test]
async fn waiting_for_the_source_is_no_fault_of_the_origin() {
    let (server, kept) = keeping().await;
    let rig = Rig::new();
    let (feed, body) = streamed(&rig, Some(3));
    let mut request = request("POST", &server, body);
    request.timeouts.between_bytes = Some(SHORT);
    request.timeouts.first_byte = Some(SHORT);
    let reply = rig.fetch(request);
    tokio::time::sleep(SHORT * 3).await;
    feed.push(slice(&rig, b"abc")).await.unwrap();
    feed.finish(Ending::default());
    assert_eq!(reply.collect().await.unwrap().bytes, b"done");
    assert_eq!(kept.lock().unwrap()[0].1, b"abc");
    rig.check().await;
}
