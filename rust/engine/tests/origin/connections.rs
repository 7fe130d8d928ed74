//! What is kept for the next request, for how long, and who gets it.

use std::sync::{Arc, Mutex};

use penstock_engine::Code;
use penstock_engine::origin::{OriginLimits, RequestBody, Roots};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

use crate::rig::{AMPLE, Rig, SHORT, get, limits, request};
use crate::server::{Server, ok};

fn rig(limits: OriginLimits) -> Rig {
    Rig::with(limits, Roots::WebPki)
}

/// Lets the other tasks run until `reached`.
async fn eventually(what: &str, reached: impl Fn() -> bool) {
    let wait = async {
        while !reached() {
            tokio::task::yield_now().await;
        }
    };
    timeout(AMPLE, wait).await.unwrap_or_else(|_| panic!("never: {what}"));
}

/// Answers requests, and tells when the client has closed a connection.
async fn telling(response: String) -> (Server, UnboundedReceiver<usize>) {
    let (sender, receiver) = unbounded_channel();
    let server = Server::start(move |mut peer, number| {
        let (sender, response) = (sender.clone(), response.clone());
        async move {
            while peer.request().await.is_some() {
                peer.send(&response).await;
            }
            let _ = sender.send(number);
        }
    })
    .await;
    (server, receiver)
}

#[tokio::test]
async fn one_connection_serves_many_requests() {
    let server = Server::always(ok("hello")).await;
    let rig = Rig::new();
    for turn in 0..50 {
        assert_eq!(rig.get(&server).await.unwrap().reused, turn > 0);
    }
    assert_eq!(server.connections(), 1);
    let counts = rig.stats().counts;
    assert_eq!((counts.opened, counts.reused), (1, 49));
    assert_eq!(rig.connections(), (0, 1, 0));
    rig.check().await;
}

#[tokio::test]
async fn endpoints_share_nothing() {
    let (one, two) = (Server::always(ok("1")).await, Server::always(ok("2")).await);
    let rig = Rig::new();
    for _ in 0..2 {
        assert_eq!(rig.get(&one).await.unwrap().bytes, b"1");
        assert_eq!(rig.get(&two).await.unwrap().bytes, b"2");
    }
    assert_eq!((one.connections(), two.connections()), (1, 1));
    rig.check().await;
}

#[tokio::test]
async fn a_connection_is_kept_only_if_both_sides_say_so() {
    for response in [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
        "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
    ] {
        let server = Server::always(response).await;
        let rig = Rig::new();
        for _ in 0..2 {
            assert!(!rig.get(&server).await.unwrap().reused, "{response}");
        }
        assert_eq!(server.connections(), 2);
        rig.check().await;
    }
    let server =
        Server::always("HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok").await;
    let rig = Rig::new();
    rig.get(&server).await.unwrap();
    assert!(rig.get(&server).await.unwrap().reused);
    rig.check().await;
}

#[tokio::test]
async fn a_connection_is_replaced_after_its_requests() {
    let server = Server::always(ok("hello")).await;
    let rig = rig(OriginLimits { requests_per_connection: 3, ..limits() });
    for _ in 0..7 {
        rig.get(&server).await.unwrap();
    }
    assert_eq!(server.connections(), 3);
    rig.check().await;
}

#[tokio::test]
async fn an_unused_connection_is_closed_after_its_time() {
    for limits in
        [OriginLimits { idle_timeout: SHORT, ..limits() }, OriginLimits { connection_age: SHORT, ..limits() }]
    {
        let (server, mut closed) = telling(ok("hello")).await;
        let rig = rig(limits);
        let (first, second) = tokio::join!(rig.get(&server), rig.get(&server));
        first.and(second).unwrap();
        assert_eq!(rig.connections().1, 2);
        for _ in 0..2 {
            timeout(AMPLE, closed.recv()).await.expect("the connection was not closed");
        }
        assert_eq!((rig.connections().1, rig.stats().counts.expired), (0, 2));
        // The watch has ended or ends; a new connection starts it again.
        rig.get(&server).await.unwrap();
        timeout(AMPLE, closed.recv()).await.expect("the second watch is not kept");
        rig.check().await;
    }
}

#[tokio::test]
async fn the_surplus_of_a_burst_goes_and_what_is_in_use_stays() {
    let (server, mut closed) = telling(ok("hello")).await;
    let rig = rig(OriginLimits { idle_timeout: SHORT * 4, ..limits() });
    let (first, second) = tokio::join!(rig.get(&server), rig.get(&server));
    first.and(second).unwrap();
    assert_eq!(server.connections(), 2);
    // The one used last is used again, so that the other reaches its deadline.
    let gone = loop {
        assert!(rig.get(&server).await.unwrap().reused);
        if let Ok(number) = timeout(SHORT, closed.recv()).await {
            break number.unwrap();
        }
    };
    assert_eq!(rig.connections().1, 1);
    assert!(gone < 2);
    assert_eq!(server.connections(), 2, "reuse took the one that was about to go");
    rig.check().await;
}

#[tokio::test]
async fn an_origin_that_closes_an_idle_connection_is_noticed_at_once() {
    let (sender, receiver) = unbounded_channel::<()>();
    let receiver = Arc::new(tokio::sync::Mutex::new(receiver));
    let server = Server::start(move |mut peer, _| {
        let receiver = Arc::clone(&receiver);
        async move {
            for _ in 0..3 {
                peer.request().await;
                peer.send(&ok("hello")[..]).await;
            }
            receiver.lock().await.recv().await;
        }
    })
    .await;
    let rig = Rig::new();
    // The first one starts the watch, the others find it running.
    for _ in 0..3 {
        rig.get(&server).await.unwrap();
    }
    assert_eq!((server.connections(), rig.connections().1), (1, 1));
    sender.send(()).unwrap();
    eventually("the end of an idle connection is noticed", || rig.connections().1 == 0).await;
    assert_eq!(rig.stats().counts.closed, 1);
    rig.check().await;
}

#[tokio::test]
async fn bytes_on_an_idle_connection_close_it_and_are_counted() {
    for response in ["HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n", "x"] {
        let (sender, receiver) = unbounded_channel::<()>();
        let receiver = Arc::new(tokio::sync::Mutex::new(receiver));
        let server = Server::start(move |mut peer, _| {
            let receiver = Arc::clone(&receiver);
            async move {
                while peer.request().await.is_some() {
                    peer.send(&ok("hello")[..]).await;
                    receiver.lock().await.recv().await;
                    peer.send(response).await;
                }
            }
        })
        .await;
        let rig = Rig::new();
        rig.get(&server).await.unwrap();
        sender.send(()).unwrap();
        eventually("unsolicited bytes are noticed", || rig.stats().counts.unsolicited == 1).await;
        assert_eq!(rig.connections().1, 0);
        assert!(!rig.get(&server).await.unwrap().reused);
        rig.check().await;
    }
}

#[tokio::test]
async fn more_requests_than_connections_wait_their_turn() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let (log, (sender, receiver)) = (Arc::clone(&order), unbounded_channel::<()>());
    let receiver = Arc::new(tokio::sync::Mutex::new(receiver));
    let server = Server::start(move |mut peer, _| {
        let (log, receiver) = (Arc::clone(&log), Arc::clone(&receiver));
        async move {
            while let Some(head) = peer.request().await {
                log.lock().unwrap().push(head.split(' ').nth(1).unwrap().to_owned());
                receiver.lock().await.recv().await;
                peer.send(&ok("hello")[..]).await;
            }
        }
    })
    .await;
    let rig = rig(OriginLimits { connections: 1, ..limits() });
    let mut replies = Vec::new();
    for turn in 0..5 {
        let mut request = get(&server);
        request.target = format!("/{turn}");
        replies.push(rig.fetch(request));
        eventually("a request waits", || rig.connections() == (1, 0, turn)).await;
    }
    for _ in 0..5 {
        sender.send(()).unwrap();
    }
    for reply in replies {
        assert_eq!(reply.collect().await.unwrap().bytes, b"hello");
    }
    assert_eq!(*order.lock().unwrap(), ["/0", "/1", "/2", "/3", "/4"]);
    assert_eq!(server.connections(), 1);
    rig.check().await;
}

#[tokio::test]
async fn a_full_line_is_refused_at_once_and_who_gives_up_leaves_it() {
    let (server, _closed) = telling("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n".into()).await;
    let rig = rig(OriginLimits { connections: 1, waiting: 2, ..limits() });
    let first = rig.fetch(get(&server));
    first.head().await.unwrap();
    let (second, third) = (rig.fetch(get(&server)), rig.fetch(get(&server)));
    eventually("two wait", || rig.connections().2 == 2).await;
    assert_eq!(rig.failure(get(&server)).await.code(), Code::QueueFull);
    second.abandon().await;
    let fourth = rig.fetch(get(&server));
    eventually("the place in the line is free again", || rig.connections().2 == 2).await;
    // The connection of one that is given up is closed, and its place goes to the next in line.
    for reply in [first, third] {
        reply.abandon().await;
    }
    fourth.head().await.unwrap();
    fourth.abandon().await;
    rig.check().await;
}

#[tokio::test]
async fn the_place_of_a_failed_connection_goes_to_the_next_in_line() {
    let server = Server::start(|mut peer, number| async move {
        peer.request().await;
        if number > 0 {
            peer.send(&ok("hello")[..]).await;
        }
    })
    .await;
    let rig = rig(OriginLimits { connections: 1, ..limits() });
    let (first, second) = (rig.fetch(get(&server)), rig.fetch(get(&server)));
    assert_eq!(first.collect().await.unwrap_err().code(), Code::OriginClosed);
    assert_eq!(second.collect().await.unwrap().bytes, b"hello");
    rig.check().await;
}

#[tokio::test]
async fn dropping_the_consumer_closes_the_connection_at_every_stage() {
    for response in
        ["", "HTTP/1.1 2", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\nhello"]
    {
        let (server, mut closed) = telling(response.into()).await;
        let rig = Rig::new();
        let reply = rig.fetch(get(&server));
        if response.ends_with('\n') || response.ends_with('o') {
            reply.head().await.unwrap();
        }
        eventually("the connection is open", || server.connections() == 1).await;
        reply.abandon().await;
        timeout(AMPLE, closed.recv()).await.expect("the connection was not closed");
        assert_eq!(rig.connections(), (0, 0, 0));
        rig.check().await;
    }
}

#[tokio::test]
async fn dropping_the_task_closes_the_connection_and_is_no_clean_end() {
    let (server, mut closed) = telling("HTTP/1.1 200 OK\r\n\r\nhello".into()).await;
    let rig = Rig::new();
    let reply = rig.fetch(get(&server));
    assert_eq!(reply.head().await.unwrap().head.status, 200);
    assert_eq!(reply.next().await.unwrap().unwrap(), b"hello");
    reply.task.abort();
    assert_eq!(reply.next().await.unwrap().unwrap_err().code(), Code::EngineClosed);
    timeout(AMPLE, closed.recv()).await.expect("the connection was not closed");
    drop(reply);
    rig.check().await;
}

#[tokio::test]
async fn closing_refuses_who_waits_and_who_comes_and_lets_who_is_served_finish() {
    let (sender, receiver) = unbounded_channel::<()>();
    let receiver = Arc::new(tokio::sync::Mutex::new(receiver));
    let server = Server::start(move |mut peer, _| {
        let receiver = Arc::clone(&receiver);
        async move {
            peer.request().await;
            receiver.lock().await.recv().await;
            peer.send(&ok("hello")[..]).await;
        }
    })
    .await;
    let idle = Server::always(ok("idle")).await;
    let rig = rig(OriginLimits { connections: 1, ..limits() });
    rig.get(&idle).await.unwrap();
    let (first, second) = (rig.fetch(get(&server)), rig.fetch(get(&server)));
    eventually("one waits", || rig.connections() == (1, 1, 1)).await;
    rig.origins.close();
    assert_eq!(second.collect().await.unwrap_err().code(), Code::EngineClosed);
    assert_eq!(rig.connections(), (1, 0, 0));
    assert_eq!(rig.failure(get(&server)).await.code(), Code::EngineClosed);
    assert_eq!(rig.failure(get(&Server::always("").await)).await.code(), Code::EngineClosed);
    sender.send(()).unwrap();
    assert_eq!(first.collect().await.unwrap().bytes, b"hello");
    assert_eq!(rig.connections(), (0, 0, 0), "a closed engine kept a connection");
    rig.check().await;
}

#[tokio::test]
async fn endpoints_that_are_not_used_any_more_are_forgotten_but_their_counts_are_not() {
    let rig = Rig::new();
    for _ in 0..300 {
        // An HTTP/1.0 response leaves no connection, and no server listens on the port afterwards.
        let server = Server::once("HTTP/1.0 200 OK\r\n\r\n").await;
        rig.get(&server).await.unwrap();
    }
    let stats = rig.stats();
    assert!(stats.endpoints.len() <= 128, "{} endpoints are kept", stats.endpoints.len());
    assert_eq!(stats.counts.opened, 300);
    rig.check().await;
}

#[tokio::test]
async fn an_idle_connection_is_a_socket_until_the_engine_goes() {
    let server = Server::always(ok("hello")).await;
    let rig = Rig::new();
    let replies = [rig.fetch(get(&server)), rig.fetch(get(&server))];
    for reply in replies {
        reply.collect().await.unwrap();
    }
    assert_eq!((rig.connections().1, rig.sockets()), (2, 2));
    rig.check().await;
}

#[tokio::test]
async fn a_unix_socket_serves_like_any_other() {
    let directory = std::env::temp_dir().join(format!("penstock-origin-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("origin.sock");
    let _ = std::fs::remove_file(&path);
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let task = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let mut peer = crate::server::Peer::new(stream);
            while peer.request().await.is_some() {
                peer.send(&ok("hello")[..]).await;
            }
        }
    });
    let rig = Rig::new();
    let endpoint = |path: &std::path::Path| {
        let unix = Some(path.to_path_buf());
        penstock_engine::origin::Endpoint::new(penstock_engine::origin::Scheme::Http, "app", 80, unix)
            .unwrap()
    };
    for reused in [false, true] {
        let request = crate::rig::request_to("GET", endpoint(&path), RequestBody::None);
        let got = rig.fetch(request).collect().await.unwrap();
        assert_eq!((got.bytes, got.reused), (b"hello".to_vec(), reused));
    }
    let request = crate::rig::request_to("GET", endpoint(&directory.join("absent.sock")), RequestBody::None);
    assert_eq!(rig.failure(request).await.code(), Code::ConnectFailed);
    rig.check().await;
    task.abort();
    std::fs::remove_dir_all(&directory).unwrap();
}

#[tokio::test]
async fn a_bad_request_is_refused_before_anything_is_opened() {
    let server = Server::always(ok("hello")).await;
    let rig = Rig::new();
    assert_eq!(rig.failure(request("GE T", &server, RequestBody::None)).await.code(), Code::BadRequest);
    assert_eq!(server.connections(), 0);
    rig.check().await;
}
