//! The client of a connection.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc as Plain;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use super::clients::Counted;
use super::network::Looked;
use crate::app::{Ends, TlsSession};
use crate::holder;
use crate::net::{Connection, TcpTotals};
use crate::sync::{Arc, Mutex};
use crate::sys::descriptor::set_option;
use crate::takeover;

/// A client, and the connection to it.
#[derive(Debug)]
pub(super) struct Client {
    /// Shared with a topic, which may write events past the response's own sending.
    pub(super) connection: Arc<Connection>,
    pub(super) addresses: Addresses,
    /// The network that the limits count as one client; `None` on a Unix socket.
    pub(super) network: Option<IpAddr>,
    /// Over TLS, what its handshake has settled.
    pub(super) tls: Option<Plain<TlsSession>>,
    /// The connection is a stream of HTTP/2.
    pub(super) is_stream: bool,
    /// Shared by the streams of a connection.
    is_proven: Plain<AtomicBool>,
    totals: Plain<Mutex<TcpTotals>>,
    /// Takes memory for the request that is being answered; 0 between requests.
    holder: AtomicU8,
    /// On its address's account, where that has a limit.
    _counted: Option<Counted>,
}

impl Client {
    pub(super) fn new(
        connection: Arc<Connection>,
        addresses: Addresses,
        network: Option<IpAddr>,
        tls: Option<Plain<TlsSession>>,
        counted: Option<Counted>,
    ) -> Self {
        Self {
            connection,
            addresses,
            network,
            tls,
            is_stream: false,
            is_proven: Plain::default(),
            totals: Plain::default(),
            holder: AtomicU8::new(0),
            _counted: counted,
        }
    }

    /// The same client, on a stream of its connection.
    pub(super) fn on_stream(&self, stream: Arc<Connection>) -> Self {
        Self {
            connection: stream,
            addresses: self.addresses.clone(),
            network: self.network,
            tls: self.tls.clone(),
            is_stream: true,
            is_proven: Plain::clone(&self.is_proven),
            totals: Plain::clone(&self.totals),
            holder: AtomicU8::new(0),
            _counted: None,
        }
    }

    /// What the network's part in its responses is seen by.
    pub(super) fn looked(&self) -> Looked {
        Looked { connection: Arc::clone(&self.connection), totals: Plain::clone(&self.totals) }
    }

    /// Who takes memory for its request.
    pub(super) fn holder(&self) -> u8 {
        // Relaxed, here and below: of the one task that serves it.
        self.holder.load(Ordering::Relaxed)
    }

    /// From now on memory is taken in the name of `holder`, until what is returned is dropped.
    pub(super) fn hold(&self, holder: u8) -> Held<'_> {
        self.holder.store(holder, Ordering::Relaxed);
        // For the rest of this poll; later ones ask for it.
        holder::replace(holder);
        Held(self)
    }

    /// The version of HTTP of a request that reads as one of HTTP/1.`minor`.
    pub(super) fn version(&self, minor: u8) -> (u8, u8) {
        if self.is_stream { (2, 0) } else { (1, minor) }
    }

    /// Whether the handshake has settled on HTTP/2 (RFC 9113, section 3.2).
    pub(super) fn speaks_http2(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| &*tls.protocol == b"h2")
    }

    /// Whether its connection is given to the process that takes the place of this one, once no request is under way: not over TLS,
    /// whose keys are here.
    pub(super) fn gives_away(&self) -> bool {
        self.tls.is_none() && !self.is_stream && takeover::gives_away()
    }

    /// The scheme of the URLs that it asks for.
    pub(super) fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// As the application sees the connection.
    pub(super) fn ends(&self) -> Ends {
        let Addresses { remote, local, .. } = self.addresses;
        Ends { remote, local, tls: self.tls.clone() }
    }

    /// A response on this connection was taken to its end; whether it is the first.
    pub(super) fn prove(&self) -> bool {
        // Relaxed: the tasks of one thread alone use it.
        if self.is_proven() {
            return false;
        }
        self.is_proven.store(true, Ordering::Relaxed);
        true
    }

    /// Whether a response on this connection was taken to its end.
    pub(super) fn is_proven(&self) -> bool {
        self.is_proven.load(Ordering::Relaxed)
    }

    /// Has the kernel keep no more than so many bytes unsent, where it is TCP: what a slow client has not been sent is then
    /// here, where it is counted.
    pub(super) fn keep_backlog(&self, most: Option<u32>) {
        if let Some(most) = most.and_then(|most| i32::try_from(most).ok()) {
            self.set_backlog(most);
        }
    }

    /// Undoes [`Client::keep_backlog`], for the next response on the connection.
    pub(super) fn keep_any_backlog(&self, most: Option<u32>) {
        if most.is_some() {
            // What the system says.
            self.set_backlog(0);
        }
    }

    fn set_backlog(&self, most: i32) {
        if self.is_stream {
            // What is unsent is bounded for all streams of the connection together.
            return;
        }
        // An error means that it is no TCP.
        let _ = self.connection.with_socket(|socket| {
            socket.option(|socket| set_option(&*socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, most))
        });
    }
}

/// A request is being answered.
pub(super) struct Held<'a>(&'a Client);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.holder.store(0, Ordering::Relaxed);
        holder::replace(0);
    }
}

/// Both ends of a connection.
#[derive(Debug, Clone)]
pub struct Addresses {
    /// Of the client; none on a Unix socket.
    pub remote: Option<SocketAddr>,
    /// Where it connected to; none on a Unix socket.
    pub local: Option<SocketAddr>,
    /// The client's address as text, without its port. Shared by the streams of a connection.
    pub host: Option<Plain<str>>,
}

impl Addresses {
    /// Of the client, without its port.
    pub(super) fn ip(&self) -> Option<IpAddr> {
        self.remote.map(|remote| remote.ip())
    }

    pub(super) fn new(remote: Option<SocketAddr>, local: Option<SocketAddr>) -> Self {
        // An IPv4 client of a socket that listens for both families is an IPv4 client.
        let plain = |address: SocketAddr| match address.ip() {
            IpAddr::V6(ip) => SocketAddr::new(ip.to_canonical(), address.port()),
            IpAddr::V4(_) => address,
        };
        let remote = remote.map(plain);
        Self { remote, local, host: remote.map(|address| address.ip().to_string().into()) }
    }
}
