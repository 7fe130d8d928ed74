//! The requests that wait for the application: one bounded queue per site, filled by all engine threads.
//!
//! [`Queue::offer`] never waits: where too many requests wait already the connection answers for itself at once. A
//! request that has not been taken can be withdrawn, because its time is up or its client is gone. The invariant: a
//! request is either taken, withdrawn, or in the queue, and only what is in the queue counts.
//!
//! Requests are taken in their order while that is soon enough. When the first has waited for too long the newest is taken
//! first: what has waited for long is likely to be answered in vain, and each that comes would wait as long (adaptive LIFO;
//! Ben Maurer, Fail at Scale, ACM Queue 13(8), 2015).

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc as Plain;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::dispatcher::{Dispatcher, InProcess, Processes};
use super::link::Far;
use super::pace::Pace;
use super::reports::Reports;
use super::session::TlsSession;
use super::sign::Sign;
use crate::error::{Code, Result};
#[cfg(not(loom))]
use crate::pressure::Waits;
use crate::stream::Stream;
use crate::sync::{Arc, Mutex, lock};

/// Both ends of a connection; none on a Unix socket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ends {
    /// The client's.
    pub remote: Option<SocketAddr>,
    /// Where it has connected to.
    pub local: Option<SocketAddr>,
    /// Over TLS, what its handshake has settled.
    pub tls: Option<Plain<TlsSession>>,
}

/// A request on its way to the application.
#[derive(Debug)]
pub struct Request {
    /// The head, serialised anew.
    pub head: Vec<u8>,
    /// Its body, if it has one, without its framing.
    pub body: Option<Stream>,
    /// Whether the head has announced chunks: the body is then handed on in chunks.
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
    pub edge: Option<Arc<dyn super::RemoteEdge>>,
}

struct State {
    /// With when each came.
    waiting: BTreeMap<u64, (Instant, Request)>,
    next: u64,
    taken: u64,
    refused: u64,
    withdrawn: u64,
    expired: u64,
    /// The longest that a request has waited before it was taken, since that was asked.
    longest: Duration,
    /// At the last reading: how many waited, and how many had been taken and refused.
    #[cfg(not(loom))]
    seen: (usize, u64, u64),
    pace: Pace,
    sign: Sign,
    open: bool,
    dispatcher: Option<Plain<dyn Dispatcher>>,
}

impl State {
    fn is_in_process(&self) -> bool {
        self.dispatcher.as_ref().is_none_or(|dispatcher| dispatcher.is_in_process())
    }

    /// For how long the first request has waited.
    fn oldest(&self) -> Duration {
        self.oldest_at(Instant::now())
    }

    fn oldest_at(&self, now: Instant) -> Duration {
        let first = self.waiting.first_key_value();
        first.map_or(Duration::ZERO, |(_, (came, _))| now.saturating_duration_since(*came))
    }
}

/// The queue of one site. Cloned by reference.
#[derive(Clone)]
pub struct Queue {
    state: Arc<Mutex<State>>,
    bound: usize,
    limit: Option<Duration>,
    /// How long the first may have waited for requests to be taken in their order.
    orderly: Duration,
    reports: Reports,
    has_application: bool,
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
    /// Requests so far whose client left before they were taken.
    pub withdrawn: u64,
    /// Requests so far whose time was up before they were taken, or that were given back in overload.
    pub expired: u64,
    /// Results of requests so far that were dropped, because too many waited to be taken.
    pub untold: u64,
    /// For how long the dispatcher, or each of its worker processes, has owed a sign; zero if none is owed.
    pub owed: Duration,
    /// How long the last sign took, or the sign that is owed, if that is longer.
    pub lag: Duration,
    /// How many worker processes take the requests; `None` if the application in this process does.
    pub processes: Option<usize>,
}

/// A place in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place(u64);

impl Queue {
    /// A queue in which at most `bound` requests wait, each for no longer than `limit`. The caller of
    /// [`Queue::offer`] keeps the time. Results of other requests take `untold` bytes at most until they are taken.
    pub fn new(bound: usize, limit: Option<Duration>, untold: usize) -> Self {
        let state = State {
            waiting: BTreeMap::new(),
            next: 0,
            taken: 0,
            refused: 0,
            withdrawn: 0,
            expired: 0,
            longest: Duration::ZERO,
            #[cfg(not(loom))]
            seen: (0, 0, 0),
            pace: Pace::default(),
            sign: Sign::default(),
            open: true,
            dispatcher: None,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            bound,
            limit,
            orderly: Duration::MAX,
            reports: Reports::new(untold),
            has_application: true,
        }
    }

    /// Takes the newest request first once another has waited for `limit`. Without it they are taken in their order.
    #[must_use]
    pub fn in_order_within(self, limit: Option<Duration>) -> Self {
        Self { orderly: limit.unwrap_or(Duration::MAX), ..self }
    }

    /// For a site that has no application: the queue brings reports alone.
    #[must_use]
    pub fn without_application(self) -> Self {
        Self { has_application: false, ..self }
    }

    /// Whether an application answers requests.
    pub fn has_application(&self) -> bool {
        self.has_application
    }

    /// How long a request may wait.
    pub fn limit(&self) -> Option<Duration> {
        self.limit
    }

    /// Names the waker of the application in this process, which takes reports, and requests unless another dispatcher
    /// does. Woken at once if requests wait.
    pub fn listen(&self, waker: &Waker) {
        self.reports.listen(Some(waker));
        self.set_dispatcher(Plain::new(InProcess(waker.clone())), State::is_in_process);
    }

    /// Has `dispatcher` take the requests from now on. The application in this process still takes the reports.
    pub fn dispatch_by(&self, dispatcher: Plain<dyn Dispatcher>) {
        self.set_dispatcher(dispatcher, |_| true);
    }

    fn set_dispatcher(&self, dispatcher: Plain<dyn Dispatcher>, is_to_be: fn(&State) -> bool) {
        let mut state = lock(&self.state);
        if !is_to_be(&state) {
            return;
        }
        let previous = state.dispatcher.replace(dispatcher);
        drop(state);
        drop(previous);
        self.call();
    }

    /// Whether the application in this process takes the requests.
    pub fn is_in_process(&self) -> bool {
        lock(&self.state).is_in_process()
    }

    /// Puts a request into the queue.
    ///
    /// # Errors
    /// `APP_BUSY`: too many wait. `DRAINING`: the queue is closed.
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
        let now = Instant::now();
        state.waiting.insert(place, (now, request));
        // The dispatcher takes requests until none waits: it has been told of the first.
        let dispatcher = state.dispatcher.as_ref().filter(|_| state.waiting.len() == 1).cloned();
        drop(state);
        if let Some(dispatcher) = dispatcher {
            dispatcher.dispatch();
        }
        Ok(Place(place))
    }

    /// The next request: the one that has waited for longest, or the newest if that one has waited for too long.
    pub fn take(&self) -> Option<Request> {
        let (taken, waiting) = {
            let mut state = lock(&self.state);
            let now = Instant::now();
            let oldest = state.oldest_at(now);
            let taken =
                if oldest < self.orderly { state.waiting.pop_first() } else { state.waiting.pop_last() };
            if taken.is_some() {
                state.taken += 1;
                state.pace.take(now, oldest);
            }
            state.longest = state.longest.max(oldest);
            (taken, state.sign.give())
        };
        for waker in waiting {
            waker.wake();
        }
        taken.map(|(_, (_, request))| request)
    }

    /// Has the dispatcher take the requests that wait, if it has left some.
    pub fn call(&self) {
        let dispatcher = {
            let state = lock(&self.state);
            state.dispatcher.as_ref().filter(|_| !state.waiting.is_empty()).cloned()
        };
        if let Some(dispatcher) = dispatcher {
            dispatcher.dispatch();
        }
    }

    /// Gives back the requests that have waited for `limit`: their clients are told that the application is overloaded.
    pub(crate) fn shed(&self, limit: Duration) {
        let mut refused = Vec::new();
        let mut state = lock(&self.state);
        while state.oldest() >= limit {
            let Some((_, (_, request))) = state.waiting.pop_first() else { break };
            state.expired += 1;
            refused.push(request);
        }
        drop(state);
        for Request { far, .. } in refused {
            far.refuse();
        }
    }

    /// Takes back a request that was not taken yet, because its client has left; whether it was there.
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

    /// Asks the dispatcher for a sign that it takes requests, even if none waits.
    pub fn ask_sign(&self) {
        let mut state = lock(&self.state);
        if !state.open && state.dispatcher.is_none() {
            return;
        }
        // A dispatcher that has not answered yet need not be woken again.
        let is_first = state.sign.ask();
        let dispatcher = state.dispatcher.as_ref().filter(|_| is_first).cloned();
        drop(state);
        if let Some(dispatcher) = dispatcher {
            dispatcher.dispatch();
        }
    }

    /// Ready when no sign is owed.
    pub fn poll_sign(&self, context: &mut Context<'_>) -> Poll<()> {
        lock(&self.state).sign.poll(context)
    }

    /// How it is doing. The sign of a dispatcher that has worker processes says only that one of them is there, so their own
    /// signs count too.
    pub fn stats(&self) -> QueueStats {
        let untold = self.reports.dropped();
        let dispatcher = lock(&self.state).dispatcher.clone();
        let processes = dispatcher.and_then(|dispatcher| dispatcher.processes());
        let signs = |sign: fn(&Processes) -> Duration| processes.as_ref().map_or(Duration::ZERO, sign);
        let state = lock(&self.state);
        QueueStats {
            waiting: state.waiting.len(),
            bound: self.bound,
            oldest: state.oldest(),
            taken: state.taken,
            refused: state.refused,
            withdrawn: state.withdrawn,
            expired: state.expired,
            untold,
            owed: state.sign.owed().max(signs(|processes| processes.owed)),
            lag: state.sign.lag().max(signs(|processes| processes.lag)),
            processes: processes.map(|processes| processes.current),
        }
    }

    /// How requests have waited since the last call; `None` once the queue is closed.
    #[cfg(not(loom))]
    pub(crate) fn reading(&self) -> Option<Waits> {
        let mut state = lock(&self.state);
        let longest = std::mem::take(&mut state.longest).max(state.oldest());
        let now = (state.waiting.len(), state.taken, state.refused);
        let (waiting, taken, refused) = std::mem::replace(&mut state.seen, now);
        let have_grown = now.0 > waiting || now.2 > refused;
        state.open.then_some(Waits { longest, taken: now.1 - taken, have_grown })
    }

    /// For how long a request would wait that came now, as far as can be told: not for less than the first has waited.
    pub(crate) fn wait(&self) -> Duration {
        let state = lock(&self.state);
        let now = Instant::now();
        state.oldest_at(now).max(state.pace.wait(now, state.waiting.len()))
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

    /// What the application is told besides requests.
    pub fn reports(&self) -> &Reports {
        &self.reports
    }

    /// Refuses requests from now on. Waiting requests can still be taken.
    pub fn close(&self) {
        lock(&self.state).open = false;
    }

    /// Refuses requests from now on, and the waiting ones.
    pub fn abandon(&self) {
        self.reports.listen(None);
        let (waiting, dispatcher, asking) = {
            let mut state = lock(&self.state);
            state.open = false;
            (std::mem::take(&mut state.waiting), state.dispatcher.take(), state.sign.give())
        };
        drop((waiting, dispatcher));
        for waker in asking {
            waker.wake();
        }
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
