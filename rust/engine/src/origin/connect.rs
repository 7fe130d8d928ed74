//! Opens a connection: resolve, connect to the address that answers first, and TLS, each within its own limit.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, sleep};
use tokio_rustls::rustls;
use tokio_rustls::rustls::pki_types::ServerName;

use super::endpoint::{Endpoint, Scheme};
use super::limits::{Timeouts, within};
use super::place::Place;
use super::resolve::resolve;
use super::tls::Tls;
use crate::error::{Code, Error, Result};
#[cfg(test)]
use crate::net::simulated;
use crate::net::{Connection, Records, Socket, Transport};
use crate::stream::Timings;
use crate::work::{Work, worked};

/// After this long the next address is tried beside the ones before (RFC 8305, section 8).
const STAGGER: Duration = Duration::from_millis(250);

/// A new connection to the endpoint of `place`, over TLS with HTTP/2 if this `offers_http2` and the origin agrees. What each stage took is written to `timings`.
pub(super) async fn open(
    place: &Place,
    tls: &Tls,
    offers_http2: bool,
    timeouts: &Timeouts,
    timings: &mut Timings,
) -> Result<Connection> {
    let endpoint = &place.endpoint;
    let mut peer = None;
    let socket = if let Some(path) = endpoint.unix() {
        let started = Instant::now();
        let socket = within(timeouts.connect, Code::ConnectTimeout, "connecting", unix(path)).await?;
        timings.connect = started.elapsed();
        socket
    } else {
        let started = Instant::now();
        let addresses =
            within(timeouts.resolve, Code::ResolveTimeout, "resolving the name", addresses(place)).await?;
        timings.resolve = started.elapsed();
        let started = Instant::now();
        let tried = addresses.clone();
        let reached = within(timeouts.connect, Code::ConnectTimeout, "connecting", race(addresses)).await;
        let reached = reached.map_err(|error| {
            place.forget_addresses();
            // The error of a refused connection names its addresses itself.
            if error.code() == Code::ConnectTimeout { with(tried, error) } else { error }
        })?;
        timings.connect = started.elapsed();
        peer = reached.peer;
        reached.socket
    };
    let transport = match endpoint.scheme() {
        Scheme::Http => Transport::Plain(socket),
        Scheme::Https => {
            let started = Instant::now();
            let handshake = worked(Work::Tls, handshake(endpoint, tls, offers_http2, socket));
            let transport = within(timeouts.tls, Code::TlsTimeout, "the TLS handshake", handshake).await;
            let transport = transport.map_err(|error| with(peer, error))?;
            timings.tls = started.elapsed();
            transport
        }
    };
    let mut connection = Connection::new(transport);
    connection.peer = peer;
    Ok(connection)
}

/// Adds the addresses to the error.
fn with(addresses: impl IntoIterator<Item = SocketAddr>, error: Error) -> Error {
    let addresses: Vec<_> = addresses.into_iter().map(|address| address.to_string()).collect();
    if addresses.is_empty() {
        return error;
    }
    error.code().error(format!("{}: {}", addresses.join(", "), error.detail()))
}

/// The addresses of the name, resolved now if they are not known.
async fn addresses(place: &Place) -> Result<Vec<SocketAddr>> {
    if let Some(known) = place.addresses() {
        return Ok(known);
    }
    let found = resolve(&place.endpoint).await?;
    if place.endpoint.address().is_none() {
        place.learn(Some(found.clone()));
    }
    Ok(found)
}

async fn unix(path: &Path) -> Result<Socket> {
    let stream = UnixStream::connect(path).await;
    stream
        .map(Socket::Unix)
        .map_err(|error| Code::ConnectFailed.error(format!("{}: {error}", path.display())))
}

async fn handshake(endpoint: &Endpoint, tls: &Tls, offers_http2: bool, socket: Socket) -> Result<Transport> {
    let connector = tls.connector(endpoint, offers_http2).await?;
    // For an address no SNI is sent (RFC 6066, section 3), but the certificate must name it.
    let name = ServerName::try_from(endpoint.host().to_owned())
        .map_err(|_| Code::TlsFailed.error(format!("no certificate can name {:?}", endpoint.host())))?;
    let stream = connector.connect(name, Records::new(socket)).await;
    stream
        .map(|stream| Transport::Tls(Box::new(stream.into())))
        .map_err(|error| Code::TlsFailed.error(tls_failure(endpoint, &error)))
}

/// Why a handshake failed. An answer that is not a TLS record mostly comes from a port for plain HTTP.
fn tls_failure(endpoint: &Endpoint, error: &io::Error) -> String {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    match cause {
        Some(rustls::Error::InvalidMessage(_)) => {
            let plain = endpoint.to_string().replacen("https://", "http://", 1);
            format!("the origin did not speak TLS: should its URL be {plain}? ({error})")
        }
        _ => error.to_string(),
    }
}

/// A connection, and the address that it was opened to.
#[derive(Debug)]
struct Reached {
    socket: Socket,
    peer: Option<SocketAddr>,
}

type Attempt = Pin<Box<dyn Future<Output = std::result::Result<Reached, String>> + Send>>;

/// Happy eyeballs (RFC 8305, section 5): each address gets a head start on the next; the first to answer wins and
/// the other attempts are dropped.
async fn race(addresses: Vec<SocketAddr>) -> Result<Reached> {
    let mut addresses = addresses.into_iter();
    let mut attempts: Vec<Attempt> = Vec::new();
    let mut failures: Vec<String> = Vec::new();
    let mut stagger = pin!(sleep(STAGGER));
    std::future::poll_fn(|context| {
        loop {
            let mut failed = false;
            let mut index = 0;
            while index < attempts.len() {
                match attempts[index].as_mut().poll(context) {
                    Poll::Ready(Ok(reached)) => return Poll::Ready(Ok(reached)),
                    Poll::Ready(Err(failure)) => {
                        failures.push(failure);
                        drop(attempts.remove(index));
                        failed = true;
                    }
                    Poll::Pending => index += 1,
                }
            }
            if !(failed || attempts.is_empty() || stagger.as_mut().poll(context).is_ready()) {
                return Poll::Pending;
            }
            match addresses.next() {
                Some(address) => {
                    attempts.push(Box::pin(attempt(address)));
                    stagger.as_mut().reset(Instant::now() + STAGGER);
                }
                None if attempts.is_empty() => {
                    return Poll::Ready(Err(Code::ConnectFailed.error(failures.join("; "))));
                }
                None => return Poll::Pending,
            }
        }
    })
    .await
}

async fn attempt(address: SocketAddr) -> std::result::Result<Reached, String> {
    connect(address).await.map_err(|error| format!("{address}: {error}"))
}

async fn connect(address: SocketAddr) -> io::Result<Reached> {
    #[cfg(test)]
    if let Some(connected) = simulated::connect(address).await {
        return connected.map(|end| Reached { socket: Socket::Simulated(end), peer: Some(address) });
    }
    let stream = TcpStream::connect(address).await?;
    // The kernel can choose the target port as our own, if nothing listens there: TCP then connects to
    // itself.
    if stream.local_addr()? == stream.peer_addr()? {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    stream.set_nodelay(true)?;
    Ok(Reached { peer: stream.peer_addr().ok(), socket: Socket::Tcp(stream) })
}

#[cfg(test)]
mod tests {
    use socket2::{Domain, Socket as Plain, Type};
    use tokio::net::TcpListener;

    use super::*;

    /// A listener whose queue is full, so that the kernel leaves further attempts without an answer.
    fn silent() -> (Plain, SocketAddr, Vec<Plain>) {
        let listener = Plain::new(Domain::IPV4, Type::STREAM, None).unwrap();
        listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        let fillers = (0..4).map(|_| {
            let filler = Plain::new(Domain::IPV4, Type::STREAM, None).unwrap();
            filler.set_nonblocking(true).unwrap();
            let _ = filler.connect(&address.into());
            filler
        });
        let fillers = fillers.collect();
        (listener, address, fillers)
    }

    fn refusing() -> SocketAddr {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    }

    #[tokio::test]
    async fn an_address_that_does_not_answer_costs_only_the_head_start() {
        let (_listener, silent, _fillers) = silent();
        let good = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let started = Instant::now();
        let reached = race(vec![silent, good.local_addr().unwrap()]).await.unwrap();
        assert_eq!(reached.peer, good.local_addr().ok());
        assert!(started.elapsed() >= STAGGER, "the first address was not given its head start");
    }

    #[tokio::test]
    async fn a_refusal_starts_the_next_attempt_at_once() {
        let good = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let started = Instant::now();
        race(vec![refusing(), refusing(), good.local_addr().unwrap()]).await.unwrap();
        assert!(started.elapsed() < STAGGER, "a refused attempt was waited for");
    }

    #[tokio::test]
    async fn when_all_fail_each_is_named() {
        let (one, two) = (refusing(), refusing());
        let error = race(vec![one, two]).await.unwrap_err();
        assert_eq!(error.code(), Code::ConnectFailed);
        for address in [one, two] {
            assert!(error.detail().contains(&address.to_string()), "{error} does not name {address}");
        }
    }

    #[tokio::test]
    async fn the_limit_covers_all_addresses() {
        let (_listener, silent, _fillers) = silent();
        let limit = Some(Duration::from_millis(20));
        let error =
            within(limit, Code::ConnectTimeout, "connecting", race(vec![silent, silent])).await.unwrap_err();
        assert_eq!(error.code(), Code::ConnectTimeout);
    }

    #[tokio::test]
    async fn small_writes_are_not_held_back() {
        let good = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let reached = race(vec![good.local_addr().unwrap()]).await.unwrap();
        assert!(reached.socket.option(|socket| socket.tcp_nodelay()).unwrap());
    }
}
