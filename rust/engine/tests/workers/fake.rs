//! A worker that says what a test says, byte by byte.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;

use crate::rig::Rig;

/// Bytes in front of a message.
const PREFIX: usize = 5;

const HOME: u8 = 1;
const PING: u8 = 14;
const PONG: u8 = 15;
const WRITE: u8 = 18;
const DONE: u8 = 19;
const LEAVE: u8 = 22;
const FETCH: u8 = 24;
const ATTACH: u8 = 25;

pub(crate) struct Fake {
    requests: Mutex<mpsc::UnboundedReceiver<Said>>,
    /// What is said to it besides requests, but for questions for signs of life.
    told: Mutex<mpsc::UnboundedReceiver<(u8, Vec<u8>)>>,
    accepting: JoinHandle<()>,
}

/// One exchange, whose request has come.
pub(crate) struct Said {
    stream: UnixStream,
}

pub(crate) fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&u32::try_from(body.len()).unwrap().to_le_bytes()[..], &[kind], body].concat()
}

/// Has `GET /` fetched from an origin at `port`, and inspected under `ticket`.
pub(crate) fn fetch(flow: u32, port: u16, ticket: u64) -> Vec<u8> {
    let text = |text: &str| [&u32::try_from(text.len()).unwrap().to_le_bytes()[..], text.as_bytes()].concat();
    let parts = [
        flow.to_le_bytes().to_vec(),
        text(&port.to_string()),
        text("GET"),
        text("/"),
        // No fields, no limits, no body, nothing decided, and nothing amended.
        vec![0; 4 + 9 + 1 + 1],
        [&[1], &ticket.to_le_bytes()[..], &[0]].concat(),
    ];
    message(FETCH, &parts.concat())
}

/// Has a flow, the worker's own or not, attached as all that is left of a response, whose end is told to `ticket`.
pub(crate) fn attach(flow: u32, is_own: bool, ticket: u64) -> Vec<u8> {
    let rest = [&[u8::from(is_own), 0, 0, 1], &ticket.to_le_bytes()[..], &[0]].concat();
    message(ATTACH, &[&flow.to_le_bytes()[..], &rest].concat())
}

impl Fake {
    /// One that is there under `number`, and gives whatever signs are asked for.
    pub(crate) async fn start(rig: &Rig, number: u32) -> Self {
        let listener = UnixListener::bind(rig.path(number)).unwrap();
        let (give, requests) = mpsc::unbounded_channel();
        let (tell, told) = mpsc::unbounded_channel();
        let accepting = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let first = next(&mut stream).await;
                if first.is_some_and(|(kind, _)| kind == HOME) {
                    let tell = tell.clone();
                    tokio::spawn(async move {
                        while let Some((kind, body)) = next(&mut stream).await {
                            if kind != PING {
                                // The test may be over.
                                let _ = tell.send((kind, body));
                                continue;
                            }
                            // The edge may have gone.
                            let _ = stream.write_all(&message(PONG, b"")).await;
                        }
                    });
                } else {
                    // The test may be over.
                    let _ = give.send(Said { stream });
                }
            }
        });
        rig.add(number, 0).await.unwrap();
        Self { requests: Mutex::new(requests), told: Mutex::new(told), accepting }
    }

    /// What is said to it next, and is no question for a sign of life: a kind of message, and what it says.
    pub(crate) async fn told(&self) -> (u8, Vec<u8>) {
        self.told.lock().await.recv().await.unwrap()
    }

    pub(crate) async fn request(&self) -> Said {
        self.requests.lock().await.recv().await.unwrap()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Said {
    pub(crate) async fn say(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// As [`Said::say`]; false where the edge has closed the connection.
    pub(crate) async fn try_to_say(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).await.is_ok()
    }

    /// A whole response, as a worker writes it, which ends the connection then.
    pub(crate) async fn answer(mut self, response: &str) {
        let said = [message(WRITE, response.as_bytes()), message(DONE, b""), message(LEAVE, b"")];
        self.say(&said.concat()).await;
    }

    /// Returns when the edge says a message of `kind`.
    pub(crate) async fn hear(&mut self, kind: u8) {
        while next(&mut self.stream).await.unwrap().0 != kind {}
    }

    /// Returns when the edge has closed the connection.
    pub(crate) async fn ended(mut self) {
        // A reset, where something was not read, is an end too.
        let _ = self.stream.read_to_end(&mut Vec::new()).await;
    }
}

/// The kind of the next message, and what it says.
async fn next(stream: &mut UnixStream) -> Option<(u8, Vec<u8>)> {
    let mut prefix = [0; PREFIX];
    stream.read_exact(&mut prefix).await.ok()?;
    let [a, b, c, d, kind] = prefix;
    let mut body = vec![0; usize::try_from(u32::from_le_bytes([a, b, c, d])).unwrap()];
    stream.read_exact(&mut body).await.ok()?;
    Some((kind, body))
}
