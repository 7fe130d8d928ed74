//! One connection between the edge and a worker process: messages, and a buffer each way.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::net::UnixStream;
use tokio::sync::Notify;

use super::message::{LONGEST, Message, PIECE, PREFIX};
use crate::codec::malformed;
use crate::error::{Code, Error, Result};
use crate::sync::{Mutex, lock};

/// A connection. One task sends what was written, by [`Wire::write`].
#[derive(Debug)]
pub(super) struct Wire {
    socket: UnixStream,
    /// Bytes that were read and not yet taken.
    held: Mutex<Vec<u8>>,
    out: Mutex<Vec<u8>>,
    leaving: Mutex<Leaving>,
    filled: Notify,
    /// No more messages will be written; the buffered ones are still sent.
    ended: AtomicBool,
}

/// Bytes that are being sent, and how many of them the socket has taken.
#[derive(Debug, Default)]
struct Leaving {
    bytes: Vec<u8>,
    taken: usize,
}

impl Wire {
    pub(super) fn new(socket: UnixStream) -> Self {
        let (held, out, leaving) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { socket, held, out, leaving, filled: Notify::new(), ended: AtomicBool::new(false) }
    }

    /// Writes `message` to the buffer, without a limit: flows are limited by their credit.
    pub(super) fn send(&self, message: &Message<'_>) {
        message.encode(&mut lock(&self.out));
        self.filled.notify_one();
    }

    /// Writes `bytes` in messages of at most one piece each, made by `cut`.
    pub(super) fn send_pieces<'a>(&self, bytes: &'a [u8], cut: impl Fn(&'a [u8]) -> Message<'a>) {
        let mut out = lock(&self.out);
        for piece in bytes.chunks(PIECE) {
            cut(piece).encode(&mut out);
        }
        drop(out);
        self.filled.notify_one();
    }

    /// Ends [`Wire::write`] after the messages so far.
    pub(super) fn end(&self) {
        // Release, with the acquire in `write`, which then finds all messages.
        self.ended.store(true, Ordering::Release);
        self.filled.notify_one();
    }

    /// Sends messages, until [`Wire::end`] was called and all are sent.
    ///
    /// # Errors
    /// The other side is gone.
    ///
    /// # Cancellation What the socket has not taken is kept for the next call.
    pub(super) async fn write(&self) -> Result<()> {
        loop {
            // Acquire, with the release in `end`.
            let ended = self.ended.load(Ordering::Acquire);
            match self.write_some() {
                Ok(true) => {}
                Ok(false) if ended => return Ok(()),
                Ok(false) => self.filled.notified().await,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.socket.writable().await.map_err(gone)?;
                }
                Err(error) => return Err(gone(error)),
            }
        }
    }

    /// As [`Wire::write`], but never ready: for use beside [`Wire::read`], which ends after the last message of the other
    /// side, while a write may fail before it.
    pub(super) async fn write_on<T>(&self) -> T {
        let _ = self.write().await;
        std::future::pending().await
    }

    /// Sends what the socket takes; false if there is nothing to send.
    fn write_some(&self) -> io::Result<bool> {
        let mut leaving = lock(&self.leaving);
        let Leaving { bytes, taken } = &mut *leaving;
        if *taken == bytes.len() {
            bytes.clear();
            // A long body does not keep its memory for the small answers after it.
            bytes.shrink_to(PIECE);
            *taken = 0;
            std::mem::swap(&mut *lock(&self.out), bytes);
        }
        if bytes.is_empty() {
            return Ok(false);
        }
        *taken += self.socket.try_write(&bytes[*taken..])?;
        Ok(true)
    }

    /// Reads messages and gives each to `take`, until that returns a value, which is returned. `pause` is called before
    /// each wait.
    ///
    /// # Errors
    /// The other side is gone, or a message is malformed or too long, or `take` fails.
    pub(super) async fn read<T>(
        &self,
        mut take: impl FnMut(Message<'_>) -> Result<Option<T>>,
        mut pause: impl FnMut(),
    ) -> Result<T> {
        let mut buffer = std::mem::take(&mut *lock(&self.held));
        let mut start = 0;
        loop {
            while let Some((kind, body)) = split(&buffer[start..])? {
                start += PREFIX + body.len();
                if let Some(result) = take(Message::decode(kind, body)?)? {
                    // The rest is for the next call.
                    *lock(&self.held) = buffer.split_off(start);
                    return Ok(result);
                }
            }
            buffer.drain(..start);
            start = 0;
            pause();
            buffer.reserve(PIECE / 8);
            loop {
                match self.socket.try_read_buf(&mut buffer) {
                    Ok(0) => return Err(Code::WorkerGone.error("the other end of the connection has gone")),
                    Ok(_) => break,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        self.socket.readable().await.map_err(gone)?;
                    }
                    Err(error) => return Err(gone(error)),
                }
            }
        }
    }
}

/// The kind and the body of the first message in `bytes`, if all of it is there.
fn split(bytes: &[u8]) -> Result<Option<(u8, &[u8])>> {
    let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX>() else { return Ok(None) };
    let [a, b, c, d, kind] = *prefix;
    let length = usize::try_from(u32::from_le_bytes([a, b, c, d])).unwrap_or(usize::MAX);
    if length > LONGEST {
        return Err(malformed());
    }
    Ok(rest.get(..length).map(|body| (kind, body)))
}

#[expect(clippy::needless_pass_by_value, reason = "what `map_err` gives")]
fn gone(error: io::Error) -> Error {
    Code::WorkerGone.error(format!("the connection between the edge and a worker broke: {error}"))
}
