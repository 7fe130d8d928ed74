//! Moves the body of a response from its connection to a stream.

use std::task::{Context, Poll, ready};

use super::arriving::Came;
use super::body::Body;
use crate::error::{Error, Result};
use crate::pool::Slice;
use crate::stream::{Ending, Feed};

/// A body and the feed that it goes into.
#[derive(Debug)]
pub(super) struct Feeding<'a> {
    body: Body,
    feed: &'a Feed,
    /// Decoded pieces that have not been fed.
    pieces: Vec<Slice>,
    step: Step,
}

/// The next step.
#[derive(Debug)]
enum Step {
    /// Wait for the consumer to have room.
    Room,
    /// Read.
    Read,
    /// Feed the pieces that were read, and then the error, if there is one.
    Feed(Result<()>),
}

impl<'a> Feeding<'a> {
    /// `rest` came with the head.
    pub(super) fn new(mut body: Body, rest: Slice, feed: &'a Feed) -> Self {
        let mut pieces = Vec::with_capacity(1);
        let step = Step::Feed(body.decode(rest, &mut |piece| pieces.push(piece)));
        Self { body, feed, pieces, step }
    }

    /// Ready at the end of the body.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.body.drive(context)?;
        loop {
            match self.step {
                Step::Feed(_) => {
                    ready!(self.feed.poll_push(context, &mut self.pieces))?;
                    if let Step::Feed(read) = std::mem::replace(&mut self.step, Step::Room) {
                        read?;
                    }
                }
                Step::Room if self.body.is_done() => return Poll::Ready(Ok(())),
                Step::Room => {
                    ready!(self.feed.poll_room(context))?;
                    self.step = Step::Read;
                }
                Step::Read => {
                    ready!(self.body.poll_readable(context))?;
                    ready!(self.body.poll_reserve(context, self.feed))?;
                    let (pieces, most) = (&mut self.pieces, self.feed.credit());
                    let read = ready!(self.body.poll_read(context, most, &mut |piece| pieces.push(piece)));
                    self.step = match read {
                        Ok(Came::Bytes) => Step::Feed(Ok(())),
                        Ok(Came::Nothing) => Step::Room,
                        Ok(Came::End) => return Poll::Ready(Ok(())),
                        Err(error) if pieces.is_empty() => return Poll::Ready(Err(error)),
                        Err(error) => Step::Feed(Err(error)),
                    };
                }
            }
        }
    }

    /// Ends the stream with `error`, and adds the origin to it.
    pub(super) fn fail(&self, error: Error) -> Error {
        self.body.fail(error)
    }

    /// After the end of the body.
    pub(super) fn finish(self) -> Ending {
        self.body.finish()
    }
}
