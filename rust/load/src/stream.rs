//! The events of a response, cut by the framer of relays and subscribers.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Poll, ready};
use std::time::{Duration, Instant};

use penstock_http::framing::event::{Event, parse};
use penstock_http::framing::{Framer, Framing};
use tokio::time::{Sleep, sleep_until};

use crate::client::Client;
use crate::connection::Opened;
use crate::context::Context;
use crate::failure::Failure;

/// Bytes of an event at most.
const LARGEST: usize = 16 * 1024 * 1024;

/// A stream of events.
#[derive(Debug)]
pub(crate) struct Events {
    body: Opened,
    framer: Box<dyn Framer>,
    bytes: Vec<u8>,
    /// Bytes of `bytes` that were scanned, and the start of what was not cut off.
    scanned: usize,
    start: usize,
    idle: Duration,
    /// When something was read, and a timer for when nothing is for too long. It is set again when it has fired, and not with
    /// each event.
    heard: Instant,
    quiet: Pin<Box<Sleep>>,
}

/// An event and its bytes.
pub(crate) struct Block<'a> {
    pub(crate) event: Event,
    pub(crate) bytes: &'a [u8],
}

impl Events {
    /// The events of a body that is silent for `idle` at most.
    pub(crate) fn new(body: Opened, idle: Duration) -> Self {
        let framing = Framing::Events { max_frame: LARGEST, blocks: true };
        let framer = framing.framer().ok().flatten().expect("the framing of events has a framer");
        let heard = Instant::now();
        let quiet = Box::pin(sleep_until((heard + idle).into()));
        Self { body, framer, bytes: Vec::new(), scanned: 0, start: 0, idle, heard, quiet }
    }

    /// The next block, also one without data. `None` at the end of the stream.
    pub(crate) async fn next(
        &mut self,
        context: &Context,
        client: &mut Client,
    ) -> Result<Option<Block<'_>>, Failure> {
        loop {
            if self.scanned < self.bytes.len() {
                let cut = self.framer.scan(&self.bytes[self.scanned..]);
                if let Some(cut) = cut.map_err(|_| Failure::Events("an event is larger than 16 MiB"))? {
                    let end = self.scanned + cut.end();
                    let bytes = self.start..end;
                    (self.start, self.scanned) = (end, end);
                    let bytes = &self.bytes[bytes];
                    return Ok(Some(Block { event: parse(bytes), bytes }));
                }
                self.scanned = self.bytes.len();
            }
            self.bytes.drain(..self.start);
            self.scanned -= self.start;
            self.start = 0;
            if self.body.is_done() {
                return Ok(None);
            }
            let most = client.piece();
            let mut more = pin!(self.body.more(context, most, |data| self.bytes.extend_from_slice(data)));
            let read = poll_fn(|polled| {
                if let Poll::Ready(read) = more.as_mut().poll(polled) {
                    return Poll::Ready(read);
                }
                loop {
                    ready!(self.quiet.as_mut().poll(polled));
                    let until = self.heard + self.idle;
                    if Instant::now() >= until {
                        return Poll::Ready(Err(Failure::Idle));
                    }
                    self.quiet.as_mut().reset(until.into());
                }
            });
            let read = read.await?;
            self.heard = client.pace(read).await;
        }
    }
}
