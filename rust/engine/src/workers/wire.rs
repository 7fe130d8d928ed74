//! One connection between the edge and a worker process: messages out of a buffer and into another.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::net::UnixStream;
use tokio::sync::Notify;

use super::codec::malformed;
use super::message::{LONGEST, Message, PIECE, PREFIX};
use crate::error::{Code, Error, Result};
use crate::sync::{Mutex, lock};

/// What is written leaves by [`Wire::write`], for which one task has the time.
#[derive(Debug)]
pub(super) struct Wire {
    socket: UnixStream,
    /// Read, and not yet taken.
    held: Mutex<Vec<u8>>,
    out: Mutex<Vec<u8>>,
    leaving: Mutex<Leaving>,
    filled: Notify,
    /// Nothing more will be said: what was is still sent.
    ended: AtomicBool,
}

/// What is being written, and how much of it the socket has taken.
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

    /// Says `message`. Whoever sends much keeps to what was granted: nothing is refused here.
    pub(super) fn send(&self, message: &Message<'_>) {
        message.encode(&mut lock(&self.out));
        self.filled.notify_one();
    }

    /// As [`Wire::send`], in pieces that a message may have; `cut` makes one of a piece.
    pub(super) fn send_pieces<'a>(&self, bytes: &'a [u8], cut: impl Fn(&'a [u8]) -> Message<'a>) {
        let mut out = lock(&self.out);
        for piece in bytes.chunks(PIECE) {
            cut(piece).encode(&mut out);
        }
        drop(out);
        self.filled.notify_one();
    }

    /// Has [`Wire::write`] end behind what was said.
    pub(super) fn end(&self) {
        // Release: whoever reads it in `write` finds what was said before.
        self.ended.store(true, Ordering::Release);
        self.filled.notify_one();
    }

    /// Writes what is said, until all has been and [`Wire::end`] was called.
    ///
    /// # Errors
    /// The other side is gone.
    ///
    /// # Cancellation
    /// What has not been taken is kept for the next call.
    pub(super) async fn write(&self) -> Result<()> {
        loop {
            // Acquire: of `end`.
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

    /// As [`Wire::write`], beside [`Wire::read`], which alone says when it is over: what the other side has said last stands
    /// before its end, and a write finds that end first.
    pub(super) async fn write_on<T>(&self) -> T {
        let _ = self.write().await;
        std::future::pending().await
    }

    /// Writes what the socket takes; false if there is nothing to write.
    fn write_some(&self) -> io::Result<bool> {
        let mut leaving = lock(&self.leaving);
        let Leaving { bytes, taken } = &mut *leaving;
        if *taken == bytes.len() {
            bytes.clear();
            // One long body does not keep its room for the small answers behind it.
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

    /// Reads messages and gives each to `take`, until that returns something, which is returned. `pause` is called when
    /// there is no more to read at once.
    ///
    /// # Errors
    /// The other side is gone, says what is no message, or one that is too long; or `take` fails.
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
                    // What follows is for whoever reads on.
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

/// The first message of `bytes`, if all of it is there.
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
