//! Decodes bodies by arithmetic: each slice of payload is a part of a slice that was read.

use super::body::{self, BodyFraming, BodyLimits, Kind};
use super::chunked::{Chunked, Trailer};
use penstock_error::{Error, Result};
use penstock_memory::pool::Slice;

/// Decodes one body, of a response or of a request.
#[derive(Debug)]
pub struct Decoder {
    kind: &'static Kind,
    state: State,
}

#[derive(Debug)]
enum State {
    Length { remaining: u64, length: u64 },
    Chunked(Chunked),
    UntilClose,
    Failed(Error),
}

impl Decoder {
    /// A decoder for the bytes after a response head whose body is delimited as `framing` says.
    pub fn new(framing: BodyFraming, limits: BodyLimits) -> Self {
        Self::of(body::RESPONSE, framing, limits)
    }

    /// A decoder for the bytes after a request head whose body is delimited as `framing` says. An error in a chunk, a line
    /// end or the trailer section is `BAD_REQUEST_BODY`, and a body that ends early is `REQUEST_TRUNCATED`.
    pub fn of_request(framing: BodyFraming, limits: BodyLimits) -> Self {
        Self::of(body::REQUEST, framing, limits)
    }

    fn of(kind: &'static Kind, framing: BodyFraming, limits: BodyLimits) -> Self {
        Self {
            kind,
            state: match framing {
                BodyFraming::Empty => State::Length { remaining: 0, length: 0 },
                BodyFraming::Length(length) => State::Length { remaining: length, length },
                BodyFraming::Chunked => State::Chunked(Chunked::new(kind, limits)),
                BodyFraming::UntilClose | BodyFraming::Tunnel => State::UntilClose,
            },
        }
    }

    /// Calls `emit` with each piece of payload in `bytes`, in order and never empty. Returns the bytes after the end of
    /// the body, if there are any. Payload before an error has been emitted. After an error, every call returns it again.
    ///
    /// # Errors
    /// Of a chunked body: `BAD_CHUNK`, `BARE_LINE_FEED`, `CHUNK_EXTENSION_TOO_LARGE`, `BAD_TRAILER`, `FOLDED_HEADER`; of a
    /// request all are `BAD_REQUEST_BODY`.
    pub fn decode(&mut self, bytes: Slice, emit: &mut dyn FnMut(Slice)) -> Result<Option<Slice>> {
        let result = self.advance(bytes, emit);
        if let Err(error) = &result {
            self.state = State::Failed(error.clone());
        }
        result
    }

    fn advance(&mut self, mut bytes: Slice, emit: &mut dyn FnMut(Slice)) -> Result<Option<Slice>> {
        let mut behind = None;
        match &mut self.state {
            State::Failed(error) => return Err(error.clone()),
            State::UntilClose => {}
            State::Length { remaining, .. } => {
                let count = usize::try_from(*remaining).unwrap_or(usize::MAX);
                if count < bytes.len() {
                    let body = bytes.split_to(count);
                    behind = Some(std::mem::replace(&mut bytes, body));
                }
                *remaining -= bytes.len() as u64;
            }
            State::Chunked(chunked) => {
                let mut at = 0;
                while let Some(range) = chunked.next(&bytes, &mut at)? {
                    emit(bytes.slice(range));
                }
                return Ok((at < bytes.len()).then(|| bytes.slice(at..bytes.len())));
            }
        }
        if !bytes.is_empty() {
            emit(bytes);
        }
        Ok(behind)
    }

    /// Passes over bytes of a body of [`BodyFraming::Length`] that were moved and not read: no more than remain.
    pub fn pass(&mut self, bytes: usize) {
        if let State::Length { remaining, .. } = &mut self.state {
            *remaining = remaining.saturating_sub(bytes as u64);
        }
    }

    /// Whether the body has ended as its framing says, without an error. Never for [`BodyFraming::UntilClose`].
    pub fn is_done(&self) -> bool {
        match &self.state {
            State::Length { remaining, .. } => *remaining == 0,
            State::Chunked(chunked) => chunked.is_done(),
            State::UntilClose | State::Failed(_) => false,
        }
    }

    /// Whether a new decoder would go on as this one: nothing of a chunk has come, and no length counts.
    pub fn is_at_boundary(&self) -> bool {
        match &self.state {
            State::Chunked(chunked) => chunked.is_between_chunks(),
            State::UntilClose => true,
            State::Length { .. } | State::Failed(_) => false,
        }
    }

    /// Bytes that are still to come, if they are known in advance: for [`BodyFraming::Length`] and
    /// [`BodyFraming::Empty`].
    pub fn remaining(&self) -> Option<u64> {
        match &self.state {
            State::Length { remaining, .. } => Some(*remaining),
            State::Chunked(_) | State::UntilClose | State::Failed(_) => None,
        }
    }

    /// Whether a connection that ends here has ended the body too.
    ///
    /// Over TLS the end of [`BodyFraming::UntilClose`] is clean only with a `close_notify` (RFC 9112, section 9.8), which
    /// the caller has to check.
    ///
    /// # Errors
    /// `BODY_TRUNCATED`, of a request `REQUEST_TRUNCATED`, or the error that decoding met before.
    pub fn at_eof(&self) -> Result<()> {
        let truncated = |what: String| Err(self.kind.truncated.error(what));
        match &self.state {
            State::Length { remaining: 0, .. } | State::UntilClose => Ok(()),
            State::Length { remaining, length } => {
                truncated(format!("the connection ended with {remaining} of {length} bytes missing"))
            }
            State::Chunked(chunked) if chunked.is_done() => Ok(()),
            State::Chunked(chunked) => truncated(format!("the connection ended: {}", chunked.missing())),
            State::Failed(error) => Err(error.clone()),
        }
    }

    /// The trailer fields of a chunked body that has ended. Never merge them into the head (RFC 9110, section
    /// 6.5.1).
    pub fn trailers(&self) -> &[Trailer] {
        match &self.state {
            State::Chunked(chunked) => chunked.trailers(),
            State::Length { .. } | State::UntilClose | State::Failed(_) => &[],
        }
    }
}
