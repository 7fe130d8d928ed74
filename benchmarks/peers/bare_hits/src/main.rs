//! The limit of a hit: one epoll loop that finds a body by the request's path and writes it with one writev.
//!
//! Nothing of HTTP is read but the path, no field is checked and none is made: whatever a cache costs above this is what
//! it pays for being one. What is not there yet is fetched from the origin, and the loop waits for it.

use std::collections::HashMap;
use std::io::{self, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream as Blocking};
use std::process::ExitCode;
use std::sync::Arc;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

const LISTENER: Token = Token(usize::MAX);

struct Connection {
    socket: TcpStream,
    request: Vec<u8>,
    response: Option<Arc<Response>>,
    written: usize,
}

struct Response {
    head: Vec<u8>,
    body: Vec<u8>,
}

struct Origin {
    address: SocketAddr,
    responses: HashMap<Vec<u8>, Arc<Response>>,
}

impl Origin {
    fn get(&mut self, path: &[u8]) -> io::Result<Arc<Response>> {
        if let Some(response) = self.responses.get(path) {
            return Ok(Arc::clone(response));
        }
        let response = Arc::new(self.fetch(path)?);
        self.responses.insert(path.to_vec(), Arc::clone(&response));
        Ok(response)
    }

    fn fetch(&self, path: &[u8]) -> io::Result<Response> {
        let mut socket = Blocking::connect(self.address)?;
        socket.write_all(&[b"GET ", path, b" HTTP/1.0\r\n\r\n"].concat())?;
        let mut whole = Vec::new();
        socket.read_to_end(&mut whole)?;
        let end = whole
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .ok_or(io::ErrorKind::InvalidData)?;
        if !whole.starts_with(b"HTTP/1.1 200 ") {
            return Err(io::ErrorKind::NotFound.into());
        }
        let body = whole.split_off(end + 4);
        // As long as that of the caches it is compared with.
        let head = format!(
            "HTTP/1.1 200 OK\r\nServer: bare\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Type: video/iso.segment\r\n\
             Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nETag: \"2cf24dba-4000\"\r\nCache-Control: max-age=3600\r\n\
             Accept-Ranges: bytes\r\nAge: 0\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        Ok(Response {
            head: head.into_bytes(),
            body,
        })
    }
}

impl Connection {
    /// Goes on until the socket has nothing more or takes nothing more; false when the connection has ended.
    fn run(&mut self, origin: &mut Origin) -> io::Result<bool> {
        loop {
            while let Some(response) = &self.response {
                let head = &response.head[self.written.min(response.head.len())..];
                let body = &response.body[self.written.saturating_sub(response.head.len())..];
                match self
                    .socket
                    .write_vectored(&[IoSlice::new(head), IoSlice::new(body)])
                {
                    Ok(count) => self.written += count,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                    Err(error) => return Err(error),
                }
                if self.written == response.head.len() + response.body.len() {
                    self.response = None;
                    self.written = 0;
                    // The client has waited for it: what it sends now will be announced.
                    return Ok(true);
                }
            }
            let mut buffer = [0; 4096];
            match self.socket.read(&mut buffer) {
                Ok(0) => return Ok(false),
                Ok(count) => {
                    self.request.extend_from_slice(&buffer[..count]);
                    if self.request.ends_with(b"\r\n\r\n") {
                        let path = self.request.split(|byte| *byte == b' ').nth(1);
                        self.response = Some(origin.get(path.ok_or(io::ErrorKind::InvalidData)?)?);
                        self.request.clear();
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            }
        }
    }
}

fn serve(listen: SocketAddr, origin: SocketAddr) -> io::Result<()> {
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(1024);
    let mut listener = TcpListener::bind(listen)?;
    poll.registry()
        .register(&mut listener, LISTENER, Interest::READABLE)?;
    let mut origin = Origin {
        address: origin,
        responses: HashMap::new(),
    };
    let mut connections: HashMap<usize, Connection> = HashMap::new();
    let mut next = 0;
    loop {
        poll.poll(&mut events, None)?;
        for event in &events {
            if event.token() != LISTENER {
                let Some(connection) = connections.get_mut(&event.token().0) else {
                    continue;
                };
                if !matches!(connection.run(&mut origin), Ok(true)) {
                    connections.remove(&event.token().0);
                }
                continue;
            }
            while let Ok((mut socket, _)) = listener.accept() {
                socket.set_nodelay(true)?;
                let interest = Interest::READABLE | Interest::WRITABLE;
                poll.registry()
                    .register(&mut socket, Token(next), interest)?;
                connections.insert(
                    next,
                    Connection {
                        socket,
                        request: Vec::new(),
                        response: None,
                        written: 0,
                    },
                );
                next += 1;
            }
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let addresses: Vec<SocketAddr> = arguments.iter().flat_map(|text| text.parse()).collect();
    let [listen, origin] = addresses.as_slice() else {
        eprintln!("usage: bare-hits HOST:PORT ORIGIN_HOST:PORT");
        return ExitCode::from(2);
    };
    let Err(error) = serve(*listen, *origin) else {
        return ExitCode::SUCCESS;
    };
    eprintln!("bare-hits: {error}");
    ExitCode::FAILURE
}
