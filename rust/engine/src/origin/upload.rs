//! Sends a request while its response is already being read.
//!
//! An [`Upload`] is driven by [`alongside`], before the work that reads; it holds at most one vectored write of the
//! body and gives the credit for each piece back when the kernel has taken it. That the origin stops taking the
//! body is no error by itself: it may have answered already (RFC 9110, section 15.5.14), and the answer counts.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::connection::Connection;
use super::payload::Payload;
use super::watch::Watch;
use crate::error::{Code, Error, Result};
use crate::stream::{Delivery, Stream};
use crate::wire::{self, CHUNK_END, ChunkHead, LAST_CHUNK};

/// Pieces of one write. Linux takes up to 1024; a chunk is three, so this is a handful of chunks. Arbitrary.
const PIECES: usize = 16;

/// What the reading half needs to know of the sending half, and the reverse. Both are polled by one task, so the
/// order of these flags is the order of the program.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The last byte of the request is with the kernel, or none will follow.
    sent: AtomicBool,
    /// The final response has begun.
    answered: AtomicBool,
}

impl Progress {
    pub(super) fn is_sent(&self) -> bool {
        self.sent.load(Ordering::Relaxed)
    }

    pub(super) fn answered(&self) {
        self.answered.store(true, Ordering::Relaxed);
    }
}

#[derive(Debug)]
enum Piece {
    Head(Vec<u8>),
    Bytes(Arc<Vec<u8>>),
    Chunk(ChunkHead),
    Mark(&'static [u8]),
    Delivery(Delivery),
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Head(bytes) => bytes,
            Self::Bytes(bytes) => bytes,
            Self::Chunk(head) => head,
            Self::Mark(bytes) => bytes,
            Self::Delivery(delivery) => delivery,
        }
    }
}

/// Where more comes from.
#[derive(Debug)]
enum Source {
    Ended,
    /// That many bytes are still announced.
    Counted(Stream, u64),
    Chunked(Stream),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    Complete,
    /// The origin takes no more.
    Abandoned,
}

/// A request on its way out.
#[derive(Debug)]
pub(super) struct Upload {
    pieces: VecDeque<Piece>,
    /// Bytes of the first piece that are written.
    written: usize,
    source: Source,
    state: State,
    limit: Option<Duration>,
    stall: Watch,
}

impl Upload {
    /// `limit` is how long the socket may take no byte.
    pub(super) fn new(head: Vec<u8>, body: Payload, limit: Option<Duration>) -> Self {
        let mut pieces = VecDeque::from([Piece::Head(head)]);
        let source = match body {
            Payload::None => Source::Ended,
            Payload::Bytes(bytes) => {
                pieces.push_back(Piece::Bytes(bytes));
                Source::Ended
            }
            Payload::Stream { stream, length: Some(length) } => Source::Counted(stream, length),
            Payload::Stream { stream, length: None } => Source::Chunked(stream),
        };
        Self { pieces, written: 0, source, state: State::Running, limit, stall: Watch::default() }
    }

    /// Whether the whole request was sent, and its source had no more than that.
    pub(super) fn is_complete(&self) -> bool {
        self.state == State::Complete
    }

    /// Sends what can be sent now.
    ///
    /// # Errors
    /// `UPLOAD_FAILED` for the source's faults, `IO_TIMEOUT` if the origin takes nothing before it answers.
    fn drive(
        &mut self,
        context: &mut Context<'_>,
        connection: &Connection,
        progress: &Progress,
    ) -> Result<()> {
        if self.state != State::Running {
            return Ok(());
        }
        match self.poll_send(context, connection, progress) {
            Poll::Pending => return Ok(()),
            Poll::Ready(Ok(())) => self.state = State::Complete,
            Poll::Ready(Err(Stop::Failed(error))) => return Err(error),
            Poll::Ready(Err(Stop::Stalled)) if !progress.answered.load(Ordering::Relaxed) => {
                let limit = self.limit.unwrap_or_default();
                return Err(Code::IoTimeout.error(format!("the origin took nothing for {limit:?}")));
            }
            Poll::Ready(Err(Stop::Stalled | Stop::Broken)) => self.abandon(),
        }
        progress.sent.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Sends no more. The source is told, and what is queued is freed.
    pub(super) fn abandon(&mut self) {
        if self.state == State::Running {
            self.state = State::Abandoned;
            self.source = Source::Ended;
            self.pieces.clear();
        }
    }

    fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        connection: &Connection,
        progress: &Progress,
    ) -> Poll<std::result::Result<(), Stop>> {
        loop {
            // Before the write, so that the head and the first piece of the body leave together.
            self.fill(context).map_err(Stop::Failed)?;
            if self.pieces.is_empty() {
                ready!(self.poll_socket(context, |context| connection.poll_flush(context)))?;
                return match self.source {
                    Source::Ended => Poll::Ready(Ok(())),
                    Source::Counted(_, 0) => {
                        progress.sent.store(true, Ordering::Relaxed);
                        Poll::Pending
                    }
                    _ => Poll::Pending,
                };
            }
            let mut parts = [IoSlice::new(&[]); PIECES];
            let mut count = 0;
            for (part, piece) in parts.iter_mut().zip(&self.pieces) {
                *part = IoSlice::new(&piece.bytes()[if count == 0 { self.written } else { 0 }..]);
                count += 1;
            }
            let write = connection.poll_write(context, &parts[..count]);
            let taken = ready!(self.poll_socket(context, |_| write))?;
            self.advance(taken);
        }
    }

    /// Runs the limit while the socket is what is waited for.
    fn poll_socket<T>(
        &mut self,
        context: &mut Context<'_>,
        operation: impl FnOnce(&mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<std::result::Result<T, Stop>> {
        if let Poll::Ready(result) = operation(context) {
            self.stall.start(None);
            return Poll::Ready(result.map_err(|_| Stop::Broken));
        }
        if !self.stall.is_running() {
            self.stall.start(self.limit);
        }
        self.stall.poll_expired(context).map(|()| Err(Stop::Stalled))
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

    fn fill(&mut self, context: &mut Context<'_>) -> Result<()> {
        while self.pieces.len() + 3 <= PIECES {
            let stream = match &self.source {
                Source::Ended => return Ok(()),
                Source::Counted(stream, _) | Source::Chunked(stream) => stream,
            };
            let Poll::Ready(next) = stream.poll_next(context) else { return Ok(()) };
            match next {
                // It is we who hold the window: what is queued here goes first.
                Some(Err(error)) if error.code() == Code::WindowHeld && !self.pieces.is_empty() => {
                    return Ok(());
                }
                Some(Err(error)) => {
                    return Err(failed(format!("the source of the request body failed: {error}")));
                }
                Some(Ok(delivery)) => self.enqueue(delivery)?,
                None => self.end()?,
            }
        }
        Ok(())
    }

    fn enqueue(&mut self, delivery: Delivery) -> Result<()> {
        let Some(length) = NonZeroUsize::new(delivery.len()) else { return Ok(()) };
        if let Source::Counted(_, announced) = &mut self.source {
            *announced = announced.checked_sub(length.get() as u64).ok_or_else(|| {
                failed("the request body is longer than the length it was announced with".to_owned())
            })?;
            self.pieces.push_back(Piece::Delivery(delivery));
        } else {
            let head = wire::encode_chunk_head(length);
            self.pieces.extend([Piece::Chunk(head), Piece::Delivery(delivery), Piece::Mark(CHUNK_END)]);
        }
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.source, Source::Ended) {
            Source::Counted(_, 1..) => {
                return Err(failed(
                    "the request body is shorter than the length it was announced with".to_owned(),
                ));
            }
            Source::Chunked(_) => self.pieces.push_back(Piece::Mark(LAST_CHUNK)),
            Source::Counted(_, 0) | Source::Ended => {}
        }
        Ok(())
    }
}

/// Why sending ended early.
enum Stop {
    /// The source failed.
    Failed(Error),
    /// The origin took nothing within the limit.
    Stalled,
    /// The connection does not take bytes any more. What it says, the reading half will find out.
    Broken,
}

fn failed(why: String) -> Error {
    Code::UploadFailed.error(why)
}

/// Does `work`, and sends the request meanwhile.
pub(super) async fn alongside<T>(
    upload: &mut Upload,
    connection: &Connection,
    progress: &Progress,
    mut work: Pin<&mut impl Future<Output = Result<T>>>,
) -> Result<T> {
    poll_fn(|context| {
        upload.drive(context, connection, progress)?;
        work.as_mut().poll(context)
    })
    .await
}
