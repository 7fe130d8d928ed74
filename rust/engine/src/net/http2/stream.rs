//! One stream of HTTP/2 that a client has opened, as a connection of HTTP/1.1.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker, ready};

use h2::server::SendResponse;
use h2::{Reason, SendStream};
use http::{HeaderMap, HeaderValue, request};

use super::carrier::Carrier;
use super::portion::{FRAME, Portion, Unsent};
use super::priority::Priority;
use super::reply::{Reply, Step};
use super::request::{Asking, broken};
use crate::net::{Channel, Lease, Socket};
use crate::sync::{Mutex, lock};

/// What a stream asks of its window at a time: a write of TLS. Arbitrary.
const ASKED: usize = 64 << 10;

/// A stream of a connection.
#[derive(Debug)]
pub(super) struct Stream {
    carrier: Arc<Carrier>,
    number: u32,
    calls: Arc<Calls>,
    /// Of `calls`.
    waker: Waker,
    asking: Asking,
    respond: SendResponse<Portion>,
    body: Option<SendStream<Portion>>,
    reply: Reply,
    unsent: VecDeque<Unsent>,
    /// What follows them at the end of the body.
    trailers: Option<HeaderMap>,
    /// All of the response has been handed on.
    is_sent: bool,
    /// The client has not opened the window of the stream for what is unsent.
    is_held: bool,
}

/// A frame with fewer bytes, of more that wait, is one that the client had us make: each costs as much as a whole one. Arbitrary.
const STARVED: usize = 256;

/// Who waits for the stream. One task does, but for each direction by a waker of its own, and `h2` remembers one.
#[derive(Debug, Default)]
struct Calls(Mutex<[Option<Waker>; 2]>);

const READ: usize = 0;
const WRITE: usize = 1;

impl Calls {
    fn note(&self, side: usize, context: &Context<'_>) {
        let waiting = &mut lock(&self.0)[side];
        if !waiting.as_ref().is_some_and(|waiting| waiting.will_wake(context.waker())) {
            *waiting = Some(context.waker().clone());
        }
    }
}

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        let waiting = lock(&self.0).clone();
        waiting.into_iter().flatten().for_each(Waker::wake);
    }
}

impl Stream {
    /// The stream whose request begins with `head`.
    ///
    /// # Errors
    /// The request is malformed.
    pub(super) fn new(
        carrier: &Arc<Carrier>,
        head: &request::Parts,
        asking: Asking,
        respond: SendResponse<Portion>,
    ) -> Self {
        let number = respond.stream_id().as_u32();
        let asked = head.headers.get("priority").and_then(|value| Priority::parse(value.as_bytes()));
        carrier.gate.enter(number, asked);
        let calls = Arc::<Calls>::default();
        Self {
            carrier: Arc::clone(carrier),
            number,
            waker: Waker::from(Arc::clone(&calls)),
            calls,
            asking,
            respond,
            body: None,
            reply: Reply::new(head.method == "HEAD"),
            unsent: VecDeque::new(),
            trailers: None,
            is_sent: false,
            is_held: false,
        }
    }

    /// Ready when the client, or an error, has ended the stream.
    fn poll_end(&mut self) -> Poll<io::Error> {
        let context = &mut Context::from_waker(&self.waker);
        let reason = match &mut self.body {
            Some(body) => ready!(body.poll_reset(context)),
            None => ready!(self.respond.poll_reset(context)),
        };
        Poll::Ready(reason.map_or_else(broken, |_| io::ErrorKind::ConnectionReset.into()))
    }

    /// Takes in what is lent; how many bytes of heads and bodies that is.
    fn take(&mut self, lease: Lease) -> io::Result<usize> {
        let lease = Arc::new(lease);
        let mut count = 0;
        for (part, bytes) in lease.parts().into_iter().enumerate() {
            let mut at = 0;
            loop {
                let (before, is_head) = (at, self.reply.is_within_head());
                let step = self.reply.next(bytes, &mut at)?;
                count += match &step {
                    Some(Step::Data(range)) => range.len(),
                    _ if is_head => at - before,
                    _ => 0,
                };
                let Some(step) = step else { break };
                match step {
                    Step::Interim(response) => self.respond.send_informational(response).map_err(broken)?,
                    Step::Head(response, is_all) => {
                        let kind = response.headers().get(http::header::CONTENT_TYPE);
                        self.carrier.gate.respond(self.number, kind.map(HeaderValue::as_bytes));
                        self.body = Some(self.respond.send_response(response, is_all).map_err(broken)?);
                        self.is_sent = is_all;
                    }
                    Step::Data(range) => {
                        self.unsent.push_back(Unsent { lease: Arc::clone(&lease), part, range });
                    }
                    Step::End(trailers) => self.trailers = Some(trailers).filter(|fields| !fields.is_empty()),
                }
            }
        }
        Ok(count)
    }

    /// Hands on what the window and the other streams leave room for. Ready when that was all.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(body) = self.body.as_mut().filter(|_| !self.is_sent) else { return Poll::Ready(Ok(())) };
        while let Some(first) = self.unsent.front_mut() {
            if body.capacity() == 0 {
                let rest: usize = self.unsent.iter().map(|unsent| unsent.range.len()).sum();
                body.reserve_capacity(rest.min(ASKED));
                self.is_held = body.capacity() == 0;
                if self.is_held {
                    match body.poll_capacity(&mut Context::from_waker(&self.waker)) {
                        Poll::Ready(Some(Ok(_))) => {}
                        Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(broken(error))),
                        Poll::Ready(None) => {
                            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
                        }
                        Poll::Pending => {
                            self.calls.note(WRITE, context);
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
            let is_last = self.unsent.is_empty() && self.reply.has_ended() && self.trailers.is_none();
            body.send_data(portion, is_last).map_err(broken)?;
            self.is_sent = is_last;
        }
        if self.reply.has_ended() && !self.is_sent {
            self.is_sent = true;
            match self.trailers.take() {
                Some(trailers) => body.send_trailers(trailers),
                None => body.send_data(Portion::default(), true),
            }
            .map_err(broken)?;
        }
        Poll::Ready(Ok(()))
    }
}

impl Channel for Stream {
    fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.calls.note(READ, context);
        if self.is_sent || self.asking.has_ended() {
            return self.poll_end().map(Err);
        }
        self.asking.poll_readable(&mut Context::from_waker(&self.waker))
    }

    fn poll_read(&mut self, context: &mut Context<'_>, memory: &mut [u8]) -> Poll<io::Result<usize>> {
        self.calls.note(READ, context);
        // After the response the rest of the request is of no use: the client is told so when this is dropped (RFC 9113, section
        // 8.1).
        if self.is_sent || self.asking.has_ended() {
            return self.poll_end().map(Err);
        }
        self.asking.poll_read(&mut Context::from_waker(&self.waker), memory)
    }

    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_send(context)
    }

    fn lend(&mut self, context: &mut Context<'_>, lease: Lease) -> io::Result<usize> {
        let count = self.take(lease)?;
        // Where there is more to send, that waits for its turn.
        if let Poll::Ready(sent) = self.poll_send(context) {
            sent?;
        }
        Ok(count)
    }

    fn end_writing(&mut self) {
        if self.reply.ends_with_connection() && self.unsent.is_empty() {
            self.reply.end();
            // It ends at once, with nothing to wait for.
            let _ = self.poll_send(&mut Context::from_waker(Waker::noop()));
        }
        if !self.is_sent {
            self.reset();
        }
    }

    fn reset(&mut self) {
        self.unsent.clear();
        match &mut self.body {
            Some(body) => body.send_reset(Reason::INTERNAL_ERROR),
            None => self.respond.send_reset(Reason::INTERNAL_ERROR),
        }
    }

    fn has_hung_up(&mut self) -> bool {
        self.poll_end().is_ready()
    }

    fn untaken(&self) -> Option<usize> {
        if self.is_held { Some(usize::MAX) } else { self.carrier.untaken() }
    }

    fn with_socket(&self, work: &mut dyn FnMut(&Socket)) {
        self.carrier.connection.with_socket(work);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.carrier.gate.leave(self.number);
    }
}
