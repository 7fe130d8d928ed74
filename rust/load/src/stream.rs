//! The events of a response, cut by the framer of relays and subscribers.

use std::time::Duration;

use penstock_http::framing::event::{Event, parse};
use penstock_http::framing::{Framer, Framing};

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
        Self { body, framer, bytes: Vec::new(), scanned: 0, start: 0, idle }
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
            let more = self.body.more(context, most, |data| self.bytes.extend_from_slice(data));
            let read = tokio::time::timeout(self.idle, more).await.map_err(|_| Failure::Idle)??;
            client.pace(read).await;
        }
    }
}
