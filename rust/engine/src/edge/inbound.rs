//! What a client sends: request heads, bodies, and whether it is still there.
//!
//! One connection has one [`Inbound`] for its life. Bytes after the request that is being answered are kept, at most
//! one read of them, until that request is answered.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::config::EdgeConfig;
use super::heads::{Heads, Waiting};
use super::supplies::Supplies;
use crate::error::{Code, Error, Result};
use crate::net::{Connection, Life, Peer, Read, Reader, Receipt, Watch};
use crate::pool::{CLASSES, Slice};
use crate::stream::reading::ReadSize;
use crate::stream::{Ending, Feed, ReadSizes};
use crate::sys::boxed;
use crate::wire::{BodyFraming, Decoder, Incoming, IncomingScanner};

/// How often the kernel is asked for the client while nothing of it is read: a reset wakes only who waits for bytes. One
/// call a second is nothing beside what a client that has left keeps occupied meanwhile.
const LOOK: Duration = Duration::from_secs(1);

/// Reads of discarded bytes in one turn, so that a client that sends without end leaves the thread to others. Arbitrary.
const DISCARDED_AT_ONCE: usize = 16;

/// The reading half of a connection.
#[derive(Debug)]
pub(super) struct Inbound<'a> {
    connection: &'a Connection,
    reader: Reader,
    config: &'a EdgeConfig,
    heads: &'a Heads,
    reads: ReadSizes,
    /// Read, and not yet taken.
    held: Option<Slice>,
    /// Whether the body of the latest request has been read to its end.
    body_is_read: bool,
    /// Bytes of it that have come, without their framing.
    received: u64,
    /// It may pause for as long as its sender likes.
    may_pause: bool,
    /// By which it may be cut while it comes.
    receipt: Option<Receipt>,
}

impl<'a> Inbound<'a> {
    pub(super) fn new(connection: &'a Connection, supplies: &'a Supplies, config: &'a EdgeConfig) -> Self {
        let reader = Reader::new(Peer::Client, &supplies.pool, Watch::default());
        let (heads, reads) = (&*supplies.heads, supplies.reads);
        Self {
            connection,
            reader,
            config,
            heads,
            reads,
            held: None,
            body_is_read: true,
            received: 0,
            may_pause: false,
            receipt: None,
        }
    }

    /// Bytes of the bodies of requests that have come since the last call, without their framing.
    pub(super) fn take_received(&mut self) -> u64 {
        std::mem::take(&mut self.received)
    }

    /// The body of the latest request comes at the pace of its sender.
    pub(super) fn let_pause(&mut self) {
        self.may_pause = true;
    }

    /// The body of the latest request may be cut while it comes, by the `life` of its exchange.
    pub(super) fn begin_life(&mut self, life: &Life) {
        self.receipt = Some(Receipt::new(life));
    }

    /// Whether unread bytes are here: of the body that is awaited, or of the next request.
    pub(super) fn has_begun(&self) -> bool {
        self.held.is_some()
    }

    /// Whether no byte of the next request is here. The empty line that old clients send after a body does not count
    /// (RFC 9112, section 2.2): it would start the clock of a head that never comes.
    pub(super) fn is_idle(&self) -> bool {
        self.held.as_ref().is_none_or(|held| b"\r\n".starts_with(held))
    }

    /// Whether nothing is here that was read.
    pub(super) fn is_empty(&self) -> bool {
        self.held.as_ref().is_none_or(|held| held.is_empty())
    }

    /// Whether what follows is a request, and not the rest of a body.
    pub(super) fn is_at_boundary(&self) -> bool {
        self.body_is_read
    }

    /// The head of the next request; none when the client left, or has sent nothing for its idle limit.
    ///
    /// # Errors
    /// What is wrong with the head. `REQUEST_TIMEOUT`, `REQUEST_TOO_SLOW`, `HEADS_FULL` and `CLIENT_GONE` in the midst of one.
    pub(super) async fn head(&mut self) -> Result<Option<Incoming>> {
        let head = self.find_head().await;
        if head.is_err() {
            // A refused client keeps no memory that others may wait for.
            self.forget();
        }
        head
    }

    async fn find_head(&mut self) -> Result<Option<Incoming>> {
        let mut scanner = IncomingScanner::new(&self.config.head);
        self.reader.restart();
        self.may_pause = false;
        let mut begun = None;
        loop {
            if let Some(held) = &self.held {
                if let Some(range) = scanner.scan(held)? {
                    let head = self.take(range.end);
                    return scanner.parse(&head[range]).map(Some);
                }
            }
            let come = if self.has_begun() {
                // On the heap: most heads come in one read.
                boxed(|| self.rest_of_head(&mut begun)).await
            } else {
                let limit = self.config.idle_timeout;
                self.reader.readable(self.connection, limit, Code::RequestTimeout, || true).await
            };
            match come {
                Ok(()) => {}
                Err(_) if self.is_idle() => return Ok(None),
                Err(error) => return Err(error),
            }
            match self.reader.read_on(self.connection, &mut self.held, usize::MAX, 0).await {
                Ok(Read::End { .. }) | Err(_) if self.is_idle() => return Ok(None),
                Ok(Read::End { .. }) => return Err(gone("within a request head")),
                Err(error) => return Err(error),
                Ok(_) => {}
            }
        }
    }

    /// Waits for more of a head of which something is here. It is registered meanwhile, and may be evicted.
    async fn rest_of_head(&mut self, begun: &mut Option<(Instant, Waiting<'a>)>) -> Result<()> {
        let Self { connection, reader, config, heads, held, .. } = self;
        let (first, waiting) = begun.get_or_insert_with(|| (Instant::now(), heads.enter()));
        let has = held.as_ref().map_or(0, |held| held.len());
        let is_idle = held.as_ref().is_none_or(|held| b"\r\n".starts_with(held));
        let rated = config.allowed(config.head_patience, has as u64).filter(|_| !is_idle);
        let whole = if is_idle { config.idle_timeout } else { config.head_timeout };
        let limit =
            [rated, whole].into_iter().flatten().min().map(|limit| limit.saturating_sub(first.elapsed()));
        waiting.hold(held.as_ref().map_or(0, |held| held.slab().1));
        let mut come = pin!(async {
            reader.make_room(held).await?;
            reader.readable(connection, None, Code::RequestTimeout, || true).await
        });
        let come = async {
            match limit {
                Some(limit) => timeout(limit, &mut come).await,
                None => Ok((&mut come).await),
            }
        };
        tokio::select! {
            biased;
            () = waiting.evicted() => Err(Code::HeadsFull.error("the request head was incomplete, and others needed its memory")),
            come = come => come.unwrap_or_else(|_| Err(if rated.is_some_and(|rated| whole.is_none_or(|whole| rated < whole)) {
                let detail = format!("after {has} bytes the request head came at less than its least rate");
                Code::RequestTooSlow.error(detail)
            } else {
                Code::RequestTimeout.error("the request head did not come within its limit")
            })),
        }
    }

    /// Drops what was read and not taken. What follows on the connection is read as nothing.
    fn forget(&mut self) {
        self.held = None;
        self.body_is_read = false;
        self.reader.restart();
    }

    fn take(&mut self, count: usize) -> Slice {
        let mut rest = self.held.take().expect("the scanner has looked at it");
        let front = rest.split_to(count);
        self.held = Some(rest).filter(|rest| !rest.is_empty());
        front
    }

    /// Reads the body of the latest request into `feed`, if there is one, and then watches the client until it leaves.
    /// Ends only with what went wrong: `CLIENT_GONE`, `REQUEST_TIMEOUT`, `REQUEST_TOO_LARGE`, or a malformed body.
    #[expect(clippy::manual_async_fn, reason = "an async fn keeps its arguments twice")]
    pub(super) fn listen(
        &mut self,
        body: BodyFraming,
        most: Option<u64>,
        feed: Option<Feed>,
    ) -> impl Future<Output = Error> {
        async move {
            self.body_is_read = feed.is_none();
            if let Some(feed) = feed {
                // On the heap, because most requests have no body, and a client may be watched for hours.
                if let Some(error) = boxed(|| self.take_body(body, most, feed)).await {
                    return error;
                }
            }
            match self.watch().await {
                Ok(never) => never,
                Err(error) => error,
            }
        }
    }

    /// Reads the body into `feed`. Returns what went wrong, unless more may follow on the connection.
    async fn take_body(&mut self, body: BodyFraming, most: Option<u64>, feed: Feed) -> Option<Error> {
        let read = self.read_body(body, most, &feed).await;
        self.receipt = None;
        match read {
            Ok(trailers) => {
                self.body_is_read = body != BodyFraming::Tunnel;
                feed.finish(Ending { trailers, ..Ending::default() });
                if self.body_is_read {
                    return None;
                }
                // The end of a tunnel from this side; what comes from the other is still on its way.
                Some(hung_up(self.connection).await)
            }
            // The rest of the body is not read.
            Err(error) if error.code() == Code::StreamClosed => Some(hung_up(self.connection).await),
            Err(error) => {
                feed.fail(error.clone());
                Some(error)
            }
        }
    }

    /// Returns the trailers.
    async fn read_body(
        &mut self,
        body: BodyFraming,
        most: Option<u64>,
        feed: &Feed,
    ) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut decoder = Decoder::of_request(body, self.config.body);
        let mut size = ReadSize::new(self.reads, decoder.remaining());
        let mut pieces = Vec::new();
        let mut received = 0;
        // A tunnel, and a stream of messages, may be quiet for as long as both sides like.
        let mut pace = (body != BodyFraming::Tunnel && !self.may_pause).then(|| Pace::new(self.config));
        loop {
            if let Some(bytes) = self.held.take() {
                let rest = decoder.decode(bytes, &mut |piece| pieces.push(piece));
                for piece in pieces.drain(..) {
                    received += piece.len() as u64;
                    self.received += piece.len() as u64;
                    check_size(received, most)?;
                    feed.push(piece).await?;
                }
                self.held = rest?;
            }
            if decoder.is_done() {
                return Ok(decoder.trailers().to_vec());
            }
            tokio::select! {
                biased;
                room = feed.room() => room?,
                error = hung_up(self.connection) => return Err(error),
            }
            self.rest_of_body(&mut pace, received, feed.held()).await?;
            match self.reader.read(self.connection, size.next(decoder.remaining()), feed.credit()).await? {
                Read::Bytes { slice, offered } => {
                    size.record(offered, slice.len());
                    self.held = Some(slice);
                }
                Read::End { .. } => {
                    decoder.at_eof()?;
                    return Ok(Vec::new());
                }
                Read::Nothing => {}
            }
        }
    }

    /// Waits for more of a body of which `received` bytes have come, and so many are `held`. It may be cut meanwhile.
    async fn rest_of_body(&mut self, pace: &mut Option<Pace<'_>>, received: u64, held: usize) -> Result<()> {
        let Self { connection, reader, receipt, .. } = self;
        if let Some(receipt) = receipt.as_mut() {
            // What has come is charged; the slab that it is in is taken whole.
            receipt.wait(if held == 0 { 0 } else { held.max(reader.capacity()) });
        }
        let come = async {
            match pace {
                Some(pace) => pace.wait(reader, connection, received).await,
                None => reader.readable(connection, None, Code::RequestTimeout, || true).await,
            }
        };
        let cut =
            poll_fn(|context| receipt.as_ref().map_or(Poll::Pending, |receipt| receipt.poll_cut(context)));
        let come = tokio::select! {
            biased;
            () = cut => Err(Code::PoolFull.error("the request body was incomplete, and others needed its memory")),
            come = come => come,
        };
        if let Some(receipt) = receipt {
            receipt.rest();
        }
        come
    }

    /// Reads and forgets, to the end of the connection.
    pub(super) async fn discard(&mut self) {
        self.forget();
        // Not into the pool, which may be full: that is why many are refused.
        poll_fn(|context| {
            let mut bytes = [0; CLASSES[0]];
            for _ in 0..DISCARDED_AT_ONCE {
                match self.connection.poll_read(context, &mut bytes) {
                    Poll::Ready(Ok(1..)) => {}
                    Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(()),
                    Poll::Pending => return Poll::Pending,
                }
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    async fn watch(&mut self) -> Result<Error> {
        // A little of what follows the request is read too: the client's disconnect comes after it.
        while self.held.is_none() {
            self.reader.readable(self.connection, None, Code::RequestTimeout, || true).await?;
            if let Read::End { .. } =
                self.reader.read_on(self.connection, &mut self.held, usize::MAX, 0).await?
            {
                return Err(gone("before the end of the response"));
            }
        }
        self.connection.note_pipelined();
        // On the heap: few clients send the next request before they have the response.
        boxed(|| self.watch_pipelined()).await
    }

    /// As [`Inbound::watch`], of a client that has sent bytes which wait for their turn. While they do they may be evicted: the
    /// connection then ends with the response, and the client sends them again on another one.
    async fn watch_pipelined(&mut self) -> Result<Error> {
        let mut waiting = self.heads.enter();
        while let Some(held) = &self.held {
            waiting.hold(held.slab().1);
            let is_full = held.len() >= CLASSES[0];
            let come = tokio::select! {
                biased;
                () = waiting.evicted() => break,
                error = hung_up(self.connection), if is_full => return Ok(error),
                come = self.reader.readable(self.connection, None, Code::RequestTimeout, || true), if !is_full => come,
            };
            come?;
            if let Read::End { .. } =
                self.reader.read_on(self.connection, &mut self.held, usize::MAX, 0).await?
            {
                return Err(gone("before the end of the response"));
            }
        }
        drop(waiting);
        self.discard().await;
        Err(gone("before the end of the response"))
    }
}

/// How long a body has been waited for, and how long it may be.
#[derive(Debug)]
struct Pace<'a> {
    config: &'a EdgeConfig,
    begun: Instant,
    waited: Duration,
}

impl<'a> Pace<'a> {
    fn new(config: &'a EdgeConfig) -> Self {
        Self { config, begun: Instant::now(), waited: Duration::ZERO }
    }

    /// Waits for more of a body of which `received` bytes have come. Time in which the client has nothing to wait for but
    /// us, because its bytes are not taken on, does not count against its rate.
    async fn wait(&mut self, reader: &mut Reader, connection: &Connection, received: u64) -> Result<()> {
        let is_there = |context: &mut Context<'_>| Poll::Ready(connection.poll_readable(context).is_ready());
        if self.config.body_total_timeout.is_none() && poll_fn(is_there).await {
            return Ok(());
        }
        let config = self.config;
        let rated =
            config.allowed(config.body_patience, received).map(|allowed| allowed.saturating_sub(self.waited));
        let total = config.body_total_timeout.map(|total| total.saturating_sub(self.begun.elapsed()));
        let limits = [config.body_timeout, total, rated];
        let limit = limits.into_iter().flatten().min();
        let begun = Instant::now();
        let come = reader.readable(connection, limit, Code::RequestTimeout, || true).await;
        self.waited += begun.elapsed();
        come.map_err(|error| match limit {
            Some(_) if error.code() != Code::RequestTimeout => error,
            limit if limit == total && total.is_some() => {
                let total = config.body_total_timeout.unwrap_or_default();
                Code::RequestTimeout.error(format!("the request body was not whole after {total:?}"))
            }
            limit if limit == rated && rated.is_some() => {
                let detail =
                    format!("after {received} bytes the request body came at less than its least rate");
                Code::RequestTooSlow.error(detail)
            }
            _ => error,
        })
    }
}

/// Ends when the kernel knows that the client is lost. That it has ended its side is not enough: what it has sent
/// before may still be wanted.
async fn hung_up(connection: &Connection) -> Error {
    loop {
        sleep(LOOK).await;
        if connection.has_hung_up() {
            return gone("with a reset");
        }
    }
}

fn gone(when: &str) -> Error {
    Code::ClientGone.error(format!("the client left {when}"))
}

/// Whether a body may have so many `bytes`.
///
/// # Errors
/// `REQUEST_TOO_LARGE`.
pub(super) fn check_size(bytes: u64, most: Option<u64>) -> Result<()> {
    match most {
        Some(most) if bytes > most => {
            Err(Code::RequestTooLarge.error(format!("the request body exceeds {most} bytes")))
        }
        _ => Ok(()),
    }
}
