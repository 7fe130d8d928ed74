//! A worker that says what a test says, byte by byte.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;

use crate::rig::Rig;

/// Bytes in front of a message.
const PREFIX: usize = 5;

const HOME: u8 = 1;
const PONG: u8 = 15;
const WRITE: u8 = 18;
const DONE: u8 = 19;
const LEAVE: u8 = 21;

pub(crate) struct Fake {
    requests: Mutex<mpsc::UnboundedReceiver<Said>>,
    accepting: JoinHandle<()>,
}

/// One exchange, whose request has come.
pub(crate) struct Said {
    stream: UnixStream,
}

pub(crate) fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&u32::try_from(body.len()).unwrap().to_le_bytes()[..], &[kind], body].concat()
}

impl Fake {
    /// One that is there under `number`, and gives whatever signs are asked for.
    pub(crate) async fn start(rig: &Rig, number: u32) -> Self {
        let listener = UnixListener::bind(rig.path(number)).unwrap();
        let (give, requests) = mpsc::unbounded_channel();
        let accepting = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let kind = next(&mut stream).await;
                if kind == Some(HOME) {
                    tokio::spawn(async move {
                        while next(&mut stream).await.is_some() {
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
        Self { requests: Mutex::new(requests), accepting }
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

    /// Waits for a message of this kind, and passes over those before it.
    pub(crate) async fn hears(&mut self, kind: u8) {
        while next(&mut self.stream).await.expect("the edge goes on") != kind {}
    }

    /// A whole response, as a worker writes it.
    pub(crate) async fn answer(mut self, response: &str) {
        let said = [message(WRITE, response.as_bytes()), message(DONE, b""), message(LEAVE, b"")];
        self.say(&said.concat()).await;
        self.ended().await;
    }

    /// Returns when the edge has closed the connection.
    pub(crate) async fn ended(mut self) {
        // A reset, where something was not read, is an end too.
        let _ = self.stream.read_to_end(&mut Vec::new()).await;
    }
}

/// The kind of the next message, whose body is passed over.
async fn next(stream: &mut UnixStream) -> Option<u8> {
    let mut prefix = [0; PREFIX];
    stream.read_exact(&mut prefix).await.ok()?;
    let [a, b, c, d, kind] = prefix;
    let mut body = vec![0; usize::try_from(u32::from_le_bytes([a, b, c, d])).unwrap()];
    stream.read_exact(&mut body).await.ok()?;
    Some(kind)
}
