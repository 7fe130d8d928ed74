//! Reads response heads: interim ones are passed on, the final one ends the search.

use std::time::Duration;

use tokio::time::Instant;

use super::super::upload::Progress;
use super::{Interim, Terms};
use crate::clock;
use crate::error::{Code, Result};
use crate::net::{Connection, Read, Reader};
use crate::pool::Slice;
use crate::wire::{Head, HeadScanner};

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

    /// The length of the head, for the next one; 0 if it says nothing of that.
    pub(super) fn length(&self) -> usize {
        self.length
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
            if buffer.is_some() {
                reader.readable(connection, timeouts.between_bytes, Code::IoTimeout, || true).await?;
            } else {
                reader
                    .readable(connection, timeouts.first_byte, Code::FirstByteTimeout, || progress.is_sent())
                    .await?;
            }
            let is_first = buffer.is_none() && self.terms.in_frames;
            let most = if is_first { connection.next_head() } else { usize::MAX };
            match reader.read_on(connection, &mut buffer, most).await? {
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
