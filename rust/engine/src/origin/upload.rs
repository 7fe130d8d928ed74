//! Sends a request while its response is already being read.
//!
//! An [`Upload`] is driven by [`alongside`], before the work that reads; it holds at most one vectored write of the
//! body and gives the credit for each piece back when the kernel has taken it. That the origin stops taking the
//! body is no error by itself: it may have answered already (RFC 9110, section 15.5.14), and the answer counts.

use std::future::poll_fn;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::payload::Payload;
use crate::error::{Code, Error, Result};
use crate::net::{Connection, Outbox, Piece, Stop};
use crate::stream::{Delivery, Stream};
use crate::wire::{self, CHUNK_END, LAST_CHUNK};

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
    outbox: Outbox,
    source: Source,
    state: State,
}

impl Upload {
    /// `limit` is how long the socket may take no byte.
    pub(super) fn new(head: Vec<u8>, body: Payload, limit: Option<Duration>) -> Self {
        let mut outbox = Outbox::new(limit);
        outbox.push(Piece::Bytes(head));
        let source = match body {
            Payload::None => Source::Ended,
            Payload::Bytes(bytes) => {
                outbox.push(Piece::Shared(bytes));
                Source::Ended
            }
            Payload::Stream { stream, length: Some(length) } => Source::Counted(stream, length),
            Payload::Stream { stream, length: None } => Source::Chunked(stream),
        };
        Self { outbox, source, state: State::Running }
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
            Poll::Ready(Err(Fault::Source(error))) => return Err(error),
            Poll::Ready(Err(Fault::Socket(Stop::Stalled))) if !progress.answered.load(Ordering::Relaxed) => {
                let limit = self.outbox.limit();
                return Err(Code::IoTimeout.error(format!("the origin took nothing for {limit:?}")));
            }
            // What a broken connection says, the reading half will find out.
            Poll::Ready(Err(Fault::Socket(_))) => self.abandon(),
        }
        progress.sent.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Sends no more. The source is told, and what is queued is freed.
    pub(super) fn abandon(&mut self) {
        if self.state == State::Running {
            self.state = State::Abandoned;
            self.source = Source::Ended;
            self.outbox.clear();
        }
    }

    fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        connection: &Connection,
        progress: &Progress,
    ) -> Poll<std::result::Result<(), Fault>> {
        loop {
            // Before the write, so that the head and the first piece of the body leave together.
            self.fill(context).map_err(Fault::Source)?;
            if self.outbox.is_empty() {
                ready!(self.outbox.poll_flush(context, connection)).map_err(Fault::Socket)?;
                return match self.source {
                    Source::Ended => Poll::Ready(Ok(())),
                    Source::Counted(_, 0) => {
                        progress.sent.store(true, Ordering::Relaxed);
                        Poll::Pending
                    }
                    _ => Poll::Pending,
                };
            }
            ready!(self.outbox.poll_write(context, connection)).map_err(Fault::Socket)?;
        }
    }

    fn fill(&mut self, context: &mut Context<'_>) -> Result<()> {
        while !self.outbox.is_full() {
            let stream = match &self.source {
                Source::Ended => return Ok(()),
                Source::Counted(stream, _) | Source::Chunked(stream) => stream,
            };
            let Poll::Ready(next) = stream.poll_next(context) else { return Ok(()) };
            match next {
                // It is we who hold the window: what is queued here goes first.
                Some(Err(error)) if error.code() == Code::WindowHeld && !self.outbox.is_empty() => {
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
            self.outbox.push(Piece::Delivery(delivery));
        } else {
            let head = wire::encode_chunk_head(length);
            self.outbox.push(Piece::Chunk(head));
            self.outbox.push(Piece::Delivery(delivery));
            self.outbox.push(Piece::Mark(CHUNK_END));
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
            Source::Chunked(_) => self.outbox.push(Piece::Mark(LAST_CHUNK)),
            Source::Counted(_, 0) | Source::Ended => {}
        }
        Ok(())
    }
}

/// Why sending ended early.
enum Fault {
    Source(Error),
    Socket(Stop),
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
