//! An origin: takes connections, reads requests, and answers as the plan says, well or not.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use super::given::{Given, Kind, told_length};
use super::http;
use super::plan::{Answer, Break, Framing, ORIGINS, Then, upload};
use super::world::{Asked, World};
use crate::net::Socket;
use crate::net::simulated::{End, Network};
use crate::sync::{Arc, Mutex, lock};

/// The address of an origin.
pub(super) fn address(origin: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, u8::try_from(origin + 1).unwrap_or(u8::MAX)], 80))
}

/// The address of the origin of events.
pub(super) fn of_events() -> SocketAddr {
    address(ORIGINS)
}

/// A connection to an origin has come: its name.
pub(super) fn accept(world: &Mutex<World>, origin: usize) -> String {
    let mut world = lock(world);
    world.accepted += 1;
    format!("origin {origin}, connection {}", world.accepted)
}

/// One connection to an origin.
struct Served {
    socket: Socket,
    world: Arc<Mutex<World>>,
    name: String,
    held: Vec<u8>,
    requests: usize,
    is_strayed: bool,
}

/// Whether the connection goes on.
type GoesOn = Option<()>;

/// Has origins serve the connections that have come.
pub(super) fn serve_all(network: &Network, world: &Arc<Mutex<World>>) {
    for origin in 0..ORIGINS {
        for end in network.come(address(origin)) {
            tokio::spawn(serve(end, origin, Arc::clone(world)));
        }
    }
}

/// Answers on the connection until it ends.
async fn serve(end: End, origin: usize, world: Arc<Mutex<World>>) {
    let name = accept(&world, origin);
    let socket = Socket::Simulated(end);
    let mut served = Served { socket, world, name, held: Vec::new(), requests: 0, is_strayed: false };
    while served.exchange().await.is_some() {}
}

impl Served {
    /// More bytes are here.
    async fn more(&mut self) -> GoesOn {
        let mut bytes = [0; 2048];
        match self.socket.read(&mut bytes).await {
            Ok(count) if count > 0 => {
                self.held.extend(&bytes[..count]);
                Some(())
            }
            _ => None,
        }
    }

    async fn exchange(&mut self) -> GoesOn {
        let head = loop {
            if let Some((head, length)) = http::head(&self.held) {
                self.held.drain(..length);
                break head;
            }
            self.more().await?;
        };
        let is_reused = self.requests > 0;
        self.requests += 1;
        let (asked, answer) = lock(&self.world).arrive(&self.name, &head, is_reused, self.is_strayed);
        while self.held.len() < asked.length {
            self.more().await?;
            // An answer may begin before all of the request is here.
            if self.held.len() * 2 > asked.length && answer.broken.is_some() {
                break;
            }
        }
        let came = asked.length.min(self.held.len());
        let is_own =
            asked.number.is_some_and(|number| upload(number, asked.length).starts_with(&self.held[..came]));
        if came > 0 && !is_own {
            lock(&self.world).blame(format!("request {:?} came with a body of other bytes", asked.number));
        }
        self.held.drain(..came);
        sleep(Duration::from_millis(answer.wait)).await;
        self.answer(&asked, &answer).await?;
        if came < asked.length || answer.framing == Framing::Close || answer.lie > 0 {
            return None;
        }
        self.after(answer.then).await
    }

    /// Sends the answer. It does not go on if that ends the connection.
    async fn answer(&mut self, asked: &Asked, answer: &Answer) -> GoesOn {
        let (bytes, own) = self.encode(asked, answer);
        let (most, ends) =
            answer.broken.map_or((bytes.len(), None), |(at, how)| (at * bytes.len() / 1000, Some(how)));
        for piece in bytes[..most].chunks(answer.piece) {
            lock(&self.world).exchanges[asked.place].sent += piece.len();
            if self.socket.write_all(piece).await.is_err() {
                return None;
            }
            if answer.pause > 0 {
                sleep(Duration::from_millis(answer.pause)).await;
            }
        }
        self.is_strayed |= most > own;
        lock(&self.world).exchanges[asked.place].is_strayed = self.is_strayed;
        if most == bytes.len() {
            lock(&self.world).exchanges[asked.place].is_well = answer.is_good();
            return Some(());
        }
        lock(&self.world).note(format!("{} breaks off answer {} after {most} bytes", self.name, asked.place));
        match ends {
            Some(Break::Reset) => drop(self.socket.reset_on_close()),
            Some(Break::Stall) => while self.more().await.is_some() {},
            Some(Break::End) | None => {}
        }
        None
    }

    /// The bytes of the answer, and how many of them belong to it.
    fn encode(&self, asked: &Asked, answer: &Answer) -> (Vec<u8>, usize) {
        let Given { status, fields, payload, kind } = Given::of(asked, answer);
        let fields: String = fields.iter().flat_map(|(name, value)| [name, ": ", value, "\r\n"]).collect();
        let rest = match kind {
            Kind::Failure => "Content-Length: 6\r\n\r\nbroken",
            Kind::Unchanged => "\r\n",
            Kind::Part | Kind::Whole => "",
        };
        if !rest.is_empty() {
            let bytes = format!("HTTP/1.1 {status}\r\n{fields}{rest}").into_bytes();
            // An answer to HEAD ends with its head, whatever follows.
            let stray = if asked.method == "HEAD" { payload.len() } else { 0 };
            let own = bytes.len() - stray;
            return (bytes, own);
        }
        let is_part = kind == Kind::Part;
        let length = told_length(&payload, answer, is_part || asked.method == "HEAD");
        let framing = match answer.framing {
            Framing::Length => format!("Content-Length: {length}\r\n"),
            Framing::Chunked => "Transfer-Encoding: chunked\r\n".to_owned(),
            Framing::Close => "Connection: close\r\n".to_owned(),
        };
        let mut bytes = format!("HTTP/1.1 {status}\r\n{fields}{framing}\r\n").into_bytes();
        if asked.method == "HEAD" {
            let length = bytes.len();
            return (bytes, length);
        }
        let said = (!is_part).then_some((asked.key, asked.version));
        let own = self.encode_body(&mut bytes, &payload, answer, said);
        (bytes, own)
    }

    /// Adds the body to the head in `bytes`, and says how many of them belong to the answer then. `said`: the key and version of
    /// which the answer says how long it is.
    fn encode_body(
        &self,
        bytes: &mut Vec<u8>,
        payload: &[u8],
        answer: &Answer,
        said: Option<(usize, usize)>,
    ) -> usize {
        let head = bytes.len();
        let (own, length) = match answer.framing {
            Framing::Chunked => {
                for chunk in payload.chunks(777) {
                    bytes.extend(format!("{:x}\r\n", chunk.len()).as_bytes());
                    bytes.extend(chunk);
                    bytes.extend(b"\r\n");
                }
                bytes.extend(b"0\r\n\r\n");
                let own = bytes.len();
                bytes.extend(&vec![b'x'; usize::from(answer.lie.unsigned_abs())]);
                (own, None)
            }
            Framing::Length => {
                bytes.extend(payload);
                let length = told_length(payload, answer, said.is_none());
                (head + length, Some(length))
            }
            Framing::Close => {
                bytes.extend(payload);
                // An orderly end that comes too soon says that this is all.
                let ends = answer.broken.filter(|(_, how)| *how == Break::End);
                (bytes.len(), ends.and_then(|(at, _)| (at * bytes.len() / 1000).checked_sub(head)))
            }
        };
        if let Some(((key, version), length)) = said.zip(length) {
            lock(&self.world).said.insert((key, version, length));
        }
        own
    }

    /// What happens before the next request.
    async fn after(&mut self, then: Option<(u64, Then)>) -> GoesOn {
        let Some((time, then)) = then else { return Some(()) };
        if let Ok(more) = timeout(Duration::from_millis(time), self.more()).await {
            return more;
        }
        match then {
            Then::Close => None,
            Then::Reset => {
                drop(self.socket.reset_on_close());
                None
            }
            // A whole response could cross the next request on its way, and be taken for the answer by anyone.
            Then::Stray => {
                self.is_strayed = true;
                self.socket.write_all(b"stray bytes\r\n\r\n").await.ok()
            }
            Then::Expires => {
                self.is_strayed = true;
                let expired =
                    b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
                drop(self.socket.write_all(expired).await);
                None
            }
        }
    }
}
