//! TLS: whom it trusts, and what its end means.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use penstock_engine::Code;
use penstock_engine::origin::{OriginLimits, RequestBody, Roots, Scheme};
use penstock_engine::pool::CopyReason;
use rcgen::{CertificateParams, Issuer, KeyPair, date_time_ymd};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{HandshakeKind, ServerConfig};
use tokio_rustls::server::TlsStream;

use crate::rig::{AMPLE, Rig, SHORT, limits, pattern, request_to};
use crate::server::{Peer, Server, ok};

static NUMBER: AtomicUsize = AtomicUsize::new(0);

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        // Two authorities of one name would differ in their signatures only.
        let name = format!("authority {}", NUMBER.fetch_add(1, Ordering::Relaxed));
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    fn roots(&self) -> Roots {
        Roots::Pem(self.pem.clone().into_bytes())
    }

    fn server(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        TlsAcceptor::from(Arc::new(config))
    }
}

/// Plays `script` after a handshake, and ignores clients that break the handshake off.
async fn serve<S, F>(acceptor: TlsAcceptor, script: S) -> Server
where
    S: Fn(Peer<TlsStream<TcpStream>>) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let script = Arc::new(script);
    Server::start(move |peer, _| {
        let (acceptor, script) = (acceptor.clone(), Arc::clone(&script));
        async move {
            if let Ok(stream) = acceptor.accept(peer.stream).await {
                script(Peer::new(stream)).await;
            }
        }
    })
    .await
}

async fn always(acceptor: TlsAcceptor, response: impl Into<Vec<u8>>) -> Server {
    let response: Arc<Vec<u8>> = Arc::new(response.into());
    serve(acceptor, move |mut peer| {
        let response = Arc::clone(&response);
        async move {
            while peer.request().await.is_some() {
                peer.send(&response[..]).await;
            }
        }
    })
    .await
}

fn get(server: &Server) -> penstock_engine::origin::Request {
    request_to("GET", server.endpoint(Scheme::Https), RequestBody::None)
}

#[tokio::test]
async fn a_trusted_origin_is_read_and_the_copy_is_counted() {
    let authority = Authority::new();
    let payload = pattern(1_000_000);
    let mut response = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", payload.len()).into_bytes();
    response.extend(&payload);
    let server = always(authority.server("127.0.0.1", |_| ()), response).await;
    let rig = Rig::with(limits(), authority.roots());
    for reused in [false, true] {
        let reply = rig.fetch(get(&server));
        assert_eq!(reply.head().await.unwrap().timings.tls.is_zero(), reused);
        let got = reply.collect().await.unwrap();
        assert!(got.bytes == payload, "the payload was altered");
        assert_eq!(got.reused, reused);
        assert!(got.frames < 100, "{} frames: records were not read together", got.frames);
    }
    let copied = rig.pool.stats().bytes_copied;
    let tls = CopyReason::ALL.iter().position(|reason| *reason == CopyReason::Tls).unwrap();
    assert!(copied[tls] >= 2 * payload.len());
    assert_eq!(copied.iter().sum::<usize>(), copied[tls]);
    assert_eq!(server.connections(), 1);
    rig.check().await;
}

/// What does not fit into the first slab waits inside TLS: the socket will not announce it again.
#[tokio::test]
async fn a_record_larger_than_a_read_is_read_to_its_end() {
    let authority = Authority::new();
    let server = always(authority.server("127.0.0.1", |_| ()), ok(&"x".repeat(10_000))).await;
    let rig = Rig::with(limits(), authority.roots());
    for _ in 0..2 {
        assert_eq!(rig.fetch(get(&server)).collect().await.unwrap().bytes.len(), 10_000);
    }
    rig.check().await;
}

#[tokio::test]
async fn who_is_not_trusted_is_refused() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let expired = |params: &mut CertificateParams| {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
    };
    for (acceptor, why) in [
        (stranger.server("127.0.0.1", |_| ()), "UnknownIssuer"),
        (authority.server("another.example", |_| ()), "another.example"),
        (authority.server("127.0.0.1", expired), "expired"),
    ] {
        let server = always(acceptor, ok("hello")).await;
        let rig = Rig::with(limits(), authority.roots());
        let error = rig.failure(get(&server)).await;
        assert_eq!(error.code(), Code::TlsFailed);
        assert!(error.detail().contains(why), "{error} does not say {why:?}");
        assert_eq!(error.origin(), Some(format!("https://{}", server.address).as_str()));
        rig.check().await;
    }
}

#[tokio::test]
async fn what_does_not_speak_tls_is_refused() {
    let server = Server::start(|mut peer, _| async move {
        peer.send("HTTP/1.1 400 Bad Request\r\n\r\n").await;
        peer.until_closed().await;
    })
    .await;
    let rig = Rig::new();
    assert_eq!(rig.failure(get(&server)).await.code(), Code::TlsFailed);
    let server = Server::start(|peer, _| async move { drop(peer) }).await;
    assert_eq!(rig.failure(get(&server)).await.code(), Code::TlsFailed);
    rig.check().await;
}

#[tokio::test]
async fn an_end_without_close_notify_is_clean_only_where_the_framing_says_so() {
    let authority = Authority::new();
    for (response, polite, code) in [
        ("HTTP/1.1 200 OK\r\n\r\nhello".into(), true, None),
        ("HTTP/1.1 200 OK\r\n\r\nhello".into(), false, Some(Code::BodyTruncated)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello".into(), true, Some(Code::BodyTruncated)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello".into(), false, Some(Code::BodyTruncated)),
        (ok("hello"), false, None),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n".into(), false, None),
        (String::new(), false, Some(Code::OriginClosed)),
    ] {
        let response: String = response;
        let sent = response.clone();
        let server = serve(authority.server("127.0.0.1", |_| ()), move |mut peer| {
            let response = sent.clone();
            async move {
                peer.request().await;
                peer.send(&response).await;
                if polite {
                    peer.stream.shutdown().await.unwrap();
                }
            }
        })
        .await;
        let rig = Rig::with(limits(), authority.roots());
        let result = rig.fetch(get(&server)).collect().await;
        match code {
            None => assert_eq!(result.unwrap().bytes, b"hello", "{response:?} {polite}"),
            Some(code) => assert_eq!(result.unwrap_err().code(), code, "{response:?} {polite}"),
        }
        rig.check().await;
    }
}

#[tokio::test]
async fn sessions_are_resumed_and_http_1_1_is_agreed_on() {
    let authority = Authority::new();
    let resumed = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&resumed);
    let server = serve(authority.server("127.0.0.1", |_| ()), move |mut peer| {
        let session = peer.stream.get_ref().1;
        assert_eq!(session.alpn_protocol(), Some(&b"http/1.1"[..]));
        if session.handshake_kind() == Some(HandshakeKind::Resumed) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        async move {
            peer.request().await;
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok").await;
        }
    })
    .await;
    let rig = Rig::with(limits(), authority.roots());
    for _ in 0..3 {
        rig.fetch(get(&server)).collect().await.unwrap();
    }
    assert_eq!((server.connections(), resumed.load(Ordering::Relaxed)), (3, 2));
    rig.check().await;
}

#[tokio::test]
async fn a_body_is_sent_and_answered_over_tls() {
    let authority = Authority::new();
    let server = serve(authority.server("127.0.0.1", |_| ()), |mut peer| async move {
        while peer.request().await.is_some() {
            let body = peer.take(2_000_000).await;
            peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len())).await;
            peer.send(&body).await;
        }
    })
    .await;
    let rig = Rig::with(limits(), authority.roots());
    let body = pattern(2_000_000);
    for reused in [false, true] {
        let payload = RequestBody::Bytes(body.clone());
        let got =
            rig.fetch(request_to("PUT", server.endpoint(Scheme::Https), payload)).collect().await.unwrap();
        assert!(got.bytes == body, "the body was altered");
        assert_eq!(got.reused, reused);
    }
    rig.check().await;
}

#[tokio::test]
async fn a_connection_that_is_given_up_says_goodbye() {
    let authority = Authority::new();
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    let server = serve(authority.server("127.0.0.1", |_| ()), move |mut peer| {
        let sender = sender.clone();
        async move {
            peer.request().await;
            peer.send(&ok("hello")[..]).await;
            // Without close_notify this is an error.
            sender.send(tokio::io::AsyncReadExt::read(&mut peer.stream, &mut [0]).await.ok()).unwrap();
        }
    })
    .await;
    let rig = Rig::with(OriginLimits { idle_timeout: SHORT, ..limits() }, authority.roots());
    rig.fetch(get(&server)).collect().await.unwrap();
    assert_eq!(timeout(AMPLE, receiver.recv()).await.expect("the connection was not closed"), Some(Some(0)));
    rig.check().await;
}

/// A socket that keeps what is written to it, for as long as it is told to.
struct Holding {
    socket: TcpStream,
    held: Option<Vec<u8>>,
}

impl AsyncRead for Holding {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl AsyncWrite for Holding {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Some(held) = &mut self.held {
            held.extend(bytes);
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

/// What the origin tells its test.
#[derive(Default)]
struct Told {
    /// In how many bytes the forged response was encrypted.
    size: Mutex<usize>,
    /// The first packets are with the kernel.
    sent: Notify,
}

/// The first response and a forged one in two packets: the first ends `beyond` bytes after the record of the response, the
/// second is sent when another request comes on the connection.
async fn forging(acceptor: TlsAcceptor, beyond: usize, together: bool, told: Arc<Told>) -> Server {
    let number = AtomicUsize::new(0);
    Server::start(move |peer, _| {
        let (acceptor, told) = (acceptor.clone(), Arc::clone(&told));
        let is_first = number.fetch_add(1, Ordering::Relaxed) == 0;
        async move {
            let socket = Holding { socket: peer.stream, held: None };
            let Ok(stream) = acceptor.accept(socket).await else { return };
            let mut peer = Peer::new(stream);
            peer.request().await;
            if is_first {
                let response = encrypted(&mut peer, &ok("hello")).await;
                let forged = encrypted(&mut peer, &ok("forged")).await;
                *told.size.lock().unwrap() = forged.len();
                let (begin, rest) = forged.split_at(beyond.min(forged.len()));
                let socket = &mut peer.stream.get_mut().0.socket;
                if together {
                    socket.write_all(&[&response, begin].concat()).await.unwrap();
                } else {
                    socket.write_all(&response).await.unwrap();
                    socket.write_all(begin).await.unwrap();
                }
                told.sent.notify_one();
                if peer.request().await.is_none() {
                    return;
                }
                let _ = peer.stream.get_mut().0.socket.write_all(rest).await;
            }
            peer.send(ok("next")).await;
            while peer.request().await.is_some() {
                peer.send(ok("next")).await;
            }
        }
    })
    .await
}

/// What `response` is encrypted to, which is not sent.
async fn encrypted(peer: &mut Peer<TlsStream<Holding>>, response: &str) -> Vec<u8> {
    peer.stream.get_mut().0.held = Some(Vec::new());
    peer.send(response).await;
    peer.stream.get_mut().0.held.take().unwrap()
}

/// TLS reads ahead: a part of a record may be in its hands when the response before it is whole.
#[tokio::test]
async fn a_record_that_follows_a_whole_response_reaches_nobody_wherever_it_is_cut() {
    let authority = Authority::new();
    for together in [true, false] {
        // One for all cases: to look for open sockets takes longer than a case.
        let rig = Rig::with(limits(), authority.roots());
        let mut beyond = 1;
        loop {
            let told = Arc::<Told>::default();
            let server =
                forging(authority.server("127.0.0.1", |_| ()), beyond, together, Arc::clone(&told)).await;
            assert_eq!(rig.fetch(get(&server)).collect().await.unwrap().bytes, b"hello");
            told.sent.notified().await;
            let post = request_to("POST", server.endpoint(Scheme::Https), RequestBody::None);
            let next = rig.fetch(post).collect().await.unwrap();
            assert_eq!((next.bytes, next.reused), (b"next".to_vec(), false), "{beyond} {together}");
            assert_eq!(server.connections(), 2);
            let size = *told.size.lock().unwrap();
            if beyond >= size {
                break;
            }
            beyond += 1;
        }
        assert!(beyond > 50, "the forged record has more bytes than {beyond}");
        rig.check().await;
    }
}
