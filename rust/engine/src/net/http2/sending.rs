//! The body of a message that a stream sends, at the pace of its window and of the other streams.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use h2::{Reason, SendStream};
use http::HeaderMap;

use super::calls::{Calls, Side};
use super::carrier::Carrier;
use super::message::{Heads, Message, Step};
use super::portion::{FRAME, Portion, Unsent};
use super::received::broken;
use crate::net::Lease;
use crate::sync::lock;

/// What a stream asks of its window at a time: a write of TLS. Arbitrary.
const ASKED: usize = 64 << 10;

/// A frame with fewer bytes, of more that wait, is one that the other side had us make: each costs as much as a whole one.
/// Arbitrary.
const STARVED: usize = 256;

/// What is to be sent of a message.
#[derive(Debug)]
pub(super) struct Sending<H> {
    carrier: Arc<Carrier>,
    number: u32,
    message: Message<H>,
    /// `None` before the head.
    body: Option<SendStream<Portion>>,
    unsent: VecDeque<Unsent>,
    /// What follows them at the end of the body.
    trailers: Option<HeaderMap>,
    /// All of the message has been handed on.
    is_sent: bool,
    /// The other side has not opened the window of the stream for what is unsent.
    is_held: bool,
}

impl<H: Heads> Sending<H> {
    /// The message of stream `number`, whose share the gate knows.
    pub(super) fn new(carrier: &Arc<Carrier>, number: u32, message: Message<H>) -> Self {
        Self {
            carrier: Arc::clone(carrier),
            number,
            message,
            body: None,
            unsent: VecDeque::new(),
            trailers: None,
            is_sent: false,
            is_held: false,
        }
    }

    /// What follows the head is sent on the stream `number`, by `body`; nothing does if the head `is_all`.
    pub(super) fn begin(&mut self, number: u32, body: SendStream<Portion>, is_all: bool) {
        self.number = number;
        self.body = Some(body);
        self.is_sent = is_all;
    }

    /// What sends the body, after the head.
    pub(super) fn body(&mut self) -> Option<&mut SendStream<Portion>> {
        self.body.as_mut()
    }

    /// Whether all of the message has been handed on.
    pub(super) fn is_sent(&self) -> bool {
        self.is_sent
    }

    /// A number that falls when the other side takes something of this.
    pub(super) fn untaken(&self) -> Option<usize> {
        if self.is_held { Some(usize::MAX) } else { self.carrier.untaken() }
    }

    /// Takes in what is lent, and calls `head` for each head, which begins this with the final one; how many bytes of heads and
    /// bodies that is.
    pub(super) fn take(
        &mut self,
        lease: Lease,
        mut head: impl FnMut(&mut Self, Step<H::Head>) -> io::Result<()>,
    ) -> io::Result<usize> {
        let lease = Arc::new(lease);
        let mut count = 0;
        for (part, bytes) in lease.parts().into_iter().enumerate() {
            let mut at = 0;
            loop {
                let (before, is_head) = (at, self.message.is_within_head());
                let step = self.message.next(bytes, &mut at)?;
                count += match &step {
                    Some(Step::Data(range)) => range.len(),
                    _ if is_head => at - before,
                    _ => 0,
                };
                match step {
                    None => break,
                    Some(Step::Data(range)) => {
                        self.unsent.push_back(Unsent { lease: Arc::clone(&lease), part, range });
                    }
                    Some(Step::End(trailers)) => {
                        self.trailers = Some(trailers).filter(|fields| !fields.is_empty());
                    }
                    Some(step) => head(self, step)?,
                }
            }
        }
        Ok(count)
    }

    /// Hands on what the window and the other streams leave room for. Ready when that was all.
    pub(super) fn poll_send(&mut self, context: &mut Context<'_>, calls: &Calls) -> Poll<io::Result<()>> {
        let Some(body) = self.body.as_mut().filter(|_| !self.is_sent) else { return Poll::Ready(Ok(())) };
        while let Some(first) = self.unsent.front_mut() {
            if body.capacity() == 0 {
                let rest: usize = self.unsent.iter().map(|unsent| unsent.range.len()).sum();
                body.reserve_capacity(rest.min(ASKED));
                self.is_held = body.capacity() == 0;
                if self.is_held {
                    match body.poll_capacity(&mut Context::from_waker(&calls.waker)) {
                        Poll::Ready(Some(Ok(_))) => {}
                        Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(broken(error))),
                        Poll::Ready(None) => {
                            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
                        }
                        Poll::Pending => {
                            calls.note(Side::Write, context);
                            return Poll::Pending;
                        }
                    }
                }
                continue;
            }
            self.is_held = false;
            let count = body.capacity().min(first.range.len()).min(FRAME);
            let grant = ready!(self.carrier.gate.poll_grant(context, self.number, count));
            if count < STARVED && count < first.range.len() {
                lock(&self.carrier.meter).starve();
            }
            let portion = first.take(count, grant);
            if first.range.is_empty() {
                self.unsent.pop_front();
            }
            let is_last = self.unsent.is_empty() && self.message.has_ended() && self.trailers.is_none();
            body.send_data(portion, is_last).map_err(broken)?;
            self.is_sent = is_last;
        }
        if self.message.has_ended() && !self.is_sent {
            self.is_sent = true;
            match self.trailers.take() {
                Some(trailers) => body.send_trailers(trailers),
                None => body.send_data(Portion::default(), true),
            }
            .map_err(broken)?;
        }
        Poll::Ready(Ok(()))
    }

    /// A message that has no end of its own ends with what was sent.
    pub(super) fn end(&mut self, context: &mut Context<'_>, calls: &Calls) {
        if self.message.ends_with_connection() && self.unsent.is_empty() {
            self.message.end();
            // It ends at once, with nothing to wait for.
            let _ = self.poll_send(context, calls);
        }
    }

    /// Ends it so that what was sent cannot be taken for whole; whether a part of it was sent.
    pub(super) fn reset(&mut self, reason: Reason) -> bool {
        self.unsent.clear();
        let Some(body) = &mut self.body else { return false };
        body.send_reset(reason);
        true
    }
}
