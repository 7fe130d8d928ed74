//! Reads response heads: interim ones are passed on, the final one ends the search.

use std::time::Duration;

use tokio::time::Instant;

use super::super::upload::Progress;
use super::{Interim, Terms};
use crate::clock;
use crate::error::{Code, Result};
use crate::net::{Connection, Read, Reader};
use crate::pool::{CLASSES, Slice};
use crate::wire::{BodyFraming, Head, HeadScanner};

/// Finds the final head at the front of what a connection brings.
#[derive(Debug)]
pub(super) struct HeadReader<'a> {
    terms: &'a Terms<'a>,
    started: Instant,
    /// How long after `started` the first byte came.
    first_byte: Option<Duration>,
    /// A head was read, interim or final.
    parsed: bool,
    /// Bytes up to the end of the final head, if no interim one came before it; else 0.
    length: usize,
}

impl<'a> HeadReader<'a> {
    pub(super) fn new(terms: &'a Terms<'a>, started: Instant) -> Self {
        Self { terms, started, first_byte: None, parsed: false, length: 0 }
    }

    /// Whether a byte of any response has come.
    pub(super) fn has_begun(&self) -> bool {
        self.first_byte.is_some()
    }

    /// Whether a head of any response has come.
    pub(super) fn has_parsed(&self) -> bool {
        self.parsed
    }

    /// Notes what the next head on `connection` will be like, with the body after it.
    pub(super) fn note(&self, connection: &Connection, body: BodyFraming) {
        let body =
            if let BodyFraming::Length(bytes) = body { usize::try_from(bytes).unwrap_or(0) } else { 0 };
        let is_long = self.length > 0 && self.length.saturating_add(body) > CLASSES[0];
        let (head, body) = if is_long && body > 0 { (self.length, body) } else { (0, 0) };
        connection.note_head(head, body);
    }

    /// How much the first read of a head should bring, and how much of the body into memory of its own.
    ///
    /// One origin's heads mostly have one length, as have its bodies. If the first part ends with the head, the body begins at
    /// the front of its memory, and is one frame where it fits: else the beginning that came with the head is another, which
    /// costs a handler more than a read. Where frames do not matter, the first part takes what fits. A wrong guess costs a
    /// read, or a copy within a slab of heads.
    fn guess(&self, connection: &Connection) -> (usize, usize) {
        let Some((head, body)) = connection.next_head() else { return (usize::MAX, 0) };
        let most = if self.terms.in_frames { head } else { usize::MAX };
        let beyond = head.saturating_add(body).saturating_sub(most.min(CLASSES[0]));
        (most, beyond.min(self.terms.reads.known))
    }

    /// The head, the bytes after it in the same read, and the time to the first byte. 101 is returned unchanged.
    pub(super) async fn read(
        &mut self,
        reader: &mut Reader,
        connection: &Connection,
        progress: &Progress,
        pass: &Interim<'_>,
    ) -> Result<(Head, Slice, Duration)> {
        let (limits, timeouts) = (&self.terms.limits.head, self.terms.timeouts);
        let mut scanner = HeadScanner::new(limits);
        let mut interim = 0;
        let mut buffer: Option<Slice> = None;
        loop {
            let end = buffer.as_ref().map_or(Ok(None), |bytes| scanner.scan(bytes))?;
            if let Some((end, mut rest)) = end.zip(buffer.take_if(|_| end.is_some())) {
                let head = scanner.parse(&rest.split_to(end))?;
                self.parsed = true;
                if !is_interim(&head) {
                    self.length = if interim == 0 { end } else { 0 };
                    return Ok((head, rest, self.first_byte.unwrap_or_default()));
                }
                interim += 1;
                if interim > limits.interim_responses {
                    let detail = format!("more than {} interim responses", limits.interim_responses);
                    return Err(Code::TooManyInterim.error(detail));
                }
                // The sender of the request does not wait for 100 (Continue).
                if head.status != 100 {
                    pass(head);
                }
                scanner = HeadScanner::new(limits);
                buffer = Some(rest).filter(|rest| !rest.is_empty());
                continue;
            }
            match buffer.is_some() {
                // What came ahead is of the head.
                _ if reader.is_ahead() => {}
                true => reader.readable(connection, timeouts.between_bytes, Code::IoTimeout, || true).await?,
                false => {
                    let code = Code::FirstByteTimeout;
                    reader.readable(connection, timeouts.first_byte, code, || progress.is_sent()).await?;
                }
            }
            let is_first = self.first_byte.is_none();
            let (most, beyond) = if is_first { self.guess(connection) } else { (usize::MAX, 0) };
            match reader.read_on(connection, &mut buffer, most, beyond).await? {
                Read::Bytes { .. } => {
                    self.first_byte.get_or_insert_with(|| clock::since(self.started));
                }
                Read::End { .. } => return Err(Code::OriginClosed.error(self.closed())),
                Read::Nothing => {}
            }
        }
    }

    fn closed(&self) -> &'static str {
        if self.has_begun() {
            "the connection ended within the response head"
        } else {
            "the connection ended before the response"
        }
    }
}

fn is_interim(head: &Head) -> bool {
    head.status < 200 && head.status != 101
}
