//! A client of which every byte is known.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

pub(crate) struct Client {
    stream: TcpStream,
    /// Read, and not yet asked for.
    ahead: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, ahead: Vec::new() }
    }

    /// One that takes little before it reads.
    pub(crate) async fn narrow(address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let stream = socket.connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, ahead: Vec::new() }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    pub(crate) async fn get(&mut self, target: &str) {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
    }

    /// Sends what the sockets take at once; how much that was.
    pub(crate) fn send_some(&mut self, bytes: &[u8]) -> usize {
        match self.stream.try_write(bytes) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => panic!("{error}"),
        }
    }

    /// The next `count` bytes.
    pub(crate) async fn read(&mut self, count: usize) -> Vec<u8> {
        while self.ahead.len() < count {
            assert!(self.read_more().await.unwrap() > 0, "the end after {:?}", self.text());
        }
        let rest = self.ahead.split_off(count);
        std::mem::replace(&mut self.ahead, rest)
    }

    /// The next head.
    pub(crate) async fn head(&mut self) -> String {
        loop {
            if let Some(at) = self.ahead.windows(4).position(|four| four == b"\r\n\r\n") {
                return String::from_utf8(self.read(at + 4).await).unwrap();
            }
            assert!(self.read_more().await.unwrap() > 0, "the end after {:?}", self.text());
        }
    }

    /// Everything to the end, and whether that was a reset.
    pub(crate) async fn rest(&mut self) -> (Vec<u8>, bool) {
        loop {
            match self.read_more().await {
                Ok(0) => return (std::mem::take(&mut self.ahead), false),
                Ok(_) => {}
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
                    return (std::mem::take(&mut self.ahead), true);
                }
            }
        }
    }

    /// Leaves with a reset, and not with the end of what it sends.
    pub(crate) fn reset(self) {
        SockRef::from(&self.stream).set_linger(Some(Duration::ZERO)).unwrap();
    }

    /// Ends its side, and goes on reading.
    pub(crate) async fn end(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    async fn read_more(&mut self) -> io::Result<usize> {
        self.stream.read_buf(&mut self.ahead).await
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.ahead).into_owned()
    }
}
