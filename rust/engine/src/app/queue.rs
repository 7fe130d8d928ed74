//! The requests that wait for the application: one bounded queue per site, filled by all engine threads.
//!
//! [`Queue::offer`] never waits: where too many requests wait already the connection answers for itself at once. A
//! request that has not been taken can be withdrawn, because its time is up or its client is gone. The invariant: a
//! request is either taken, withdrawn, or in the queue, and only what is in the queue counts.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::task::Waker;
use std::time::Duration;

use super::ended::{Ended, Untold};
use super::link::{Far, Outcome};
use crate::error::{Code, Error, Result};
use crate::stream::Stream;
use crate::sync::{Arc, Mutex, lock};

/// Both ends of a connection; none on a Unix socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    /// The client's.
    pub remote: Option<SocketAddr>,
    /// Where it has connected to.
    pub local: Option<SocketAddr>,
}

/// A request on its way to the application.
#[derive(Debug)]
pub struct Request {
    /// The head, serialised anew.
    pub head: Vec<u8>,
    /// Its body, if it has one, without its framing.
    pub body: Option<Stream>,
    /// Whether the head has announced chunks, which whoever hands the body on must write.
    pub chunked: bool,
    /// Where it comes from.
    pub ends: Ends,
    /// The engine thread that owns the client's connection: what is fetched there for it changes no thread on its way.
    pub thread: usize,
    /// The application's half of the exchange.
    pub far: Far,
}

/// What the operator should know: what an application did that broke its response, or what befell the site.
#[derive(Debug, Clone)]
pub struct Fault {
    /// Method and target of the request whose response was cut off, if it is about one.
    pub request: Option<String>,
    /// What was wrong.
    pub error: Error,
}

/// Faults that wait to be logged; an application that fails more often than its log is written is described by these.
/// Arbitrary.
const FAULTS: usize = 64;

struct State {
    waiting: BTreeMap<u64, Request>,
    next: u64,
    faults: Vec<Fault>,
    completed: Vec<(u64, Outcome)>,
    untold: Untold,
    open: bool,
    taker: Option<Waker>,
}

/// The queue of one site. Cloned by reference.
#[derive(Clone)]
pub struct Queue {
    state: Arc<Mutex<State>>,
    bound: usize,
    limit: Option<Duration>,
    /// Bytes that what is untold may take.
    untold: usize,
}

/// A place in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place(u64);

impl Queue {
    /// A queue in which at most `bound` requests wait, each for no longer than `limit`. The time is kept by whoever
    /// offers them. What became of others waits in `untold` bytes at most.
    pub fn new(bound: usize, limit: Option<Duration>, untold: usize) -> Self {
        let state = State {
            waiting: BTreeMap::new(),
            next: 0,
            faults: Vec::new(),
            completed: Vec::new(),
            untold: Untold::default(),
            open: true,
            taker: None,
        };
        Self { state: Arc::new(Mutex::new(state)), bound, limit, untold }
    }

    /// How long a request may wait.
    pub fn limit(&self) -> Option<Duration> {
        self.limit
    }

    /// Names the waker of whoever takes requests; woken at once if some wait.
    pub fn listen(&self, waker: &Waker) {
        let mut state = lock(&self.state);
        state.taker = Some(waker.clone());
        let wake = !state.waiting.is_empty();
        drop(state);
        if wake {
            waker.wake_by_ref();
        }
    }

    /// Puts a request into the queue.
    ///
    /// # Errors
    /// `APP_BUSY`: too many wait. `DRAINING`: nobody takes requests any more.
    pub fn offer(&self, request: Request) -> Result<Place> {
        let mut state = lock(&self.state);
        let refusal = if !state.open {
            Some(Code::Draining.error("the application takes no more requests"))
        } else if state.waiting.len() >= self.bound {
            Some(Code::AppBusy.error(format!("{} requests wait for the application", self.bound)))
        } else {
            None
        };
        if let Some(refusal) = refusal {
            drop(state);
            drop(request);
            return Err(refusal);
        }
        let place = state.next;
        state.next += 1;
        state.waiting.insert(place, request);
        // Whoever takes requests takes them until there are none: it has been told of the first.
        let waker = if state.waiting.len() == 1 { state.taker.clone() } else { None };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(Place(place))
    }

    /// The request that has waited for longest.
    pub fn take(&self) -> Option<Request> {
        lock(&self.state).waiting.pop_first().map(|(_, request)| request)
    }

    /// Takes a request back that nobody has taken; whether there was one.
    pub fn withdraw(&self, place: Place) -> bool {
        let request = lock(&self.state).waiting.remove(&place.0);
        request.is_some()
    }

    /// Whether a request still waits.
    pub fn waits(&self, place: Place) -> bool {
        lock(&self.state).waiting.contains_key(&place.0)
    }

    /// Requests that wait.
    pub fn len(&self) -> usize {
        lock(&self.state).waiting.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tells whoever takes requests of a fault.
    pub fn report(&self, fault: Fault) {
        let mut state = lock(&self.state);
        if state.faults.len() < FAULTS {
            state.faults.push(fault);
        }
        let waker = state.taker.clone();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Faults that have not been told yet.
    pub fn take_faults(&self) -> Vec<Fault> {
        std::mem::take(&mut lock(&self.state).faults)
    }

    /// What will tell, under the name of `ticket`, what becomes of a stream that the engine sends.
    pub fn completion(&self, ticket: u64) -> Completion {
        Completion { queue: Some(self.clone()), ticket }
    }

    fn complete(&self, ticket: u64, outcome: Outcome) {
        let mut state = lock(&self.state);
        state.completed.push((ticket, outcome));
        // Whoever takes them takes all: it has been told of the first.
        let waker = if state.completed.len() == 1 { state.taker.clone() } else { None };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// What has become of streams since the last call.
    pub fn take_completed(&self) -> Vec<(u64, Outcome)> {
        std::mem::take(&mut lock(&self.state).completed)
    }

    /// Tells whoever takes requests what became of one that the engine has answered. It is dropped, and counted, where too
    /// many wait to be told: an engine thread waits for nobody.
    pub fn end(&self, ended: Ended) {
        let mut state = lock(&self.state);
        // Whoever takes them takes all: it has been told of the first.
        let waker = if state.untold.put(ended, self.untold) { state.taker.clone() } else { None };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// What has become of requests since the last call, and of how many more nobody will hear.
    pub fn take_ended(&self) -> (Vec<Ended>, u64) {
        lock(&self.state).untold.take()
    }

    /// Refuses requests from now on. Those that wait can still be taken.
    pub fn close(&self) {
        lock(&self.state).open = false;
    }

    /// Refuses requests from now on, and those that wait.
    pub fn abandon(&self) {
        let waiting = {
            let mut state = lock(&self.state);
            state.open = false;
            state.taker = None;
            std::mem::take(&mut state.waiting)
        };
        drop(waiting);
    }
}

/// Tells once what has become of a stream that the engine sends, also by being dropped.
pub struct Completion {
    queue: Option<Queue>,
    ticket: u64,
}

impl Completion {
    /// The stream is over.
    pub fn tell(mut self, outcome: Outcome) {
        if let Some(queue) = self.queue.take() {
            queue.complete(self.ticket, outcome);
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
        if let Some(queue) = self.queue.take() {
            Self { queue: Some(queue), ticket: self.ticket }.forsake(None, false);
        }
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completion").field("ticket", &self.ticket).finish_non_exhaustive()
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("waiting", &self.len())
            .field("bound", &self.bound)
            .finish_non_exhaustive()
    }
}
