//! One stream of HTTP/2 that a client has opened, as a connection of HTTP/1.1.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use penstock_http2::{ErrorCode, First, Item};

use super::calls::Side;
use super::carrier::{Carrier, Shared};
use super::message::{Message, Responses};
use super::received::{Received, broken};
use super::sending::Sending;
use crate::net::{Channel, Lease, Socket, Untaken};

/// A stream of a connection.
#[derive(Debug)]
pub(super) struct Stream {
    asking: Received,
    sending: Sending<Responses>,
}

impl Stream {
    /// The stream `id`, whose request has come.
    pub(super) fn new(carrier: &Arc<Carrier>, shared: &mut Shared, id: u32) -> Self {
        let session = &mut shared.session;
        let mut text = match session.read(id) {
            Some(Item::Head(text)) => text,
            // It was reset meanwhile, which what reads it is told.
            _ => Vec::new(),
        };
        let is_whole = session.has_received_all(id) && session.is_read(id);
        let is_chunked = !is_whole && !session.has_length(id);
        text.extend_from_slice(if is_chunked { b"transfer-encoding: chunked\r\n\r\n" } else { b"\r\n" });
        let message = Message::response(text.starts_with(b"HEAD "));
        let asking = Received::new(id, text, is_whole, is_chunked);
        Self { asking, sending: Sending::new(carrier, id, message) }
    }

    /// Ready when the client, or an error, has ended the stream.
    fn poll_end(&self, shared: &mut Shared) -> Poll<io::Error> {
        if let Some(reset) = shared.session.reset_of(self.sending.stream) {
            return Poll::Ready(broken(reset));
        }
        if shared.is_lost {
            return Poll::Ready(io::ErrorKind::BrokenPipe.into());
        }
        shared.session.watch(self.sending.stream, &self.sending.calls.waker);
        Poll::Pending
    }
}

impl Channel for Stream {
    fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.sending.calls.note(Side::Read, context);
        let shared = &mut *self.sending.carrier.shared();
        if self.sending.is_sent(shared) || self.asking.has_ended() {
            return self.poll_end(shared).map(Err);
        }
        self.asking.poll_readable(shared, &self.sending.calls.waker)
    }

    fn poll_read(&mut self, context: &mut Context<'_>, memory: &mut [u8]) -> Poll<io::Result<usize>> {
        self.sending.calls.note(Side::Read, context);
        let shared = &mut *self.sending.carrier.shared();
        // After the response the rest of the request is of no use: the client is told so when this is dropped (RFC 9113, section
        // 8.1).
        if self.sending.is_sent(shared) || self.asking.has_ended() {
            return self.poll_end(shared).map(Err);
        }
        self.asking.poll_read(shared, &self.sending.calls.waker, memory)
    }

    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.sending.poll_room(&mut self.sending.carrier.shared(), context)
    }

    fn lend(&mut self, _: &mut Context<'_>, lease: Lease) -> io::Result<usize> {
        let carrier = Arc::clone(&self.sending.carrier);
        self.sending.take(&mut carrier.shared(), lease, |shared, stream, head, is_all| {
            shared.session.prioritise(stream, head.content_type());
            shared.session.send_head(stream, First::Status(head.status()), head.fields(), is_all);
            Ok(stream)
        })
    }

    fn flush(&mut self) {
        self.sending.flush();
    }

    fn end_writing(&mut self) {
        let carrier = Arc::clone(&self.sending.carrier);
        let shared = &mut *carrier.shared();
        if self.sending.end(shared) {
            return;
        }
        if cfg!(all(test, planted_bug = "broken-stream-ends-well")) {
            return shared.session.end(self.sending.stream, []);
        }
        self.sending.reset(shared, ErrorCode::INTERNAL_ERROR);
    }

    fn reset(&mut self) {
        if cfg!(all(test, planted_bug = "failed-stream-ends-well")) {
            return self.sending.carrier.shared().session.end(self.sending.stream, []);
        }
        let shared = &mut *self.sending.carrier.shared();
        // A response that is in its frames is whole when it comes, however late (RFC 9113, section 8.1).
        let is_whole = self.sending.is_sent(shared);
        self.sending.reset(shared, if is_whole { ErrorCode::NO_ERROR } else { ErrorCode::INTERNAL_ERROR });
    }

    fn has_hung_up(&mut self) -> bool {
        self.poll_end(&mut self.sending.carrier.shared()).is_ready()
    }

    fn untaken(&self) -> Option<Untaken> {
        self.sending.carrier.untaken(self.sending.stream)
    }

    fn with_socket(&self, work: &mut dyn FnMut(&Socket)) {
        self.sending.carrier.connection.with_socket(work);
    }
}
