//! The body of a message that a stream sends, at the pace of its window and of the other streams.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use h2::{Reason, SendStream};
use http::HeaderMap;

use super::calls::{Calls, Side};
use super::carrier::Carrier;
use super::message::{Heads, Message, Step};
use super::portion::{FRAME, Portion, Unsent};
use super::priority::Priority;
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
    pub(super) carrier: Arc<Carrier>,
    pub(super) calls: Calls,
    /// The number of the stream, by which the gate knows it; 0 before there is one.
    pub(super) number: u32,
    message: Message<H>,
    /// What sends the body; `None` before the head.
    pub(super) body: Option<SendStream<Portion>>,
    unsent: VecDeque<Unsent>,
    /// What follows them at the end of the body.
    trailers: Option<HeaderMap>,
    /// All of the message has been handed on.
    is_sent: bool,
    /// The other side has not opened the window of the stream for what is unsent.
    is_held: bool,
}

impl<H: Heads> Sending<H> {
    /// A message of a stream that has no number yet.
    pub(super) fn new(carrier: &Arc<Carrier>, message: Message<H>) -> Self {
        Self {
            carrier: Arc::clone(carrier),
            calls: Calls::new(),
            number: 0,
            message,
            body: None,
            unsent: VecDeque::new(),
            trailers: None,
            is_sent: false,
            is_held: false,
        }
    }

    /// It is of the stream `number`, which is asked for with `priority`.
    pub(super) fn enter(&mut self, number: u32, priority: Option<Priority>) {
        self.number = number;
        self.carrier.gate.enter(number, priority);
    }

    /// What follows the head is sent by `body`; nothing does if the head `is_all`.
    pub(super) fn begin(&mut self, body: SendStream<Portion>, is_all: bool) {
        self.body = Some(body);
        self.is_sent = is_all;
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
    pub(super) fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let calls = &self.calls;
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

    /// As [`Sending::poll_send`], as far as that goes at once: where there is more to send, it waits for its turn.
    pub(super) fn send(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.poll_send(context) {
            Poll::Ready(sent) => sent,
            Poll::Pending => Ok(()),
        }
    }

    /// Nothing more is taken in: a message that has no end of its own ends with what was sent. Whether it is whole.
    pub(super) fn end(&mut self) -> bool {
        if self.message.ends_with_connection() && self.unsent.is_empty() {
            self.message.end();
            // It ends at once, with nothing to wait for.
            let _ = self.poll_send(&mut Context::from_waker(Waker::noop()));
        }
        self.is_sent
    }

    /// Ends it so that what was sent cannot be taken for whole; whether a part of it was sent.
    pub(super) fn reset(&mut self, reason: Reason) -> bool {
        self.unsent.clear();
        let Some(body) = &mut self.body else { return false };
        body.send_reset(reason);
        true
    }
}

impl<H> Drop for Sending<H> {
    fn drop(&mut self) {
        self.carrier.gate.leave(self.number);
    }
}
