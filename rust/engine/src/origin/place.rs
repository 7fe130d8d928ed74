//! The connections to one endpoint: who uses one, which are idle, who waits for one.
//!
//! A [`Lease`] is the right to one connection; dropping it passes that right on. Invariants: leased and idle
//! connections together never exceed the cap; requests wait only while all are leased, and are served in the order
//! in which they came; an idle connection is always watched (see [`super::sweep`]).

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc as Plain;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::endpoint::Endpoint;
use super::limits::{OriginLimits, within};
use super::names::{self, Names};
use super::stats::{Counts, EndpointStats};
use super::sweep;
use super::tally::Tally;
use crate::error::{Code, Error, Result};
use crate::net::Connection;
use crate::sync::{Arc, Mutex, lock};

/// One endpoint's place in an engine thread.
#[derive(Debug)]
pub(super) struct Place {
    /// `scheme://authority`, for errors and stats.
    pub(super) origin: Plain<str>,
    pub(super) endpoint: Endpoint,
    /// Of all places of its name.
    pub(super) tally: Arc<Tally>,
    limits: OriginLimits,
    pub(super) state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// The last to be given back is the first to be taken: its congestion window is the widest, and the surplus at
    /// the other end gets old and goes.
    pub(super) idle: Vec<Idle>,
    leased: usize,
    waiting: VecDeque<oneshot::Sender<Lease>>,
    pub(super) counts: Counts,
    pub(super) sweeper: Sweeper,
    names: Names,
    pub(super) closed: bool,
    /// No longer in the map of places: whoever still holds it looks there again.
    retired: bool,
}

#[derive(Debug)]
pub(super) struct Idle {
    pub(super) connection: Connection,
    pub(super) deadline: Instant,
}

/// The task that watches the idle connections.
#[derive(Debug, Default)]
pub(super) struct Sweeper {
    /// When it wakes by itself; `None` if it is not running.
    pub(super) armed: Option<Instant>,
    /// Known once it was polled.
    pub(super) waker: Option<Waker>,
}

/// The right to use one connection, with an idle one where there was one.
#[derive(Debug)]
pub(super) struct Lease {
    /// `None` once the right has been passed on.
    place: Option<Arc<Place>>,
    connection: Option<Connection>,
    /// The connection is in use: it has not carried its request to the end, and will not serve again.
    busy: bool,
}

/// What a place says to one who asks for a lease.
pub(super) enum Answer {
    Granted(Lease),
    Wait(oneshot::Receiver<Lease>),
    /// Ask the map again.
    Retired,
}

impl Place {
    pub(super) fn new(
        origin: Plain<str>,
        endpoint: Endpoint,
        tally: Arc<Tally>,
        limits: OriginLimits,
    ) -> Self {
        Self { origin, endpoint, tally, limits, state: Mutex::default() }
    }

    pub(super) fn ask(self: &Arc<Self>) -> Result<Answer> {
        let mut state = lock(&self.state);
        if state.closed {
            return Err(closed());
        }
        if state.retired {
            return Ok(Answer::Retired);
        }
        let now = Instant::now();
        if state.names.begin(now) {
            // Whoever asks is on an engine thread; the place is of one that runs.
            if let Ok(runtime) = Handle::try_current() {
                runtime.spawn(names::refresh(Arc::clone(self)));
            }
        }
        while let Some(idle) = state.idle.pop() {
            if idle.deadline > now {
                state.leased += 1;
                state.counts.reused += 1;
                return Ok(Answer::Granted(self.lease(Some(idle.connection))));
            }
            state.counts.expired += 1;
        }
        if state.leased < self.limits.connections {
            state.leased += 1;
            return Ok(Answer::Granted(self.lease(None)));
        }
        if state.waiting.len() >= self.limits.waiting {
            state.waiting.retain(|request| !request.is_closed());
        }
        if state.waiting.len() >= self.limits.waiting {
            return Err(Code::QueueFull.error(format!(
                "all {} connections are in use and {} requests wait for one",
                self.limits.connections, self.limits.waiting
            )));
        }
        let (sender, receiver) = oneshot::channel();
        state.waiting.push_back(sender);
        Ok(Answer::Wait(receiver))
    }

    fn lease(self: &Arc<Self>, connection: Option<Connection>) -> Lease {
        Lease { place: Some(Arc::clone(self)), connection, busy: false }
    }

    /// Counts what happened under a lease.
    pub(super) fn count(&self, count: impl FnOnce(&mut Counts)) {
        count(&mut lock(&self.state).counts);
    }

    /// Whether the connection may carry another request.
    pub(super) fn reusable(&self, connection: &Connection) -> bool {
        connection.requests < self.limits.requests_per_connection
            && connection.opened.elapsed() < self.limits.connection_age
    }

    /// Takes a right back, and with it a connection that may serve again, and passes both to whoever waits first.
    fn release(self: &Arc<Self>, mut connection: Option<Connection>) {
        loop {
            let waiting = {
                let mut state = lock(&self.state);
                connection = connection.filter(|connection| state.names.has(connection.peer));
                let Some(waiting) = state.waiting.pop_front() else {
                    state.leased -= 1;
                    if let Some(connection) = connection.take().filter(|_| !state.closed) {
                        self.park(&mut state, connection);
                    }
                    return;
                };
                if connection.is_some() && !waiting.is_closed() {
                    state.counts.reused += 1;
                }
                waiting
            };
            // The lock is not held, because a request that has given up drops what it gets.
            let Err(mut refused) = waiting.send(self.lease(connection)) else { return };
            refused.place = None;
            connection = refused.connection.take();
        }
    }

    /// Lays a connection by. It is registered with the sweeper's waker, so that neither a task nor a wake-up is
    /// spent on it unless something happens to it.
    fn park(self: &Arc<Self>, state: &mut State, connection: Connection) {
        let now = Instant::now();
        let deadline = (now + self.limits.idle_timeout).min(connection.opened + self.limits.connection_age);
        if let Some(waker) = &state.sweeper.waker {
            if let Poll::Ready(unrest) = connection.poll_unrest(&mut Context::from_waker(waker)) {
                state.counts.count(unrest);
                return;
            }
        } else if state.sweeper.armed.is_none() {
            // Its first look will find this connection, and what is laid by before it.
            let Ok(runtime) = Handle::try_current() else { return };
            runtime.spawn(sweep::run(Arc::clone(self)));
            state.sweeper.armed = Some(deadline);
        }
        state.idle.push(Idle { connection, deadline });
    }

    /// What the name is known to have, in the order in which it is worth trying.
    pub(super) fn addresses(&self) -> Option<Vec<SocketAddr>> {
        lock(&self.state).names.addresses()
    }

    /// The name has been resolved; to nothing if the resolver has failed, and then what was known stands. Connections that
    /// are idle and lead elsewhere are closed, those in use when they are given back.
    pub(super) fn learn(&self, found: Option<Vec<SocketAddr>>) {
        let lifetime = self.limits.name_lifetime;
        if lifetime.is_zero() {
            return;
        }
        let due = Instant::now() + lifetime;
        let mut guard = lock(&self.state);
        let State { names, idle, counts, .. } = &mut *guard;
        let Some(addresses) = found else { return names.keep(due) };
        names.learn(addresses, due);
        let (kept, elsewhere): (_, Vec<_>) =
            std::mem::take(idle).into_iter().partition(|idle| names.has(idle.connection.peer));
        *idle = kept;
        counts.expired += elsewhere.len() as u64;
        drop(guard);
        drop(elsewhere);
    }

    /// None of the addresses can be reached.
    pub(super) fn forget_addresses(&self) {
        lock(&self.state).names.forget();
    }

    /// Closes what is idle and refuses who waits. Leases end with the requests that hold them.
    pub(super) fn close(&self) {
        let (idle, waiting, waker) = {
            let mut state = lock(&self.state);
            state.closed = true;
            (std::mem::take(&mut state.idle), std::mem::take(&mut state.waiting), state.sweeper.waker.take())
        };
        drop((idle, waiting));
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Takes the place out of use if nothing is in it; whether it is. From then on it only says so, and what it has counted
    /// is with its tally.
    pub(super) fn retire(&self) -> bool {
        let mut state = lock(&self.state);
        let vacant = state.leased == 0 && state.idle.is_empty() && state.sweeper.armed.is_none();
        if vacant && !state.retired {
            self.tally.keep(std::mem::take(&mut state.counts));
        }
        state.retired |= vacant;
        vacant
    }

    pub(super) fn stats(&self) -> EndpointStats {
        let state = lock(&self.state);
        EndpointStats {
            origin: Plain::clone(&self.origin),
            active: state.leased,
            idle: state.idle.len(),
            waiting: state.waiting.iter().filter(|request| !request.is_closed()).count(),
            counts: state.counts,
        }
    }
}

/// Waits in line.
pub(super) async fn wait(receiver: oneshot::Receiver<Lease>, limit: Option<Duration>) -> Result<Lease> {
    let granted = async { receiver.await.map_err(|_| closed()) };
    within(limit, Code::QueueTimeout, "waiting for a free connection", granted).await
}

fn closed() -> Error {
    Code::EngineClosed.error("the engine has been closed")
}

impl Lease {
    pub(super) fn place(&self) -> &Arc<Place> {
        self.place.as_ref().expect("only a lease that was passed on has no place")
    }

    /// Begins to use the connection that is there, if `reuses` and it keeps quiet; whether it does. Any other is closed:
    /// what it has brought would be taken for the response to the next request.
    pub(super) fn begin(&mut self, reuses: bool) -> bool {
        self.busy = true;
        let Some(idle) = self.connection.take().filter(|_| reuses) else { return false };
        if let Some(unrest) = idle.unrest() {
            self.place().count(|counts| counts.count(unrest));
            return false;
        }
        self.connection = Some(idle);
        true
    }

    /// Uses a connection that was opened for it.
    pub(super) fn put(&mut self, connection: Connection) {
        self.connection = Some(connection);
    }

    /// The connection that is in use.
    pub(super) fn connection(&self) -> &Connection {
        self.connection.as_ref().expect("what uses a lease has begun with a connection, or put one")
    }

    /// Counts a request on it.
    pub(super) fn count_request(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.requests += 1;
        }
    }

    /// The connection has carried its request to the end, and may serve again if it has not served enough.
    pub(super) fn give_back(&mut self) {
        let connection = self.connection.as_ref();
        self.busy = !connection.is_some_and(|connection| self.place().reusable(connection));
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            place.release(self.connection.take().filter(|_| !self.busy));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::origin::{Roots, Scheme, Timeouts, Tls, connect};
    use crate::stream::Timings;
    use crate::wire::{BodyLimits, HeadLimits};

    const LONG: Duration = Duration::from_secs(600);

    fn place(host: &str, name_lifetime: Duration) -> Arc<Place> {
        let limits = OriginLimits {
            connections: 4,
            waiting: 4,
            idle_timeout: LONG,
            requests_per_connection: 100,
            connection_age: LONG,
            name_lifetime,
            head: HeadLimits { bytes: 4096, fields: 16, interim: 1 },
            body: BodyLimits { chunk_extension_bytes: 16, trailer_bytes: 16 },
        };
        let endpoint = Endpoint::new(Scheme::Http, host, 80, None).unwrap();
        let name = Plain::<str>::from(endpoint.to_string());
        let tally = Arc::new(Tally::new(Plain::clone(&name)));
        Arc::new(Place::new(name, endpoint, tally, limits))
    }

    fn lease(place: &Arc<Place>) -> Lease {
        match place.ask().unwrap() {
            Answer::Granted(lease) => lease,
            Answer::Wait(_) | Answer::Retired => panic!("there is room"),
        }
    }

    async fn opened(place: &Arc<Place>) -> Lease {
        let timeouts = Timeouts {
            queue: None,
            resolve: None,
            connect: None,
            tls: None,
            first_byte: None,
            between_bytes: None,
            tunnel: None,
            total: None,
            lets_events_pause: false,
        };
        let mut lease = lease(place);
        let tls = Tls::new(Roots::WebPki).unwrap();
        let connection = connect::open(place, &tls, &timeouts, &mut Timings::default()).await.unwrap();
        lease.begin(true);
        lease.put(connection);
        lease
    }

    fn idle(place: &Place) -> usize {
        place.stats().idle
    }

    #[tokio::test]
    async fn connections_to_addresses_that_a_name_has_no_more_are_not_used_again() {
        let (old, new) = (
            TcpListener::bind("127.0.0.1:0").await.unwrap(),
            TcpListener::bind("127.0.0.2:0").await.unwrap(),
        );
        let place = place("origin.example", LONG);
        place.learn(Some(vec![old.local_addr().unwrap()]));
        let (mut first, mut second) = (opened(&place).await, opened(&place).await);
        first.give_back();
        drop(first);
        assert_eq!(idle(&place), 1);
        place.learn(Some(vec![new.local_addr().unwrap()]));
        assert_eq!(idle(&place), 0, "what was idle is closed");
        second.give_back();
        drop(second);
        assert_eq!(idle(&place), 0, "what was in use is closed when it is given back");
        let mut third = opened(&place).await;
        assert_eq!(third.connection().peer, Some(new.local_addr().unwrap()));
        third.give_back();
        drop(third);
        assert_eq!(idle(&place), 1);
    }

    #[tokio::test]
    async fn a_name_that_is_in_use_is_resolved_again_when_it_is_due() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let place = place("localhost", Duration::from_millis(1));
        let here = listener.local_addr().unwrap();
        // Not what localhost is: that it is asked for shows in that being gone.
        place.learn(Some(vec![here]));
        let mut first = opened(&place).await;
        first.give_back();
        drop(first);
        let refreshed = async {
            loop {
                drop(lease(&place));
                if place.addresses().is_some_and(|addresses| !addresses.contains(&here)) {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), refreshed).await.expect("the name is resolved again");
        assert_eq!(idle(&place), 0);
    }

    #[tokio::test]
    async fn addresses_that_cannot_be_reached_are_forgotten() {
        let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let place = place("origin.example", LONG);
        place.learn(Some(vec![gone]));
        let timeouts = Timeouts {
            queue: None,
            resolve: None,
            connect: None,
            tls: None,
            first_byte: None,
            between_bytes: None,
            tunnel: None,
            total: None,
            lets_events_pause: false,
        };
        let tls = Tls::new(Roots::WebPki).unwrap();
        connect::open(&place, &tls, &timeouts, &mut Timings::default()).await.unwrap_err();
        assert!(place.addresses().is_none());
    }

    #[tokio::test]
    async fn a_lifetime_of_nothing_keeps_nothing() {
        let place = place("origin.example", Duration::ZERO);
        place.learn(Some(vec!["127.0.0.1:1".parse().unwrap()]));
        assert!(place.addresses().is_none());
    }
}
