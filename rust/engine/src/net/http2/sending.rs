//! The message that a stream sends, at the pace of its window and of the other streams.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use penstock_http2::ErrorCode;

use super::calls::{Calls, Side};
use super::carrier::{Carrier, Shared, Unsent};
use super::message::{Heads, Message, Step};
use super::received::broken;
use crate::net::Lease;

/// Bytes of a body that wait, from which on no more are taken in: a write of TLS. Arbitrary.
const ROOM: usize = 64 << 10;

/// What is to be sent of a message.
#[derive(Debug)]
pub(super) struct Sending<H> {
    pub(super) carrier: Arc<Carrier>,
    pub(super) calls: Calls,
    /// The number of the stream; 0 before there is one.
    pub(super) stream: u32,
    message: Message<H>,
    /// Its end was told to the session.
    has_ended: bool,
}

impl<H: Heads> Sending<H> {
    /// A message of a stream, or of none yet.
    pub(super) fn new(carrier: &Arc<Carrier>, stream: u32, message: Message<H>) -> Self {
        Self { carrier: Arc::clone(carrier), calls: Calls::new(), stream, message, has_ended: false }
    }

    /// Whether all of the message has been handed on.
    pub(super) fn is_sent(&self, shared: &Shared) -> bool {
        self.has_ended && shared.session.has_sent_all(self.stream)
    }

    /// Takes in what is lent, and calls `head` for each head, which says the number of the stream; how many bytes of heads and
    /// bodies that is.
    pub(super) fn take(
        &mut self,
        shared: &mut Shared,
        lease: Lease,
        mut head: impl FnMut(&mut Shared, u32, &H::Head<'_>, bool) -> io::Result<u32>,
    ) -> io::Result<usize> {
        let Self { message, stream, has_ended, .. } = self;
        let lease = Arc::new(lease);
        let mut count = 0;
        for (part, bytes) in lease.parts().into_iter().enumerate() {
            let mut at = 0;
            loop {
                let (before, is_head) = (at, message.is_within_head());
                let step = message.next(bytes, &mut at, |begun, is_all| {
                    *stream = head(shared, *stream, begun, is_all)?;
                    *has_ended |= is_all;
                    Ok(())
                })?;
                count += match &step {
                    Some(Step::Data(range)) => range.len(),
                    _ if is_head => at - before,
                    _ => 0,
                };
                match step {
                    None => break,
                    Some(Step::Head) => {}
                    Some(Step::Data(range)) => {
                        shared.offer(*stream, Unsent { lease: Arc::clone(&lease), part, range });
                    }
                    Some(Step::End(trailers)) => {
                        let fields = trailers.iter().map(|(name, value)| (&**name, &**value));
                        shared.session.end(*stream, fields);
                        *has_ended = true;
                    }
                }
            }
        }
        if self.message.has_ended() && !self.has_ended {
            shared.session.end(self.stream, []);
            self.has_ended = true;
        }
        if let Some(reset) = shared.session.reset_of(self.stream) {
            return Err(broken(reset));
        }
        if self.has_ended {
            shared.kick_if_due();
        }
        Ok(count)
    }

    /// Nothing more is taken in for now.
    pub(super) fn flush(&self) {
        self.carrier.shared().flush(self.stream, &self.carrier.connection);
    }

    /// Ready when it takes in more.
    pub(super) fn poll_room(&self, shared: &mut Shared, context: &Context<'_>) -> Poll<io::Result<()>> {
        if let Some(reset) = shared.session.reset_of(self.stream).filter(|_| !self.is_sent(shared)) {
            return Poll::Ready(Err(broken(reset)));
        }
        if shared.session.unsent(self.stream) >= ROOM {
            shared.flush(self.stream, &self.carrier.connection);
        }
        if shared.session.unsent(self.stream) < ROOM {
            return Poll::Ready(Ok(()));
        }
        self.calls.note(Side::Write, context);
        shared.session.watch_room(self.stream, &self.calls.waker);
        Poll::Pending
    }

    /// Nothing more is taken in: a message that has no end of its own ends with what was taken in. Whether it is whole.
    pub(super) fn end(&mut self, shared: &mut Shared) -> bool {
        if self.message.ends_with_connection() {
            self.message.end();
            shared.session.end(self.stream, []);
            self.has_ended = true;
            shared.kick();
        }
        self.has_ended
    }

    /// Ends it so that what was sent cannot be taken for whole.
    pub(super) fn reset(&self, shared: &mut Shared, code: ErrorCode) {
        shared.reset(self.stream, code);
        shared.kick();
    }
}

impl<H> Drop for Sending<H> {
    fn drop(&mut self) {
        let mut shared = self.carrier.shared();
        shared.close(self.stream);
    }
}
