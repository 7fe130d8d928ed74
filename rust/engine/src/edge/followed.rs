//! A body that is told of while it goes on: its bytes, its events, and how long they took to the kernel.

use std::sync::Arc as Plain;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use memchr::memchr;
use penstock_trace::Following;

use crate::error::Result;
use crate::net::{Payload, Source, Supply};
use crate::takeover::streams::Resting;

/// Bytes of a line that are looked at: an id is not longer.
const MOST_LINE: usize = 256;

/// A source around a body.
#[derive(Debug)]
pub(super) struct Followed {
    supply: Supply,
    following: Plain<Following>,
    events: Events,
    /// When the oldest was given of what may not be with the kernel yet.
    given: Option<Instant>,
}

impl Followed {
    pub(super) fn new(supply: Supply, following: Plain<Following>) -> Self {
        Self { supply, following, events: Events::default(), given: None }
    }

    fn take(&mut self, payload: &Payload) {
        let found = self.events.read(payload);
        self.following.sent(payload.len(), found);
        if found > 0 {
            if let Some(id) = self.events.take_id() {
                self.following.note_id(&id);
            }
        }
        self.given.get_or_insert_with(Instant::now);
    }

    fn delivered(&mut self) {
        if let Some(given) = self.given.take() {
            self.following.delivered(given.elapsed());
        }
    }
}

impl Source for Followed {
    fn poll_next(&mut self, context: &mut Context<'_>, held: usize) -> Poll<Option<Result<Payload>>> {
        if held == 0 {
            self.delivered();
        }
        let next = ready!(self.supply.poll_next(context, held));
        if let Some(Ok(payload)) = &next {
            self.take(payload);
        }
        Poll::Ready(next)
    }

    fn attend(&mut self, context: &mut Context<'_>) {
        self.supply.attend(context);
    }

    fn idle(&mut self) {
        self.delivered();
        self.supply.idle();
    }

    fn aside(&self) -> u64 {
        self.supply.aside()
    }

    fn rest(&mut self) -> Option<Payload> {
        self.supply.rest()
    }

    fn last(&mut self) -> Option<Payload> {
        let last = self.supply.last()?;
        self.take(&last);
        Some(last)
    }

    fn client_left(&mut self) {
        self.supply.client_left();
    }

    fn trailers(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.supply.trailers()
    }

    fn at_rest(&mut self) -> Option<Resting> {
        self.supply.at_rest()
    }
}

/// Counts the events of a stream as its client does (HTML Living Standard, section 9.2.6): a block with data is one. Lines of
/// chunks between them are no fields that it knows.
#[derive(Debug, Default)]
struct Events {
    /// The beginning of the line that has not ended.
    line: Vec<u8>,
    has_data: bool,
    id: Option<String>,
}

impl Events {
    /// How many events end in `bytes`.
    fn read(&mut self, mut bytes: &[u8]) -> u64 {
        let mut found = 0;
        while let Some(end) = memchr(b'\n', bytes) {
            self.keep(&bytes[..end]);
            found += u64::from(self.end_line());
            bytes = &bytes[end + 1..];
        }
        self.keep(bytes);
        found
    }

    fn keep(&mut self, part: &[u8]) {
        let room = MOST_LINE.saturating_sub(self.line.len());
        self.line.extend_from_slice(&part[..part.len().min(room)]);
    }

    /// Whether an event has ended with the line.
    fn end_line(&mut self) -> bool {
        let line = std::mem::take(&mut self.line);
        let text = line.strip_suffix(b"\r").unwrap_or(&line);
        let has_ended = text.is_empty() && std::mem::take(&mut self.has_data);
        if text.starts_with(b"data") {
            self.has_data = true;
        } else if let Some(id) = text.strip_prefix(b"id:") {
            self.id = Some(String::from_utf8_lossy(id.strip_prefix(b" ").unwrap_or(id)).into_owned());
        }
        self.line = line;
        self.line.clear();
        has_ended
    }

    /// The id of the last event that had one, if it is new.
    fn take_id(&mut self) -> Option<String> {
        self.id.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_counted_whatever_the_pieces() {
        let text = b"id: 1\ndata: a\n\n: comment\n\n5\r\ndata:\n\n\r\n3\r\n:\n\n\r\nevent: x\nid:2\r\ndata: b\r\ndata\r\n\r\n";
        for size in 1..=text.len() {
            let mut events = Events::default();
            let found: u64 = text.chunks(size).map(|part| events.read(part)).sum();
            assert_eq!((found, events.take_id().as_deref()), (3, Some("2")), "by {size}");
        }
    }

    #[test]
    fn a_long_line_takes_little() {
        let mut events = Events::default();
        assert_eq!(events.read(&[b'x'; 10_000]), 0);
        assert_eq!(events.line.len(), MOST_LINE);
        assert_eq!(events.read(b"\ndata: a\n\n"), 1);
    }
}
