//! One stream of HTTP/2 that a client has opened, as a connection of HTTP/1.1.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use h2::Reason;
use h2::server::SendResponse;
use http::{HeaderValue, request};

use super::calls::Side;
use super::carrier::Carrier;
use super::message::{Message, Responses, Step};
use super::portion::Portion;
use super::priority::Priority;
use super::received::{Received, broken};
use super::sending::Sending;
use crate::net::{Channel, Lease, Socket};

/// A stream of a connection.
#[derive(Debug)]
pub(super) struct Stream {
    asking: Received,
    respond: SendResponse<Portion>,
    sending: Sending<Responses>,
}

impl Stream {
    /// The stream whose request begins with `head`.
    ///
    /// # Errors
    /// The request is malformed.
    pub(super) fn new(
        carrier: &Arc<Carrier>,
        head: &request::Parts,
        asking: Received,
        respond: SendResponse<Portion>,
    ) -> Self {
        let asked = head.headers.get("priority").and_then(|value| Priority::parse(value.as_bytes()));
        let mut sending = Sending::new(carrier, Message::response(head.method == "HEAD"));
        sending.enter(respond.stream_id().as_u32(), asked);
        Self { asking, respond, sending }
    }

    /// Ready when the client, or an error, has ended the stream.
    fn poll_end(&mut self) -> Poll<io::Error> {
        let context = &mut Context::from_waker(&self.sending.calls.waker);
        let reason = match &mut self.sending.body {
            Some(body) => ready!(body.poll_reset(context)),
            None => ready!(self.respond.poll_reset(context)),
        };
        Poll::Ready(reason.map_or_else(broken, |_| io::ErrorKind::ConnectionReset.into()))
    }

    /// Takes in what is lent; how many bytes of heads and bodies that is.
    fn take(&mut self, lease: Lease) -> io::Result<usize> {
        let Self { respond, sending, .. } = self;
        sending.take(lease, |sending, step| {
            match step {
                Step::Interim(response) => respond.send_informational(response).map_err(broken)?,
                Step::Head(response, is_all) => {
                    let kind = response.headers().get(http::header::CONTENT_TYPE);
                    sending.carrier.gate.respond(sending.number, kind.map(HeaderValue::as_bytes));
                    let body = respond.send_response(response, is_all).map_err(broken)?;
                    sending.begin(body, is_all);
                }
                Step::Data(_) | Step::End(_) => {}
            }
            Ok(())
        })
    }
}

impl Channel for Stream {
    fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.sending.calls.note(Side::Read, context);
        if self.sending.is_sent() || self.asking.has_ended() {
            return self.poll_end().map(Err);
        }
        self.asking.poll_readable(&mut Context::from_waker(&self.sending.calls.waker))
    }

    fn poll_read(&mut self, context: &mut Context<'_>, memory: &mut [u8]) -> Poll<io::Result<usize>> {
        self.sending.calls.note(Side::Read, context);
        // After the response the rest of the request is of no use: the client is told so when this is dropped (RFC 9113, section
        // 8.1).
        if self.sending.is_sent() || self.asking.has_ended() {
            return self.poll_end().map(Err);
        }
        self.asking.poll_read(&mut Context::from_waker(&self.sending.calls.waker), memory)
    }

    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.sending.poll_send(context)
    }

    fn lend(&mut self, context: &mut Context<'_>, lease: Lease) -> io::Result<usize> {
        let count = self.take(lease)?;
        self.sending.send(context)?;
        Ok(count)
    }

    fn end_writing(&mut self) {
        if !self.sending.end() {
            self.reset();
        }
    }

    fn reset(&mut self) {
        if !self.sending.reset(Reason::INTERNAL_ERROR) {
            self.respond.send_reset(Reason::INTERNAL_ERROR);
        }
    }

    fn has_hung_up(&mut self) -> bool {
        self.poll_end().is_ready()
    }

    fn untaken(&self) -> Option<usize> {
        self.sending.untaken()
    }

    fn with_socket(&self, work: &mut dyn FnMut(&Socket)) {
        self.sending.carrier.connection.with_socket(work);
    }
}
