//! One request and its response on one connection.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, ready};
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
    // What reads the head ends with this block, and takes no room while the body comes.
    let (mut receiver, keep) = {
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
        let (body, keep) = begin(response, first_byte, upload, terms, feed).map_err(midway)?;
        let mut receiver = Receiver::new(reader, terms, feed, body);
        receiver.decode(rest);
        (receiver, keep)
    };
    let answered = Instant::now();
    let outcome = {
        let receive = pin!(receiver.receive());
        alongside(upload, connection, &progress, receive).await
    };
    outcome.map_err(midway)?;
    Ok(Done {
        reusable: keep && receiver.decoder.is_done() && upload.is_complete(),
        ending: Ending { body: answered.elapsed(), trailers: receiver.decoder.trailers().to_vec() },
    })
}

fn midway(error: Error) -> Failure {
    Failure { error, unanswered: false }
}

/// Passes the head on. How the body ends, and whether the connection may serve again behind it.
fn begin(
    response: Head,
    first_byte: Duration,
    upload: &mut Upload,
    terms: &Terms<'_>,
    feed: &Feed,
) -> Result<(Body, bool)> {
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
    let timings = Timings { first_byte, ..terms.timings };
    feed.set_head(ResponseHead { head: response, timings, reused: terms.reused });
    Ok((body, keep))
}

/// Whether the origin takes up the offer of WebSocket.
fn switches(response: &Head) -> bool {
    let is_websocket = |value: &[u8]| value.eq_ignore_ascii_case(b"websocket");
    response.status == 101 && response.get("upgrade").is_some_and(is_websocket)
}

/// Takes the body from the connection to the feed.
///
/// Polled by hand, where all else of an exchange is async: this is the path of each event, and of each read.
struct Receiver<'a> {
    reader: Reader<'a>,
    terms: &'a Terms<'a>,
    feed: &'a Feed,
    body: Body,
    decoder: Decoder,
    size: ReadSize,
    /// What is decoded, and not yet fed.
    pieces: Vec<Slice>,
    step: Step,
    /// Bytes read in this turn.
    turn: usize,
}

/// What a [`Receiver`] does next.
#[derive(Debug)]
enum Step {
    /// Wait for the consumer to have room.
    Room,
    /// Read.
    Read,
    /// Feed what was read, which the decoder found good or not.
    Feed(Result<()>),
}

impl<'a> Receiver<'a> {
    fn new(reader: Reader<'a>, terms: &'a Terms<'a>, feed: &'a Feed, body: Body) -> Self {
        let decoder = Decoder::new(body, terms.limits.body);
        let size = ReadSize::new(terms.reads, decoder.remaining());
        Self {
            reader,
            terms,
            feed,
            body,
            decoder,
            size,
            pieces: Vec::with_capacity(1),
            step: Step::Room,
            turn: 0,
        }
    }

    /// To the end. What came in the same read as the end of the head has been decoded.
    async fn receive(&mut self) -> Result<()> {
        poll_fn(|context| self.poll_feed(context)).await?;
        self.reader.end_head(self.decoder.remaining());
        while !poll_fn(|context| self.poll_receive(context)).await? {
            self.turn = 0;
            yield_now().await;
        }
        Ok(())
    }

    /// Whether the body has ended; if not, it is the turn of others.
    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<Result<bool>> {
        loop {
            match self.step {
                Step::Feed(_) => {
                    ready!(self.poll_feed(context))?;
                    if self.turn >= TURN {
                        return Poll::Ready(Ok(false));
                    }
                }
                Step::Room if self.decoder.is_done() => return Poll::Ready(Ok(true)),
                Step::Room => {
                    ready!(self.feed.poll_room(context))?;
                    self.step = Step::Read;
                }
                Step::Read => match ready!(self.poll_read(context))? {
                    Read::Bytes { slice, offered } => {
                        self.size.record(offered, slice.len());
                        self.turn += slice.len();
                        self.decode(slice);
                    }
                    Read::End { clean } => return Poll::Ready(self.end(clean).map(|()| true)),
                    Read::Nothing => self.step = Step::Room,
                },
            }
        }
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<Result<Read>> {
        let limit = self.terms.timeouts.between_bytes;
        ready!(self.reader.poll_readable(context, limit, Code::IoTimeout, || true))?;
        // Chunks are not read into one piece: their size lines lie between the bytes.
        if self.body != Body::Chunked {
            let remaining = self.remaining();
            ready!(self.reader.poll_reserve(context, self.feed, remaining))?;
        }
        let size = self.size.next(self.decoder.remaining());
        self.reader.poll_body(context, size, self.feed.credit())
    }

    fn remaining(&self) -> usize {
        self.decoder.remaining().map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    fn decode(&mut self, bytes: Slice) {
        let pieces = &mut self.pieces;
        self.step = Step::Feed(self.decoder.decode(bytes, &mut |piece| pieces.push(piece)));
    }

    /// Feeds what was decoded before an error, and then says the error.
    fn poll_feed(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        ready!(self.feed.poll_push(context, &mut self.pieces))?;
        match std::mem::replace(&mut self.step, Step::Room) {
            Step::Feed(decoded) => Poll::Ready(decoded),
            Step::Room | Step::Read => Poll::Ready(Ok(())),
        }
    }

    fn end(&self, clean: bool) -> Result<()> {
        if !clean && self.body == Body::UntilClose {
            return Err(Code::BodyTruncated
                .error("the TLS connection ended without close_notify, so the body may have been cut off"));
        }
        self.decoder.at_eof()
    }
}
