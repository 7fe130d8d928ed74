//! Everything at once: many requests, many fates, and nothing left behind.

use penstock_engine::Code;
use penstock_engine::origin::{OriginLimits, RequestBody, Roots};
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::rig::{AMPLE, Rig, get, limits, pattern, request};
use crate::server::{Server, ok};

/// What a client does with its reply.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Read,
    LeaveAtOnce,
    LeaveAfterTheHead,
    LeaveAfterAFrame,
}

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";

/// Answers by the path: whole, cut off, reset, chunked, never.
async fn moody() -> Server {
    let large = ok(&"x".repeat(300_000));
    Server::start(move |mut peer, _| {
        let large = large.clone();
        async move {
            while let Some(head) = peer.request().await {
                match head.split(' ').nth(1).unwrap() {
                    "/0" => peer.send(&large).await,
                    "/1" => return peer.send(&large[..5000]).await,
                    "/2" => {
                        peer.send(&large[..5000]).await;
                        return peer.reset();
                    }
                    "/3" => peer.send(CHUNKED).await,
                    "/4" => return,
                    _ => peer.until_closed().await,
                }
            }
        }
    })
    .await
}

#[tokio::test]
async fn many_requests_of_every_fate_leave_nothing() {
    let server = moody().await;
    let rig = Rig::with(OriginLimits { connections: 8, waiting: 1000, ..limits() }, Roots::WebPki);
    let mut tasks = Vec::new();
    for number in 0..400_usize {
        let path = number % 6;
        let fate = match (number / 6) % 4 {
            // No request waits for an answer that never comes.
            0 if path < 5 => Fate::Read,
            1 if path < 5 => Fate::LeaveAfterTheHead,
            2 if path < 5 => Fate::LeaveAfterAFrame,
            _ => Fate::LeaveAtOnce,
        };
        let mut request = get(&server);
        request.target = format!("/{path}");
        let reply = rig.fetch(request);
        tasks.push(tokio::spawn(async move {
            match fate {
                Fate::Read => {
                    let result = reply.collect().await;
                    match (path, result) {
                        (0, Ok(body)) => assert_eq!(body.bytes.len(), 300_000),
                        (3, Ok(body)) => assert_eq!(body.bytes, b"abc"),
                        (1, Err(error)) => assert_eq!(error.code(), Code::BodyTruncated),
                        (2, Err(error)) => assert_eq!(error.code(), Code::OriginReset),
                        (4, Err(error)) => assert_eq!(error.code(), Code::OriginClosed),
                        (path, result) => panic!("/{path}: {result:?}"),
                    }
                }
                Fate::LeaveAtOnce => {
                    for _ in 0..number % 50 {
                        yield_now().await;
                    }
                    reply.abandon().await;
                }
                Fate::LeaveAfterTheHead => {
                    let _ = reply.head().await;
                    reply.abandon().await;
                }
                Fate::LeaveAfterAFrame => {
                    let _ = reply.next().await;
                    reply.abandon().await;
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    rig.check().await;
}

/// More idle connections than the runtime lets one task look at in one turn.
#[tokio::test]
async fn a_crowd_of_idle_connections_is_watched_to_the_last() {
    const CROWD: usize = 300;
    let (arrived, arrivals) = watch::channel(0);
    let (leave, leaving) = watch::channel(CROWD);
    let server = Server::start(move |mut peer, number| {
        let (arrived, mut arrivals, mut leaving) = (arrived.clone(), arrivals.clone(), leaving.clone());
        async move {
            peer.request().await;
            arrived.send_modify(|count| *count += 1);
            // No request is answered before all have arrived, so that each has a connection of its own.
            arrivals.wait_for(|count| *count >= CROWD).await.unwrap();
            peer.send(&ok("hello")[..]).await;
            leaving.wait_for(|first| number >= *first).await.unwrap();
        }
    })
    .await;
    let rig = Rig::with(OriginLimits { connections: CROWD, ..limits() }, Roots::WebPki);
    let replies: Vec<_> = (0..CROWD).map(|_| rig.fetch(get(&server))).collect();
    for reply in replies {
        reply.collect().await.unwrap();
    }
    assert_eq!((server.connections(), rig.connections().1), (CROWD, CROWD));
    // The last ones first: behind more quiet ones than one turn allows.
    for left in [CROWD - 50, 0] {
        leave.send(left).unwrap();
        let gone = async {
            while rig.connections().1 > left {
                yield_now().await;
            }
        };
        timeout(AMPLE, gone).await.expect("an idle connection is not watched");
    }
    assert_eq!(rig.stats().counts.closed, CROWD as u64);
    rig.check().await;
}

#[tokio::test]
async fn bodies_both_ways_on_many_connections_stay_whole() {
    let server = Server::start(|mut peer, _| async move {
        while peer.request().await.is_some() {
            let body = peer.take(200_000).await;
            peer.send(ok("")[..].replace("Content-Length: 0", "Content-Length: 200000")).await;
            peer.send(&body).await;
        }
    })
    .await;
    let rig = Rig::new();
    let body = pattern(200_000);
    let replies: Vec<_> =
        (0..8).map(|_| rig.fetch(request("PUT", &server, RequestBody::Bytes(body.clone())))).collect();
    for reply in replies {
        assert!(reply.collect().await.unwrap().bytes == body, "a body was altered or mixed with another");
    }
    assert_eq!(server.connections(), 4);
    rig.check().await;
}
