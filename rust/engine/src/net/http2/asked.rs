//! One stream of HTTP/2 that was opened to an origin, as a connection of HTTP/1.1.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use penstock_http2::{ErrorCode, First, Item, Reset};

use super::calls::Side;
use super::carrier::{Carrier, Shared};
use super::message::{Message, Requests};
use super::received::{Received, broken};
use super::sending::Sending;
use crate::net::{Channel, Lease, Socket, Untaken};
use crate::wire::{grpc_kind, has_no_body};

/// A stream to an origin.
#[derive(Debug)]
pub(super) struct AskedStream {
    open: Arc<AtomicUsize>,
    sending: Sending<Requests>,
    is_head_request: bool,
    /// The response, or an interim one before it.
    received: Option<Received>,
    /// The final head of the response has come.
    has_head: bool,
    /// Why it could not be begun.
    failure: Option<String>,
    /// The origin has not looked at the request.
    is_refused: bool,
}

impl AskedStream {
    /// A stream on the connection of `carrier`; while it lives it counts as `open`.
    pub(super) fn new(carrier: &Arc<Carrier>, scheme: &'static str, open: &Arc<AtomicUsize>) -> Self {
        // Relaxed: a count of one thread.
        open.fetch_add(1, Ordering::Relaxed);
        Self {
            open: Arc::clone(open),
            sending: Sending::new(carrier, 0, Message::new(Requests { scheme })),
            is_head_request: false,
            received: None,
            has_head: false,
            failure: None,
            is_refused: false,
        }
    }

    /// Ready when something is there to read.
    fn poll_received(&mut self, shared: &mut Shared) -> Poll<io::Result<()>> {
        if let Some(failure) = &self.failure {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionReset, failure.clone())));
        }
        let stream = self.sending.stream;
        while self.received.as_ref().is_none_or(|received| !self.has_head && received.has_ended()) {
            if stream == 0 {
                return Poll::Pending;
            }
            let Some(Item::Head(text)) = shared.session.read(stream) else {
                if let Some(reset) = shared.session.reset_of(stream) {
                    // RFC 9113, section 8.7.
                    self.is_refused =
                        reset == Reset::Refused || cfg!(all(test, planted_bug = "reset-taken-for-refusal"));
                    return Poll::Ready(Err(broken(reset)));
                }
                shared.session.watch(stream, &self.sending.calls.waker);
                return Poll::Pending;
            };
            self.received = Some(self.begin(shared, text));
        }
        Poll::Ready(Ok(()))
    }

    /// What begins with the head `text`.
    fn begin(&mut self, shared: &Shared, mut text: Vec<u8>) -> Received {
        let stream = self.sending.stream;
        // "HTTP/1.1 ", and three digits.
        let status = text.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        self.has_head = status.is_none_or(|status: u16| status >= 200);
        if !self.has_head {
            text.extend_from_slice(b"\r\n");
            return Received::new(stream, text, true, false);
        }
        let has_body = !(shared.session.has_received_all(stream) && shared.session.is_read(stream));
        let framing = Framing::of(&text, has_body, self.is_head_request || status.is_none_or(has_no_body));
        if framing == Framing::Chunked {
            text = without_length(&text);
        }
        text.extend_from_slice(match framing {
            Framing::Chunked => b"transfer-encoding: chunked\r\n\r\n",
            Framing::Empty => b"content-length: 0\r\n\r\n",
            Framing::Known => b"\r\n",
        });
        Received::new(stream, text, !has_body, framing == Framing::Chunked)
    }

    fn take(&mut self, shared: &mut Shared, lease: Lease) -> io::Result<usize> {
        let Self { sending, is_head_request, is_refused, .. } = self;
        sending.take(shared, lease, |shared, _, head, is_all| {
            let Some(stream) = shared.session.open() else {
                // The connection takes no more, and has not looked at this.
                *is_refused = true;
                return Err(broken(Reset::Refused));
            };
            *is_head_request = head.method() == b"HEAD";
            if *is_head_request {
                shared.session.expect_no_body(stream);
            }
            let first = First::Request {
                method: head.method(),
                scheme: head.scheme(),
                authority: head.authority(),
                path: head.path(),
            };
            shared.session.send_head(stream, first, head.fields(), is_all);
            Ok(stream)
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
    fn of(head: &[u8], has_body: bool, is_bodiless: bool) -> Self {
        let has_length = value(head, b"content-length").is_some();
        let is_grpc = value(head, b"content-type").is_some_and(|kind| grpc_kind(kind).is_some());
        if is_bodiless {
            Self::Known
        } else if has_body && (is_grpc || !has_length) {
            // What is delimited by its length has no trailers.
            Self::Chunked
        } else if has_length {
            Self::Known
        } else {
            Self::Empty
        }
    }
}

/// The lines of a head whose names are in lower case.
fn lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    head.split_inclusive(|byte| *byte == b'\n')
}

fn value<'a>(head: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    lines(head).find_map(|line| line.strip_prefix(name)?.strip_prefix(b": ")?.strip_suffix(b"\r\n"))
}

fn without_length(head: &[u8]) -> Vec<u8> {
    lines(head).filter(|line| !line.starts_with(b"content-length: ")).collect::<Vec<_>>().concat()
}

impl Channel for AskedStream {
    fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.sending.calls.note(Side::Read, context);
        let carrier = Arc::clone(&self.sending.carrier);
        let shared = &mut *carrier.shared();
        ready!(self.poll_received(shared))?;
        let Some(received) = &mut self.received else { return Poll::Pending };
        received.poll_readable(shared, &self.sending.calls.waker)
    }

    fn poll_read(&mut self, context: &mut Context<'_>, memory: &mut [u8]) -> Poll<io::Result<usize>> {
        self.sending.calls.note(Side::Read, context);
        let carrier = Arc::clone(&self.sending.carrier);
        let shared = &mut *carrier.shared();
        ready!(self.poll_received(shared))?;
        let Some(received) = &mut self.received else { return Poll::Pending };
        received.poll_read(shared, &self.sending.calls.waker, memory)
    }

    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shared = &mut *self.sending.carrier.shared();
        if self.sending.stream == 0
            && shared.session.room() == 0
            && !shared.is_lost
            && !shared.session.is_refused()
        {
            // The origin has lowered its limit meanwhile.
            self.sending.calls.note(Side::Write, context);
            shared.wait(&self.sending.calls.waker);
            return Poll::Pending;
        }
        self.sending.poll_room(shared, context)
    }

    fn lend(&mut self, _: &mut Context<'_>, lease: Lease) -> io::Result<usize> {
        let carrier = Arc::clone(&self.sending.carrier);
        let taken = self.take(&mut carrier.shared(), lease);
        if let Err(error) = &taken {
            // What reads is told as well.
            self.failure = Some(error.to_string());
        }
        taken
    }

    fn flush(&mut self) {
        self.sending.flush();
    }

    fn end_writing(&mut self) {
        let carrier = Arc::clone(&self.sending.carrier);
        let shared = &mut *carrier.shared();
        if !self.sending.end(shared) {
            self.sending.reset(shared, ErrorCode::CANCEL);
        }
    }

    fn reset(&mut self) {
        self.sending.reset(&mut self.sending.carrier.shared(), ErrorCode::CANCEL);
    }

    fn has_hung_up(&mut self) -> bool {
        self.sending.carrier.connection.has_hung_up()
    }

    fn was_refused(&self) -> bool {
        self.is_refused
    }

    fn untaken(&self) -> Option<Untaken> {
        self.sending.carrier.untaken(self.sending.stream)
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
