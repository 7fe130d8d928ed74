//! The TLS handshakes of a site's clients.
//!
//! They run on threads of their own: a signature takes 0.1 to 3 ms of a core, which no stream of an engine thread is to wait
//! for. A connection goes on to an engine thread when its handshake is complete. The number of handshakes under way is
//! bounded: above it the longest one is cut, which is that of a client that drips its first record. Failures are counted
//! by reason and not logged, because anyone can cause them.

use std::collections::BTreeMap;
use std::io;
use std::pin::pin;
use std::sync::Arc as Plain;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use tokio_rustls::rustls::server::{Acceptor, ServerConnection};
use tokio_rustls::rustls::{self, AlertDescription, HandshakeKind};
use tokio_rustls::{LazyConfigAcceptor, TlsAcceptor, TlsStream};

use super::answer::refused;
use crate::access::without_port;
use crate::app::TlsSession;
use crate::error::{Code, Error, Result};
use crate::net::{DetachedSocket, RecordPlace, Records, Socket, Transport};
use crate::runtime::Threads;
use crate::sync::{Mutex, lock};
use crate::tls::{TlsServer, address};

/// Engine threads for which one thread of handshakes is enough: it makes 5,000 full handshakes a second (P-256), and clients
/// mostly resume.
const THREADS_EACH: usize = 4;

/// How often the files of certificates are looked at. A renewed certificate has days.
const LOOK: Duration = Duration::from_secs(10);

/// How a handshake ended. The names are those of the metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum HandshakeEnd {
    /// With a new session.
    Full,
    /// With the session of an earlier connection.
    Resumed,
    /// The client did not finish it within its limit.
    Timeout,
    /// Others needed its place.
    Evicted,
    /// The client closed, or reset, the connection.
    Closed,
    /// The client sent plain HTTP, and was told so.
    PlainHttp,
    /// What the client sent is not TLS.
    Malformed,
    /// There is no version, suite or protocol that both sides have.
    Incompatible,
    /// The client asked for a name that is not ours.
    UnknownName,
    /// The client's certificate is missing or not accepted.
    ClientCertificate,
    /// The client refused ours, by an alert.
    Refused,
    /// Anything else.
    Other,
}

impl HandshakeEnd {
    /// All of them, in the order of their numbers, with their names.
    pub const ALL: [(Self, &'static str); 12] = [
        (Self::Full, "full"),
        (Self::Resumed, "resumed"),
        (Self::Timeout, "timeout"),
        (Self::Evicted, "evicted"),
        (Self::Closed, "closed"),
        (Self::PlainHttp, "plain_http"),
        (Self::Malformed, "malformed"),
        (Self::Incompatible, "incompatible"),
        (Self::UnknownName, "unknown_name"),
        (Self::ClientCertificate, "client_certificate"),
        (Self::Refused, "refused"),
        (Self::Other, "other"),
    ];

    fn of(error: &io::Error) -> Self {
        use rustls::Error::{
            AlertReceived, InappropriateMessage, InvalidCertRevocationList, InvalidCertificate,
            InvalidMessage, NoApplicationProtocol, NoCertificatesPresented, PeerIncompatible, PeerMisbehaved,
        };
        match error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>()) {
            None => Self::Closed,
            Some(InvalidMessage(_) | InappropriateMessage { .. } | PeerMisbehaved(_)) => Self::Malformed,
            Some(PeerIncompatible(_) | NoApplicationProtocol) => Self::Incompatible,
            Some(InvalidCertificate(_) | InvalidCertRevocationList(_) | NoCertificatesPresented) => {
                Self::ClientCertificate
            }
            Some(AlertReceived(AlertDescription::CloseNotify | AlertDescription::UserCanceled)) => {
                Self::Closed
            }
            Some(AlertReceived(_)) => Self::Refused,
            Some(_) => Self::Other,
        }
    }
}

/// What handshakes are allowed. Declared and validated in Python; there are no defaults here.
#[derive(Debug, Clone, Copy)]
pub struct HandshakeLimits {
    /// From accept to the end of the handshake.
    pub handshake_timeout: Duration,
    /// Handshakes that are under way at a time.
    pub handshakes: usize,
}

/// The TLS of a site: its certificates, and the handshakes that are under way.
#[derive(Debug)]
pub struct Handshakes {
    server: TlsServer,
    limits: HandshakeLimits,
    threads: Threads,
    next: AtomicU64,
    /// In the order of their beginning. Dropping the sender cuts one.
    underway: Mutex<BTreeMap<u64, oneshot::Sender<()>>>,
    ends: [AtomicU64; HandshakeEnd::ALL.len()],
}

/// A connection whose handshake is complete, on its way to an engine thread.
pub(super) struct Arrival {
    socket: DetachedSocket,
    place: RecordPlace,
    connection: ServerConnection,
    acceptor: TlsAcceptor,
    pub(super) session: Plain<TlsSession>,
}

impl Handshakes {
    /// For a site whose connections `engine_threads` threads serve.
    ///
    /// # Errors
    /// `INTERNAL`: the operating system refused a thread.
    pub fn new(server: TlsServer, limits: HandshakeLimits, engine_threads: usize) -> Result<Self> {
        let threads = Threads::start_named("penstock-tls", engine_threads.div_ceil(THREADS_EACH))?;
        Ok(Self {
            server,
            limits,
            threads,
            next: AtomicU64::new(0),
            underway: Mutex::default(),
            ends: std::array::from_fn(|_| AtomicU64::new(0)),
        })
    }

    /// The certificates.
    pub fn server(&self) -> &TlsServer {
        &self.server
    }

    /// Whether the certificate of a connection is for the host of a request on it: a client may take a connection for the URLs
    /// of all names of a certificate, and for no others (RFC 9110, section 7.4). A client that named no host, and asks for an
    /// address, is a health check.
    ///
    /// # Errors
    /// `MISDIRECTED_REQUEST`.
    pub(super) fn check(&self, session: &TlsSession, authority: &str) -> Result<()> {
        let host = without_port(authority);
        let is_check = session.server_name.is_none() && (host.is_empty() || address(host).is_some());
        if is_check || self.server.covers(session.server_name.as_deref(), host) {
            return Ok(());
        }
        Err(Code::MisdirectedRequest
            .error(format!("the certificate of the connection does not name {host:?}")))
    }

    /// Looks at the files of the certificates until the site is closed, and tells what is wrong with them.
    pub(super) async fn keep_certificates(&self, report: impl Fn(Error)) {
        loop {
            sleep(LOOK).await;
            let server = self.server.clone();
            // An error means that the engine is being closed.
            let Ok(errors) = spawn_blocking(move || server.look()).await else { return };
            errors.into_iter().for_each(&report);
        }
    }

    /// Reads all files anew, and tells what is wrong with them.
    pub(super) async fn reload(&self, report: impl Fn(Error)) {
        let server = self.server.clone();
        let errors = spawn_blocking(move || server.reload()).await;
        errors.unwrap_or_default().into_iter().for_each(report);
    }

    /// How many handshakes are under way, and how many have ended how.
    pub fn counts(&self) -> (usize, [u64; HandshakeEnd::ALL.len()]) {
        // Relaxed: counts, which order nothing.
        let ends = std::array::from_fn(|end| self.ends[end].load(Ordering::Relaxed));
        (lock(&self.underway).len(), ends)
    }

    /// Ends all of them.
    pub(super) fn close(&self) {
        lock(&self.underway).clear();
        self.threads.stop();
    }

    /// Carries out the handshake of `socket` on another thread, and calls `arrived` there when it is complete.
    pub(super) fn begin(
        self: &Plain<Self>,
        socket: DetachedSocket,
        arrived: impl FnOnce(Arrival) + Send + 'static,
    ) {
        let all = Plain::clone(self);
        self.threads.spawn(self.threads.pick(), move || async move {
            let end = match all.run(socket).await {
                Ok(arrival) => {
                    let end =
                        if arrival.session.is_resumed { HandshakeEnd::Resumed } else { HandshakeEnd::Full };
                    arrived(arrival);
                    end
                }
                Err(end) => end,
            };
            // Relaxed: a count.
            all.ends[end as usize].fetch_add(1, Ordering::Relaxed);
        });
    }

    async fn run(&self, socket: DetachedSocket) -> std::result::Result<Arrival, HandshakeEnd> {
        let socket = socket.attach().map_err(|_| HandshakeEnd::Closed)?;
        let (place, evicted) = self.enter();
        let handshake = pin!(timeout(self.limits.handshake_timeout, self.shake(socket)));
        let result = tokio::select! {
            biased;
            _ = evicted => Err(HandshakeEnd::Evicted),
            result = handshake => result.unwrap_or(Err(HandshakeEnd::Timeout)),
        };
        drop(place);
        result
    }

    /// Counts a handshake, and cuts the longest one if there are too many.
    fn enter(&self) -> (Underway<'_>, oneshot::Receiver<()>) {
        // Relaxed: only different numbers are needed, and one thread mostly takes them.
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, evicted) = oneshot::channel();
        let mut underway = lock(&self.underway);
        underway.insert(number, sender);
        if underway.len() > self.limits.handshakes {
            underway.pop_first();
        }
        (Underway { all: self, number }, evicted)
    }

    async fn shake(&self, socket: Socket) -> std::result::Result<Arrival, HandshakeEnd> {
        match socket.first_byte().await {
            // A method: the first byte of a TLS record is 22 (RFC 8446, section 5.1).
            Ok(Some(b'A'..=b'Z')) => {
                refuse_plain(socket).await;
                return Err(HandshakeEnd::PlainHttp);
            }
            Ok(_) => {}
            Err(_) => return Err(HandshakeEnd::Closed),
        }
        let hello = LazyConfigAcceptor::new(Acceptor::default(), Records::new(socket));
        let hello = hello.await.map_err(|error| HandshakeEnd::of(&error))?;
        if let Some(alert) = self.server.refusal(hello.client_hello().server_name()) {
            let _ = hello.io.socket().send_now(&alert);
            return Err(HandshakeEnd::UnknownName);
        }
        let config = self.server.config(hello.client_hello().cipher_suites());
        let acceptor = TlsAcceptor::from(Plain::clone(&config));
        let stream = hello.into_stream(config).await.map_err(|error| HandshakeEnd::of(&error))?;
        let (records, connection) = stream.into_inner();
        let session = Plain::new(session(&connection));
        let (socket, place) = records.into_parts();
        let socket = socket.detach().map_err(|_| HandshakeEnd::Closed)?;
        Ok(Arrival { socket, place, connection, acceptor, session })
    }
}

/// Says that the port takes TLS, and reads on until the client has closed: what is left unread would turn the end into a reset,
/// and the answer would be lost (RFC 9112, section 9.6). The time of a handshake bounds it.
async fn refuse_plain(mut socket: Socket) {
    let _ = socket.send_now(&refused(&Code::PlainHttp.error("the client sent plain HTTP"), false));
    let _ = socket.end_writing();
    let mut bytes = [0; 4096];
    while matches!(socket.read(&mut bytes).await, Ok(1..)) {}
}

/// A handshake that is under way.
struct Underway<'a> {
    all: &'a Handshakes,
    number: u64,
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        lock(&self.all.underway).remove(&self.number);
    }
}

impl Arrival {
    /// What the calling engine thread serves from now on.
    pub(super) async fn transport(self) -> io::Result<Transport> {
        let Self { socket, place, connection, acceptor, .. } = self;
        let records = Records::from_parts(socket.attach()?, place);
        // The stream has no other constructor: it is made with a new connection, which ours replaces before it says anything.
        let stream = acceptor.accept_with(records, |new| *new = connection).await?;
        Ok(Transport::Tls(Box::new(TlsStream::Server(stream))))
    }
}

fn session(connection: &ServerConnection) -> TlsSession {
    let certificates = connection.peer_certificates().unwrap_or_default();
    TlsSession {
        version: connection.protocol_version().map_or(0, u16::from),
        suite: connection.negotiated_cipher_suite().map_or(0, |suite| suite.suite().into()),
        server_name: connection.server_name().map(|name| name.to_ascii_lowercase().into()),
        protocol: connection.alpn_protocol().unwrap_or_default().into(),
        certificates: certificates.iter().map(|certificate| certificate.as_ref().into()).collect(),
        is_resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
    }
}
