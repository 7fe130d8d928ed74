//! One request and its response on one connection.

use std::pin::pin;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::Instant;

use super::head::HeadReader;
use super::limits::{OriginLimits, Timeouts};
use super::upload::{Progress, Upload, alongside};
use crate::error::{Code, Error, Result};
use crate::net::{Connection, Peer, Read, Reader};
use crate::pool::{Pool, Slice};
use crate::stream::reading::{ReadSize, ReadSizes};
use crate::stream::{Ending, Feed, ResponseHead, Timings};
use crate::wire::{Body, Decoder, Head, body_of, keeps_alive};

/// Bytes that a stream may read before the thread's other streams get their turn: some 0.15 ms of copying out of the
/// kernel, against the microsecond that a turn costs. The runtime's own budget of 128 operations would be 16 MiB.
const TURN: usize = 512 * 1024;

/// What an exchange needs to know.
#[derive(Debug)]
pub(super) struct Terms<'a> {
    pub(super) pool: &'a Pool,
    pub(super) limits: &'a OriginLimits,
    pub(super) timeouts: &'a Timeouts,
    pub(super) reads: ReadSizes,
    pub(super) method: &'a str,
    /// The stages before.
    pub(super) timings: Timings,
    pub(super) reused: bool,
}

/// How a response came to its end.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) ending: Ending,
    /// Both messages ended at their boundary and nobody minds another.
    pub(super) reusable: bool,
}

/// Why it did not.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: Error,
    /// The connection ended without a byte of a response, as one does that the origin had given up while it was idle.
    pub(super) unanswered: bool,
}

/// Sends and receives. Dropping the future closes the connection once its owner drops it.
pub(super) async fn exchange(
    connection: &Connection,
    upload: &mut Upload,
    terms: &Terms<'_>,
    feed: &Feed,
) -> std::result::Result<Done, Failure> {
    let progress = Progress::default();
    let started = Instant::now();
    let mut reader = Reader::new(connection, Peer::Origin, terms.pool);
    let mut head = HeadReader::new(terms, started);
    let outcome = {
        let read = pin!(head.read(&mut reader, &progress, feed));
        alongside(upload, connection, &progress, read).await
    };
    let (response, rest, first_byte) = outcome.map_err(|error| Failure {
        unanswered: !head.has_begun() && matches!(error.code(), Code::OriginReset | Code::OriginClosed),
        error,
    })?;
    progress.answered();
    let answered = Instant::now();
    let result: Result<Done> = async {
        let switched = upload.asks_to_switch() && switches(&response);
        let body = if switched { Body::UntilClose } else { body_of(&response, terms.method)? };
        if switched {
            upload.switch();
        }
        let keep = keeps_alive(&response);
        if !keep && response.status >= 400 {
            // The origin has said no and will not read on (RFC 9112, section 9.6).
            upload.abandon();
        }
        publish(response, terms, first_byte, feed);
        let mut receiver = Receiver { reader, terms, feed, decoder: Decoder::new(body, terms.limits.body) };
        {
            let receive = pin!(receiver.receive(body, rest));
            alongside(upload, connection, &progress, receive).await?;
        }
        let trailers = receiver.decoder.trailers().to_vec();
        Ok(Done {
            reusable: keep && receiver.decoder.is_done() && upload.is_complete(),
            ending: Ending { body: answered.elapsed(), trailers },
        })
    }
    .await;
    result.map_err(|error| Failure { error, unanswered: false })
}

/// Whether the origin takes up the offer of WebSocket.
fn switches(response: &Head) -> bool {
    let is_websocket = |value: &[u8]| value.eq_ignore_ascii_case(b"websocket");
    response.status == 101 && response.get("upgrade").is_some_and(is_websocket)
}

fn publish(head: Head, terms: &Terms<'_>, first_byte: Duration, feed: &Feed) {
    let timings = Timings { first_byte, ..terms.timings };
    feed.set_head(ResponseHead { head, timings, reused: terms.reused });
}

/// Takes the body from the connection to the feed.
struct Receiver<'a> {
    reader: Reader<'a>,
    terms: &'a Terms<'a>,
    feed: &'a Feed,
    decoder: Decoder,
}

impl Receiver<'_> {
    /// `rest` came in the same read as the end of the head.
    async fn receive(&mut self, body: Body, rest: Slice) -> Result<()> {
        let mut size = ReadSize::new(self.terms.reads, self.decoder.remaining());
        let mut pieces = Vec::new();
        self.accept(rest, &mut pieces).await?;
        self.reader.end_head(self.decoder.remaining());
        let mut turn = 0;
        while !self.decoder.is_done() {
            self.feed.room().await?;
            self.reader.readable(self.terms.timeouts.between_bytes, Code::IoTimeout, || true).await?;
            // Chunks are not read into one piece: their size lines lie between the bytes.
            if body != Body::Chunked {
                self.reader.reserve(self.feed, self.remaining()).await?;
            }
            let size_now = size.next(self.decoder.remaining());
            match self.reader.read(size_now, self.feed.credit()).await? {
                Read::Bytes { slice, offered } => {
                    size.record(offered, slice.len());
                    turn += slice.len();
                    self.accept(slice, &mut pieces).await?;
                    if turn >= TURN {
                        turn = 0;
                        yield_now().await;
                    }
                }
                Read::End { clean } => return self.end(clean, body),
                Read::Nothing => {}
            }
        }
        Ok(())
    }

    fn remaining(&self) -> usize {
        self.decoder.remaining().map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    async fn accept(&mut self, bytes: Slice, pieces: &mut Vec<Slice>) -> Result<()> {
        let decoded = self.decoder.decode(bytes, &mut |piece| pieces.push(piece));
        for piece in pieces.drain(..) {
            self.feed.push(piece).await?;
        }
        decoded
    }

    fn end(&self, clean: bool, body: Body) -> Result<()> {
        if !clean && body == Body::UntilClose {
            return Err(Code::BodyTruncated
                .error("the TLS connection ended without close_notify, so the body may have been cut off"));
        }
        self.decoder.at_eof()
    }
}
