//! How a process takes over from the one before it: the sockets that listen, which of the two accepts, the connections of
//! clients that wait for nothing, and the streams of events.
//!
//! Both have the same open sockets, so that the kernel's queue of connections is never closed. Only one accepts: the new
//! process begins held and lets clients in when it is told to; the old one is held from before it tells. Then the old one gives
//! away each connection on which no request is under way, instead of closing it. What has come on it and was not read is still
//! in the kernel. One of the two reads from it, because it has left the old one's runtime before it is given away.

pub mod decisions;
pub mod streams;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, LazyLock, PoisonError};
use std::time::Duration;

use socket2::{SockAddr, Socket};
use tokio::sync::{Semaphore, SemaphorePermit, watch};

use crate::sync::{Arc, Mutex, lock};
use streams::{Begin, Resting, StreamState};

/// Whether the listeners of this process accept.
static ACCEPTS: LazyLock<watch::Sender<bool>> = LazyLock::new(|| watch::Sender::new(true));

/// Sockets of the process before, which nothing here listens to yet, in the order in which that began to listen.
static GIVEN: Mutex<Vec<Socket>> = Mutex::new(Vec::new());

/// What this process listens to, in the order in which it began.
static LISTED: Mutex<Vec<Arc<Listener>>> = Mutex::new(Vec::new());

/// Whether connections are given away.
static GIVES_AWAY: AtomicBool = AtomicBool::new(false);

/// Connections that leave at the same time. What comes on one of them waits until the next process has it; with five
/// thousand at once that took 250 ms. As many as one message has.
const AT_ONCE: usize = 64;
static TURNS: Semaphore = Semaphore::const_new(AT_ONCE);

/// The turn of a connection to leave.
pub(crate) struct Turn(
    #[expect(dead_code, reason = "dropped when the connection is taken")] SemaphorePermit<'static>,
);

/// Connections to give away.
static LEFT: Mutex<Vec<(OwnedFd, Turn)>> = Mutex::new(Vec::new());
static HAS_LEFT: Condvar = Condvar::new();

/// What serves the connections of a listener.
pub(crate) trait Server: Send + Sync {
    /// Serves a connection that another process has accepted.
    fn serve(&self, client: Socket);

    /// Asks `most` more streams to move when they are at rest. How many were asked and are not frozen yet.
    fn ask_to_move(&self, most: usize) -> usize;

    /// Takes up a stream that another process gives away. What is returned begins to read and write it.
    ///
    /// # Errors
    /// Why it cannot go on here.
    fn take_up(&self, client: Socket, resting: Resting, state: StreamState) -> Result<Begin, String>;
}

/// A socket that is listened to, and what serves the connections that are accepted from it.
struct Listener {
    socket: Socket,
    server: Box<dyn Server>,
}

/// Keeps a listener on the list of what a next process is given.
pub(crate) struct Listed(Arc<Listener>);

impl Drop for Listed {
    fn drop(&mut self) {
        lock(&LISTED).retain(|other| !Arc::ptr_eq(other, &self.0));
    }
}

/// Lists `socket`, under a descriptor of its own. `server` serves what another process has accepted from it.
pub(crate) fn list(socket: &Socket, server: impl Server + 'static) -> io::Result<Listed> {
    let listed = Arc::new(Listener { socket: socket.try_clone()?, server: Box::new(server) });
    lock(&LISTED).push(Arc::clone(&listed));
    Ok(Listed(listed))
}

/// Serves a connection that the process before has accepted. False, and it is closed, if nothing listens where the client has
/// connected to.
pub fn adopt(connection: OwnedFd) -> bool {
    let connection = Socket::from(connection);
    listener_of(&connection).is_some_and(|listener| {
        listener.server.serve(connection);
        true
    })
}

/// What listens where the client of `connection` has connected to.
fn listener_of(connection: &Socket) -> Option<Arc<Listener>> {
    let local = connection.local_addr().ok()?;
    lock(&LISTED).iter().find(|listener| listener.takes(&local)).map(Arc::clone)
}

/// Asks `most` streams of each listener to move. How many were asked and are not frozen yet.
fn ask_to_move(most: usize) -> usize {
    let listeners = lock(&LISTED).clone();
    listeners.iter().map(|listener| listener.server.ask_to_move(most)).sum()
}

impl Listener {
    /// Whether a connection to `local` is accepted here.
    fn takes(&self, local: &SockAddr) -> bool {
        let Ok(own) = self.socket.local_addr() else { return false };
        match (own.as_socket(), local.as_socket()) {
            (Some(own), Some(local)) => {
                let is_any = own.ip().is_unspecified() && own.is_ipv4() == local.is_ipv4();
                own.port() == local.port() && (own.ip() == local.ip() || is_any)
            }
            (None, None) => own.as_pathname().is_some() && own.as_pathname() == local.as_pathname(),
            _ => false,
        }
    }
}

/// From now on connections on which no request is under way are given away, instead of closed, when their site drains.
pub fn give_away() {
    // Relaxed: a connection that does not see it yet is closed.
    GIVES_AWAY.store(true, Ordering::Relaxed);
}

/// Whether connections are given away.
pub fn gives_away() -> bool {
    GIVES_AWAY.load(Ordering::Relaxed)
}

/// Ready when another connection may leave. Until then it is served here.
pub(crate) async fn turn() -> Turn {
    match TURNS.acquire().await {
        Ok(permit) => Turn(permit),
        // It is never closed.
        Err(_) => std::future::pending().await,
    }
}

/// Gives a connection away, of which this is another descriptor.
pub(crate) fn leave(connection: OwnedFd, turn: Turn) {
    lock(&LEFT).push((connection, turn));
    HAS_LEFT.notify_one();
}

/// Up to `most` connections to give away; waits for one for `within`. As many others may leave.
pub fn left(most: usize, within: Duration) -> Vec<OwnedFd> {
    let left = lock(&LEFT);
    let waited = HAS_LEFT.wait_timeout_while(left, within, |left| left.is_empty());
    let (mut left, _) = waited.unwrap_or_else(PoisonError::into_inner);
    let rest = left.len().saturating_sub(most);
    let taken = left.split_off(rest);
    drop(left);
    taken.into_iter().map(|(connection, _)| connection).collect()
}

/// Duplicates of the sockets that this process listens to.
///
/// # Errors
/// The process has no free descriptor.
pub fn listeners() -> io::Result<Vec<OwnedFd>> {
    lock(&LISTED).iter().map(|listener| Ok(listener.socket.try_clone()?.into())).collect()
}

/// Takes sockets of the process before: a listener is opened on one that has its address, and else anew.
pub fn give_listeners(sockets: Vec<OwnedFd>) {
    lock(&GIVEN).extend(sockets.into_iter().map(Socket::from));
}

/// Closes the sockets that nothing has begun to listen to.
pub fn close_given_listeners() {
    lock(&GIVEN).clear();
}

/// The socket that was given for `place`, an address of TCP or `unix:` and a path, if there is one.
pub fn claim_listener(place: &str) -> Option<OwnedFd> {
    let found = match place.strip_prefix("unix:") {
        Some(path) => claim_unix(Path::new(path)),
        None => claim_tcp(place.parse().ok()?),
    };
    found.map(OwnedFd::from)
}

/// The socket that was given for an address of TCP, if there is one. Port 0 is any of its host.
pub(crate) fn claim_tcp(address: SocketAddr) -> Option<Socket> {
    claim(|given| {
        let given = given.as_socket();
        given.is_some_and(|given| {
            given.ip() == address.ip() && (address.port() == 0 || given.port() == address.port())
        })
    })
}

/// The socket that was given for a path, if there is one.
pub(crate) fn claim_unix(path: &Path) -> Option<Socket> {
    claim(|given| given.as_pathname() == Some(path))
}

fn claim(is_it: impl Fn(&SockAddr) -> bool) -> Option<Socket> {
    let mut given = lock(&GIVEN);
    let at = given.iter().position(|socket| socket.local_addr().is_ok_and(|address| is_it(&address)))?;
    Some(given.remove(at))
}

/// From now on no listener of this process accepts; clients wait in the kernel's queue.
pub fn hold_clients() {
    ACCEPTS.send_replace(false);
}

/// From now on the listeners accept.
pub fn let_clients_in() {
    ACCEPTS.send_replace(true);
}

/// Whether no listener of this process accepts: it takes over from another, or hands on.
pub(crate) fn is_held() -> bool {
    !*ACCEPTS.borrow()
}

/// Whether the listeners of this process accept, and its changes.
pub(crate) fn accepts() -> watch::Receiver<bool> {
    ACCEPTS.subscribe()
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn given(listener: impl Into<OwnedFd>) {
        give_listeners(vec![listener.into()]);
    }

    #[test]
    fn a_socket_is_claimed_once_by_its_address_or_by_its_host_where_any_port_will_do() {
        // An address of its own: tests of one process share what is given.
        let listeners = [(); 2].map(|()| TcpListener::bind((Ipv4Addr::new(127, 3, 5, 7), 0)).unwrap());
        let [first, second] = listeners.each_ref().map(|listener| listener.local_addr().unwrap());
        for listener in listeners {
            given(listener);
        }
        let address =
            |socket: Option<Socket>| socket.and_then(|socket| socket.local_addr().ok()?.as_socket());
        assert_eq!(address(claim_tcp(second)), Some(second));
        assert!(claim_tcp(second).is_none());
        assert!(claim_listener(&SocketAddr::new(first.ip(), 1).to_string()).is_none());
        assert_eq!(address(claim_tcp(SocketAddr::new(first.ip(), 0))), Some(first));
        assert!(claim_tcp(SocketAddr::new(first.ip(), 0)).is_none());
    }

    #[test]
    fn a_path_is_claimed_and_what_is_no_place_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("web.sock");
        given(UnixListener::bind(&path).unwrap());
        for place in ["", "unix:", "web.sock", "127.3.5.8", "unix:/none"] {
            assert!(claim_listener(place).is_none(), "{place}");
        }
        assert!(claim_listener(&format!("unix:{}", path.display())).is_some());
    }

    struct None;

    impl Server for None {
        fn serve(&self, _: Socket) {}

        fn ask_to_move(&self, _: usize) -> usize {
            0
        }

        fn take_up(&self, _: Socket, _: Resting, _: StreamState) -> Result<Begin, String> {
            Err("none".to_owned())
        }
    }

    fn listener(socket: impl Into<OwnedFd>) -> Listener {
        Listener { socket: socket.into().into(), server: Box::new(None) }
    }

    #[test]
    fn a_connection_is_taken_by_what_listens_where_it_was_made_to() {
        let any = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let port = any.local_addr().unwrap().port();
        let other = listener(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
        let client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        let local = Socket::from(OwnedFd::from(any.accept().unwrap().0)).local_addr().unwrap();
        assert!(listener(any).takes(&local) && !other.takes(&local));
        drop(client);

        let directory = tempfile::tempdir().unwrap();
        let paths = ["one", "other"].map(|name| directory.path().join(name));
        let [one, other] = paths.each_ref().map(|path| UnixListener::bind(path).unwrap());
        let client = UnixStream::connect(&paths[0]).unwrap();
        let unix = Socket::from(OwnedFd::from(one.accept().unwrap().0)).local_addr().unwrap();
        let [one, other] = [one, other].map(listener);
        assert!(one.takes(&unix) && !other.takes(&unix) && !one.takes(&local));
        drop(client);
    }

    #[test]
    fn connections_are_given_away_some_at_a_time_and_the_others_wait_for_their_turns() {
        let free = || {
            let polled = pin!(turn()).poll(&mut Context::from_waker(Waker::noop()));
            Some(polled).filter(Poll::is_ready)
        };
        let mut turns: Vec<_> = std::iter::from_fn(free).collect();
        assert_eq!(turns.len(), AT_ONCE);
        for turn in turns.drain(..3) {
            let Poll::Ready(turn) = turn else { unreachable!() };
            leave(UnixStream::pair().unwrap().0.into(), turn);
        }
        assert!(free().is_none());
        assert_eq!(left(2, Duration::ZERO).len(), 2);
        turns.extend(std::iter::from_fn(free));
        assert_eq!(turns.len(), AT_ONCE - 1);
        assert_eq!(left(2, Duration::ZERO).len(), 1);
        assert!(left(2, Duration::ZERO).is_empty());
        assert!(free().is_some());
    }
}
