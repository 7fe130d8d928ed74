//! What waits to be written: pieces of memory of different owners, in order, written without being joined.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::piece::{Lease, Lent, PARTS_OF_PIECE, Piece};
use super::{Connection, Life, Stall, StallClock, Untaken, Watch};
use crate::sync::Arc as Shared;

/// Parts of one write. Linux takes up to 1024; a chunk is three, so this is ten chunks. Arbitrary.
const PARTS: usize = 32;

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
pub(crate) struct WriteBuffer {
    pieces: VecDeque<Piece>,
    /// Parts of the pieces.
    parts: usize,
    /// What the pieces of a body are charged.
    held: usize,
    /// Bytes of the first piece that are written.
    written: usize,
    limit: Option<Duration>,
    stall: Watch,
    /// What the other side had not taken when the wait for the socket began.
    untaken: Option<Untaken>,
    /// The socket is what is waited for.
    waits: bool,
    /// One of the pieces is a pipe: hardly ever, and what writes the others does not look for it.
    has_piped: bool,
    life: Option<(Shared<StallClock>, Shared<Stall>)>,
    /// What a channel has of it, if that is what it is written to.
    lent: Option<Arc<Lent>>,
}

impl WriteBuffer {
    /// `limit` is how long the socket may take no byte.
    pub(crate) fn new(limit: Option<Duration>) -> Self {
        Self {
            pieces: VecDeque::new(),
            parts: 0,
            held: 0,
            written: 0,
            limit,
            stall: Watch::default(),
            untaken: None,
            waits: false,
            has_piped: false,
            life: None,
            lent: None,
        }
    }

    /// Gives signs of `life` from now on, by which it may then be cut.
    pub(crate) fn begin_life(&mut self, life: &Life) {
        self.life = Some(life.share());
    }

    /// The client comes back when the message ends, as others do.
    pub(crate) fn end_in_turn(&self) {
        if let Some((_, stall)) = &self.life {
            stall.end_in_turn();
        }
    }

    /// Another process could go on with the message.
    pub(crate) fn let_move(&self) {
        if let Some((_, stall)) = &self.life {
            stall.let_move();
        }
    }

    /// The message is at rest, as it was asked to be.
    pub(crate) fn note_rest(&self) {
        if let Some((_, stall)) = &self.life {
            stall.note_rest();
        }
    }

    /// Undoes [`WriteBuffer::begin_life`]. Everything is with the kernel.
    pub(crate) fn end_life(&mut self) {
        self.feed_on(0);
        self.life = None;
    }

    /// What is sent comes over a connection for which others wait in `line`.
    pub(crate) fn feed_on(&self, line: usize) {
        if let Some((_, stall)) = &self.life {
            stall.feed_on(line);
        }
    }

    /// Appends. Pieces without bytes are passed over.
    pub(crate) fn push(&mut self, piece: Piece) {
        if piece.len() > 0 {
            if self.pieces.capacity() == 0 {
                // A head, the beginning of its body that came with it, and one read more; not room for more: it is kept
                // for hours.
                self.pieces.reserve_exact(3);
            }
            self.parts += piece.count();
            self.held += piece.charge();
            self.has_piped |= matches!(piece, Piece::Piped(_));
            self.pieces.push_back(piece);
        }
    }

    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.lent.as_ref().is_none_or(|lent| lent.is_returned())
    }

    /// Whether a pipe waits to be written.
    pub(crate) fn has_piped(&self) -> bool {
        self.has_piped
    }

    /// What takes room in the window of the body.
    pub(crate) fn held(&self) -> usize {
        self.held + self.lent.as_ref().map_or(0, |lent| lent.charge())
    }

    /// Whether one more write would not take more than there is.
    pub(crate) fn is_full(&self) -> bool {
        self.parts + PARTS_OF_PIECE > PARTS
    }

    /// Drops what was not written, and the room for more.
    pub(crate) fn clear(&mut self) {
        self.pieces = VecDeque::new();
        self.parts = 0;
        self.held = 0;
        self.written = 0;
        self.has_piped = false;
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
        if connection.is_channel() {
            return self.poll_lend(context, connection);
        }
        if self.has_piped {
            return self.poll_write_piped(context, connection);
        }
        // One piece is what an event is, and needs no long list.
        let write = if self.pieces.len() == 1 {
            self.poll_write_parts::<PARTS_OF_PIECE, false>(context, connection)
        } else {
            self.poll_write_parts::<PARTS, false>(context, connection)
        };
        let taken = ready!(self.poll_socket(context, connection, write))?;
        self.advance(taken);
        Poll::Ready(Ok(taken))
    }

    /// Lends the first piece, whole, once the one before it has gone; or waits until all have come back.
    fn poll_lend(&mut self, context: &mut Context<'_>, connection: &Connection) -> Poll<Result<usize, Stop>> {
        let mut room = connection.poll_room(context);
        if let (true, Some(lent), Poll::Ready(Ok(()))) = (self.pieces.is_empty(), &self.lent, &room) {
            // It does not wait.
            let _ = connection.poll_flush(context);
            room = lent.poll_returned(context).map(Ok);
        }
        ready!(self.poll_socket(context, connection, room))?;
        let Some(piece) = self.pieces.pop_front() else { return Poll::Ready(Ok(0)) };
        self.parts -= piece.count();
        self.held -= piece.charge();
        let lease = Lease::new(piece, self.lent.get_or_insert_default());
        Poll::Ready(connection.lend(context, lease).map_err(Stop::Broken))
    }

    /// Writes the pieces before the pipe, or the pipe.
    #[cold]
    fn poll_write_piped(
        &mut self,
        context: &mut Context<'_>,
        connection: &Connection,
    ) -> Poll<Result<usize, Stop>> {
        let write = match self.pieces.front_mut() {
            Some(Piece::Piped(piped)) => connection.poll_splice_from(context, piped),
            _ => self.poll_write_parts::<PARTS, true>(context, connection),
        };
        let taken = ready!(self.poll_socket(context, connection, write))?;
        self.advance(taken);
        self.has_piped = self.pieces.iter().any(|piece| matches!(piece, Piece::Piped(_)));
        Poll::Ready(Ok(taken))
    }

    /// `BEFORE`: those before the pipe, which follows at once.
    fn poll_write_parts<const MOST: usize, const BEFORE: bool>(
        &self,
        context: &mut Context<'_>,
        connection: &Connection,
    ) -> Poll<io::Result<usize>> {
        let mut parts = [IoSlice::new(&[]); MOST];
        let mut count = 0;
        let mut written = self.written;
        // Two loops: as one iterator the compiler may call a function for each part, empty or not.
        for piece in &self.pieces {
            if BEFORE && matches!(piece, Piece::Piped(_)) {
                break;
            }
            for part in piece.parts() {
                let passed = written.min(part.len());
                written -= passed;
                if part.len() > passed && count < MOST {
                    parts[count] = IoSlice::new(&part[passed..]);
                    count += 1;
                }
            }
        }
        if BEFORE {
            // One segment with the beginning of the pipe, and one wake-up of the client.
            connection.poll_write_more(context, &parts[..count])
        } else {
            connection.poll_write(context, &parts[..count])
        }
    }

    /// Ready when everything has been written and is with the kernel.
    pub(crate) fn poll_flush(
        &mut self,
        context: &mut Context<'_>,
        connection: &Connection,
    ) -> Poll<Result<(), Stop>> {
        while !self.is_empty() {
            ready!(self.poll_write(context, connection))?;
        }
        // What TCP has taken is with the kernel.
        if !connection.is_tls() {
            return Poll::Ready(Ok(()));
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
            if std::mem::take(&mut self.waits) {
                self.stall.start(None);
                if let Some((_, stall)) = &self.life {
                    // What remains begins to wait with the next refusal.
                    stall.rest();
                }
            }
            return Poll::Ready(result.map_err(Stop::Broken));
        }
        if !std::mem::replace(&mut self.waits, true) {
            self.untaken = connection.untaken();
            self.stall.start(self.limit);
        }
        if self.life.as_ref().is_some_and(|(clock, stall)| stall.wait(context, clock, self.held())) {
            if !self.has_taken(connection) {
                if let Some((clock, stall)) = &self.life {
                    stall.note_cut(clock);
                }
                return Poll::Ready(Err(Stop::Cut));
            }
            if let Some((clock, stall)) = &self.life {
                stall.spare(clock);
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
        matches!((before, self.untaken), (Some(before), Some(now)) if now.has_fallen_since(before))
    }

    fn advance(&mut self, mut taken: usize) {
        while let Some(first) = self.pieces.front() {
            let rest = first.len() - self.written;
            if taken < rest {
                self.written += taken;
                return;
            }
            taken -= rest;
            self.written = 0;
            self.parts -= first.count();
            self.held -= first.charge();
            self.pieces.pop_front();
        }
    }
}
