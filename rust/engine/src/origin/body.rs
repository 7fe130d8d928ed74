//! The body of a response, from one origin or from several.
//!
//! From a single origin it is the body on its connection. With several origins, the upstream gets the result, and a body
//! that breaks continues from another origin if that is safe (see [`Resume`]). [`Feeding`](super::feeding::Feeding) puts
//! it into a stream, [`Relayed`](super::Relayed) has it polled by the client's connection.

use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};

use super::arriving::{Arriving, Came};
use super::upstream::Turn;
use super::upstream::resume::{Resume, Resumed};
use crate::error::{Error, Result};
use crate::net::Piped;
use crate::pool::Slice;
use crate::stream::{Ending, Feed};
use crate::wire::BodyFraming;

/// The body of a response. Dropping it before its end closes the connection.
#[derive(Debug)]
pub(super) struct Body {
    arriving: Box<Arriving>,
    /// The state for several origins. Boxed, because most bodies are of a single origin.
    followed: Option<Box<Followed>>,
}

/// A body of several origins: the upstream gets its end, and it may continue from another origin.
#[derive(Debug)]
struct Followed {
    turn: Turn,
    resume: Option<Box<Resume>>,
    /// Bytes that came with the head of a resumption and have not been decoded.
    rest: Option<Slice>,
}

impl From<Box<Arriving>> for Body {
    /// The body of a single origin.
    fn from(arriving: Box<Arriving>) -> Self {
        Self { arriving, followed: None }
    }
}

impl Body {
    /// The body of one of several origins, before any of it has been decoded.
    pub(super) fn followed(arriving: Box<Arriving>, turn: Turn, resume: Option<Box<Resume>>) -> Self {
        Self { arriving, followed: Some(Box::new(Followed { turn, resume, rest: None })) }
    }

    /// How the body that was begun with is delimited.
    pub(super) fn framing(&self) -> BodyFraming {
        self.arriving.framing()
    }

    /// The line in which requests wait for its connection.
    pub(super) fn line(&self) -> usize {
        self.arriving.line()
    }

    /// As [`Arriving::decode`].
    pub(super) fn decode(&mut self, rest: Slice, emit: &mut dyn FnMut(Slice)) -> Result<()> {
        let Self { arriving, followed } = self;
        match followed.as_mut().and_then(|followed| followed.resume.as_mut()) {
            None => arriving.decode(rest, emit),
            Some(resume) => {
                let mut counted = Counted { resume, result: Ok(()) };
                let decoded = arriving.decode(rest, &mut |piece| counted.take(piece, emit));
                counted.end(decoded, arriving.is_done())
            }
        }
    }

    /// As [`Arriving::fail`].
    pub(super) fn fail(&self, error: Error) -> Error {
        self.arriving.fail(error)
    }

    /// As [`Arriving::has_sent`].
    #[inline]
    pub(super) fn has_sent(&self) -> bool {
        self.arriving.has_sent()
    }

    /// As [`Arriving::drive`].
    pub(super) fn drive(&mut self, context: &mut Context<'_>) -> Result<()> {
        self.arriving.drive(context)
    }

    /// As [`Source::at_rest`](crate::net::Source::at_rest).
    pub(super) fn at_rest(&self) -> Option<OwnedFd> {
        // What may be asked for elsewhere is counted here.
        let resumes = self.followed.as_ref().is_some_and(|followed| followed.resume.is_some());
        if resumes { None } else { self.arriving.at_rest() }
    }

    /// Whether there is nothing more to read.
    pub(super) fn is_done(&self) -> bool {
        let is_asking =
            |followed: &Followed| followed.resume.as_ref().is_some_and(|resume| resume.is_asking());
        self.arriving.is_done() && !self.followed.as_deref().is_some_and(is_asking)
    }

    /// As [`Arriving::is_dry`].
    pub(super) fn is_dry(&self) -> bool {
        self.arriving.is_dry()
    }

    /// As [`Arriving::poll_readable`]; with several origins, it also waits while the rest is requested elsewhere.
    pub(super) fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        loop {
            if self.followed.is_some() {
                ready!(self.poll_resumed(context))?;
                if self.has_rest() {
                    return Poll::Ready(Ok(()));
                }
            }
            match ready!(self.arriving.poll_readable(context)) {
                Err(error) => self.recover(error)?,
                Ok(()) => return Poll::Ready(Ok(())),
            }
        }
    }

    /// As [`Arriving::poll_reserve`].
    pub(super) fn poll_reserve(&mut self, context: &mut Context<'_>, feed: &Feed) -> Poll<Result<()>> {
        if self.has_rest() { Poll::Ready(Ok(())) } else { self.arriving.poll_reserve(context, feed) }
    }

    /// As [`Arriving::poll_read`].
    ///
    /// # Errors
    /// The error after the pieces that were emitted, unless the rest is requested elsewhere.
    pub(super) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        most: usize,
        emit: &mut dyn FnMut(Slice),
    ) -> Poll<Result<Came>> {
        if self.followed.is_none() {
            return self.arriving.poll_read(context, most, emit);
        }
        let mut came = Came::Nothing;
        let read = ready!(self.poll_read_followed(context, most, &mut |piece| {
            came = Came::Bytes;
            emit(piece);
        }));
        Poll::Ready(match read {
            Err(error) => self.recover(error).map(|()| came),
            read => read,
        })
    }

    fn poll_read_followed(
        &mut self,
        context: &mut Context<'_>,
        most: usize,
        emit: &mut dyn FnMut(Slice),
    ) -> Poll<Result<Came>> {
        if let Some(rest) = self.followed.as_mut().and_then(|followed| followed.rest.take()) {
            return Poll::Ready(self.decode(rest, emit).map(|()| Came::Bytes));
        }
        let Self { arriving, followed } = self;
        let Some(resume) = followed.as_mut().and_then(|followed| followed.resume.as_mut()) else {
            return arriving.poll_read(context, most, emit);
        };
        let mut counted = Counted { resume, result: Ok(()) };
        let read = ready!(arriving.poll_read(context, most, &mut |piece| counted.take(piece, emit)));
        // The end of a connection ends a part only if the framing says so.
        let is_end = arriving.is_done() || matches!(read, Ok(Came::End));
        Poll::Ready(counted.end(read, is_end))
    }

    /// As [`Arriving::splices`].
    pub(super) fn splices(&self) -> bool {
        !self.has_rest() && self.arriving.splices()
    }

    /// As [`Arriving::splice`].
    ///
    /// # Errors
    /// The error after what was moved, unless the rest is requested elsewhere.
    pub(super) fn splice(&mut self, piped: &mut Piped) -> Result<Came> {
        let Self { arriving, followed } = self;
        let moved = arriving.splice(piped);
        let Some(followed) = followed else { return moved };
        let counted = match &mut followed.resume {
            Some(resume) => moved.and_then(|came| {
                resume.advance(piped.len())?;
                if arriving.is_done() || came == Came::End {
                    resume.end()?;
                }
                Ok(came)
            }),
            None => moved,
        };
        counted.or_else(|error| self.recover(error).map(|()| Came::Nothing))
    }

    fn has_rest(&self) -> bool {
        self.followed.as_ref().is_some_and(|followed| followed.rest.is_some())
    }

    /// Ready when the rest is not being requested elsewhere.
    fn poll_resumed(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        let Some(followed) = &mut self.followed else { return Poll::Ready(Ok(())) };
        let Some(resume) = followed.resume.as_mut().filter(|resume| resume.is_asking()) else {
            return Poll::Ready(Ok(()));
        };
        let Resumed { turn, answer: (_, rest, arriving), .. } = ready!(resume.poll(context))?;
        (followed.turn, followed.rest) = (turn, Some(rest));
        // The broken connection is closed with the value that is replaced.
        self.arriving = arriving.go_on_after(&self.arriving);
        Poll::Ready(Ok(()))
    }

    /// Handles `error`: the rest is requested elsewhere, or the error stands.
    fn recover(&mut self, error: Error) -> Result<()> {
        let Some(followed) = &mut self.followed else { return Err(error) };
        followed.turn.end_in(error.code());
        let Followed { turn, resume, .. } = &mut **followed;
        let is_resumed = resume.as_mut().is_some_and(|resume| resume.begin(turn, &error));
        if is_resumed { Ok(()) } else { Err(error) }
    }

    /// As [`Arriving::finish`]; the upstream gets the result.
    pub(super) fn finish(self) -> Ending {
        let ending = self.arriving.finish();
        if let Some(mut followed) = self.followed {
            followed.turn.succeed();
        }
        ending
    }
}

/// Counts the bytes that a read brings of a body that can be resumed.
struct Counted<'a> {
    resume: &'a mut Resume,
    result: Result<()>,
}

impl Counted<'_> {
    fn take(&mut self, piece: Slice, emit: &mut dyn FnMut(Slice)) {
        if self.result.is_ok() {
            self.result = self.resume.advance(piece.len());
        }
        if self.result.is_ok() {
            emit(piece);
        }
    }

    /// The result of a read; `is_end`: the body has ended by its framing.
    fn end<T>(self, read: Result<T>, is_end: bool) -> Result<T> {
        self.result?;
        if read.is_ok() && is_end {
            self.resume.end()?;
        }
        read
    }
}
