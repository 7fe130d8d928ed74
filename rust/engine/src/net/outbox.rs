//! What waits to be written: pieces of memory of different owners, in order, written without being joined.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::{Clock, Connection, Life, Vital, Watch};
use crate::stream::Delivery;
use crate::sync::Arc as Shared;
use crate::wire::ChunkHead;

/// Pieces of one write. Linux takes up to 1024; a chunk is three, so this is ten chunks. Arbitrary.
const PIECES: usize = 32;

/// Bytes to write. Dropping it gives back what it holds of the pool, and of a stream's credit.
pub(crate) enum Piece {
    /// Of its own, such as a head.
    Bytes(Vec<u8>),
    /// Of its own, and of others.
    Shared(Arc<Vec<u8>>),
    /// The size line of a chunk.
    Chunk(ChunkHead),
    /// Constant.
    Mark(&'static [u8]),
    /// Of the pool, and charged to a stream.
    Delivery(Delivery),
    /// Of somebody who is told by its drop that it is no longer needed.
    Foreign(Box<dyn AsRef<[u8]> + Send + Sync>),
}

impl Piece {
    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Shared(bytes) => bytes,
            Self::Chunk(head) => head,
            Self::Mark(bytes) => bytes,
            Self::Delivery(delivery) => delivery,
            Self::Foreign(bytes) => (**bytes).as_ref(),
        }
    }
}

impl fmt::Debug for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Piece").field("length", &self.bytes().len()).finish()
    }
}

/// Why writing ended early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The other side took nothing within the limit.
    Stalled,
    /// The connection does not take bytes any more.
    Broken(io::Error),
    /// Memory was needed, and this one had taken nothing for longest.
    Cut,
}

/// What waits to be written to one connection.
#[derive(Debug)]
pub(crate) struct Outbox {
    pieces: VecDeque<Piece>,
    /// Bytes of the first piece that are written.
    written: usize,
    limit: Option<Duration>,
    stall: Watch,
    /// What the other side had not taken when the wait for the socket began.
    untaken: Option<usize>,
    life: Option<(Shared<Clock>, Shared<Vital>)>,
}

impl Outbox {
    /// `limit` is how long the socket may take no byte.
    pub(crate) fn new(limit: Option<Duration>) -> Self {
        Self {
            pieces: VecDeque::new(),
            written: 0,
            limit,
            stall: Watch::default(),
            untaken: None,
            life: None,
        }
    }

    /// Gives signs of `life` from now on, by which it may then be cut.
    pub(crate) fn begin_life(&mut self, life: &Life) {
        self.life = Some(life.share());
    }

    /// Appends. Pieces without bytes are passed over.
    pub(crate) fn push(&mut self, piece: Piece) {
        if !piece.bytes().is_empty() {
            self.pieces.push_back(piece);
        }
    }

    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Whether one more write would not take more than there is.
    pub(crate) fn is_full(&self) -> bool {
        self.pieces.len() + 3 > PIECES
    }

    /// Drops what was not written, and the room for more.
    pub(crate) fn clear(&mut self) {
        self.pieces = VecDeque::new();
        self.written = 0;
    }

    /// How long the socket may take no byte.
    pub(crate) fn limit(&self) -> Duration {
        self.limit.unwrap_or_default()
    }

    /// Writes once what the socket takes, and says how many bytes that was. Not for an empty one.
    pub(crate) fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        connection: &Connection,
    ) -> Poll<Result<usize, Stop>> {
        let mut parts = [IoSlice::new(&[]); PIECES];
        let mut count = 0;
        for (part, piece) in parts.iter_mut().zip(&self.pieces) {
            *part = IoSlice::new(&piece.bytes()[if count == 0 { self.written } else { 0 }..]);
            count += 1;
        }
        let write = connection.poll_write(context, &parts[..count]);
        let taken = ready!(self.poll_socket(context, connection, write))?;
        self.advance(taken);
        Poll::Ready(Ok(taken))
    }

    /// Ready when everything has been written and is with the kernel.
    pub(crate) fn poll_flush(
        &mut self,
        context: &mut Context<'_>,
        connection: &Connection,
    ) -> Poll<Result<(), Stop>> {
        while !self.pieces.is_empty() {
            ready!(self.poll_write(context, connection))?;
        }
        let flush = connection.poll_flush(context);
        self.poll_socket(context, connection, flush)
    }

    /// Runs the limit while the socket is what is waited for.
    ///
    /// The kernel calls a socket writable once a third of its buffer is free, some 800 KB: a client on a slow line takes
    /// minutes for that. So before it is given up, the kernel is asked whether it has taken anything.
    fn poll_socket<T>(
        &mut self,
        context: &mut Context<'_>,
        connection: &Connection,
        operation: Poll<io::Result<T>>,
    ) -> Poll<Result<T, Stop>> {
        if let Poll::Ready(result) = operation {
            self.stall.start(None);
            self.untaken = None;
            if let Some((_, vital)) = &self.life {
                // What remains begins to wait with the next refusal.
                vital.rest();
            }
            return Poll::Ready(result.map_err(Stop::Broken));
        }
        if self.untaken.is_none() {
            self.untaken = connection.untaken();
            self.stall.start(self.limit);
        }
        if self.life.as_ref().is_some_and(|(clock, vital)| vital.wait(context, clock)) {
            if !self.has_taken(connection) {
                return Poll::Ready(Err(Stop::Cut));
            }
            if let Some((clock, vital)) = &self.life {
                vital.spare(clock);
            }
        }
        while self.stall.poll_expired(context).is_ready() {
            if !self.has_taken(connection) {
                return Poll::Ready(Err(Stop::Stalled));
            }
            self.stall.start(self.limit);
        }
        Poll::Pending
    }

    /// Whether the other side took something since the last call, or since the wait began.
    fn has_taken(&mut self, connection: &Connection) -> bool {
        let before = std::mem::replace(&mut self.untaken, connection.untaken());
        matches!((before, self.untaken), (Some(before), Some(now)) if now < before)
    }

    fn advance(&mut self, mut taken: usize) {
        while let Some(first) = self.pieces.front() {
            let rest = first.bytes().len() - self.written;
            if taken < rest {
                self.written += taken;
                return;
            }
            taken -= rest;
            self.written = 0;
            self.pieces.pop_front();
        }
    }
}
