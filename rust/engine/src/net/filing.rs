//! A part of a file on its way to a socket, by `sendfile`: its bytes never enter this process.
//!
//! The calls are made on the runtime's blocking pool, because a page that is not in memory makes one wait for the
//! disk, and an engine thread has other clients. One hop sends all that the socket takes.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_blocking};

use super::{Connection, Fault, Socket, Stop, Watch};
use crate::error::Code;
use crate::sys::descriptor::send_file;

/// Bytes of one call, far more than a socket holds. Arbitrary.
const CALL: u64 = 16 * 1024 * 1024;

/// Bytes of one hop, so that a fast client does not keep a thread of the pool for ever. Arbitrary.
const HOP: u64 = 256 * 1024 * 1024;

/// What a hop came to.
#[derive(Debug)]
struct Hop {
    sent: u64,
    end: End,
}

#[derive(Debug)]
enum End {
    /// The socket takes no more now.
    Full,
    /// So many bytes were sent as were wanted of the hop.
    Done,
    /// The file has no more.
    Exhausted,
    Failed(io::Error),
}

/// A part of a file, and the way of it that is done.
#[derive(Debug)]
pub(crate) struct Filing {
    file: Arc<OwnedFd>,
    /// A descriptor of its own: a hop may outlive the connection.
    socket: Arc<OwnedFd>,
    offset: u64,
    remaining: u64,
    sent: u64,
    hop: Option<JoinHandle<Hop>>,
    is_full: bool,
    limit: Option<Duration>,
    stall: Watch,
}

impl Filing {
    /// `count` bytes of `file` from `offset` on, to `socket`; `limit` is how long it may take no byte.
    pub(crate) fn new(
        file: OwnedFd,
        offset: u64,
        count: u64,
        socket: OwnedFd,
        limit: Option<Duration>,
    ) -> Self {
        Self {
            file: Arc::new(file),
            socket: Arc::new(socket),
            offset,
            remaining: count,
            sent: 0,
            hop: None,
            is_full: false,
            limit,
            stall: Watch::default(),
        }
    }

    /// Bytes that the kernel has taken.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Sends on; ready when all of it is with the kernel, or the file has no more.
    pub(crate) fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        connection: &Connection,
    ) -> Poll<Result<(), Fault>> {
        while self.remaining > 0 {
            if self.is_full {
                ready!(self.poll_writable(context, connection)).map_err(Fault::Socket)?;
                self.is_full = false;
            }
            let hop = match &mut self.hop {
                Some(hop) => hop,
                none => {
                    let (file, socket) = (Arc::clone(&self.file), Arc::clone(&self.socket));
                    let (offset, count) = (self.offset, self.remaining.min(HOP));
                    none.insert(spawn_blocking(move || send(&socket, &file, offset, count)))
                }
            };
            let result = ready!(std::pin::Pin::new(hop).poll(context));
            self.hop = None;
            let Hop { sent, end } = result.map_err(|error| {
                Fault::Source(Code::FileFailed.error(format!("sending a file was ended: {error}")))
            })?;
            self.sent += sent;
            self.offset += sent;
            self.remaining -= sent;
            match end {
                End::Done => {}
                End::Exhausted => return Poll::Ready(Ok(())),
                End::Full => self.is_full = connection.with_socket(Socket::is_full),
                End::Failed(error) => return Poll::Ready(Err(blame(error))),
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_writable(
        &mut self,
        context: &mut Context<'_>,
        connection: &Connection,
    ) -> Poll<Result<(), Stop>> {
        if let Poll::Ready(ready) = connection.with_socket(|socket| socket.poll_write_ready(context)) {
            self.stall.start(None);
            return Poll::Ready(ready.map_err(Stop::Broken));
        }
        if !self.stall.is_running() {
            self.stall.start(self.limit);
        }
        self.stall.poll_expired(context).map(|()| Err(Stop::Stalled))
    }
}

/// Runs on the blocking pool.
fn send(socket: &OwnedFd, file: &OwnedFd, offset: u64, count: u64) -> Hop {
    let mut sent = 0;
    while sent < count {
        let call = usize::try_from((count - sent).min(CALL)).unwrap_or(usize::MAX);
        let end = match send_file(socket, file, offset + sent, call) {
            Ok(0) => End::Exhausted,
            Ok(taken) => {
                sent += taken as u64;
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => End::Full,
            Err(error) => End::Failed(error),
        };
        return Hop { sent, end };
    }
    Hop { sent, end: End::Done }
}

/// Whose fault it is: those of the socket are known by name (sendfile(2)).
fn blame(error: io::Error) -> Fault {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, TimedOut};
    match error.kind() {
        BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected | TimedOut => {
            Fault::Socket(Stop::Broken(error))
        }
        _ => Fault::Source(Code::FileFailed.error(format!("a file could not be sent: {error}"))),
    }
}
