//! The body of an event stream, with heartbeats while it is quiet and an error event when it fails.
//!
//! It wraps a source whose frames are the blocks of events, with every byte. It inserts blocks only between two
//! frames. It reads the clock once a wait, and has one timer, which is moved when it fires early.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Instant;

use super::policy::Policy;
use crate::error::{Code, Error, Result};
use crate::net::{Payload, Source, Supply, Watch, shortened};
use crate::stream::Meter;
use crate::takeover::streams::Resting;

/// A comment, and the end of its block: parsers that wait for whole blocks see it at once.
pub(crate) const HEARTBEAT: &str = ":\n\n";

/// Has a client that was disconnected come back after so many milliseconds (HTML, 9.2.6).
pub(crate) fn retry(milliseconds: u64) -> String {
    format!("retry: {milliseconds}\n\n")
}

/// U+FEFF in UTF-8, which is skipped at the start of a stream and belongs to a field's name everywhere else.
const MARK: &[u8] = b"\xEF\xBB\xBF";

/// An observer of the blocks of a stream.
pub trait Observer: Send {
    /// A block has come from the origin, and is about to be sent: an event, or a comment, or a blank line.
    fn note(&mut self, block: &[u8], now: Instant);

    /// Whether the observer has seen all that it needs of a stream that has no other reader.
    fn is_satisfied(&self) -> bool;

    /// The stream has ended. Called once.
    fn end(&mut self, cause: Cause<'_>);
}

/// Its name alone: decision 063.
impl fmt::Debug for dyn Observer + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

/// How a stream has ended.
#[derive(Debug, Clone, Copy)]
pub enum Cause<'a> {
    /// It has ended cleanly.
    Whole,
    /// It has failed.
    Failed(&'a Error),
    /// The client had left, and the observer has seen all that it needs.
    Satisfied,
    /// The reader has stopped: the client left, the server ends, or a limit of reading on was reached.
    Dropped,
}

/// An event stream on its way to a client.
#[derive(Debug)]
pub(crate) struct EventBody {
    supply: Supply,
    policy: Option<Arc<Policy>>,
    meter: Arc<Meter>,
    observer: Option<Box<dyn Observer>>,
    /// Fires at the earlier of the times below.
    timer: Watch,
    /// When a comment is due.
    beat: Option<Instant>,
    /// When the origin must have sent an event.
    limit: Option<Instant>,
    /// The time between two comments, a little different each time, so that streams that began together do not send
    /// together.
    pause: Option<Duration>,
    state: State,
    /// The origin has nothing, and the clock was read when that began.
    waits: bool,
    /// An event has come since the last wait began.
    came: bool,
}

#[derive(Debug)]
enum State {
    /// Nothing has come from the origin. `beaten`: a comment was sent.
    Fresh {
        beaten: bool,
    },
    Flowing,
    /// The client has left.
    Left,
    Failed(Error),
    Ended,
}

impl EventBody {
    /// Wraps `supply`, whose frames are those of [`Framing::Events`](crate::framing::Framing::Events) with every byte.
    pub(crate) fn new(supply: Supply, policy: Option<Arc<Policy>>, meter: Arc<Meter>) -> Self {
        let pause = policy.as_ref().and_then(|policy| policy.heartbeat).map(shortened);
        Self {
            supply,
            policy,
            meter,
            observer: None,
            timer: Watch::default(),
            beat: None,
            limit: None,
            pause,
            state: State::Fresh { beaten: false },
            waits: false,
            came: true,
        }
    }

    /// Shows the blocks to `observer`.
    pub(crate) fn observed(mut self, observer: Box<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    fn end(&mut self, cause: Cause<'_>) {
        if let Some(mut observer) = self.observer.take() {
            observer.end(cause);
        }
    }

    /// Whether `block` is sent.
    fn pass(&mut self, block: &[u8]) -> bool {
        // A comment, or a blank line, before the first field is a frame of its own.
        self.came |= !matches!(block.first(), None | Some(b':' | b'\n' | b'\r')) && block != MARK;
        if let Some(observer) = &mut self.observer {
            observer.note(block, Instant::now());
        }
        match self.state {
            State::Fresh { beaten } => {
                self.state = State::Flowing;
                // After a comment of ours it would not be a byte order mark.
                !(beaten && block == MARK)
            }
            _ => true,
        }
    }

    fn is_satisfied(&self) -> bool {
        matches!(self.state, State::Left) && self.observer.as_ref().is_some_and(|one| one.is_satisfied())
    }

    /// The error event, and then the failure.
    fn fail(&mut self, error: Error) -> Result<Payload> {
        self.end(Cause::Failed(&error));
        let told = self.policy.as_ref().filter(|_| !matches!(self.state, State::Left));
        let told = told.and_then(|policy| policy.told(&error));
        self.state = State::Failed(error.clone());
        match told {
            Some(event) => {
                self.meter.told_failure();
                Ok(Payload::Text(event))
            }
            None => Err(error),
        }
    }

    /// The origin has nothing: waits for the next heartbeat or the event timeout.
    fn wait(&mut self, context: &mut Context<'_>, held: usize) -> Poll<Option<Result<Payload>>> {
        let Some(policy) = &self.policy else { return Poll::Pending };
        let idle = policy.idle;
        if self.pause.is_none() && idle.is_none() {
            return Poll::Pending;
        }
        let expired = if std::mem::replace(&mut self.waits, true) {
            self.timer.poll_expired(context)
        } else {
            let now = Instant::now();
            self.beat = self.pause.map(|pause| now + pause);
            if std::mem::take(&mut self.came) {
                self.limit = idle.map(|idle| now + idle);
            }
            self.poll_due(context, now)
        };
        ready!(expired);
        loop {
            let now = Instant::now();
            if self.limit.is_some_and(|limit| limit <= now) {
                self.meter.cut_idle();
                let detail = format!("the origin sent no event for {:?}", idle.unwrap_or_default());
                return Poll::Ready(Some(self.fail(Code::EventTimeout.error(detail))));
            }
            if self.beat.is_some_and(|beat| beat <= now) {
                // Bytes that still wait to be sent keep the connection alive as well as a comment
                // after them.
                if held == 0 {
                    return Poll::Ready(Some(Ok(self.beat())));
                }
                self.beat = self.pause.map(|pause| now + pause);
            }
            ready!(self.poll_due(context, now));
        }
    }

    /// Sets the timer to the next due time.
    fn poll_due(&mut self, context: &mut Context<'_>, now: Instant) -> Poll<()> {
        let due = match (self.beat, self.limit) {
            (Some(beat), Some(limit)) => Some(beat.min(limit)),
            (beat, limit) => beat.or(limit),
        };
        self.timer.poll_start(context, now, due.map(|due| due.saturating_duration_since(now)))
    }

    fn beat(&mut self) -> Payload {
        self.meter.beat();
        self.waits = false;
        self.pause = self.policy.as_ref().and_then(|policy| policy.heartbeat).map(shortened);
        if cfg!(all(test, planted_bug = "one-heartbeat")) {
            self.pause = None;
        }
        if let State::Fresh { beaten } = &mut self.state {
            *beaten = true;
        }
        Payload::Text(HEARTBEAT.into())
    }
}

impl Source for EventBody {
    fn poll_next(&mut self, context: &mut Context<'_>, held: usize) -> Poll<Option<Result<Payload>>> {
        match &self.state {
            State::Failed(_) if cfg!(all(test, planted_bug = "failed-events-end-well")) => {
                return Poll::Ready(None);
            }
            State::Failed(error) => return Poll::Ready(Some(Err(error.clone()))),
            State::Ended => return Poll::Ready(None),
            State::Fresh { .. } | State::Flowing | State::Left => {}
        }
        loop {
            if self.is_satisfied() {
                self.end(Cause::Satisfied);
                self.state = State::Ended;
                return Poll::Ready(None);
            }
            let Poll::Ready(next) = self.supply.poll_next(context, held) else {
                return self.wait(context, held);
            };
            self.waits = false;
            return Poll::Ready(match next {
                Some(Ok(block)) if self.pass(&block) => Some(Ok(block)),
                Some(Ok(_)) => continue,
                // The sender has to go on, and nothing has failed.
                Some(Err(error)) if error.code() == Code::WindowHeld => Some(Err(error)),
                Some(Err(error)) => Some(self.fail(error)),
                None => {
                    self.end(Cause::Whole);
                    self.state = State::Ended;
                    None
                }
            });
        }
    }

    fn attend(&mut self, context: &mut Context<'_>) {
        self.supply.attend(context);
    }

    fn client_left(&mut self) {
        if matches!(self.state, State::Fresh { .. } | State::Flowing) {
            self.state = State::Left;
            self.pause = None;
            self.beat = None;
        }
        self.supply.client_left();
    }

    fn trailers(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.supply.trailers()
    }

    fn at_rest(&mut self) -> Option<Resting> {
        let is_plain = matches!(self.state, State::Fresh { .. } | State::Flowing) && self.observer.is_none();
        if is_plain { self.supply.at_rest() } else { None }
    }
}

impl Drop for EventBody {
    fn drop(&mut self) {
        self.end(Cause::Dropped);
    }
}
