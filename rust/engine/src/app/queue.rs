//! The requests that wait for the application: one bounded queue per site, filled by all engine threads.
//!
//! [`Queue::offer`] never waits: where too many requests wait already the connection answers for itself at once. A
//! request that has not been taken can be withdrawn, because its time is up or its client is gone. The invariant: a
//! request is either taken, withdrawn, or in the queue, and only what is in the queue counts.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::ended::{Ended, Untold};
use super::link::{Far, Outcome};
use super::sign::Sign;
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
    /// The client has taken a response to its end; see [`crate::origin::Request::is_proven`].
    pub is_proven: bool,
    /// The engine thread that owns the client's connection: what is fetched there for it changes no thread on its way.
    pub thread: usize,
    /// The application's half of the exchange.
    pub far: Far,
    /// The client's, unless this is a worker process.
    #[cfg(not(loom))]
    pub socket: Option<super::ClientSocket>,
    /// In a worker process: what fetches for the request where the client is.
    #[cfg(not(loom))]
    pub edge: Option<Arc<crate::workers::Edge>>,
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
    /// With when each came.
    waiting: BTreeMap<u64, (Instant, Request)>,
    next: u64,
    taken: u64,
    refused: u64,
    withdrawn: u64,
    expired: u64,
    sign: Sign,
    faults: Vec<Fault>,
    completed: Vec<(u64, Outcome)>,
    untold: Untold,
    open: bool,
    taker: Option<Waker>,
    /// Who takes requests in the place of the taker, who is still told everything else.
    courier: Option<Waker>,
    /// Told of completions that have been heard of.
    heard: Option<Box<dyn Fn(u64) + Send>>,
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

/// How a queue is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Requests that wait.
    pub waiting: usize,
    /// Requests that may.
    pub bound: usize,
    /// For how long the first of them has.
    pub oldest: Duration,
    /// Requests so far that were taken.
    pub taken: u64,
    /// Requests so far that were refused, because too many waited or none were taken any more.
    pub refused: u64,
    /// Requests so far that nobody had taken when their client left.
    pub withdrawn: u64,
    /// Requests so far that nobody had taken when their time was up.
    pub expired: u64,
    /// Ends of requests so far that nobody was told of.
    pub untold: u64,
    /// For how long whoever takes requests has owed a sign; zero if none is owed.
    pub owed: Duration,
    /// How long it took to give the last one; as long as the one that is owed, if that is longer.
    pub lag: Duration,
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
            taken: 0,
            refused: 0,
            withdrawn: 0,
            expired: 0,
            sign: Sign::default(),
            faults: Vec::new(),
            completed: Vec::new(),
            untold: Untold::default(),
            open: true,
            taker: None,
            courier: None,
            heard: None,
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

    /// Has somebody else take requests than whoever hears of everything else.
    pub fn divert(&self, waker: &Waker) {
        let mut state = lock(&self.state);
        state.courier = Some(waker.clone());
        drop(state);
        waker.wake_by_ref();
    }

    /// Whether somebody else takes requests.
    pub fn is_diverted(&self) -> bool {
        lock(&self.state).courier.is_some()
    }

    /// Whether `other` is the same one.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }

    /// Has `tell` called with the ticket of each completion that has been heard of, in a worker process.
    pub fn tell_heard(&self, tell: impl Fn(u64) + Send + 'static) {
        let previous = lock(&self.state).heard.replace(Box::new(tell));
        drop(previous);
    }

    /// Whoever was to hear of a completion has.
    pub fn note_heard(&self, ticket: u64) {
        if let Some(tell) = &lock(&self.state).heard {
            tell(ticket);
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
            state.refused += 1;
            drop(state);
            drop(request);
            return Err(refusal);
        }
        let place = state.next;
        state.next += 1;
        state.waiting.insert(place, (Instant::now(), request));
        // Whoever takes requests takes them until there are none: it has been told of the first.
        let waker = if state.waiting.len() == 1 {
            state.courier.as_ref().or(state.taker.as_ref()).cloned()
        } else {
            None
        };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(Place(place))
    }

    /// The request that has waited for longest.
    pub fn take(&self) -> Option<Request> {
        let (taken, waiting) = {
            let mut state = lock(&self.state);
            let taken = state.waiting.pop_first();
            state.taken += u64::from(taken.is_some());
            (taken, state.sign.give())
        };
        for waker in waiting {
            waker.wake();
        }
        taken.map(|(_, (_, request))| request)
    }

    /// Takes a request back that nobody has taken, because its client has left; whether there was one.
    pub fn withdraw(&self, place: Place) -> bool {
        self.take_back(place, |state| &mut state.withdrawn)
    }

    /// As [`Queue::withdraw`], because its time is up.
    pub fn expire(&self, place: Place) -> bool {
        self.take_back(place, |state| &mut state.expired)
    }

    fn take_back(&self, place: Place, counter: fn(&mut State) -> &mut u64) -> bool {
        let mut state = lock(&self.state);
        let request = state.waiting.remove(&place.0);
        *counter(&mut state) += u64::from(request.is_some());
        drop(state);
        request.is_some()
    }

    /// Asks whoever takes requests for a sign that it still does, whether some wait or not.
    pub fn ask_sign(&self) {
        let mut state = lock(&self.state);
        if !state.open && state.taker.is_none() {
            return;
        }
        // One that has been asked and is silent need not be woken again.
        let is_first = state.sign.ask();
        let waker = state.courier.as_ref().or(state.taker.as_ref()).filter(|_| is_first).cloned();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Ready when no sign is owed.
    pub fn poll_sign(&self, context: &mut Context<'_>) -> Poll<()> {
        lock(&self.state).sign.poll(context)
    }

    /// How it is doing.
    pub fn stats(&self) -> QueueStats {
        let state = lock(&self.state);
        QueueStats {
            waiting: state.waiting.len(),
            bound: self.bound,
            oldest: state.waiting.first_key_value().map_or(Duration::ZERO, |(_, (came, _))| came.elapsed()),
            taken: state.taken,
            refused: state.refused,
            withdrawn: state.withdrawn,
            expired: state.expired,
            untold: state.untold.dropped_so_far(),
            owed: state.sign.owed(),
            lag: state.sign.lag(),
        }
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
        Completion { told: Some(Told::Queue(self.clone())), ticket }
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
        let (waiting, asking) = {
            let mut state = lock(&self.state);
            state.open = false;
            state.taker = None;
            state.courier = None;
            (std::mem::take(&mut state.waiting), state.sign.give())
        };
        drop(waiting);
        for waker in asking {
            waker.wake();
        }
    }
}

/// Tells once what has become of a stream that the engine sends, also by being dropped.
pub struct Completion {
    told: Option<Told>,
    ticket: u64,
}

/// Who is told.
enum Told {
    Queue(Queue),
    #[cfg(not(loom))]
    Other(Box<dyn FnOnce(Outcome) + Send>),
}

impl Completion {
    /// One that calls `tell`.
    #[cfg(not(loom))]
    pub(crate) fn told_by(tell: impl FnOnce(Outcome) + Send + 'static) -> Self {
        Self { told: Some(Told::Other(Box::new(tell))), ticket: 0 }
    }

    /// By which whoever is told knows it.
    #[cfg(not(loom))]
    pub(crate) fn ticket(&self) -> u64 {
        self.ticket
    }

    /// The stream is over.
    pub fn tell(mut self, outcome: Outcome) {
        match self.told.take() {
            Some(Told::Queue(queue)) => queue.complete(self.ticket, outcome),
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
            Self { told: Some(told), ticket: self.ticket }.forsake(None, false);
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
