//! The limits before the first byte, and what a limit does not count.

use penstock_engine::Code;
use penstock_engine::origin::{Endpoint, RequestBody, Scheme};
use socket2::{Domain, Socket, Type};

use crate::rig::{Rig, SHORT, get, limits, request_to};
use crate::server::{Server, ok};

fn named(host: &str) -> penstock_engine::origin::Request {
    request_to("GET", Endpoint::new(Scheme::Http, host, 80, None).unwrap(), RequestBody::None)
}

#[tokio::test]
async fn a_name_that_has_no_address() {
    let rig = Rig::new();
    let error = rig.failure(named("no..name")).await;
    assert_eq!(error.code(), Code::ResolveFailed);
    assert_eq!(error.origin(), Some("http://no..name"));
    rig.check().await;
}

#[test]
fn a_resolver_that_does_not_answer_in_time() {
    // The only thread that may ask the resolver is busy with something else.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    let (release, held) = std::sync::mpsc::channel::<()>();
    runtime.unwrap().block_on(async {
        let busy = tokio::task::spawn_blocking(move || held.recv());
        let rig = Rig::new();
        let mut request = named("localhost");
        request.timeouts.resolve = Some(SHORT);
        assert_eq!(rig.failure(request).await.code(), Code::ResolveTimeout);
        rig.check().await;
        drop(release);
        busy.await.unwrap().unwrap_err();
    });
}

#[tokio::test]
async fn nobody_listens() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let endpoint = Endpoint::new(Scheme::Http, "127.0.0.1", address.port(), None).unwrap();
    let rig = Rig::new();
    let error = rig.failure(request_to("GET", endpoint, RequestBody::None)).await;
    assert_eq!(error.code(), Code::ConnectFailed);
    rig.check().await;
}

#[tokio::test]
async fn a_listener_that_never_answers() {
    // With its queue full, the kernel leaves further attempts without an answer.
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    listener.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let fillers: Vec<_> = (0..4)
        .map(|_| {
            let filler = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            filler.set_nonblocking(true).unwrap();
            let _ = filler.connect(&address.into());
            filler
        })
        .collect();
    let endpoint = Endpoint::new(Scheme::Http, "127.0.0.1", address.port(), None).unwrap();
    let rig = Rig::new();
    let mut request = request_to("GET", endpoint, RequestBody::None);
    request.timeouts.connect = Some(SHORT);
    assert_eq!(rig.failure(request).await.code(), Code::ConnectTimeout);
    drop(fillers);
    rig.check().await;
}

#[tokio::test]
async fn a_handshake_that_never_comes() {
    let server = Server::start(|mut peer, _| async move { peer.until_closed().await }).await;
    let rig = Rig::new();
    let mut request = request_to("GET", server.endpoint(Scheme::Https), RequestBody::None);
    request.timeouts.tls = Some(SHORT);
    let error = rig.failure(request).await;
    assert_eq!(error.code(), Code::TlsTimeout);
    rig.check().await;
}

#[tokio::test]
async fn no_connection_becomes_free() {
    let server = Server::stalling("HTTP/1.1 200 OK\r\n\r\n").await;
    let rig = Rig::with(
        penstock_engine::origin::OriginLimits { connections: 1, ..limits() },
        penstock_engine::origin::Roots::WebPki,
    );
    let first = rig.fetch(get(&server));
    first.head().await.unwrap();
    let mut request = get(&server);
    request.timeouts.queue = Some(SHORT);
    assert_eq!(rig.failure(request).await.code(), Code::QueueTimeout);
    first.abandon().await;
    rig.check().await;
}

#[tokio::test]
async fn the_whole_exchange_is_limited_whatever_it_waits_for() {
    let server = Server::stalling("HTTP/1.1 200 OK\r\n\r\nhello").await;
    let rig = Rig::new();
    let mut request = get(&server);
    request.timeouts.total = Some(SHORT);
    assert_eq!(rig.failure(request).await.code(), Code::TotalTimeout);
    rig.check().await;
}

#[tokio::test]
async fn a_slow_consumer_is_no_slow_origin() {
    let payload = "x".repeat(1 << 20);
    let server = Server::always(ok(&payload)).await;
    let rig = Rig::new();
    let mut request = get(&server);
    request.timeouts.between_bytes = Some(SHORT);
    let reply = rig.fetch(request);
    reply.head().await.unwrap();
    // The window is full long before the body's end; nothing is read meanwhile, and nothing expires.
    tokio::time::sleep(SHORT * 3).await;
    assert_eq!(reply.collect().await.unwrap().bytes.len(), payload.len());
    rig.check().await;
}

#[tokio::test]
async fn stages_are_timed() {
    let server = Server::start(|mut peer, _| async move {
        while peer.request().await.is_some() {
            tokio::time::sleep(SHORT).await;
            peer.send(&ok("hello")[..]).await;
        }
    })
    .await;
    let rig = Rig::new();
    for reused in [false, true] {
        let reply = rig.fetch(get(&server));
        let head = reply.head().await.unwrap();
        assert_eq!(head.reused, reused);
        assert_eq!(head.timings.connect.is_zero(), reused, "only a new connection is connected");
        assert!(head.timings.first_byte >= SHORT);
        assert!(head.timings.tls.is_zero());
        reply.collect().await.unwrap();
    }
    rig.check().await;
}
