//! When a request is sent a second time, and when not.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use penstock_engine::Code;
use penstock_engine::origin::{Endpoint, RequestBody, Scheme};

use crate::rig::{Rig, get, request, request_to};
use crate::server::{Peer, Server, ok};
use tokio::net::TcpStream;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Then {
    Close,
    Reset,
    HalfHead,
}

/// Answers the first request of each connection well; what happens to the second is `then`. Counts requests.
async fn treacherous(then: Then) -> (Server, Arc<AtomicUsize>) {
    let requests = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&requests);
    let server = Server::start(move |mut peer: Peer<TcpStream>, _| {
        let counter = Arc::clone(&counter);
        async move {
            for turn in 0.. {
                if peer.request().await.is_none() {
                    return;
                }
                counter.fetch_add(1, Ordering::Relaxed);
                match (turn, then) {
                    (0, _) => peer.send(&ok("hello")[..]).await,
                    (_, Then::Close) => return,
                    (_, Then::Reset) => return peer.reset(),
                    (_, Then::HalfHead) => return peer.send("HTTP/1.1 200").await,
                }
            }
        }
    })
    .await;
    (server, requests)
}

#[tokio::test]
async fn a_dead_idle_connection_costs_an_idempotent_request_nothing() {
    for then in [Then::Close, Then::Reset] {
        for (method, body) in [("GET", None), ("DELETE", None), ("PUT", Some(b"data".to_vec()))] {
            let (server, requests) = treacherous(then).await;
            let rig = Rig::new();
            rig.get(&server).await.unwrap();
            let body = body.map_or(RequestBody::None, RequestBody::Bytes);
            let got = rig.fetch(request(method, &server, body)).collect().await.unwrap();
            assert_eq!(got.bytes, b"hello");
            assert!(!got.reused, "the answer came on a new connection");
            assert_eq!((server.connections(), requests.load(Ordering::Relaxed)), (2, 3), "{method} {then:?}");
            assert_eq!(rig.stats().counts.retried, 1);
            rig.check().await;
        }
    }
}

#[tokio::test]
async fn a_request_that_may_not_happen_twice_is_sent_once() {
    for method in ["POST", "PATCH", "get"] {
        let (server, requests) = treacherous(Then::Close).await;
        let rig = Rig::new();
        rig.get(&server).await.unwrap();
        let error = rig.failure(request(method, &server, RequestBody::None)).await;
        assert_eq!(error.code(), Code::OriginClosed, "{method}");
        assert_eq!((server.connections(), requests.load(Ordering::Relaxed)), (1, 2), "{method}");
        rig.check().await;
    }
}

#[tokio::test]
async fn a_streamed_body_is_sent_once() {
    let (server, requests) = treacherous(Then::Close).await;
    let rig = Rig::new();
    rig.get(&server).await.unwrap();
    let (feed, stream) = rig.channel(&penstock_engine::framing::Framing::Raw);
    feed.finish(penstock_engine::stream::Ending::default());
    let body = RequestBody::Stream { stream, length: None };
    let error = rig.failure(request("PUT", &server, body)).await;
    assert_eq!(error.code(), Code::OriginClosed);
    assert_eq!((server.connections(), requests.load(Ordering::Relaxed)), (1, 2));
    rig.check().await;
}

#[tokio::test]
async fn after_a_byte_of_the_response_nothing_is_repeated() {
    let (server, requests) = treacherous(Then::HalfHead).await;
    let rig = Rig::new();
    rig.get(&server).await.unwrap();
    assert_eq!(rig.failure(get(&server)).await.code(), Code::OriginClosed);
    assert_eq!((server.connections(), requests.load(Ordering::Relaxed)), (1, 2));
    rig.check().await;
}

#[tokio::test]
async fn the_second_attempt_is_the_last() {
    // From the second connection on, nothing is answered.
    let server = Server::start(|mut peer, number| async move {
        peer.request().await;
        if number == 0 {
            peer.send(&ok("hello")[..]).await;
            peer.request().await;
        }
    })
    .await;
    let rig = Rig::new();
    rig.get(&server).await.unwrap();
    assert_eq!(rig.failure(get(&server)).await.code(), Code::OriginClosed);
    assert_eq!(server.connections(), 2);
    rig.check().await;
}

#[tokio::test]
async fn a_fresh_connection_is_no_reason_to_repeat() {
    let server = Server::once("").await;
    let rig = Rig::new();
    assert_eq!(rig.failure(get(&server)).await.code(), Code::OriginClosed);
    assert_eq!(server.connections(), 1);
    rig.check().await;
}

/// What cannot be repeated is not sent on a connection that the kernel knows to be closed, even if the runtime has
/// not heard of it yet: it hears nothing here, because its thread is blocked while the origin closes.
#[tokio::test]
async fn a_post_does_not_take_a_connection_that_has_just_ended() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (close, closing) = mpsc::channel::<()>();
    let (closed, ended) = mpsc::channel::<()>();
    let origin = std::thread::spawn(move || {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            assert!(stream.read(&mut request).unwrap() > 0, "a connection without a request");
            stream.write_all(ok("hello").as_bytes()).unwrap();
            closing.recv().unwrap();
            drop(stream);
            closed.send(()).unwrap();
        }
    });
    let endpoint = || Endpoint::new(Scheme::Http, "127.0.0.1", address.port(), None).unwrap();
    let rig = Rig::new();
    for _ in 0..2 {
        let post = rig.fetch(request_to("POST", endpoint(), RequestBody::None));
        let got = post.collect().await.unwrap();
        assert_eq!((&got.bytes[..], got.reused), (&b"hello"[..], false));
        assert_eq!(rig.connections().1, 1);
        close.send(()).unwrap();
        ended.recv().unwrap();
    }
    origin.join().unwrap();
    rig.check().await;
}
