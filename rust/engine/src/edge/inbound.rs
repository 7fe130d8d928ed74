//! What a client sends: request heads, bodies, and whether it is still there.
//!
//! One connection has one [`Inbound`] for its life. Bytes behind the request that is being answered are held, at most
//! one read of them, until their turn comes.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::EdgeConfig;
use crate::error::{Code, Error, Result};
use crate::net::{Connection, Peer, Read, Reader, Socket};
use crate::pool::{CLASSES, Pool, Slice};
use crate::stream::reading::ReadSize;
use crate::stream::{Ending, Feed, ReadSizes};
use crate::wire::{Body, Decoder, Incoming, IncomingScanner, parse_incoming};

/// How often the kernel is asked for the client while nothing of it is read: a reset wakes only who waits for bytes. One
/// call a second is nothing beside what a client that has left keeps occupied meanwhile.
const LOOK: Duration = Duration::from_secs(1);

/// The reading half of a connection.
#[derive(Debug)]
pub(super) struct Inbound<'a> {
    connection: &'a Connection,
    reader: Reader,
    config: &'a EdgeConfig,
    reads: ReadSizes,
    /// Read, and not yet taken.
    held: Option<Slice>,
    /// Whether the body of the latest request has been read to its end.
    body_is_read: bool,
    /// Bytes of it that have come, without their framing.
    received: u64,
}

impl<'a> Inbound<'a> {
    pub(super) fn new(
        connection: &'a Connection,
        pool: &Pool,
        config: &'a EdgeConfig,
        reads: ReadSizes,
    ) -> Self {
        let reader = Reader::new(Peer::Client, pool);
        Self { connection, reader, config, reads, held: None, body_is_read: true, received: 0 }
    }

    /// Bytes of the bodies of requests that have come since the last call, without their framing.
    pub(super) fn take_received(&mut self) -> u64 {
        std::mem::take(&mut self.received)
    }

    /// Whether bytes are here that nobody has taken: of the body that is awaited, or of the next request.
    pub(super) fn has_begun(&self) -> bool {
        self.held.is_some()
    }

    /// Whether nothing of the next request is here. The empty line that old clients send behind a body is none of it
    /// (RFC 9112, section 2.2), and would otherwise start the clock of a head that never comes.
    pub(super) fn is_idle(&self) -> bool {
        self.held.as_ref().is_none_or(|held| b"\r\n".starts_with(held))
    }

    /// Whether what follows is a request, and not the rest of a body.
    pub(super) fn is_at_boundary(&self) -> bool {
        self.body_is_read
    }

    /// The head of the next request; none when the client left, or has sent nothing for its idle limit.
    ///
    /// # Errors
    /// What is wrong with the head. `REQUEST_TIMEOUT` and `CLIENT_GONE` in the midst of one.
    pub(super) async fn head(&mut self) -> Result<Option<Incoming>> {
        let mut scanner = IncomingScanner::new(&self.config.head);
        self.reader.restart();
        let mut begun = None;
        loop {
            if let Some(held) = &self.held {
                if let Some(range) = scanner.scan(held)? {
                    let head = self.take(range.end);
                    return parse_incoming(&head[range], &self.config.head).map(Some);
                }
            }
            if self.has_begun() {
                self.reader.make_room(&mut self.held).await?;
            }
            let limit = if self.is_idle() {
                self.config.idle_timeout
            } else {
                let begun = begun.get_or_insert_with(Instant::now);
                self.config.head_timeout.map(|limit| limit.saturating_sub(begun.elapsed()))
            };
            match self.reader.readable(self.connection, limit, Code::RequestTimeout, || true).await {
                Ok(()) => {}
                Err(_) if self.is_idle() => return Ok(None),
                Err(error) if error.code() == Code::RequestTimeout => {
                    return Err(error.code().error("the request head did not come within its limit"));
                }
                Err(error) => return Err(error),
            }
            match self.reader.read_on(self.connection, &mut self.held).await {
                Ok(Read::End { .. }) | Err(_) if self.is_idle() => return Ok(None),
                Ok(Read::End { .. }) => return Err(gone("within a request head")),
                Err(error) => return Err(error),
                Ok(_) => {}
            }
        }
    }

    fn take(&mut self, count: usize) -> Slice {
        let mut rest = self.held.take().expect("the scanner has looked at it");
        let front = rest.split_to(count);
        self.held = Some(rest).filter(|rest| !rest.is_empty());
        front
    }

    /// Reads the body of the latest request into `feed`, if there is one, and then watches the client until it leaves.
    /// Ends only with what went wrong: `CLIENT_GONE`, `REQUEST_TIMEOUT`, `REQUEST_TOO_LARGE`, or a malformed body.
    pub(super) async fn listen(&mut self, body: Body, most: Option<u64>, feed: Option<Feed>) -> Error {
        self.body_is_read = feed.is_none();
        if let Some(feed) = feed {
            // On the heap, because most requests have no body, and a client may be watched for hours.
            if let Some(error) = Box::pin(self.take_body(body, most, feed)).await {
                return error;
            }
        }
        match self.watch().await {
            Ok(never) => never,
            Err(error) => error,
        }
    }

    /// Reads the body into `feed`. Returns what went wrong, unless more may follow on the connection.
    async fn take_body(&mut self, body: Body, most: Option<u64>, feed: Feed) -> Option<Error> {
        match self.read_body(body, most, &feed).await {
            Ok(()) => {
                self.body_is_read = body != Body::UntilClose;
                feed.finish(Ending::default());
                if self.body_is_read {
                    return None;
                }
                // The end of a tunnel from this side; what comes from the other is still on its way.
                Some(self.hung_up().await)
            }
            // Nobody wants the rest of it.
            Err(error) if error.code() == Code::StreamClosed => Some(self.hung_up().await),
            Err(error) => {
                feed.fail(error.clone());
                Some(error)
            }
        }
    }

    async fn read_body(&mut self, body: Body, most: Option<u64>, feed: &Feed) -> Result<()> {
        let mut decoder = Decoder::of_request(body, self.config.body);
        let mut size = ReadSize::new(self.reads, decoder.remaining());
        let mut pieces = Vec::new();
        let mut received = 0;
        // A tunnel may be quiet for as long as both sides like.
        let limit = self.config.body_timeout.filter(|_| body != Body::UntilClose);
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
                return Ok(());
            }
            tokio::select! {
                biased;
                room = feed.room() => room?,
                error = self.hung_up() => return Err(error),
            }
            self.reader.readable(self.connection, limit, Code::RequestTimeout, || true).await?;
            match self.reader.read(self.connection, size.next(decoder.remaining()), feed.credit()).await? {
                Read::Bytes { slice, offered } => {
                    size.record(offered, slice.len());
                    self.held = Some(slice);
                }
                Read::End { .. } => {
                    decoder.at_eof()?;
                    return Ok(());
                }
                Read::Nothing => {}
            }
        }
    }

    /// Reads and forgets, to the end of the connection.
    pub(super) async fn discard(&mut self) {
        self.held = None;
        loop {
            if self.reader.readable(self.connection, None, Code::RequestTimeout, || true).await.is_err() {
                return;
            }
            match self.reader.read(self.connection, CLASSES[0], CLASSES[0]).await {
                Ok(Read::Bytes { .. } | Read::Nothing) => {}
                Ok(Read::End { .. }) | Err(_) => return,
            }
        }
    }

    async fn watch(&mut self) -> Result<Error> {
        // A little of what comes behind the request is read too: that the client has left stands behind it.
        while self.held.as_ref().is_none_or(|held| held.len() < CLASSES[0]) {
            self.reader.readable(self.connection, None, Code::RequestTimeout, || true).await?;
            if let Read::End { .. } = self.reader.read_on(self.connection, &mut self.held).await? {
                return Err(gone("before the end of the response"));
            }
        }
        // The next request waits for its turn.
        Ok(Box::pin(self.hung_up()).await)
    }

    /// Ends when the kernel knows that the client is lost. That it has ended its side is not enough: what it has sent
    /// before may still be wanted.
    async fn hung_up(&self) -> Error {
        loop {
            sleep(LOOK).await;
            if self.connection.with_socket(Socket::has_hung_up) {
                return gone("with a reset");
            }
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
