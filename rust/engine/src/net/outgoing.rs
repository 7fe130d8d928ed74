//! A message on its way out: its head, and then a body that comes by and by, framed as it goes.
//!
//! Holds at most one vectored write of the body, and gives the credit for each piece back when the kernel has taken
//! it. What is ready leaves together: a head and the beginning of its body are one write.

use std::fmt;
use std::num::NonZeroUsize;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::{Connection, Life, Payload, Piece, Piped, Pipes, Stop, WriteBuffer};
use crate::error::{Code, Error, Result};
use crate::stream::Stream;
use crate::sync::Arc;
use crate::takeover::streams::Resting;
use crate::wire::{BodyFraming, LAST_CHUNK, encode_chunk_head, encode_last_chunk};

/// A body that its sender asks for bytes, such as what a cache keeps, or what an origin's connection brings.
pub(crate) trait Source: Send {
    /// The next bytes, or the end of the body; the task of `context` is woken when there may be more. `held` is what those
    /// before take that have not been sent, of a window if there is one: beyond it comes `WINDOW_HELD`.
    fn poll_next(&mut self, context: &mut Context<'_>, held: usize) -> Poll<Option<Result<Payload>>>;

    /// Whether the next bytes need not be seen, and are many: [`Source::poll_spliced`] gives them.
    fn splices(&self) -> bool {
        false
    }

    /// The next bytes, in one of `pipes`. `None`: they come by [`Source::poll_next`], which tells of an error and of the end.
    fn poll_spliced(&mut self, _: &mut Context<'_>, _pipes: &Arc<Pipes>) -> Poll<Option<Piped>> {
        Poll::Ready(None)
    }

    /// Does what is to be done although none is asked for.
    fn attend(&mut self, _: &mut Context<'_>) {}

    /// All that it has given is with the kernel, and there was no more. Until it is asked again it may write to the
    /// connection itself.
    fn idle(&mut self) {}

    /// Bytes that it has written itself so far.
    fn aside(&self) -> u64 {
        0
    }

    /// What is left of something that it has begun to write itself: nothing else may be sent before.
    fn rest(&mut self) -> Option<Payload> {
        None
    }

    /// What there is besides, where it is to end now though its client may still have that: some at a time, and in all no
    /// more than can be sent at once.
    fn last(&mut self) -> Option<Payload> {
        None
    }

    /// What is asked for from now on is not sent.
    fn client_left(&mut self) {}

    /// The fields after the body, once it has ended.
    fn trailers(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        Vec::new()
    }

    /// What another process could go on from, if it can: nothing is here that was read, and no state but where it stands. It is
    /// asked for nothing until that is decided.
    fn at_rest(&mut self) -> Option<Resting> {
        None
    }
}

/// Its name alone: decision 063.
impl fmt::Debug for dyn Source + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Source")
    }
}

/// What gives the bytes of a body.
#[derive(Debug)]
pub(crate) enum Supply {
    Stream(Stream),
    Source(Box<dyn Source>),
}

impl Supply {
    /// As [`Source::poll_next`].
    pub(crate) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
        held: usize,
    ) -> Poll<Option<Result<Payload>>> {
        match self {
            Self::Stream(stream) => stream.poll_next(context).map_ok(Payload::Charged),
            Self::Source(source) => source.poll_next(context, held),
        }
    }

    /// As [`Source::splices`].
    pub(crate) fn splices(&self) -> bool {
        matches!(self, Self::Source(source) if source.splices())
    }

    /// As [`Source::poll_spliced`].
    pub(crate) fn poll_spliced(
        &mut self,
        context: &mut Context<'_>,
        pipes: &Arc<Pipes>,
    ) -> Poll<Option<Piped>> {
        if let Self::Source(source) = self { source.poll_spliced(context, pipes) } else { Poll::Ready(None) }
    }

    /// As [`Source::attend`].
    pub(crate) fn attend(&mut self, context: &mut Context<'_>) {
        if let Self::Source(source) = self {
            source.attend(context);
        }
    }

    /// As [`Source::idle`].
    pub(crate) fn idle(&mut self) {
        if let Self::Source(source) = self {
            source.idle();
        }
    }

    /// As [`Source::aside`].
    pub(crate) fn aside(&self) -> u64 {
        if let Self::Source(source) = self { source.aside() } else { 0 }
    }

    /// As [`Source::rest`].
    pub(crate) fn rest(&mut self) -> Option<Payload> {
        if let Self::Source(source) = self { source.rest() } else { None }
    }

    /// As [`Source::last`].
    pub(crate) fn last(&mut self) -> Option<Payload> {
        if let Self::Source(source) = self { source.last() } else { None }
    }

    /// As [`Source::trailers`].
    pub(crate) fn trailers(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        match self {
            Self::Stream(stream) => stream.ending().map(|ending| ending.trailers).unwrap_or_default(),
            Self::Source(source) => source.trailers(),
        }
    }

    /// As [`Source::at_rest`].
    pub(crate) fn at_rest(&mut self) -> Option<Resting> {
        if let Self::Source(source) = self { source.at_rest() } else { None }
    }

    /// As [`Source::client_left`].
    pub(crate) fn client_left(&mut self) {
        if let Self::Source(source) = self {
            source.client_left();
        }
    }
}

impl From<Stream> for Supply {
    fn from(stream: Stream) -> Self {
        Self::Stream(stream)
    }
}

/// The rest of a body.
#[derive(Debug)]
struct Body {
    supply: Supply,
    /// How the rest is delimited: a length is what is still to come.
    framing: BodyFraming,
    extent: Extent,
}

/// How much of the body a supply gives, and of its framing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// All of the body, without its framing.
    Whole,
    /// All of it, and chunks come framed as such.
    Framed,
    /// A part of it, without its framing: the end of the supply is not the end of the body.
    Part,
}

impl Body {
    /// Bytes that the supply has written itself.
    fn aside(&self) -> u64 {
        // In chunks of its own, or as they are: what is framed here cannot pass by.
        let passes = match self.framing {
            BodyFraming::Chunked => self.extent == Extent::Framed,
            BodyFraming::UntilClose | BodyFraming::Tunnel => true,
            BodyFraming::Empty | BodyFraming::Length(_) => false,
        };
        if passes { self.supply.aside() } else { 0 }
    }
}

/// Why sending ended early.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The body failed, or is not what was announced.
    Source(Error),
    /// The connection did.
    Socket(Stop),
}

/// Whether a body may have more at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fill {
    /// What waits has to be written first.
    Full,
    /// It has ended, or wakes the task when it has more.
    Dry,
}

/// A message on its way out.
#[derive(Debug)]
pub(crate) struct Outgoing {
    buffer: WriteBuffer,
    /// `None`: there is no more.
    body: Option<Body>,
    /// The owner of what is in the buffer after the end of the body: it counts as read until the kernel has it.
    kept: Option<Supply>,
    payload: u64,
    /// How the body has failed, behind what came of it before.
    failure: Option<Error>,
    /// The client may have seen the beginning.
    begun: bool,
    /// Bytes that the kernel took of this since the last question.
    written: usize,
    /// Bytes that bodies which are gone have written themselves, and the bytes of all bodies that were reported.
    aside: u64,
    aside_told: u64,
    /// What it is when a body has another length than was announced: that depends on who has announced it.
    wrong_length: Code,
    /// The fields after a body are sent too, if it is framed here as chunks.
    passes_trailers: bool,
    /// For a body that need not be seen.
    pipes: Option<Arc<Pipes>>,
}

impl Outgoing {
    /// Nothing to send yet. `limit` is how long the socket may take no byte; `wrong_length` is what it is when a body has
    /// another length than was announced.
    pub(crate) fn new(limit: Option<Duration>, wrong_length: Code) -> Self {
        Self {
            buffer: WriteBuffer::new(limit),
            body: None,
            kept: None,
            payload: 0,
            failure: None,
            begun: false,
            written: 0,
            aside: 0,
            aside_told: 0,
            wrong_length,
            passes_trailers: false,
            pipes: None,
        }
    }

    /// The fields after the body are sent too. Only for a receiver that takes them (RFC 9110, section 6.5.1).
    pub(crate) fn pass_trailers(&mut self) {
        self.passes_trailers = true;
    }

    /// Parts of a body of known length that need not be seen go by `pipes`. Only for a connection that can splice.
    pub(crate) fn splice_by(&mut self, pipes: &Arc<Pipes>) {
        self.pipes = Some(Arc::clone(pipes));
    }

    /// Gives signs of `life` from now on.
    pub(crate) fn begin_life(&mut self, life: &Life) {
        self.buffer.begin_life(life);
    }

    /// The client comes back when this ends, as others do: see [`Life`].
    pub(crate) fn end_in_turn(&self) {
        self.buffer.end_in_turn();
    }

    /// Another process could go on with this, once it is at rest.
    pub(crate) fn let_move(&self) {
        self.buffer.let_move();
    }

    /// What another process could go on from, if all that has come of the body is with the kernel.
    pub(crate) fn at_rest(&mut self) -> Option<Resting> {
        let is_still = self.buffer.is_empty() && self.kept.is_none() && self.failure.is_none() && self.begun;
        let body = self.body.as_mut().filter(|body| is_still && body.extent != Extent::Part)?;
        body.supply.at_rest()
    }

    /// It has been frozen at rest.
    pub(crate) fn note_rest(&self) {
        self.buffer.note_rest();
    }

    /// Another process has sent what is here, and so many bytes of the body after it.
    pub(crate) fn go_on_after(&mut self, payload: u64) {
        self.buffer.clear();
        self.begun = true;
        self.payload = payload;
    }

    /// Undoes [`Outgoing::begin_life`].
    pub(crate) fn end_life(&mut self) {
        self.buffer.end_life();
    }

    /// The body comes over a connection for which others wait in `line`.
    pub(crate) fn feed_on(&self, line: usize) {
        self.buffer.feed_on(line);
    }

    /// Appends what stands before the body.
    pub(crate) fn push(&mut self, piece: Piece) {
        self.buffer.push(piece);
    }

    /// Appends the head of the response: from now on it is this that [`Outgoing::has_begun`] tells of, and nothing that went
    /// before it.
    pub(crate) fn push_head(&mut self, bytes: Vec<u8>) {
        self.begun &= !self.buffer.is_empty();
        self.buffer.push(Piece::Bytes(bytes));
    }

    /// Whether the kernel has any of the message.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Appends the rest of a body, which is delimited as `framing` says.
    pub(crate) fn attach(&mut self, supply: Supply, framing: BodyFraming) {
        self.body = Some(Body { supply, framing, extent: Extent::Whole });
    }

    /// As [`Outgoing::attach`], if the chunks of a chunked body come framed as such.
    pub(crate) fn attach_framed(&mut self, supply: Supply, framing: BodyFraming) {
        self.body = Some(Body { supply, framing, extent: Extent::Framed });
    }

    /// Appends a part of a body whose rest is delimited as `framing` says: the body goes on after the end of `supply`.
    pub(crate) fn attach_part(&mut self, supply: Supply, framing: BodyFraming) {
        self.body = Some(Body { supply, framing, extent: Extent::Part });
    }

    fn supply(&mut self) -> Option<&mut Supply> {
        self.body.as_mut().map(|body| &mut body.supply)
    }

    /// Bytes that the supply of the body has written itself.
    fn supply_aside(&self) -> u64 {
        self.body.as_ref().map_or(0, Body::aside)
    }

    /// Bytes of the attached body that have been taken from its supply, or that this has written itself.
    pub(crate) fn payload(&self) -> u64 {
        self.payload + self.supply_aside()
    }

    /// Bytes that the kernel took since the last call, framing and all.
    pub(crate) fn take_written(&mut self) -> usize {
        let aside = self.aside + self.supply_aside();
        let written = self.written + usize::try_from(aside - self.aside_told).unwrap_or(usize::MAX);
        (self.written, self.aside_told) = (0, aside);
        written
    }

    /// Whether all that was announced is with the kernel, even if the source has not said that this was all.
    pub(crate) fn is_drained(&self) -> bool {
        let is_announced = |body: &Body| matches!(body.framing, BodyFraming::Empty | BodyFraming::Length(0));
        self.buffer.is_empty() && self.body.as_ref().is_none_or(is_announced)
    }

    /// Whether the kernel has a part of what was to be sent: what is written after it would be read as the rest.
    pub(crate) fn is_torn(&self) -> bool {
        self.begun && !self.buffer.is_empty()
    }

    /// Whether the framing shows the other side that there should be more, however the connection ends.
    pub(crate) fn ends_visibly(&self) -> bool {
        let is_visible = |body: &Body| match body.framing {
            BodyFraming::Empty | BodyFraming::Length(_) => body.extent != Extent::Part,
            BodyFraming::Chunked => body.extent == Extent::Whole,
            BodyFraming::UntilClose | BodyFraming::Tunnel => false,
        };
        self.buffer.is_empty() && self.body.as_ref().is_some_and(is_visible)
    }

    /// How long the socket may take no byte.
    pub(crate) fn limit(&self) -> Duration {
        self.buffer.limit()
    }

    /// Ends the body after what was taken from its supply, as if it had been all; with `last`, after what the supply has at
    /// once besides, and that. A body that has come to its end stays as it is. Not for a body that was announced.
    pub(crate) fn end_early(&mut self, last: Option<String>) {
        let Some(body) = &self.body else { return };
        let is_chunked = body.framing == BodyFraming::Chunked && body.extent != Extent::Part;
        let mut rest = self.supply().and_then(Supply::rest);
        loop {
            let next =
                rest.take().or_else(|| self.supply().filter(|_| last.is_some()).and_then(Supply::last));
            // What fails is more than was announced.
            let Some(Ok(())) = next.map(|payload| self.enqueue(payload)) else { break };
        }
        let last = last.unwrap_or_default();
        if let Some(length) = NonZeroUsize::new(last.len()) {
            self.payload += length.get() as u64;
            let last = Payload::Text(last.into_bytes());
            self.buffer.push(if is_chunked {
                Piece::Chunk(encode_chunk_head(length), last)
            } else {
                Piece::Payload(last)
            });
        }
        if is_chunked && !cfg!(all(test, planted_bug = "drained-events-without-end")) {
            self.buffer.push(Piece::Mark(LAST_CHUNK));
        }
        self.kept = self.take_supply().filter(|supply| matches!(supply, Supply::Source(_)));
    }

    /// Takes the rest of the body back; what was taken from it and not sent is dropped.
    pub(crate) fn detach(&mut self) -> Option<Supply> {
        self.buffer.clear();
        self.take_supply()
    }

    /// Takes all back that waits to be sent, head and body, unless the kernel has a part of what waits.
    pub(crate) fn retract(&mut self) -> bool {
        if self.is_torn() {
            return false;
        }
        self.detach();
        self.failure = None;
        self.payload = 0;
        true
    }

    /// Takes what there is of the body, and sends nothing yet.
    ///
    /// # Errors
    /// The body has failed already, or is not what was announced.
    pub(crate) fn prime(&mut self, context: &mut Context<'_>) -> Result<()> {
        self.fill(context).map(|_| ())
    }

    /// Sends what there is. Ready when the body has ended and all of it is with the kernel; one that has failed, when
    /// all that came of it before is, or at once if the client has seen nothing yet.
    pub(crate) fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        connection: &Connection,
    ) -> Poll<std::result::Result<(), Fault>> {
        let mut dry = false;
        loop {
            // Before the write, so that the head and the first piece of the body leave together.
            if self.failure.is_none() && !dry {
                match self.fill(context) {
                    Ok(fill) => dry = fill == Fill::Dry,
                    Err(error) => self.failure = Some(error),
                }
            }
            if let Some(error) = self.failure.as_ref().filter(|_| self.buffer.is_empty() || !self.begun) {
                return Poll::Ready(Err(Fault::Source(error.clone())));
            }
            if self.buffer.is_empty() {
                self.kept = None;
                ready!(self.buffer.poll_flush(context, connection)).map_err(Fault::Socket)?;
                let Some(supply) = self.supply() else { return Poll::Ready(Ok(())) };
                supply.idle();
                return Poll::Pending;
            }
            self.written += ready!(self.buffer.poll_write(context, connection)).map_err(Fault::Socket)?;
            self.begun = true;
        }
    }

    fn fill(&mut self, context: &mut Context<'_>) -> Result<Fill> {
        loop {
            let Some(Body { supply, .. }) = &mut self.body else { return Ok(Fill::Dry) };
            if self.buffer.is_full() {
                supply.attend(context);
                return Ok(Fill::Full);
            }
            if let Some(pipes) = self.pipes.as_ref().filter(|_| supply.splices()) {
                // One after the other, so that few pipes are in use.
                if self.buffer.has_piped() {
                    supply.attend(context);
                    return Ok(Fill::Full);
                }
                match supply.poll_spliced(context, pipes) {
                    Poll::Ready(Some(piped)) => {
                        self.enqueue_piped(piped)?;
                        continue;
                    }
                    Poll::Ready(None) => {}
                    Poll::Pending => return Ok(Fill::Dry),
                }
            }
            let Poll::Ready(next) = supply.poll_next(context, self.buffer.held()) else {
                return Ok(Fill::Dry);
            };
            match next {
                // It is we who hold the window: what is queued here goes first.
                Some(Err(error)) if error.code() == Code::WindowHeld && !self.buffer.is_empty() => {
                    return Ok(Fill::Full);
                }
                Some(Err(error)) => return Err(error),
                Some(Ok(payload)) => self.enqueue(payload)?,
                None => self.end()?,
            }
        }
    }

    fn enqueue(&mut self, payload: Payload) -> Result<()> {
        let Some(length) = NonZeroUsize::new(payload.len()) else { return Ok(()) };
        self.payload += length.get() as u64;
        let too_long = wrong_length(self.wrong_length, "longer");
        match &mut self.body {
            Some(Body { framing: BodyFraming::Length(rest), .. }) => {
                *rest = rest.checked_sub(length.get() as u64).ok_or_else(too_long)?;
                self.buffer.push(Piece::Payload(payload));
            }
            Some(Body { framing: BodyFraming::Empty, .. }) => return Err(too_long()),
            Some(Body { framing: BodyFraming::Chunked, extent: Extent::Whole | Extent::Part, .. }) => {
                self.buffer.push(Piece::Chunk(encode_chunk_head(length), payload));
            }
            Some(_) | None => self.buffer.push(Piece::Payload(payload)),
        }
        Ok(())
    }

    fn enqueue_piped(&mut self, piped: Piped) -> Result<()> {
        let too_long = wrong_length(self.wrong_length, "longer");
        let Some(Body { framing: BodyFraming::Length(rest), .. }) = &mut self.body else {
            return Err(too_long());
        };
        *rest = rest.checked_sub(piped.len() as u64).ok_or_else(too_long)?;
        self.payload += piped.len() as u64;
        self.buffer.push(Piece::Piped(piped));
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        if let Some(Body { supply, framing, extent: Extent::Whole | Extent::Framed }) = &self.body {
            match framing {
                BodyFraming::Length(1..) => return Err(wrong_length(self.wrong_length, "shorter")()),
                BodyFraming::Chunked => {
                    let trailers = if self.passes_trailers { supply.trailers() } else { Vec::new() };
                    self.buffer.push(if trailers.is_empty() {
                        Piece::Mark(LAST_CHUNK)
                    } else {
                        let trailers = trailers.iter().map(|(name, value)| (&**name, &**value));
                        Piece::Bytes(encode_last_chunk(trailers))
                    });
                }
                BodyFraming::Empty
                | BodyFraming::Length(0)
                | BodyFraming::UntilClose
                | BodyFraming::Tunnel => {}
            }
        }
        let supply = self.take_supply();
        // What it came over, if it was a connection, is free again.
        self.buffer.feed_on(0);
        self.kept = supply.filter(|supply| matches!(supply, Supply::Source(_)));
        Ok(())
    }

    fn take_supply(&mut self) -> Option<Supply> {
        let aside = self.supply_aside();
        self.payload += aside;
        self.aside += aside;
        self.body.take().map(|body| body.supply)
    }
}

fn wrong_length(code: Code, how: &str) -> impl Fn() -> Error {
    move || code.error(format!("the body is {how} than the length it was announced with"))
}
