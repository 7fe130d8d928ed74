//! What is read when: credit, the pool's room, and the slabs of streams that wait.

use penstock_engine::Code;
use penstock_engine::pool::Purpose;
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::timeout;

use crate::rig::{AMPLE, Rig, SHORT, get};
use crate::server::{Server, ok};

#[tokio::test]
async fn a_consumer_that_stops_stops_the_reading() {
    let server = Server::always(ok(&"x".repeat(64 << 20))).await;
    let rig = Rig::new();
    let reply = rig.fetch(get(&server));
    reply.head().await.unwrap();
    // Long enough for the whole body, if it were read.
    tokio::time::sleep(SHORT * 5).await;
    let received = rig.meter.bytes();
    // The window, and the slab of 64 KiB that crosses it.
    assert!(received < 2 * (64 << 10), "{received} bytes were read without a reader");
    assert_eq!(rig.connections().0, 1);
    reply.abandon().await;
    rig.check().await;
}

#[tokio::test]
async fn a_full_pool_refuses_new_work_and_lets_the_established_wait() {
    let payload = "x".repeat(1 << 20);
    let (sender, mut receiver) = unbounded_channel::<()>();
    let (server, first) = (Server::always(ok("hello")).await, ok(&payload));
    let slow = {
        let receiver = std::sync::Arc::new(tokio::sync::Mutex::new({
            let (relay, inner) = unbounded_channel::<()>();
            tokio::spawn(async move { while receiver.recv().await.is_some() && relay.send(()).is_ok() {} });
            inner
        }));
        Server::start(move |mut peer, _| {
            let (receiver, first) = (std::sync::Arc::clone(&receiver), first.clone());
            async move {
                peer.request().await;
                peer.send(&first[..200]).await;
                receiver.lock().await.recv().await;
                peer.send(&first[200..]).await;
            }
        })
        .await
    };
    let rig = Rig::new();
    let mut request = get(&slow);
    request.timeouts.between_bytes = Some(SHORT);
    let reply = rig.fetch(request);
    reply.head().await.unwrap();
    sender.send(()).unwrap();
    let mut hoard = Vec::new();
    while let Ok(writer) = rig.pool.writer(4096, Purpose::Control) {
        hoard.push(writer);
    }
    let error = rig.failure(get(&server)).await;
    assert_eq!(error.code(), Code::PoolFull);
    assert_eq!(server.connections(), 0, "refused work has opened a connection");
    // The established stream waits for room; the limit on the origin does not run meanwhile.
    tokio::time::sleep(SHORT * 3).await;
    drop(hoard);
    assert_eq!(timeout(AMPLE, reply.collect()).await.unwrap().unwrap().bytes.len(), payload.len());
    rig.check().await;
}

#[tokio::test]
async fn a_stream_that_waits_holds_no_slab() {
    let (sender, receiver) = unbounded_channel::<&str>();
    let receiver = std::sync::Arc::new(tokio::sync::Mutex::new(receiver));
    let server = Server::start(move |mut peer, _| {
        let receiver = std::sync::Arc::clone(&receiver);
        async move {
            peer.request().await;
            while let Some(event) = receiver.lock().await.recv().await {
                peer.send(event).await;
            }
        }
    })
    .await;
    let rig = Rig::new();
    let mut request = get(&server);
    // An end of the stream would free the slab too.
    (request.timeouts.between_bytes, request.timeouts.total) = (None, None);
    let reply = rig.fetch(request);
    sender.send("HTTP/1.1 200 OK\r\n\r\n").unwrap();
    reply.head().await.unwrap();
    // Held for no time, and for longer than it takes until the stream looks the first time.
    for held in [std::time::Duration::ZERO, SHORT * 20] {
        sender.send("data: x\n\n").unwrap();
        let frame = std::future::poll_fn(|context| reply.stream.poll_next(context)).await.unwrap().unwrap();
        tokio::time::sleep(held).await;
        drop(frame);
        // The slab follows when the stream has waited for a while.
        let freed = async {
            while rig.pool.stats().live_bytes > 0 {
                tokio::time::sleep(SHORT).await;
            }
        };
        timeout(AMPLE, freed).await.expect("an idle stream holds a slab");
    }
    reply.abandon().await;
    rig.check().await;
}

#[tokio::test]
async fn small_events_share_a_slab() {
    let (sender, receiver) = unbounded_channel::<String>();
    let receiver = std::sync::Arc::new(tokio::sync::Mutex::new(receiver));
    let server = Server::start(move |mut peer, _| {
        let receiver = std::sync::Arc::clone(&receiver);
        async move {
            peer.request().await;
            while let Some(event) = receiver.lock().await.recv().await {
                peer.send(event).await;
            }
        }
    })
    .await;
    let rig = Rig::new();
    let reply = rig.fetch(get(&server));
    sender.send("HTTP/1.1 200 OK\r\n\r\n".into()).unwrap();
    reply.head().await.unwrap();
    let mut held = Vec::new();
    for _ in 0..20 {
        sender.send("x".repeat(200)).unwrap();
        held.push(std::future::poll_fn(|context| reply.stream.poll_next(context)).await.unwrap().unwrap());
    }
    let live = rig.pool.stats().live_bytes;
    assert!(live <= 2 * (16 << 10), "20 events of 200 bytes hold {live} bytes");
    drop(held);
    reply.abandon().await;
    rig.check().await;
}
