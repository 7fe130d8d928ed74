//! Bytes that follow a whole response: whatever the packets that they come in, the response is delivered, the connection is
//! closed, and the next request is answered by what was meant for it.

use std::sync::Arc;

use penstock_engine::Code;
use penstock_engine::origin::RequestBody;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::rig::{AMPLE, Rig, request};
use crate::server::{Peer, Server, ok};

/// A whole response that no request asked for.
const FORGED: &str = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged";
const STRAYS: [&str; 4] = ["\r\n", "more", "\0", FORGED];

struct Kind {
    name: &'static str,
    method: &'static str,
    response: &'static str,
    status: u16,
    body: &'static str,
}

/// Every kind of response whose end its head tells.
const KINDS: [Kind; 10] = [
    kind("length", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello"),
    kind("an empty length", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, ""),
    kind(
        "chunked",
        "GET",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        200,
        "hello",
    ),
    kind(
        "chunked with trailers",
        "GET",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n",
        200,
        "hello",
    ),
    kind("HEAD", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", 200, ""),
    kind("204", "GET", "HTTP/1.1 204 No Content\r\n\r\n", 204, ""),
    kind("304", "GET", "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n", 304, ""),
    kind(
        "206",
        "GET",
        "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-4/9\r\nContent-Length: 5\r\n\r\nhello",
        206,
        "hello",
    ),
    kind(
        "an interim one first",
        "GET",
        "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        200,
        "hello",
    ),
    kind(
        "events",
        "GET",
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n\
         9\r\ndata: x\n\n\r\n0\r\n\r\n",
        200,
        "data: x\n\n",
    ),
];

const fn kind(
    name: &'static str,
    method: &'static str,
    response: &'static str,
    status: u16,
    body: &'static str,
) -> Kind {
    Kind { name, method, response, status, body }
}

/// When what follows the first packet is sent.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Rest {
    /// When the client has had time to read the first.
    Soon,
    /// When the first request is over, and its connection is idle or closed.
    Idle,
    /// When the second request comes on that connection, if it does.
    Late,
}

/// By which the test and its origin agree on the order of things.
#[derive(Default)]
struct Order {
    /// The first request is over.
    over: Notify,
    /// Everything has been sent that belongs to it.
    sent: Notify,
}

/// Sends the answer to the first request of the first connection in two packets, the first of which is `first` bytes. All
/// else is answered well.
async fn stray(bytes: Vec<u8>, first: usize, rest: Rest, order: Arc<Order>) -> Server {
    let bytes = Arc::new(bytes);
    Server::start(move |mut peer: Peer<TcpStream>, number| {
        let (bytes, order) = (Arc::clone(&bytes), Arc::clone(&order));
        async move {
            if number == 0 {
                peer.request().await;
                peer.send(&bytes[..first]).await;
                match rest {
                    Rest::Soon => tokio::task::yield_now().await,
                    Rest::Idle => order.over.notified().await,
                    Rest::Late => order.sent.notify_one(),
                }
                if rest == Rest::Late && peer.request().await.is_none() {
                    return;
                }
                peer.send(&bytes[first..]).await;
                order.sent.notify_one();
                if rest == Rest::Late {
                    peer.send(ok("next")).await;
                }
            }
            answer(peer).await;
        }
    })
    .await
}

async fn answer<S: AsyncRead + AsyncWrite + Unpin>(mut peer: Peer<S>) {
    while peer.request().await.is_some() {
        peer.send(ok("next")).await;
    }
}

#[tokio::test]
async fn a_whole_response_is_delivered_and_what_follows_it_reaches_nobody_whatever_the_packets() {
    for kind in &KINDS {
        for stray in STRAYS {
            let bytes = [kind.response.as_bytes(), stray.as_bytes()].concat();
            let whole = kind.response.len();
            // The forged response is cut at each byte behind one kind: where it is cut does not depend on what is before it.
            let step = if stray == FORGED && kind.name != "length" { 9 } else { 1 };
            let mut case = Cases { rig: Rig::new(), checked: 0 };
            for first in (whole.saturating_sub(4)..=bytes.len()).step_by(step) {
                case.check(kind, bytes.clone(), first, Rest::Soon).await;
                // Without the end of the response the first request would not be over.
                if first >= whole && first < bytes.len() {
                    case.check(kind, bytes.clone(), first, Rest::Idle).await;
                }
                // What begins after the second request was read is its answer: nothing tells them apart.
                if first > whole && first < bytes.len() {
                    case.check(kind, bytes.clone(), first, Rest::Late).await;
                }
            }
            case.rig.check().await;
        }
    }
}

/// Cases that share an engine's side, each with a server of its own: to look for open sockets takes longer than a case.
struct Cases {
    rig: Rig,
    checked: u64,
}

impl Cases {
    async fn check(&mut self, kind: &Kind, bytes: Vec<u8>, first: usize, rest: Rest) {
        let rig = &self.rig;
        let what =
            format!("{}: {:?} after {first} bytes, {rest:?}", kind.name, String::from_utf8_lossy(&bytes));
        let order = Arc::<Order>::default();
        let server = stray(bytes, first, rest, Arc::clone(&order)).await;
        let asked = rig.fetch(request(kind.method, &server, RequestBody::None)).collect();
        let got = timeout(AMPLE, asked).await.unwrap().unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!((got.status, got.bytes), (kind.status, kind.body.as_bytes().to_vec()), "{what}");
        order.over.notify_one();
        order.sent.notified().await;
        // One that cannot be sent a second time: it must not meet those bytes at all.
        let next =
            timeout(AMPLE, rig.fetch(request("POST", &server, RequestBody::None)).collect()).await.unwrap();
        let next = next.unwrap_or_else(|error| panic!("{what}: the next request: {error}"));
        assert_eq!((next.status, next.bytes, next.reused), (200, b"next".to_vec(), false), "{what}");
        self.checked += 1;
        assert_eq!(rig.stats().counts.unsolicited, self.checked, "{what}: it is not counted");
    }
}

/// Answers the first request of each connection well, and the second with `bytes`. To a new connection that is no answer.
async fn greeted_by(bytes: &'static str) -> Server {
    Server::start(move |mut peer: Peer<TcpStream>, _| async move {
        peer.request().await;
        peer.send(ok("hello")).await;
        if peer.request().await.is_some() {
            peer.send(bytes).await;
            peer.until_closed().await;
        }
    })
    .await
}

#[tokio::test]
async fn a_safe_request_that_met_stray_bytes_on_its_way_is_repeated_elsewhere() {
    const LATE: &str = "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    for (bytes, code) in [
        ("\r\n", Code::BadHead),
        ("more\r\n\r\n", Code::BadHead),
        ("\0", Code::BadHead),
        (LATE, Code::Internal),
    ] {
        for method in ["GET", "HEAD", "PUT"] {
            let (server, rig) = (greeted_by(bytes).await, Rig::new());
            rig.get(&server).await.unwrap();
            let got = rig.fetch(request(method, &server, RequestBody::None)).collect().await;
            let got = got.unwrap_or_else(|error| panic!("{method} {bytes:?}: {error}"));
            assert_eq!((got.status, got.reused), (200, false), "{method} {bytes:?}");
            assert_eq!(server.connections(), 2, "{method} {bytes:?}");
            rig.check().await;
        }
        // What may have happened is not asked for again.
        let (server, rig) = (greeted_by(bytes).await, Rig::new());
        rig.get(&server).await.unwrap();
        match rig.fetch(request("POST", &server, RequestBody::None)).collect().await {
            Ok(got) => assert_eq!((bytes, got.status), (LATE, 408)),
            Err(error) => assert_eq!(error.code(), code, "{bytes:?}"),
        }
        assert_eq!(server.connections(), 1, "{bytes:?}");
        rig.check().await;
    }
}

#[tokio::test]
async fn on_a_new_connection_stray_bytes_before_a_response_are_told() {
    for bytes in ["\r\n", "more\r\n\r\n"] {
        let server = Server::stalling(format!("{bytes}{}", ok("hello"))).await;
        let rig = Rig::new();
        assert_eq!(rig.failure(request("GET", &server, RequestBody::None)).await.code(), Code::BadHead);
        assert_eq!(server.connections(), 1, "{bytes:?}: it was asked for twice");
        rig.check().await;
    }
}

#[tokio::test]
async fn of_two_final_responses_to_an_upload_the_first_counts_and_the_connection_is_closed() {
    let server = Server::start(|mut peer: Peer<TcpStream>, _| async move {
        peer.request().await;
        let early = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 5\r\n\r\nearly";
        peer.send(format!("{early}{}", ok("second"))).await;
        answer(peer).await;
    })
    .await;
    let rig = Rig::new();
    for _ in 0..2 {
        let body = RequestBody::Bytes(vec![b'x'; 4 << 20]);
        let got = rig.fetch(request("PUT", &server, body)).collect().await.unwrap();
        assert_eq!((got.status, got.bytes, got.reused), (413, b"early".to_vec(), false));
        assert_eq!(rig.connections(), (0, 0, 0));
    }
    rig.check().await;
}
