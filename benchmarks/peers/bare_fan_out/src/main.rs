//! The limit of a hub: one tokio thread that writes what is published to one socket after the other.
//!
//! One send for each subscriber and event, of the bytes that a hub would send; no history, no ids to resume from, no
//! client waited for. Of HTTP is read what the benchmark says. Whatever a hub costs above this is what it pays for being one.

use std::cell::RefCell;
use std::io;
use std::process::ExitCode;
use std::rc::Rc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::{LocalSet, spawn_local};

/// As long as those of the hubs it is compared with.
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nServer: bare\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
    Content-Type: text/event-stream\r\nCache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n";
const PUBLISHED: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";

#[derive(Default)]
struct Topic {
    subscribers: Vec<TcpStream>,
    events: u64,
}

impl Topic {
    fn publish(&mut self, data: &[u8]) {
        self.events += 1;
        let mut event = format!("id: 1700000000000-{}\ndata: ", self.events).into_bytes();
        event.extend_from_slice(data);
        event.extend_from_slice(b"\n\n");
        let mut chunk = format!("{:x}\r\n", event.len()).into_bytes();
        chunk.extend_from_slice(&event);
        chunk.extend_from_slice(b"\r\n");
        // Who does not take all of it at once has left, or is no client of this benchmark.
        self.subscribers.retain(
            |subscriber| matches!(subscriber.try_write(&chunk), Ok(count) if count == chunk.len()),
        );
    }
}

/// The length of the head and of the body after it, once the head is there.
fn lengths(request: &[u8]) -> Option<(usize, usize)> {
    let head = request.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let length = String::from_utf8_lossy(&request[..head])
        .lines()
        .find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok())
        .unwrap_or(0);
    Some((head, length))
}

async fn serve(mut client: TcpStream, topic: Rc<RefCell<Topic>>) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut request = Vec::new();
    loop {
        let (head, length) = loop {
            if let Some((head, length)) =
                lengths(&request).filter(|(head, length)| request.len() >= head + length)
            {
                break (head, length);
            }
            if client.read_buf(&mut request).await? == 0 {
                return Ok(());
            }
        };
        if request.starts_with(b"GET ") {
            client.write_all(HEAD).await?;
            topic.borrow_mut().subscribers.push(client);
            return Ok(());
        }
        topic.borrow_mut().publish(&request[head..head + length]);
        request.drain(..head + length);
        client.write_all(PUBLISHED).await?;
    }
}

async fn run(listen: &str) -> io::Result<()> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(listen.parse().map_err(io::Error::other)?)?;
    let listener = socket.listen(4096)?;
    let topic = Rc::default();
    loop {
        let (client, _) = listener.accept().await?;
        // A connection that is reset ends that connection alone.
        spawn_local(serve(client, Rc::clone(&topic)));
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [listen] = arguments.as_slice() else {
        eprintln!("usage: bare-fan-out HOST:PORT");
        return ExitCode::from(2);
    };
    let Err(error) = LocalSet::new().run_until(run(listen)).await else {
        return ExitCode::SUCCESS;
    };
    eprintln!("bare-fan-out: {error}");
    ExitCode::FAILURE
}
