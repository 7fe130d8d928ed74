//! The limit: bytes between two TCP sockets on one tokio thread, with no HTTP read or written.
//!
//! Each client connection has its own origin connection, so keep-alive on the one is keep-alive on the other. Whatever a
//! gateway costs above this is what it pays for understanding what it relays.

use std::{env, io, process::ExitCode};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{tcp, TcpListener, TcpStream};

/// As large as the other peers' buffers.
const BUFFER: usize = 64 * 1024;

async fn copy(mut from: tcp::OwnedReadHalf, mut to: tcp::OwnedWriteHalf, size: usize) -> io::Result<()> {
    let mut buffer = vec![0; size];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..count]).await?;
    }
}

async fn relay(client: TcpStream, origin: String) -> io::Result<()> {
    let upstream = TcpStream::connect(origin).await?;
    client.set_nodelay(true)?;
    upstream.set_nodelay(true)?;
    let (client_read, client_write) = client.into_split();
    let (upstream_read, upstream_write) = upstream.into_split();
    // Requests are small; only the way down needs the large buffer.
    tokio::spawn(copy(client_read, upstream_write, 4096));
    copy(upstream_read, client_write, BUFFER).await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [listen, origin] = arguments.as_slice() else {
        eprintln!("usage: tcp-relay HOST:PORT ORIGIN_HOST:PORT");
        return ExitCode::from(2);
    };
    let listener = match listen_on(listen) {
        Ok(listener) => listener,
        Err(error) => {
            eprintln!("tcp-relay: cannot listen on {listen}: {error}");
            return ExitCode::FAILURE;
        }
    };
    loop {
        match listener.accept().await {
            Ok((client, _)) => {
                // A connection that either side resets ends that connection alone.
                tokio::spawn(relay(client, origin.clone()));
            }
            Err(error) => {
                eprintln!("tcp-relay: accept failed: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
}

/// tokio's `bind` sets SO_REUSEADDR but a backlog of 1,024, which a thousand streams at once would fill.
fn listen_on(address: &str) -> io::Result<TcpListener> {
    let address = address.parse().map_err(io::Error::other)?;
    let socket = tokio::net::TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(4096)
}
