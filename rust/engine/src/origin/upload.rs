//! Sends a request while its response is already being read.
//!
//! An [`Upload`] is driven by [`alongside`], before the work that reads; it holds at most one vectored write of the
//! body and gives the credit for each piece back when the kernel has taken it. If the origin stops reading the
//! body, that is not an error by itself: it may have answered already (RFC 9110, section 15.5.14), and the answer
//! counts.

use std::future::poll_fn;
use std::io::IoSlice;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use super::payload::Payload;
use crate::error::{Code, Result};
use crate::net::{Connection, Fault, Outgoing, Piece, Stop};
use crate::stream::Stream;
use crate::wire::BodyFraming;

/// The state that the reading and the sending half share. Both are polled by one task, so the order of these
/// flags is the order of the program.
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
enum State {
    /// A request without a body, of which nothing was sent: the socket takes most of them whole.
    Head(Vec<u8>),
    /// Boxed, because the response may last for hours after the request has been sent.
    Running(Box<Outgoing>),
    Complete,
    /// The origin reads no more.
    Abandoned,
}

/// A request on its way out.
#[derive(Debug)]
pub(super) struct Upload {
    state: State,
    limit: Option<Duration>,
    /// Bytes that wait until the origin switches protocols.
    tunnel: Option<Stream>,
    switched: bool,
}

impl Upload {
    /// `limit` is how long the socket may take no byte; what follows the body is sent too if this `passes_trailers`.
    pub(super) fn new(head: Vec<u8>, body: Payload, limit: Option<Duration>, passes_trailers: bool) -> Self {
        let mut upload = Self { state: State::Head(head), limit, tunnel: None, switched: false };
        match body {
            Payload::None => {}
            Payload::Tunnel(stream) => upload.tunnel = Some(stream),
            Payload::Bytes(bytes) => upload.run().push(Piece::Shared(bytes)),
            Payload::Stream { stream, length } => {
                let framing = length.map_or(BodyFraming::Chunked, BodyFraming::Length);
                upload.run().attach(stream.into(), framing);
                if passes_trailers {
                    upload.run().pass_trailers();
                }
            }
        }
        upload
    }

    /// One of which all was sent by another process.
    pub(super) fn complete() -> Self {
        Self { state: State::Complete, limit: None, tunnel: None, switched: false }
    }

    /// The message that is being sent, or a new one.
    fn run(&mut self) -> &mut Outgoing {
        let message = match std::mem::replace(&mut self.state, State::Complete) {
            State::Running(message) => message,
            State::Head(head) => {
                let mut message = Box::new(Outgoing::new(self.limit, Code::UploadFailed));
                message.push(Piece::Bytes(head));
                message
            }
            State::Complete | State::Abandoned => Box::new(Outgoing::new(self.limit, Code::UploadFailed)),
        };
        self.state = State::Running(message);
        let State::Running(message) = &mut self.state else { unreachable!("set above") };
        message
    }

    /// Whether the origin has switched to another protocol.
    pub(super) fn has_switched(&self) -> bool {
        self.switched
    }

    /// Whether the kernel has taken any bytes since the last call.
    pub(super) fn has_moved(&mut self) -> bool {
        let State::Running(message) = &mut self.state else { return false };
        message.take_written() > 0
    }

    /// The origin has switched: the bytes that waited are sent unchanged.
    pub(super) fn switch(&mut self) {
        if let Some(stream) = self.tunnel.take() {
            self.run().attach(stream.into(), BodyFraming::Tunnel);
            self.switched = true;
        }
    }

    /// Whether the whole request was sent, and its source had no more than that.
    pub(super) fn is_complete(&self) -> bool {
        matches!(self.state, State::Complete)
    }

    /// Sends as much as the socket takes now.
    ///
    /// # Errors
    /// `UPLOAD_FAILED` if the source fails, `IO_TIMEOUT` if the origin takes nothing before it answers.
    pub(super) fn drive(
        &mut self,
        context: &mut Context<'_>,
        connection: &Connection,
        progress: &Progress,
    ) -> Result<()> {
        if let State::Head(head) = &mut self.state {
            // What TLS takes is not yet with the kernel.
            if !connection.is_tls() {
                if let Poll::Ready(Ok(taken)) = connection.poll_write(context, &[IoSlice::new(head)]) {
                    head.drain(..taken);
                }
            }
            if head.is_empty() {
                self.state = State::Complete;
                progress.sent.store(true, Ordering::Relaxed);
                return Ok(());
            }
            // It waits for the socket, or meets its error again.
            self.run();
        }
        let State::Running(message) = &mut self.state else { return Ok(()) };
        match message.poll_send(context, connection) {
            Poll::Pending => {
                if message.is_drained() {
                    progress.sent.store(true, Ordering::Relaxed);
                }
                return Ok(());
            }
            Poll::Ready(Ok(())) => {
                self.state = State::Complete;
                if self.switched {
                    connection.end_writing();
                }
            }
            Poll::Ready(Err(Fault::Source(error))) if error.code() == Code::UploadFailed => {
                return Err(error);
            }
            Poll::Ready(Err(Fault::Source(error))) => {
                return Err(
                    Code::UploadFailed.error(format!("the source of the request body failed: {error}"))
                );
            }
            // A tunnel has no answer that could still count.
            Poll::Ready(Err(Fault::Socket(Stop::Stalled)))
                if self.switched || !progress.answered.load(Ordering::Relaxed) =>
            {
                let limit = message.limit();
                return Err(Code::IoTimeout.error(format!("the origin took nothing for {limit:?}")));
            }
            // The reading half will meet the error of a broken connection.
            Poll::Ready(Err(Fault::Socket(_))) => self.abandon(),
        }
        progress.sent.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Stops sending, closes the source, and frees the queued bytes.
    pub(super) fn abandon(&mut self) {
        if matches!(self.state, State::Running(_) | State::Head(_)) {
            self.state = State::Abandoned;
        }
    }
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
