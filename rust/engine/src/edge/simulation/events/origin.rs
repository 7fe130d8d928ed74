//! An origin of events: answers each request with the next stream of the plan.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::sleep;

use super::plan::{Ends, Script};
use crate::edge::simulation::http;
use crate::edge::simulation::origin::of_events;
use crate::edge::simulation::plan::Framing;
use crate::net::Socket;
use crate::net::simulated::{End, Network};
use crate::simulation::Trace;
use crate::sync::{Arc, Mutex, lock};

/// What happens outside of the engine.
#[derive(Debug, Default)]
pub(in crate::edge::simulation) struct World {
    scripts: VecDeque<Script>,
    pub(super) told: Vec<Told>,
    /// Connections that the origin has taken.
    pub(in crate::edge::simulation) accepted: u64,
    /// Lines for the trace.
    lines: Vec<String>,
    /// No more is begun: streams may end after any event.
    pub(in crate::edge::simulation) is_drained: bool,
    /// The site has ended all that was under way.
    pub(in crate::edge::simulation) is_closed: bool,
}

/// A stream that the origin has begun.
#[derive(Debug)]
pub(super) struct Told {
    /// The number of the client's request.
    pub(super) request: usize,
    pub(super) script: Script,
    /// Events of which all bytes are written.
    pub(super) events: usize,
    /// All of it is written, with its end if it has one.
    pub(super) is_over: bool,
}

impl Told {
    /// Whether all of it is written, and a good end.
    pub(super) fn has_good_end(&self) -> bool {
        self.is_over && self.script.ends_well()
    }
}

impl World {
    pub(in crate::edge::simulation) fn new(scripts: &[Script]) -> Self {
        Self { scripts: scripts.iter().cloned().collect(), ..Self::default() }
    }

    /// What is asked for from now on does not end.
    pub(super) fn go_on_endlessly(&mut self) {
        self.scripts.clear();
    }

    /// Adds its lines to `trace`.
    pub(in crate::edge::simulation) fn tell(&mut self, trace: &mut Trace) {
        self.lines.drain(..).for_each(|line| trace.note(line));
    }

    fn note(&mut self, line: String) {
        self.lines.push(line);
    }
}

struct Served {
    socket: Socket,
    world: Arc<Mutex<World>>,
    held: Vec<u8>,
}

/// Whether the connection goes on.
type GoesOn = Option<()>;

/// Serves the connections that have come.
pub(in crate::edge::simulation) fn serve_all(network: &Network, world: &Arc<Mutex<World>>) {
    for end in network.come(of_events()) {
        tokio::spawn(serve(end, Arc::clone(world)));
    }
}

/// Answers on the connection until it ends.
async fn serve(end: End, world: Arc<Mutex<World>>) {
    lock(&world).accepted += 1;
    let mut served = Served { socket: Socket::Simulated(end), world, held: Vec::new() };
    while served.exchange().await.is_some() {}
}

impl Served {
    /// More bytes are here.
    async fn more(&mut self) -> GoesOn {
        let mut bytes = [0; 2048];
        let count = self.socket.read(&mut bytes).await.ok().filter(|count| *count > 0)?;
        self.held.extend(&bytes[..count]);
        Some(())
    }

    async fn exchange(&mut self) -> GoesOn {
        let head = loop {
            if let Some((head, length)) = http::head(&self.held) {
                self.held.drain(..length);
                break head;
            }
            self.more().await?;
        };
        let target = head.line.split(' ').nth(1).unwrap_or_default();
        let request = target.rsplit('/').next().and_then(|number| number.parse().ok()).unwrap_or(usize::MAX);
        let (stream, script) = {
            let mut world = lock(&self.world);
            let script = world.scripts.pop_front().unwrap_or_else(Script::endless);
            let stream = world.told.len();
            world.note(format!("origin: stream {stream} for request {request}"));
            world.told.push(Told { request, script: script.clone(), events: 0, is_over: false });
            (stream, script)
        };
        sleep(Duration::from_millis(script.wait)).await;
        self.tell(request, stream, &script).await?;
        self.end(request, stream, &script).await
    }

    /// Sends the head and the events.
    async fn tell(&mut self, request: usize, stream: usize, script: &Script) -> GoesOn {
        let framing = match script.framing {
            Framing::Chunked => "Transfer-Encoding: chunked",
            Framing::Length | Framing::Close => "Connection: close",
        };
        let fields = format!("Content-Type: text/event-stream\r\nX-Stream: {stream}\r\n{framing}");
        self.write(script, format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n").as_bytes()).await?;
        for event in 0..script.events {
            if let Some((_, time)) = script.rest.filter(|(before, _)| *before == event) {
                sleep(Duration::from_millis(time)).await;
            }
            let bytes = script.event((request, stream, event));
            self.write(script, &framed(script, bytes.as_bytes())).await?;
            lock(&self.world).told[stream].events += 1;
        }
        Some(())
    }

    /// Ends the stream as it is to end.
    async fn end(&mut self, request: usize, stream: usize, script: &Script) -> GoesOn {
        let next = script.event((request, stream, script.events)).into_bytes();
        let next = &next[..next.len() * script.part() / 1000];
        if let Ends::Within(_) = script.ends {
            self.write(script, &framed(script, next)).await?;
        } else if !next.is_empty() {
            // The chunk says that it is longer.
            let whole = framed(script, &[next, b"more".as_slice()].concat());
            let length = if script.framing == Framing::Chunked { whole.len() - 6 } else { next.len() };
            self.write(script, &whole[..length]).await?;
        }
        let is_chunked = script.framing == Framing::Chunked;
        if script.ends_well() && is_chunked {
            self.write(script, b"0\r\n\r\n").await?;
        }
        {
            let mut world = lock(&self.world);
            world.told[stream].is_over = true;
            world.note(format!("origin: stream {stream} has come to {:?}", script.ends));
        }
        match script.ends {
            Ends::Whole | Ends::Within(_) => is_chunked.then_some(()),
            Ends::Cut(_) => None,
            Ends::Reset(_) => {
                drop(self.socket.reset_on_close());
                None
            }
            Ends::Stall(_) => {
                while self.more().await.is_some() {}
                None
            }
        }
    }

    async fn write(&mut self, script: &Script, bytes: &[u8]) -> GoesOn {
        for piece in bytes.chunks(script.piece) {
            if script.pause > 0 {
                sleep(Duration::from_millis(script.pause)).await;
            }
            // What is noted of it is noted before anything of it arrives.
            self.socket.write_all(piece).await.ok()?;
        }
        Some(())
    }
}

/// In the framing of the stream: a chunk for each event.
fn framed(script: &Script, bytes: &[u8]) -> Vec<u8> {
    if script.framing != Framing::Chunked || bytes.is_empty() {
        return bytes.to_vec();
    }
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}
