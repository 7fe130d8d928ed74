//! An origin that does as it is told: a listener on a port of its own, and a script for each connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use penstock_engine::origin::{Endpoint, Scheme};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Server {
    /// Plays `script` on each connection; it gets the connection and its number, from 0.
    pub(crate) async fn start<S, F>(script: S) -> Self
    where
        S: Fn(Peer<TcpStream>, usize) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&connections);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                let number = counter.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(script(Peer::new(stream), number));
            }
        });
        Self { address, connections, task }
    }

    /// Answers every request on every connection with `response`.
    pub(crate) async fn always(response: impl Into<Vec<u8>>) -> Self {
        let response: Arc<Vec<u8>> = Arc::new(response.into());
        Self::start(move |mut peer, _| {
            let response = Arc::clone(&response);
            async move {
                while peer.request().await.is_some() {
                    peer.send(&response[..]).await;
                }
            }
        })
        .await
    }

    /// Sends `response` to the first request of each connection, then closes it.
    pub(crate) async fn once(response: impl Into<Vec<u8>>) -> Self {
        let response: Arc<Vec<u8>> = Arc::new(response.into());
        Self::start(move |mut peer, _| {
            let response = Arc::clone(&response);
            async move {
                peer.request().await;
                peer.send(&response[..]).await;
            }
        })
        .await
    }

    /// Sends `response` to the first request of each connection, then says nothing until the client leaves.
    pub(crate) async fn stalling(response: impl Into<Vec<u8>>) -> Self {
        let response: Arc<Vec<u8>> = Arc::new(response.into());
        Self::start(move |mut peer, _| {
            let response = Arc::clone(&response);
            async move {
                peer.request().await;
                peer.send(&response[..]).await;
                peer.until_closed().await;
            }
        })
        .await
    }

    pub(crate) fn endpoint(&self, scheme: Scheme) -> Endpoint {
        Endpoint::new(scheme, &self.address.ip().to_string(), self.address.port(), None).unwrap()
    }

    /// Connections accepted so far.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The origin's end of a connection.
pub(crate) struct Peer<S> {
    pub(crate) stream: S,
    buffer: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Peer<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, buffer: Vec::new() }
    }

    /// The next request's head, or `None` if the client closed first.
    pub(crate) async fn request(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                let head = self.buffer.drain(..end + 4).collect();
                return Some(String::from_utf8(head).unwrap());
            }
            if !self.more().await {
                return None;
            }
        }
    }

    /// The next `count` bytes of a request body; fewer if the client closed.
    pub(crate) async fn take(&mut self, count: usize) -> Vec<u8> {
        while self.buffer.len() < count && self.more().await {}
        self.buffer.drain(..count.min(self.buffer.len())).collect()
    }

    async fn more(&mut self) -> bool {
        matches!(self.stream.read_buf(&mut self.buffer).await, Ok(1..))
    }

    /// Ignores that the client may have left.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref()).await;
        let _ = self.stream.flush().await;
    }

    /// Returns when the client has closed.
    pub(crate) async fn until_closed(&mut self) {
        while self.more().await {}
    }
}

impl Peer<TcpStream> {
    /// Ends the connection with a reset.
    pub(crate) fn reset(self) {
        SockRef::from(&self.stream).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    }
}

pub(crate) fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}
