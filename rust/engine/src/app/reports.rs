//! What the application is told besides requests: what became of what the engine sends or has answered for it, and what went
//! wrong.

use std::fmt;
use std::task::Waker;

use super::ended::{Ended, Outcome, Untold};
use crate::error::{Code, Error};
use crate::sync::{Arc, Mutex, lock};

/// What the operator should know: what an application did that broke its response, how a relay that it has handed over has
/// failed, or what befell the site.
#[derive(Debug, Clone)]
pub struct Fault {
    /// Method and target of the request, if it is about one.
    pub request: Option<String>,
    /// What was wrong.
    pub error: Error,
    /// It is of a relay, and no mistake of the application's.
    pub is_relay: bool,
}

/// Faults that wait to be logged; an application that fails more often than its log is written is described by these.
/// Arbitrary.
const FAULTS: usize = 64;

#[derive(Default)]
struct State {
    faults: Vec<Fault>,
    completed: Vec<(u64, Outcome)>,
    /// Tickets of streams that have ended without a failure and are not awaited.
    unawaited: Vec<u64>,
    untold: Untold,
    /// Woken when there is something to be taken.
    taker: Option<Waker>,
    /// Called with the ticket of each completion that the application has heard of.
    heard: Option<Box<dyn Fn(u64) + Send>>,
}

/// The reports of one site to its application. Cloned by reference.
#[derive(Clone)]
pub struct Reports {
    state: Arc<Mutex<State>>,
    /// Bytes that the ends of requests may take until they are told.
    most: usize,
}

impl Reports {
    /// None yet. The ends of requests take `most` bytes at most until they are told.
    pub(super) fn new(most: usize) -> Self {
        Self { state: Arc::new(Mutex::new(State::default())), most }
    }

    /// Names the waker of the task that takes reports; `None` if that task has ended.
    pub(super) fn listen(&self, waker: Option<&Waker>) {
        let previous = std::mem::replace(&mut lock(&self.state).taker, waker.cloned());
        drop(previous);
    }

    /// Changes the state, and wakes the task that takes reports if `change` says so.
    fn put(&self, change: impl FnOnce(&mut State) -> bool) {
        let mut state = lock(&self.state);
        let is_news = change(&mut state);
        let waker = if is_news { state.taker.clone() } else { None };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Has a fault logged.
    pub fn fault(&self, fault: Fault) {
        self.put(|state| {
            if state.faults.len() < FAULTS {
                state.faults.push(fault);
            }
            true
        });
    }

    /// Faults that have not been taken yet.
    pub fn take_faults(&self) -> Vec<Fault> {
        std::mem::take(&mut lock(&self.state).faults)
    }

    /// Reports, under the name of `ticket`, the outcome of a stream that the engine sends.
    pub fn completion(&self, ticket: u64) -> Completion {
        Completion { told: Some(Told::Reports(self.clone())), ticket, is_awaited: true }
    }

    /// The tickets of streams that have ended without a failure since the last call, and were not awaited.
    pub fn take_unawaited(&self) -> Vec<u64> {
        std::mem::take(&mut lock(&self.state).unawaited)
    }

    fn complete(&self, ticket: u64, outcome: Outcome, is_awaited: bool) {
        self.put(|state| {
            if !is_awaited && outcome.failure.is_none() {
                state.unawaited.push(ticket);
                return false;
            }
            state.completed.push((ticket, outcome));
            // All are taken at once: the taker was woken for the first.
            state.completed.len() == 1
        });
    }

    /// The outcomes of streams since the last call.
    pub fn take_completed(&self) -> Vec<(u64, Outcome)> {
        std::mem::take(&mut lock(&self.state).completed)
    }

    /// Has `tell` called with the ticket of each completion that the application has heard of, in a worker process.
    pub fn tell_heard(&self, tell: impl Fn(u64) + Send + 'static) {
        let previous = lock(&self.state).heard.replace(Box::new(tell));
        drop(previous);
    }

    /// The application has heard of a completion.
    pub fn note_heard(&self, ticket: u64) {
        if let Some(tell) = &lock(&self.state).heard {
            tell(ticket);
        }
    }

    /// Tells what became of a request that the engine has answered. If too many wait to be told, it is dropped and counted: an
    /// engine thread waits for nothing.
    pub fn end(&self, ended: Ended) {
        // All are taken at once: the taker was woken for the first.
        self.put(|state| state.untold.put(ended, self.most));
    }

    /// The ends of requests since the last call, and how many more were dropped.
    pub fn take_ended(&self) -> (Vec<Ended>, u64) {
        lock(&self.state).untold.take()
    }

    /// Ends of requests so far that were dropped.
    pub(super) fn dropped(&self) -> u64 {
        lock(&self.state).untold.dropped_so_far()
    }
}

impl fmt::Debug for Reports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reports").finish_non_exhaustive()
    }
}

/// Tells once what has become of a stream that the engine sends, also by being dropped.
pub struct Completion {
    told: Option<Told>,
    ticket: u64,
    /// An end without a failure is worth a wake-up.
    is_awaited: bool,
}

/// Who is told.
enum Told {
    Reports(Reports),
    #[cfg(not(loom))]
    Other(Box<dyn FnOnce(Outcome) + Send>),
}

impl Completion {
    /// The same, where only a failure is worth a wake-up: an end without one comes with [`Reports::take_unawaited`].
    #[must_use]
    pub fn unawaited(mut self) -> Self {
        self.is_awaited = false;
        self
    }

    /// One that calls `tell`.
    #[cfg(not(loom))]
    pub(crate) fn told_by(tell: impl FnOnce(Outcome) + Send + 'static) -> Self {
        Self { told: Some(Told::Other(Box::new(tell))), ticket: 0, is_awaited: true }
    }

    /// The ticket that the outcome is reported under.
    #[cfg(not(loom))]
    pub(crate) fn ticket(&self) -> u64 {
        self.ticket
    }

    /// The stream is over.
    pub fn tell(mut self, outcome: Outcome) {
        match self.told.take() {
            Some(Told::Reports(reports)) => reports.complete(self.ticket, outcome, self.is_awaited),
            #[cfg(not(loom))]
            Some(Told::Other(tell)) => tell(outcome),
            None => {}
        }
    }

    /// Nothing of the stream is sent, because of `error` where that is known; `begun`: some of the head had left.
    pub(super) fn forsake(self, error: Option<Error>, begun: bool) {
        let gone = || Code::ClientGone.error("the client left before the body was begun to be sent");
        let failure = Some(error.unwrap_or_else(gone));
        self.tell(Outcome { bytes: 0, begun, failure });
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        if let Some(told) = self.told.take() {
            Self { told: Some(told), ticket: self.ticket, is_awaited: self.is_awaited }.forsake(None, false);
        }
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completion").field("ticket", &self.ticket).finish_non_exhaustive()
    }
}
