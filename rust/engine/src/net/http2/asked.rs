//! One stream of HTTP/2 that was opened to an origin, as a connection of HTTP/1.1.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use h2::Reason;
use h2::client::{ResponseFuture, SendRequest};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{Method, StatusCode, response};

use super::calls::Side;
use super::carrier::Carrier;
use super::message::{Message, Requests, Step};
use super::portion::Portion;
use super::priority::Priority;
use super::received::{Received, write_fields};
use super::sending::Sending;
use crate::net::{Channel, Lease, Socket};
use crate::wire::{grpc_kind, has_no_body};

/// Uploads take turns.
const PRIORITY: Priority = Priority { urgency: 3, incremental: true };

/// A stream to an origin.
#[derive(Debug)]
pub(super) struct AskedStream {
    sender: SendRequest<Portion>,
    open: Arc<AtomicUsize>,
    sending: Sending<Requests>,
    is_head_request: bool,
    /// The response, before its head.
    response: Option<ResponseFuture>,
    received: Option<Received>,
    /// Why it could not be begun.
    failure: Option<String>,
    /// The origin has not looked at the request.
    is_refused: bool,
}

impl AskedStream {
    /// A stream on the connection of `sender`; while it lives it counts as `open`.
    pub(super) fn new(
        carrier: &Arc<Carrier>,
        sender: SendRequest<Portion>,
        scheme: &'static str,
        open: &Arc<AtomicUsize>,
    ) -> Self {
        // Relaxed: a count of one thread.
        open.fetch_add(1, Ordering::Relaxed);
        Self {
            sender,
            open: Arc::clone(open),
            sending: Sending::new(carrier, Message::new(Requests { scheme })),
            is_head_request: false,
            response: None,
            received: None,
            failure: None,
            is_refused: false,
        }
    }

    /// What there is to read; pending before anything has come.
    fn poll_received(&mut self) -> Poll<io::Result<&mut Received>> {
        let Self { response, received, sending, failure, is_refused, .. } = self;
        if let Some(failure) = failure {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionReset, failure.clone())));
        }
        let context = &mut Context::from_waker(&sending.calls.waker);
        while received.as_ref().is_none_or(|received| response.is_some() && received.has_ended()) {
            let Some(asked) = response else { return Poll::Pending };
            match ready!(asked.poll_informational(context)) {
                Some(Ok(interim)) => {
                    *received = Some(Received::new(text(&interim.into_parts().0, None), None, false));
                    continue;
                }
                Some(Err(error)) => return Poll::Ready(Err(failed(&error, is_refused))),
                None => {}
            }
            let (mut head, body) = match ready!(Pin::new(asked).poll(context)) {
                Ok(answer) => answer.into_parts(),
                Err(error) => return Poll::Ready(Err(failed(&error, is_refused))),
            };
            let body = Some(body).filter(|body| !body.is_end_stream());
            let framing = Framing::of(&head, body.is_some(), self.is_head_request);
            if framing == Framing::Chunked {
                head.headers.remove(CONTENT_LENGTH);
            }
            *received = Some(Received::new(text(&head, Some(framing)), body, framing == Framing::Chunked));
            *response = None;
        }
        match received {
            Some(received) => Poll::Ready(Ok(received)),
            None => Poll::Pending,
        }
    }

    fn take(&mut self, lease: Lease) -> io::Result<usize> {
        let Self { sender, sending, is_head_request, response, is_refused, .. } = self;
        sending.take(lease, |sending, step| {
            let Step::Head(request, is_all) = step else { return Ok(()) };
            *is_head_request = request.method() == Method::HEAD;
            let begun = sender.send_request(request, is_all);
            let (answer, body) = begun.map_err(|error| {
                // The connection has ended before it.
                *is_refused = error.is_go_away() || error.is_io() || error.is_reset();
                told(&error)
            })?;
            sending.enter(answer.stream_id().as_u32(), Some(PRIORITY));
            sending.begin(body, is_all);
            *response = Some(answer);
            Ok(())
        })
    }
}

/// How the body of a response is delimited over HTTP/1.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    /// As its head says already.
    Known,
    Chunked,
    /// It is empty, which has to be said.
    Empty,
}

impl Framing {
    fn of(head: &response::Parts, has_body: bool, is_head_request: bool) -> Self {
        let is_grpc = head.headers.get(CONTENT_TYPE).is_some_and(|kind| grpc_kind(kind.as_bytes()).is_some());
        if is_head_request || has_no_body(head.status.as_u16()) {
            Self::Known
        } else if has_body && (is_grpc || !head.headers.contains_key(CONTENT_LENGTH)) {
            // What is delimited by its length has no trailers.
            Self::Chunked
        } else if head.headers.contains_key(CONTENT_LENGTH) {
            Self::Known
        } else {
            Self::Empty
        }
    }
}

/// The head as that of HTTP/1.1; an interim one has no `framing`.
fn text(head: &response::Parts, framing: Option<Framing>) -> Vec<u8> {
    let mut text = Vec::with_capacity(512);
    let status = if head.status == StatusCode::SWITCHING_PROTOCOLS {
        // HTTP/2 has none (RFC 9113, section 8.6): what reads it must not take it for one.
        StatusCode::BAD_GATEWAY
    } else {
        head.status
    };
    text.extend_from_slice(format!("HTTP/1.1 {} \r\n", status.as_str()).as_bytes());
    write_fields(&mut text, &head.headers);
    text.extend_from_slice(match framing {
        Some(Framing::Chunked) => b"transfer-encoding: chunked\r\n\r\n",
        Some(Framing::Empty) => b"content-length: 0\r\n\r\n",
        Some(Framing::Known) | None => b"\r\n",
    });
    text
}

/// The stream, or its connection, has ended without a response. Notes whether the origin has not looked at the request.
fn failed(error: &h2::Error, is_refused: &mut bool) -> io::Error {
    // RFC 9113, section 8.7: what is above the last stream of a GOAWAY was not looked at.
    let is_refusal = error.is_go_away() || error.reason() == Some(Reason::REFUSED_STREAM);
    *is_refused = is_refusal && error.is_remote();
    told(error)
}

/// What the origin says, in the words of the crate.
fn told(error: &h2::Error) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, error.to_string())
}

impl Channel for AskedStream {
    fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.sending.calls.note(Side::Read, context);
        ready!(self.poll_received())?;
        let Self { received: Some(received), sending, .. } = self else { return Poll::Pending };
        received.poll_readable(&mut Context::from_waker(&sending.calls.waker))
    }

    fn poll_read(&mut self, context: &mut Context<'_>, memory: &mut [u8]) -> Poll<io::Result<usize>> {
        self.sending.calls.note(Side::Read, context);
        ready!(self.poll_received())?;
        let Self { received: Some(received), sending, .. } = self else { return Poll::Pending };
        received.poll_read(&mut Context::from_waker(&sending.calls.waker), memory)
    }

    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.sending.poll_send(context)
    }

    fn lend(&mut self, context: &mut Context<'_>, lease: Lease) -> io::Result<usize> {
        let taken = self.take(lease);
        if let Err(error) = &taken {
            // What reads is told as well.
            self.failure = Some(error.to_string());
        }
        let count = taken?;
        self.sending.send(context)?;
        Ok(count)
    }

    fn end_writing(&mut self) {
        if !self.sending.end() {
            self.reset();
        }
    }

    fn reset(&mut self) {
        self.sending.reset(Reason::CANCEL);
    }

    fn has_hung_up(&mut self) -> bool {
        self.sending.carrier.connection.has_hung_up()
    }

    fn was_refused(&self) -> bool {
        self.is_refused
    }

    fn untaken(&self) -> Option<usize> {
        self.sending.untaken()
    }

    fn with_socket(&self, work: &mut dyn FnMut(&Socket)) {
        self.sending.carrier.connection.with_socket(work);
    }
}

impl Drop for AskedStream {
    fn drop(&mut self) {
        // Relaxed, as in `new`.
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}
