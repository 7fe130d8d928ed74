//! The body of a response for a task that sends it on: the task polls it for the next frame, and there is
//! nothing between the two connections.
//!
//! A stream has a queue, two locks and two wakers between reader and sender. If both are one task these are of no
//! use, and with a thousand streams their cache lines are the cost.

use std::task::{Context, Poll, ready};

use super::arriving::Came;
use super::body::Body;
use super::limits::Deadline;
use crate::error::{Code, Error, Result};
use crate::framing::{Cutter, Framing};
use crate::net::{Payload, Piped, Pipes, Source};
use crate::pool::{Purpose, Slice};
use crate::stream::{Allowance, Ending};
use crate::sync::Arc;
use crate::takeover::streams::Resting;
use crate::wire::BodyFraming;

/// A body before any of it has been decoded.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(super) body: Body,
    /// What came with the head.
    pub(super) rest: Option<Slice>,
    pub(super) deadline: Option<Deadline>,
}

impl Begun {
    /// How it is delimited.
    pub(crate) fn framing(&self) -> BodyFraming {
        self.body.framing()
    }

    /// The line in which requests wait for its connection.
    pub(crate) fn line(&self) -> usize {
        self.body.line()
    }

    /// Cuts it by `framing`. Bytes that have been read and not sent stay within `allowance`.
    pub(crate) fn relay(self, framing: &Framing, allowance: Allowance) -> Relayed {
        let Self { mut body, rest, deadline } = self;
        let mut cutter = Cutter::new(framing);
        let decoded =
            rest.map_or(Ok(()), |rest| body.decode(rest, &mut |piece| push(&mut cutter, &allowance, piece)));
        let state = match decoded {
            Ok(()) => State::Coming(body),
            Err(error) => State::Failed(body.fail(error)),
        };
        Relayed { state, cutter, allowance, deadline }
    }
}

/// A body on its way from one connection to another. Dropping it before its end closes the origin's.
#[derive(Debug)]
pub(crate) struct Relayed {
    state: State,
    /// Bytes that were read and not taken.
    cutter: Cutter,
    allowance: Allowance,
    deadline: Option<Deadline>,
}

#[derive(Debug)]
enum State {
    Coming(Body),
    /// All of it has been read, and what follows it.
    Ended(Ending),
    /// The error after the bytes that were read.
    Failed(Error),
}

impl Source for Relayed {
    fn poll_next(&mut self, context: &mut Context<'_>, held: usize) -> Poll<Option<Result<Payload>>> {
        self.attend(context);
        loop {
            if let Some(frame) = ready!(self.poll_cut(context)) {
                return Poll::Ready(Some(frame.map(Payload::Kept)));
            }
            let State::Coming(body) = &mut self.state else {
                self.allowance.end();
                return Poll::Ready(match &self.state {
                    State::Failed(error) => Some(Err(error.clone())),
                    State::Coming(_) | State::Ended(_) => None,
                });
            };
            if body.is_done() {
                self.finish();
                continue;
            }
            // If a read has emptied the socket, its bytes are sent before the next wait: the slab is free by then and
            // comes back, so that the next event of any stream finds it in the processor's caches.
            let most = if held > 0 && body.is_dry() { None } else { self.allowance.credit(held) };
            let Some(most) = most else {
                let detail = "what was read before has to be sent first";
                return Poll::Ready(Some(Err(Code::WindowHeld.error(detail))));
            };
            let (cutter, allowance) = (&mut self.cutter, &self.allowance);
            let read = match ready!(body.poll_readable(context)) {
                Ok(()) => {
                    ready!(body.poll_read(context, most, &mut |piece| push(cutter, allowance, piece)))
                }
                Err(error) => Err(error),
            };
            match read {
                Ok(Came::Bytes | Came::Nothing) => {}
                Ok(Came::End) => self.finish(),
                Err(error) => self.fail(error),
            }
        }
    }

    fn splices(&self) -> bool {
        matches!(&self.state, State::Coming(body) if self.cutter.is_raw() && self.cutter.pending() == 0 && body.splices())
    }

    fn poll_spliced(&mut self, context: &mut Context<'_>, pipes: &Arc<Pipes>) -> Poll<Option<Piped>> {
        self.attend(context);
        while self.splices() {
            let State::Coming(body) = &mut self.state else { break };
            if let Err(error) = ready!(body.poll_readable(context)) {
                self.fail(error);
                break;
            }
            // The rest may have been asked for elsewhere meanwhile.
            if !body.splices() {
                break;
            }
            let Some(mut moved) = Pipes::take(pipes) else { break };
            match body.splice(&mut moved) {
                Ok(Came::Bytes) => {
                    self.allowance.count_spliced(moved.len());
                    return Poll::Ready(Some(moved));
                }
                Ok(Came::Nothing) => {}
                Ok(Came::End) => self.finish(),
                Err(error) => self.fail(error),
            }
        }
        Poll::Ready(None)
    }

    fn attend(&mut self, context: &mut Context<'_>) {
        let State::Coming(body) = &mut self.state else { return };
        // Three times for each event.
        if self.deadline.is_none() && body.has_sent() {
            return;
        }
        let expired = self.deadline.as_mut().map_or(Poll::Pending, |deadline| deadline.poll(context));
        let result = match expired {
            Poll::Ready(error) => Err(error),
            Poll::Pending => body.drive(context),
        };
        if let Err(error) = result {
            self.fail(error);
        }
    }

    fn at_rest(&mut self) -> Option<Resting> {
        let State::Coming(body) = &self.state else { return None };
        (self.cutter.pending() == 0).then(|| body.at_rest())?.map(Resting::Origin)
    }

    fn trailers(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        if let State::Ended(ending) = &self.state { ending.trailers.clone() } else { Vec::new() }
    }
}

impl Relayed {
    /// The next frame of the bytes that were read, if it is whole.
    fn poll_cut(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Slice>>> {
        let Self { state, cutter, allowance, .. } = self;
        loop {
            let frame = match state {
                State::Ended(_) => cutter.finish(allowance.pool()),
                State::Coming(_) | State::Failed(_) => cutter.next(allowance.pool()),
            };
            match frame {
                Err(error) if error.code() == Code::PoolFull => {
                    // A failure does not wait for a frame that may never have room.
                    if matches!(state, State::Failed(_)) {
                        return Poll::Ready(None);
                    }
                    // Memory that is given is dropped at once, so that the frame can be joined in it. Any other error
                    // will occur there again.
                    drop(ready!(allowance.pool().poll_room(context, cutter.lacks(), Purpose::Control)));
                }
                other => return Poll::Ready(other.transpose()),
            }
        }
    }

    fn finish(&mut self) {
        if let State::Coming(body) = std::mem::replace(&mut self.state, State::Ended(Ending::default())) {
            self.state = State::Ended(body.finish());
        }
    }

    fn fail(&mut self, error: Error) {
        if let State::Coming(body) = &self.state {
            self.state = State::Failed(body.fail(error));
        }
    }
}

fn push(cutter: &mut Cutter, allowance: &Allowance, piece: Slice) {
    allowance.count(piece.len());
    cutter.push(piece);
}
