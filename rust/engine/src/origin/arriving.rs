//! The body of a response as it arrives on one connection.
//!
//! It owns the connection, and sends the rest of the request. [`Body`](super::body::Body) continues from another origin if
//! the connection breaks. It is polled by hand, while the rest of an exchange is async: this is the path of each event and
//! each read.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::Instant;

use super::exchange::{Answered, Terms};
use super::part::Part;
use super::place::Lease;
use super::upload::{Progress, Upload};
use crate::clock;
use crate::error::{Code, Error, Result};
use crate::net::{Peer, Piped, Read, Reader, Socket, Unrest};
use crate::pool::Slice;
use crate::relay::is_event_stream;
use crate::stream::reading::ReadSize;
use crate::stream::{Ending, Feed, ResponseHead};
use crate::wire::{BodyFraming, Decoder};

/// Bytes that a body may read before other streams of the thread get their turn: some 0.15 ms of copies from the
/// kernel, while a turn costs a microsecond. The runtime's own budget of 128 operations would be 16 MiB.
const TURN: usize = 512 * 1024;

/// Of a body that has so much left, the kernel moves the rest: of less, the copies cost no more than the calls that this takes
/// besides.
const SPLICED_FROM: u64 = 128 * 1024;

/// What less than this was moved of costs more calls than the copies would. Arbitrary.
const WORTH_SPLICING: usize = 16 * 1024;

/// Once reads have brought so many bytes less than would have been worth it, the rest is copied. What a read brings more makes up
/// for those before it: a few that are little are the end of a burst, or what one call has left of a segment. Arbitrary.
const MOST_LACKING: usize = 3 * WORTH_SPLICING;

/// The body of a response. Dropping it before its end closes the connection.
#[derive(Debug)]
pub(super) struct Arriving {
    lease: Lease,
    reader: Reader,
    decoder: Decoder,
    size: ReadSize,
    /// The longest time without a byte; in a tunnel, without a byte in either direction.
    limit: Option<Duration>,
    is_tunnel: bool,
    /// Bytes read in this turn.
    turn: usize,
    /// The last read brought less than was offered, so it emptied the socket.
    dry: bool,
    /// Once the kernel has moved some of it: what its reads lack now of what would be worth that.
    lacking: Option<usize>,
    body: BodyFraming,
    /// Whether the connection may serve again after the body.
    keep: bool,
    progress: Progress,
    /// The part of the request that has not been sent. Boxed, because mostly all of it has.
    upload: Option<Box<Upload>>,
    begun: Instant,
    /// The length by Content-Range, if the framing does not give it.
    part: Option<Part>,
}

/// The result of a read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Came {
    Bytes,
    Nothing,
    /// The end of the connection.
    End,
}

impl Arriving {
    /// The body after a head that was read from the connection of `lease`; with the head, and the bytes after it in the
    /// same read, which go to [`Arriving::decode`] first.
    pub(super) fn new<R>(
        answered: Answered<R>,
        lease: Lease,
        upload: Upload,
        terms: &Terms<'_>,
    ) -> (ResponseHead, R, Box<Self>) {
        let Answered { head, rest, reader, body, keep, progress } = answered;
        let decoder = Decoder::new(body, terms.limits.body);
        let part = Part::of(&head.head, body);
        let size = ReadSize::new(terms.reads, decoder.remaining());
        let is_tunnel = upload.has_switched();
        let upload = (!upload.is_complete()).then(|| Box::new(upload));
        let pauses = terms.timeouts.lets_events_pause && is_event_stream(&head.head);
        let between_bytes = terms.timeouts.between_bytes.filter(|_| !pauses);
        let limit = if is_tunnel { terms.timeouts.tunnel } else { between_bytes };
        let begun = clock::now();
        let arriving = Box::new(Self {
            lease,
            reader,
            decoder,
            size,
            limit,
            is_tunnel,
            turn: 0,
            dry: false,
            lacking: None,
            body,
            keep,
            progress,
            upload,
            begun,
            part,
        });
        (head, rest, arriving)
    }

    /// How it is delimited.
    pub(super) fn framing(&self) -> BodyFraming {
        self.body
    }

    /// The line in which requests wait for its connection.
    pub(super) fn line(&self) -> usize {
        self.lease.place().line()
    }

    /// Takes the place of `broken`, whose connection is closed.
    pub(super) fn go_on_after(mut self: Box<Self>, broken: &Self) -> Box<Self> {
        self.begun = broken.begun;
        if cfg!(all(test, planted_bug = "no-time-limit-after-resumption")) {
            self.limit = None;
        }
        self
    }

    /// Decodes the bytes that came with the head.
    ///
    /// # Errors
    /// The error after the pieces that were emitted.
    pub(super) fn decode(&mut self, rest: Slice, emit: &mut dyn FnMut(Slice)) -> Result<()> {
        let mut decoded = self.take(rest, emit);
        if let Some(ahead) = self.reader.take_ahead().filter(|_| decoded.is_ok()) {
            decoded = self.take(ahead, emit);
        }
        self.reader.end_head(self.decoder.remaining());
        decoded
    }

    fn take(&mut self, bytes: Slice, emit: &mut dyn FnMut(Slice)) -> Result<()> {
        self.lease.place().tally.received(bytes.len());
        let mut counted = Ok(());
        let mut part = self.part.take();
        let stray = match &mut part {
            None => self.decoder.decode(bytes, emit)?,
            Some(part) => self.decoder.decode(bytes, &mut |piece| {
                if counted.is_ok() {
                    counted = part.advance(piece.len());
                }
                if counted.is_ok() {
                    emit(piece);
                }
            })?,
        };
        self.part = part;
        counted?;
        if let Some(part) = self.part.as_ref().filter(|_| self.decoder.is_done()) {
            part.end()?;
        }
        if stray.is_some() {
            // The response is whole, whatever follows it. The bytes after it belong to no request: they are dropped,
            // and the connection is closed, because they would be read as the next response.
            self.keep = false;
            let place = self.lease.place();
            place.count(|counts| counts.count(Unrest::Bytes));
            place.stray(
                "bytes followed the end of a response, which was delivered; the connection was closed",
                self.lease.address(),
            );
        }
        Ok(())
    }

    /// The body has failed with `error`. Adds the origin to it.
    pub(super) fn fail(&self, error: Error) -> Error {
        let place = self.lease.place();
        place.failed(&error, self.lease.address(), self.lease.reports);
        error.at(&place.origin)
    }

    /// Whether nothing of the request is left to be sent.
    #[inline]
    pub(super) fn has_sent(&self) -> bool {
        self.upload.is_none()
    }

    /// Sends as much of the request as the socket takes now.
    ///
    /// # Errors
    /// The errors of [`Upload::drive`].
    pub(super) fn drive(&mut self, context: &mut Context<'_>) -> Result<()> {
        let Some(upload) = &mut self.upload else { return Ok(()) };
        let driven = upload.drive(context, self.lease.connection(), &self.progress);
        if self.is_tunnel && upload.has_moved() {
            self.reader.wait_anew(self.limit);
        }
        driven?;
        if upload.is_complete() {
            self.upload = None;
        }
        Ok(())
    }

    /// As [`Source::at_rest`](crate::net::Source::at_rest).
    pub(super) fn at_rest(&self) -> Option<OwnedFd> {
        let is_plain = !self.is_tunnel && self.upload.is_none() && self.part.is_none();
        let connection = self.lease.connection();
        let is_still = is_plain && self.decoder.is_at_boundary() && !connection.is_tls();
        is_still.then(|| connection.with_socket(Socket::duplicate).ok())?
    }

    /// Whether all of it has been decoded.
    pub(super) fn is_done(&self) -> bool {
        self.decoder.is_done()
    }

    /// Whether the last read has emptied the socket.
    pub(super) fn is_dry(&self) -> bool {
        self.dry
    }

    /// Ready when a read is worth memory, and it is this body's turn.
    pub(super) fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        if self.turn >= TURN {
            self.turn = 0;
            // The runtime wakes the task after all tasks that are ready.
            return pin!(yield_now()).poll(context).map(Ok);
        }
        let connection = self.lease.connection();
        let ready = self.reader.poll_readable(context, connection, self.limit, Code::IoTimeout, || true);
        ready.map_err(|error| {
            match self.limit.filter(|_| self.is_tunnel && error.code() == Code::IoTimeout) {
                Some(limit) => {
                    Code::IoTimeout.error(format!("nothing has passed the tunnel, either way, for {limit:?}"))
                }
                None => error,
            }
        })
    }

    /// As [`Reader::poll_reserve`].
    pub(super) fn poll_reserve(&mut self, context: &mut Context<'_>, feed: &Feed) -> Poll<Result<()>> {
        // A chunked frame is not read into one slab, because size lines lie between its bytes.
        if self.body == BodyFraming::Chunked {
            return Poll::Ready(Ok(()));
        }
        let remaining = self.decoder.remaining();
        let remaining = remaining.map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        self.reader.poll_reserve(context, feed, remaining)
    }

    /// Reads once, at most `most` bytes unless memory was reserved, and emits the payload.
    ///
    /// # Errors
    /// The error after the pieces that were emitted.
    pub(super) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        most: usize,
        emit: &mut dyn FnMut(Slice),
    ) -> Poll<Result<Came>> {
        let size = self.size.next(self.decoder.remaining());
        let read = ready!(self.reader.poll_body(context, self.lease.connection(), size, most))?;
        Poll::Ready(match read {
            Read::Bytes { slice, offered } => {
                self.size.record(offered, slice.len());
                self.turn += slice.len();
                self.dry = slice.len() < offered;
                self.take(slice, emit).map(|()| Came::Bytes)
            }
            Read::End { clean } => self.end(clean).map(|()| Came::End),
            Read::Nothing => Ok(Came::Nothing),
        })
    }

    /// Whether the kernel may move what comes next.
    pub(super) fn splices(&self) -> bool {
        let BodyFraming::Length(_) = self.body else { return false };
        let least = if self.lacking.is_some() { 1 } else { SPLICED_FROM };
        self.decoder.remaining().is_some_and(|bytes| bytes >= least)
            && self.lacking < Some(MOST_LACKING)
            && self.lease.connection().can_splice()
    }

    /// Has the kernel move what has come into `piped`, once.
    ///
    /// # Errors
    /// As [`Arriving::poll_read`]. Nothing was moved.
    pub(super) fn splice(&mut self, piped: &mut Piped) -> Result<Came> {
        let most = self.decoder.remaining().map_or(0, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let connection = self.lease.connection();
        let count = match connection.splice_into(piped, most) {
            Ok(0) => return self.end(true).map(|()| Came::End),
            Ok(count) => count,
            // It finds the socket empty, or the kernel cannot: then there are no pipes from now on.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Unsupported) => {
                return Ok(Came::Nothing);
            }
            Err(error) => return Err(Peer::Origin.broken(&error)),
        };
        // What comes with the head of the next response is copied, and that should be little.
        connection.note_head(0, 0);
        self.lease.place().tally.received(count);
        self.decoder.pass(count);
        // What is written next would wait in the client's socket for the timer that paces it: other bodies are first.
        self.turn = TURN;
        self.dry = false;
        self.lacking = Some((self.lacking.unwrap_or(0) + WORTH_SPLICING).saturating_sub(count));
        Ok(Came::Bytes)
    }

    fn end(&self, clean: bool) -> Result<()> {
        if !clean && matches!(self.body, BodyFraming::UntilClose | BodyFraming::Tunnel) {
            return Err(Code::BodyTruncated
                .error("the TLS connection ended without close_notify, so the body may have been cut off"));
        }
        self.decoder.at_eof()?;
        self.part.as_ref().map_or(Ok(()), Part::end)
    }

    /// The body has ended cleanly: the connection may serve again if both messages ended at their boundary and both
    /// allow it.
    pub(super) fn finish(mut self: Box<Self>) -> Ending {
        if self.keep && self.decoder.is_done() && self.upload.is_none() {
            self.lease.give_back(self.reader.take_limit());
        }
        Ending { body: clock::since(self.begun), trailers: self.decoder.trailers().to_vec() }
    }
}
