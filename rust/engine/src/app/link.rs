//! One exchange between a client's connection and the application: what each tells the other, and who waits.
//!
//! [`Near`] is held by the task of the client's connection, [`Far`] by the application's side, on any thread. From the
//! application come [`Command`]s, in order; it hears that the client is lost, how much the kernel has taken, and what
//! became of what the engine has sent for it. The request's body goes to it as a [`Stream`] beside this. The
//! invariants: bytes count as unsent until the kernel took them; a half that goes without a word is told to the other
//! as a failure, never as an end.

use std::collections::VecDeque;
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc as Plain;
use std::task::{Context, Poll, Waker};

use penstock_trace::Trace;

use super::ended::Outcome;
use super::reports::Completion;
use crate::error::{Code, Error};
use crate::events::Policy;
#[cfg(not(loom))]
use crate::hub::{Admitted, Lease};
use crate::inspect::Inspector;
#[cfg(not(loom))]
use crate::relay_spec::Relay;
use crate::stream::Stream;
use crate::sync::{Arc, Mutex, lock};

/// Bytes of another owner, which are released by the drop.
pub type Foreign = Box<dyn AsRef<[u8]> + Send + Sync>;

/// Bytes that the application has written.
pub enum Content {
    /// Owned by the engine.
    Bytes(Vec<u8>),
    /// Of another owner.
    Foreign(Foreign),
}

impl Content {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Foreign(bytes) => (**bytes).as_ref(),
        }
    }
}

impl Content {
    /// Keeps the first `length` bytes.
    #[cfg(not(loom))]
    pub(crate) fn truncate(&mut self, length: usize) {
        match self {
            Self::Bytes(bytes) => bytes.truncate(length),
            Self::Foreign(_) if length < self.bytes().len() => {
                *self = Self::Bytes(self.bytes()[..length].to_vec());
            }
            Self::Foreign(_) => {}
        }
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Content").field("length", &self.bytes().len()).finish()
    }
}

/// What the application has done.
#[derive(Debug)]
pub enum Command {
    /// Bytes for the client.
    Write(Content),
    /// The next write is of a stream that comes over a connection for which requests wait in this line.
    FeedOn(usize),
    /// What follows is a stream's; the engine sends it.
    Attach(Attachment),
    /// What follows is a topic's; the engine sends it.
    #[cfg(not(loom))]
    Subscribe(Subscription),
    /// The response is a relay's, from its head on; the engine answers as on a native route.
    #[cfg(not(loom))]
    Relay(Box<RelayOrder>),
    /// A part of a file follows. Answered by [`Outcome`].
    File(File),
    /// An option of the client's socket that is a number: its level, its name, and the number.
    Option(i32, i32, i32),
    /// The response has ended, as far as the application is concerned.
    Done,
    /// Send what was written, and close.
    Close,
}

impl Command {
    /// It will not be carried out. The completion of what it was to send hears why, and whether some of the head had left.
    pub(crate) fn forsake(self, error: Option<Error>, begun: bool) {
        let rest = match self {
            Self::Attach(Attachment { rest, .. }) => rest,
            #[cfg(not(loom))]
            Self::Subscribe(Subscription { rest, .. }) => Some(rest),
            _ => None,
        };
        if let Some(rest) = rest {
            rest.forsake(error, begun);
        }
    }
}

/// A stream that the engine sends in the application's place.
#[derive(Debug)]
pub struct Attachment {
    /// What is sent.
    pub stream: Stream,
    /// Hears of the end if the stream is all that is left of the body; the application need not wait for it. `None`:
    /// it is a part, the application goes on after it, and hears of it by [`News::outcome`].
    pub rest: Option<Completion>,
    /// What is done besides with the events of one that is cut into them.
    pub policy: Option<Plain<Policy>>,
    /// What sees it.
    pub inspector: Option<Inspector>,
    /// In a worker process: tells another worker what to report at the end, if this one has gone by then.
    pub account: Option<Vec<u8>>,
}

/// A subscriber of a topic, which the engine serves in the application's place to the end of the response.
#[cfg(not(loom))]
#[derive(Debug)]
pub struct Subscription {
    /// Who.
    pub admitted: Box<Admitted>,
    /// How long it may go on, if it has a limit that can be renewed.
    pub lease: Option<Lease>,
    /// Who hears of the end.
    pub rest: Completion,
}

/// A request that the application leaves to the engine before anything is fetched for it.
#[cfg(not(loom))]
#[derive(Debug)]
pub struct RelayOrder {
    /// What answers it.
    pub relay: Arc<Relay>,
    /// The target at the origin.
    pub target: String,
}

/// A part of a file.
#[derive(Debug)]
pub struct File {
    /// The file.
    pub descriptor: OwnedFd,
    /// Where the part begins.
    pub offset: u64,
    /// Bytes of it.
    pub count: u64,
}

/// What the application says of an exchange for the access log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Note {
    /// On whose account it is.
    pub tenant: Option<String>,
    /// Why the response is not what the handler wanted to send.
    pub failure: Option<Code>,
}

/// What there is for the application to hear; taken with [`Far::take`].
#[derive(Debug, Default)]
pub struct News {
    /// The exchange is over and nothing that is written arrives any more. Told every time.
    pub lost: Option<Loss>,
    /// What was attached has been sent, or will not be.
    pub outcome: Option<Outcome>,
    /// The connection has changed to another protocol: what the client sends in it.
    pub tunnel: Option<Stream>,
    /// Bytes written and not yet taken by the kernel.
    pub unsent: usize,
    /// Of an exchange that is lost: some of the response's head had left.
    pub begun: bool,
}

/// How the client's half has ended.
#[derive(Debug, Clone)]
pub enum Loss {
    /// Everything was sent, and the connection closed as the application had asked.
    Closed,
    /// The client is lost, or was cut off.
    Failed(Error),
}

/// Why there will be no more commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// The application has broken the exchange off: what the kernel does not take at once is not to be sent.
    Aborted,
    /// It is done with the exchange.
    Left,
    /// It has not taken the request, because it has more to do than it can.
    Refused,
}

#[derive(Debug, Default)]
struct State {
    commands: VecDeque<Command>,
    unsent: usize,
    /// The application wants to hear when no more than that is unsent.
    low: Option<usize>,
    /// The application has said how its half ends.
    settled: bool,
    over: Option<Over>,
    lost: Option<Loss>,
    /// Of a response that is lost: some of its head had left.
    begun: bool,
    outcome: Option<Outcome>,
    /// For the access log. On the heap: few have one.
    note: Option<Box<Note>>,
    tunnel: Option<Stream>,
    /// Of the request.
    trace: Option<Plain<Trace>>,
    near: Option<Waker>,
    far: Option<Waker>,
}

impl State {
    /// Why the exchange was lost, and whether some of the head had left.
    fn loss(&self) -> (Option<Error>, bool) {
        match &self.lost {
            Some(Loss::Failed(error)) => (Some(error.clone()), self.begun),
            Some(Loss::Closed) | None => (None, self.begun),
        }
    }

    /// Whether what is done from now on has no effect.
    fn is_over_for_good(&self) -> bool {
        self.lost.is_some() || self.over == Some(Over::Aborted)
    }
}

type Link = Arc<Mutex<State>>;

/// Makes the two halves.
pub fn link() -> (Near, Far) {
    let link = Arc::new(Mutex::new(State::default()));
    (Near { link: Arc::clone(&link) }, Far { link })
}

/// Changes the state, and wakes whom `change` returns once the lock is open again.
fn change(link: &Link, change: impl FnOnce(&mut State) -> Option<Waker>) {
    let waker = change(&mut lock(link));
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// The half of the client's connection.
#[derive(Debug)]
pub struct Near {
    link: Link,
}

impl Near {
    /// What the application fetches for the exchange is a part of `trace`.
    pub fn set_trace(&self, trace: Plain<Trace>) {
        lock(&self.link).trace = Some(trace);
    }

    /// Moves what the application has done to the end of `commands`; ready if there was something.
    ///
    /// # Errors
    /// There will be no more.
    pub fn poll_commands(
        &self,
        context: &mut Context<'_>,
        commands: &mut VecDeque<Command>,
    ) -> Poll<Result<(), Over>> {
        let mut state = lock(&self.link);
        if !state.commands.is_empty() {
            if commands.is_empty() {
                std::mem::swap(commands, &mut state.commands);
            } else {
                commands.append(&mut state.commands);
            }
            return Poll::Ready(Ok(()));
        }
        if let Some(over) = state.over {
            return Poll::Ready(Err(over));
        }
        match &mut state.near {
            Some(waker) => waker.clone_from(context.waker()),
            None => state.near = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    /// The exchange is over; `begun`: some of the response's head had left. What is said first stands.
    pub fn lose(&self, loss: Loss, begun: bool) {
        let mut left = VecDeque::new();
        let mut why = (None, false);
        change(&self.link, |state| {
            if state.lost.is_none() {
                state.lost = Some(loss);
                state.begun = begun;
            }
            state.unsent = 0;
            left = std::mem::take(&mut state.commands);
            why = state.loss();
            state.far.clone()
        });
        // Bytes of other owners are dropped without the lock.
        for command in left {
            command.forsake(why.0.clone(), why.1);
        }
    }

    /// What the application has said for the access log since the last call.
    pub fn take_note(&self) -> Option<Note> {
        lock(&self.link).note.take().map(|note| *note)
    }

    /// The kernel has taken `count` of the bytes written.
    pub fn sent(&self, count: usize) {
        change(&self.link, |state| {
            state.unsent = state.unsent.saturating_sub(count);
            state.low.take_if(|low| state.unsent <= *low).and_then(|_| state.far.clone())
        });
    }

    /// What was attached is over.
    pub fn report(&self, outcome: Outcome) {
        change(&self.link, |state| {
            state.outcome = Some(outcome);
            state.far.clone()
        });
    }

    /// The connection has changed to another protocol, in which the client sends `stream`.
    pub fn tunnel(&self, stream: Stream) {
        change(&self.link, |state| {
            state.tunnel = Some(stream);
            state.far.clone()
        });
    }
}

impl Drop for Near {
    fn drop(&mut self) {
        let error = Code::EngineClosed.error("the engine was closed before the end of the exchange");
        self.lose(Loss::Failed(error), false);
        let tunnel = lock(&self.link).tunnel.take();
        drop(tunnel);
    }
}

/// The half of the application. Dropping it before [`Far::done`] or [`Far::close`] breaks the exchange off.
#[derive(Debug)]
pub struct Far {
    link: Link,
}

impl Far {
    /// Names the waker of news; woken at once if there may be some.
    pub fn listen(&self, waker: &Waker) {
        change(&self.link, |state| {
            state.far = Some(waker.clone());
            let news = state.lost.is_some() || state.outcome.is_some() || state.tunnel.is_some();
            news.then(|| waker.clone())
        });
    }

    /// What there is to hear.
    pub fn take(&self) -> News {
        let mut state = lock(&self.link);
        News {
            lost: state.lost.clone(),
            outcome: state.outcome.take(),
            tunnel: state.tunnel.take(),
            unsent: state.unsent,
            begun: state.begun,
        }
    }

    /// Queues bytes, which leave at the next [`Far::flush`], or with whatever else is done; says how many are unsent
    /// with them. None are where the client is lost.
    pub fn write(&self, content: Content) -> usize {
        self.write_of(content, 0)
    }

    /// As [`Far::write`], of bytes of a stream that comes over a connection for which requests wait in `line`; 0 for none.
    pub fn write_of(&self, content: Content, line: usize) -> usize {
        let count = content.bytes().len();
        let mut state = lock(&self.link);
        if state.is_over_for_good() {
            state.unsent = 0;
            drop(state);
            drop(content);
            return 0;
        }
        state.unsent += count;
        if line != 0 {
            state.commands.push_back(Command::FeedOn(line));
        }
        state.commands.push_back(Command::Write(content));
        state.unsent
    }

    /// The trace of the request, if it has one.
    pub fn trace(&self) -> Option<Plain<Trace>> {
        lock(&self.link).trace.clone()
    }

    /// Says something for the access log. What was said before stands where `note` says nothing.
    pub fn note(&self, note: Note) {
        let mut state = lock(&self.link);
        let known = state.note.get_or_insert_default();
        let Note { tenant, failure } = note;
        known.tenant = tenant.or(known.tenant.take());
        known.failure = failure.or(known.failure);
    }

    /// Sends what was written. Many writes of one turn of the application's loop are then one wake-up, and one write.
    pub fn flush(&self) {
        change(&self.link, |state| if state.commands.is_empty() { None } else { state.near.take() });
    }

    /// Lets the engine send a stream, which leaves as bytes do.
    pub fn attach(&self, attachment: Attachment) {
        self.queue(Command::Attach(attachment));
    }

    /// Lets the engine serve a subscriber of a topic; that begins as bytes leave.
    #[cfg(not(loom))]
    pub fn subscribe(&self, subscription: Subscription) {
        self.queue(Command::Subscribe(subscription));
    }

    /// Has the engine answer by a relay, from the head on. That begins at the next [`Far::flush`], or with whatever else is
    /// done.
    #[cfg(not(loom))]
    pub fn relay(&self, order: RelayOrder) {
        self.queue(Command::Relay(Box::new(order)));
    }

    fn queue(&self, command: Command) {
        let mut state = lock(&self.link);
        if state.is_over_for_good() {
            let (error, begun) = state.loss();
            drop(state);
            command.forsake(error, begun);
            return;
        }
        state.commands.push_back(command);
    }

    /// Lets the engine send a part of a file.
    pub fn send_file(&self, file: File) {
        self.command(Command::File(file), |_| {});
    }

    /// In a worker process: sets an option of the client's socket, as soon as what was done before has been.
    pub fn set_option(&self, level: i32, name: i32, value: i32) {
        self.command(Command::Option(level, name, value), |_| {});
    }

    /// The response has ended. More of the request may still be read.
    pub fn done(&self) {
        self.command(Command::Done, |state| state.settled = true);
    }

    /// The response has ended, and the application is done with the exchange.
    pub fn finish(self) {
        // In the same step: the engine may have answered before this half is dropped, and would wake it for nothing.
        let mut deaf = None;
        self.command(Command::Done, |state| {
            state.settled = true;
            state.over.get_or_insert(Over::Left);
            deaf = state.far.take();
        });
        drop(deaf);
    }

    /// Closes once everything is written.
    pub fn close(&self) {
        self.command(Command::Close, |state| state.settled = true);
    }

    /// Breaks the exchange off: what the kernel does not take at once is not sent.
    pub fn abort(&self) {
        change(&self.link, |state| {
            state.over = Some(Over::Aborted);
            state.near.take()
        });
    }

    /// Gives the request back before anything was done for it, because the application has more to do than it can.
    pub(crate) fn refuse(self) {
        change(&self.link, |state| {
            state.over.get_or_insert(Over::Refused);
            state.near.take()
        });
    }

    /// Bytes written and not yet taken by the kernel.
    pub fn unsent(&self) -> usize {
        lock(&self.link).unsent
    }

    /// Asks for news once no more than `low` bytes are unsent; false if that is so already.
    pub fn await_below(&self, low: usize) -> bool {
        let mut state = lock(&self.link);
        let waits = state.unsent > low && state.lost.is_none();
        state.low = waits.then_some(low);
        waits
    }

    /// Whether nothing that is written arrives any more.
    pub fn is_lost(&self) -> bool {
        lock(&self.link).lost.is_some()
    }

    /// Queues a command. Behind the loss of the client it is dropped.
    fn command(&self, command: Command, settle: impl FnOnce(&mut State)) {
        let mut state = lock(&self.link);
        settle(&mut state);
        if state.is_over_for_good() {
            drop(state);
            drop(command);
            return;
        }
        state.commands.push_back(command);
        let waker = state.near.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        let mut deaf = None;
        let mut tunnel = None;
        change(&self.link, |state| {
            // What the client's half says from now on is not heard.
            deaf = state.far.take();
            tunnel = state.tunnel.take();
            if state.over.is_some() {
                return None;
            }
            state.over = Some(if state.settled { Over::Left } else { Over::Aborted });
            state.near.take()
        });
        drop((deaf, tunnel));
    }
}
