//! Listeners: sockets that the engine opens or is given, and the task that accepts.
//!
//! One listener hands out to the thread with the fewest connections. `SO_REUSEPORT` would spread them by a hash that is
//! blind to how long they last.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc as Plain;
use std::sync::atomic::Ordering;
use std::time::Duration;

use socket2::{Domain, Protocol, SockAddr, Socket as Raw, Type};
use tokio::net::{TcpListener, UnixListener};
use tokio::time::Instant;

use super::answer::refused;
use super::client::{Addresses, Client};
use super::connection;
use super::moved::Moved;
use super::site::{Load, Site};
use super::streams;
use crate::app::TlsSession;
use crate::error::{Code, Result};
use crate::net::{Connection, DetachedSocket, Socket, Transport};
use crate::runtime::Threads;
use crate::sync::Arc;
use crate::sys::boxed;
use crate::sys::descriptor::set_option;
use crate::takeover::streams::{Begin, Resting, StreamState};
use crate::takeover::{self, Listed, Server};

/// After a failure to accept that is not the client's, such as no free descriptor: long enough for one to become
/// free, and not to spin meanwhile. Arbitrary.
const PAUSE: Duration = Duration::from_millis(50);

/// How often a listener that cannot accept says so. Arbitrary; a shortage comes and goes with every client.
const TELL_AGAIN: Duration = Duration::from_secs(60);

/// The most that Linux takes for the time between two probes, in seconds.
const MOST_SILENCE: f64 = 32_767.0;

/// How a socket listens.
#[derive(Debug, Clone, Copy)]
pub struct ListenOptions {
    /// Connections that may wait to be accepted.
    pub backlog: i32,
    /// TCP only: other processes may listen to the same address.
    pub reuse_port: bool,
    /// TCP only: how long a client's host may leave unacknowledged what it was sent, and unanswered whether it is there.
    pub write_timeout: Option<Duration>,
}

/// A socket that listens.
#[derive(Debug)]
pub struct Listener(Raw);

impl Listener {
    /// Listens to an address of TCP, with the socket of the process before if there is one. Port 0 is a free one.
    ///
    /// # Errors
    /// `LISTEN_FAILED`.
    pub fn tcp(address: SocketAddr, options: ListenOptions) -> Result<Self> {
        let open = || -> io::Result<Raw> {
            if let Some(given) = takeover::claim_tcp(address) {
                find_vanished(&given, options.write_timeout)?;
                given.listen(options.backlog)?;
                return Ok(given);
            }
            let socket = Raw::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
            // A restart must not wait for the connections of the last run to be forgotten.
            socket.set_reuse_address(true)?;
            socket.set_reuse_port(options.reuse_port)?;
            if address.is_ipv6() {
                // As asyncio does: `::` and `0.0.0.0` can then be listened to side by side.
                socket.set_only_v6(true)?;
            }
            socket.bind(&address.into())?;
            find_vanished(&socket, options.write_timeout)?;
            socket.listen(options.backlog)?;
            Ok(socket)
        };
        Self::ready(open(), &address.to_string())
    }

    /// Listens to a Unix socket, with that of the process before if there is one. A socket file that no process listens to is
    /// replaced; a file of another kind is not.
    ///
    /// # Errors
    /// `LISTEN_FAILED`.
    pub fn unix(path: &Path, options: ListenOptions) -> Result<Self> {
        let open = || -> io::Result<Raw> {
            if let Some(given) = takeover::claim_unix(path) {
                given.listen(options.backlog)?;
                return Ok(given);
            }
            let address = SockAddr::unix(path)?;
            let socket = Raw::new(Domain::UNIX, Type::STREAM, None)?;
            let is_socket = std::fs::metadata(path).is_ok_and(|there| there.file_type().is_socket());
            if is_socket && Raw::new(Domain::UNIX, Type::STREAM, None)?.connect(&address).is_err() {
                std::fs::remove_file(path)?;
            }
            socket.bind(&address)?;
            socket.listen(options.backlog)?;
            Ok(socket)
        };
        Self::ready(open(), &path.display().to_string())
    }

    /// Takes over a stream socket, which listens from then on if it did not.
    ///
    /// # Errors
    /// `LISTEN_FAILED`: it is no socket that could.
    pub fn adopt(descriptor: OwnedFd, options: ListenOptions) -> Result<Self> {
        let socket = Raw::from(descriptor);
        let open = || -> io::Result<Raw> {
            if socket.local_addr()?.as_socket().is_some() {
                find_vanished(&socket, options.write_timeout)?;
            }
            socket.listen(options.backlog)?;
            Ok(socket)
        };
        Self::ready(open(), "the socket that was passed in")
    }

    fn ready(open: io::Result<Raw>, what: &str) -> Result<Self> {
        open.and_then(|socket| socket.set_nonblocking(true).map(|()| Self(socket)))
            .map_err(|error| Code::ListenFailed.error(format!("cannot listen to {what}: {error}")))
    }

    /// Where it listens, if that is an address of TCP.
    pub fn address(&self) -> Option<SocketAddr> {
        self.0.local_addr().ok().and_then(|address| address.as_socket())
    }

    /// Accepts on the first of `threads` for `site`, until it is drained or closed, while this process accepts at all.
    pub fn serve(self, site: &Arc<Site>, threads: &Arc<Threads>) {
        if site.begin() {
            let site = Arc::clone(site);
            if let Some(handshakes) = site.tls.clone() {
                let site = Arc::clone(&site);
                threads.spawn(0, move || async move {
                    handshakes.keep_certificates(|error| site.report(error)).await;
                });
            }
            site.follow_pressure(threads);
            threads.spawn(0, move || async move { site.keep_room().await });
        }
        let (site, all) = (Arc::clone(site), Arc::clone(threads));
        let server = Adopting { site: Arc::clone(&site), threads: Arc::clone(&all) };
        // Without a free descriptor it is not listed: a next process then says that it cannot listen there.
        let listed = takeover::list(&self.0, server).ok();
        threads.spawn(0, move || async move {
            tokio::select! {
                biased;
                () = site.drain.draining() => {}
                () = accept(self, listed, &site, &all) => {}
            }
        });
    }
}

/// Has the kernel end connections whose clients have vanished without a word, whether they are sent something or nothing. The
/// sockets that are accepted have what the listener has.
fn find_vanished(listener: &Raw, silence: Option<Duration>) -> io::Result<()> {
    listener.set_keepalive(true)?;
    let Some(silence) = silence else { return Ok(()) };
    // Whole seconds, as the kernel probes; and at least one, so that a probe has the time to be answered.
    #[expect(clippy::cast_possible_truncation, reason = "clamped")]
    let seconds = silence.as_secs_f64().ceil().clamp(1.0, MOST_SILENCE) as i32;
    set_option(listener, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, seconds * 1000)?;
    // The limit above holds for probes as well: two are unanswered by then, where there is time for two.
    set_option(listener, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, (seconds / 2).max(1))?;
    set_option(listener, libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, (seconds / 4).max(1))
}

enum Bound {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Serves what another process has accepted.
struct Adopting {
    site: Arc<Site>,
    threads: Arc<Threads>,
}

impl Server for Adopting {
    fn serve(&self, client: Raw) {
        let addresses = addresses_of(&client);
        let socket = DetachedSocket::from(OwnedFd::from(client));
        let (site, all) = (Arc::clone(&self.site), Arc::clone(&self.threads));
        self.threads.spawn(0, move || async move {
            if let Ok(socket) = socket.attach() {
                hand_out(&site, &all, socket, addresses);
            }
        });
    }

    fn ask_to_move(&self, most: usize) -> usize {
        self.site.ask_to_move(most)
    }

    fn take_up(
        &self,
        client: Raw,
        resting: Resting,
        state: StreamState,
    ) -> std::result::Result<Begin, String> {
        let (site, threads) = (Arc::clone(&self.site), Arc::clone(&self.threads));
        if site.tls.is_some() {
            return Err("clients speak TLS here".to_owned());
        }
        let addresses = addresses_of(&client);
        let moved = Box::new(Moved::new(&site, resting, &state, &addresses)?);
        let counted = site.clients.connect(addresses.ip()).map_err(|error| error.to_string())?;
        let network = addresses.ip().map(|address| site.clients.network(address));
        let load = site.admit();
        let socket = DetachedSocket::from(OwnedFd::from(client));
        Ok(Box::new(move || {
            threads.spawn(load.thread, move || async move {
                let Ok(socket) = socket.attach() else { return };
                let connection = Arc::new(Connection::new(Transport::Plain(socket)));
                let client = Client::new(connection, addresses, network, None, counted);
                connection::serve(Arc::new(load), client, Some(moved)).await;
            });
        }))
    }
}

/// Both ends of a connection that another process has accepted.
fn addresses_of(connection: &Raw) -> Addresses {
    let remote = connection.peer_addr().ok().and_then(|address| address.as_socket());
    let local = connection.local_addr().ok().and_then(|address| address.as_socket());
    Addresses::new(remote, local)
}

impl Bound {
    /// The next connection.
    async fn accept(&self) -> io::Result<(Socket, Addresses)> {
        Ok(match self {
            Self::Tcp(listener) => {
                let (stream, remote) = listener.accept().await?;
                // Events and small answers leave at once; what belongs together is written at once anyway.
                let _ = stream.set_nodelay(true);
                let addresses = Addresses::new(Some(remote), stream.local_addr().ok());
                (Socket::Tcp(stream), addresses)
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                (Socket::Unix(stream), Addresses::new(None, None))
            }
        })
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tcp, unix) = match self {
            Self::Tcp(listener) => (listener.local_addr().ok(), None),
            Self::Unix(listener) => (None, listener.local_addr().ok()),
        };
        let path = unix.as_ref().and_then(|address| address.as_pathname());
        match (tcp, path) {
            (Some(address), _) => address.fmt(f),
            (None, Some(path)) => path.display().fmt(f),
            (None, None) => f.write_str("a socket without a name"),
        }
    }
}

async fn accept(listener: Listener, _listed: Option<Listed>, site: &Arc<Site>, threads: &Arc<Threads>) {
    let bound = if listener.address().is_some() {
        TcpListener::from_std(listener.0.into()).map(Bound::Tcp)
    } else {
        UnixListener::from_std(listener.0.into()).map(Bound::Unix)
    };
    let Ok(bound) = bound else { return };
    let mut told: Option<Instant> = None;
    let mut accepts = takeover::accepts();
    loop {
        // The sender is a static.
        let _ = accepts.wait_for(|accepts| *accepts).await;
        let accepted = tokio::select! {
            biased;
            _ = accepts.wait_for(|accepts| !*accepts) => continue,
            accepted = bound.accept() => accepted,
        };
        match accepted {
            Ok((socket, addresses)) => hand_out(site, threads, socket, addresses),
            Err(error) if is_of_client(&error) => {}
            Err(error) => {
                // Relaxed: a count.
                site.unaccepted.fetch_add(1, Ordering::Relaxed);
                if told.is_none_or(|told| told.elapsed() >= TELL_AGAIN) {
                    told = Some(Instant::now());
                    let detail = format!("connections to {bound} have to wait: {error}");
                    site.report(Code::AcceptFailed.error(detail));
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Errors that the connection has brought along (accept(2)); the next one may be well.
fn is_of_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, TimedOut};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted | TimedOut)
        || error.raw_os_error() == Some(libc::EPROTO)
}

/// Serves a connection by the protocol that was agreed on, to its end.
pub(super) async fn serve(load: Arc<Load>, client: Client) {
    // On the heap, each for its time: neither keeps room for the other.
    if client.speaks_http2() {
        boxed(|| streams::serve(load, client)).await;
    } else {
        boxed(|| connection::serve(load, client, None)).await;
    }
}

/// Gives a connection to the thread with the fewest. A failure to move it closes it.
pub(super) fn hand_out(site: &Arc<Site>, threads: &Arc<Threads>, socket: Socket, addresses: Addresses) {
    let counted = match site.clients.connect(addresses.ip()) {
        Ok(counted) => counted,
        Err(error) => {
            if site.tls.is_some() {
                // A handshake would cost more than the connection is allowed.
                return;
            }
            // As far as the socket takes it: a client with too many connections is not waited for.
            let _ = socket.send_now(&refused(&error, false));
            return;
        }
    };
    let network = addresses.ip().map(|address| site.clients.network(address));
    let run = move |load: Load, transport: Transport, tls: Option<Plain<TlsSession>>| {
        let connection = Arc::new(Connection::new(transport));
        serve(Arc::new(load), Client::new(connection, addresses, network, tls, counted))
    };
    if let Some(handshakes) = &site.tls {
        let Ok(socket) = socket.detach() else { return };
        let (site, threads) = (Arc::clone(site), Arc::clone(threads));
        handshakes.begin(socket, move |arrival| {
            let load = site.admit();
            threads.spawn(load.thread, move || {
                let session = Plain::clone(&arrival.session);
                // On the heap until it is one: the task of an idle connection has 3.6 KB less.
                let transport = Box::pin(arrival.transport());
                async move {
                    let transport = transport.await;
                    if let Ok(transport) = transport {
                        run(load, transport, Some(session)).await;
                    }
                }
            });
        });
        return;
    }
    let load = site.admit();
    if load.thread == 0 {
        tokio::spawn(run(load, Transport::Plain(socket), None));
        return;
    }
    let Ok(socket) = socket.detach() else { return };
    threads.spawn(load.thread, move || async move {
        if let Ok(socket) = socket.attach() {
            run(load, Transport::Plain(socket), None).await;
        }
    });
}
