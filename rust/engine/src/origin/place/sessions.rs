//! The connections of HTTP/2 to one endpoint. Each carries many requests, so a [`super::Lease`] is the right to one of its streams.
//!
//! A request opens a connection if all are nearly full; requests that come meanwhile wait for it. An
//! origin that settles on HTTP/1.1 by ALPN is used as any other from then on.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::OnceLock;
use std::task::{Poll, Waker};

use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until};

use super::{Place, State};
use crate::clock;
use crate::error::{Code, Error, Result};
use crate::net::Connection;
use crate::net::http2::{Client, Driver, SessionLimits};
use crate::sync::{Arc, Mutex, lock};

/// A connection that has this share of its streams open, in percent, is no longer filled while another one can be opened.
const FILLED: usize = 80;

/// The sessions of a place.
#[derive(Debug)]
pub(super) struct Sessions {
    limits: SessionLimits,
    list: Vec<Arc<Session>>,
    /// Whether the origin speaks HTTP/2; `None` before it is known.
    speaks: Option<bool>,
    /// A request opens a connection; it tells the others if it fails.
    opening: Option<Arc<Opened>>,
}

/// A connection of HTTP/2.
#[derive(Debug)]
struct Session {
    peer: Option<SocketAddr>,
    opened: Instant,
    state: Mutex<Use>,
}

#[derive(Debug)]
struct Use {
    client: Client,
    requests: u64,
    /// When the last request was given a stream, or the last stream was seen open.
    used: Instant,
    /// It is given no more requests, and ends with the last stream.
    is_retired: bool,
    /// Of the task that carries its streams.
    waker: Option<Waker>,
}

/// How a request gets a stream.
pub(in crate::origin) enum Join {
    /// On a connection that is there.
    Stream(Box<Connection>),
    /// After a connection that another request opens.
    Wait(Arc<Opened>),
    /// On one that it opens itself.
    Open(Opening),
    /// On a connection of its own: the origin speaks HTTP/1.1.
    Alone,
}

/// A connection that is being opened. Dropping it has another request do it.
#[derive(Debug)]
pub(in crate::origin) struct Opening {
    place: Arc<Place>,
    limits: SessionLimits,
    told: Arc<Opened>,
}

/// The end of an opening, for the requests that wait for it: they go on in the order in which they came.
#[derive(Debug)]
pub(in crate::origin) struct Opened {
    error: OnceLock<Error>,
    /// Without a permit, and closed at the end.
    over: Semaphore,
}

impl Opened {
    fn new() -> Self {
        Self { error: OnceLock::new(), over: Semaphore::new(0) }
    }

    /// Ready when the connection is there, or another request may open it.
    ///
    /// # Errors
    /// It could not be opened.
    pub(in crate::origin) async fn wait(&self) -> Result<()> {
        // An error is the end, and the only result: there is no permit.
        let _ = self.over.acquire().await;
        self.error.get().map_or(Ok(()), |error| Err(error.clone()))
    }
}

impl Session {
    fn open(&self) -> usize {
        lock(&self.state).client.open()
    }

    fn is_retired(&self) -> bool {
        lock(&self.state).is_retired
    }

    fn has_room(&self, percent: usize) -> bool {
        let client = &lock(&self.state).client;
        client.open() * 100 < client.most() * percent
    }

    /// It is given no more requests.
    fn retire(&self) {
        let mut state = lock(&self.state);
        state.is_retired = true;
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn stream(&self) -> Box<Connection> {
        let mut state = lock(&self.state);
        state.requests += 1;
        state.used = clock::now();
        Box::new(state.client.stream())
    }
}

impl Sessions {
    pub(super) fn new(limits: SessionLimits) -> Self {
        Self { limits, list: Vec::new(), speaks: None, opening: None }
    }

    /// The requests that can be in progress, where there may be `connections`.
    pub(super) fn capacity(&self, connections: usize) -> usize {
        if self.speaks != Some(true) {
            return connections;
        }
        let live = self.list.iter().filter(|session| !session.is_retired());
        let each = live
            .map(|session| lock(&session.state).client.most())
            .min()
            .unwrap_or(self.limits.streams as usize);
        connections.saturating_mul(each.max(1))
    }

    /// Streams in progress, connections with some, and without any.
    pub(super) fn counts(&self) -> (usize, usize, usize) {
        let open = || self.list.iter().map(|session| session.open());
        let busy = open().filter(|count| *count > 0).count();
        (open().sum(), busy, self.list.len() - busy)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty() && self.opening.is_none()
    }

    /// Lets those end that carry nothing, and the others after what they carry.
    pub(super) fn close(&mut self) {
        self.list.drain(..).for_each(|session| session.retire());
    }
}

impl State {
    /// Ends the use of connections that are old, or lead elsewhere.
    fn retire_sessions(&mut self, place: &Place) {
        let Self { sessions: Some(sessions), names, counts, .. } = self else { return };
        for session in &sessions.list {
            let state = lock(&session.state);
            let is_old = state.requests >= place.limits.requests_per_connection
                || clock::since(session.opened) >= place.limits.connection_age
                || !names.has(session.peer);
            let is_due = !state.is_retired && (is_old || !state.client.is_live());
            drop(state);
            if is_due {
                counts.expired += u64::from(is_old);
                session.retire();
            }
        }
        sessions.list.retain(|session| !session.is_retired() || session.open() > 0);
    }
}

impl Place {
    /// Finds a stream for a request that has a lease.
    pub(in crate::origin) fn join(self: &Arc<Self>) -> Join {
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        state.retire_sessions(self);
        let (Some(sessions), counts) = (&mut state.sessions, &mut state.counts) else { return Join::Alone };
        if sessions.speaks == Some(false) {
            return Join::Alone;
        }
        let live = || sessions.list.iter().filter(|session| !session.is_retired());
        // It is taken away when the opening is over, however that ends.
        let is_opening = sessions.opening.is_some();
        let may_open = !is_opening && sessions.list.len() < self.limits.connections;
        let with_room = |percent| live().find(|session| session.has_room(percent));
        let found = with_room(FILLED).or_else(|| if may_open { None } else { with_room(100) });
        // The crate has them wait where the origin has lowered its limit meanwhile.
        let fullest =
            || if may_open || is_opening { None } else { live().min_by_key(|session| session.open()) };
        if let Some(session) = found.or_else(fullest) {
            counts.reused += 1;
            return Join::Stream(session.stream());
        }
        if let Some(opening) = &sessions.opening {
            return Join::Wait(Arc::clone(opening));
        }
        let told = Arc::new(Opened::new());
        sessions.opening = Some(Arc::clone(&told));
        Join::Open(Opening { place: Arc::clone(self), limits: sessions.limits, told })
    }
}

impl Opening {
    /// `connection` is there, and is to be one of HTTP/2: the first stream on it.
    pub(in crate::origin) fn share(self, connection: Connection) -> Box<Connection> {
        let place = &self.place;
        let (peer, now) = (connection.peer, clock::now());
        let head_bytes = u32::try_from(place.limits.head.head_bytes).unwrap_or(u32::MAX);
        let scheme = place.endpoint.scheme().name();
        let (client, driver) = Client::begin(connection, scheme, self.limits, head_bytes);
        let state = Mutex::new(Use { client, requests: 0, used: now, is_retired: false, waker: None });
        let session = Arc::new(Session { peer, opened: now, state });
        let stream = session.stream();
        let mut state = lock(&place.state);
        if let Some(sessions) = state.sessions.as_mut() {
            sessions.speaks = Some(true);
            sessions.list.push(Arc::clone(&session));
        }
        // There may be room for more requests than before.
        place.serve(state, None);
        // The caller is on an engine thread.
        tokio::spawn(tend(Arc::clone(place), session, driver));
        stream
    }

    /// The connection is there, and speaks HTTP/1.1.
    pub(in crate::origin) fn alone(self) {
        if let Some(sessions) = lock(&self.place.state).sessions.as_mut() {
            sessions.speaks = Some(false);
        }
    }

    /// It could not be opened.
    pub(in crate::origin) fn fail(self, error: &Error) {
        // Told once: this is its end.
        let _ = self.told.error.set(error.clone());
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        if let Some(sessions) = lock(&self.place.state).sessions.as_mut() {
            sessions.opening = None;
        }
        self.told.over.close();
    }
}

/// Carries the streams of `session` to its end, or until it has been idle for long.
async fn tend(place: Arc<Place>, session: Arc<Session>, mut driver: Driver) {
    let mut timer = pin!(sleep_until(Instant::now() + place.limits.idle_timeout));
    let flood = poll_fn(|context| {
        loop {
            if let Poll::Ready(end) = driver.poll(context) {
                return Poll::Ready(end);
            }
            let is_open = session.open() > 0;
            let mut state = lock(&session.state);
            if !is_open && state.is_retired {
                return Poll::Ready(None);
            }
            if !state.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                state.waker = Some(context.waker().clone());
            }
            if timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            let now = Instant::now();
            if is_open {
                state.used = now;
            }
            let due = state.used + place.limits.idle_timeout;
            if due <= now {
                return Poll::Ready(None);
            }
            timer.as_mut().reset(due);
        }
    })
    .await;
    place.forget(&session, flood);
}

impl Place {
    /// A connection of HTTP/2 has ended; `flood` says what the origin did too often, if that was why.
    fn forget(&self, session: &Arc<Session>, flood: Option<String>) {
        let was_retired = session.is_retired();
        session.retire();
        let mut state = lock(&self.state);
        if let Some(sessions) = &mut state.sessions {
            sessions.list.retain(|one| !Arc::ptr_eq(one, session));
        }
        if flood.is_some() {
            state.counts.unsolicited += 1;
        } else if !was_retired {
            state.counts.closed += 1;
        }
        drop(state);
        if let Some(flood) = flood {
            self.tally.notices.failed(&self.tally.name, session.peer, &Code::ExcessBytes.error(flood));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn requests_that_wait_for_a_connection_go_on_in_the_order_in_which_they_came() {
        let (told, order) = (Arc::new(Opened::new()), Arc::new(Mutex::new(Vec::new())));
        let tasks: Vec<_> = (0..20)
            .map(|number| {
                let (told, order) = (Arc::clone(&told), Arc::clone(&order));
                tokio::spawn(async move {
                    told.wait().await.unwrap();
                    lock(&order).push(number);
                })
            })
            .collect();
        // Spawned first, they have all begun to wait.
        tokio::task::yield_now().await;
        told.over.close();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*lock(&order), (0..20).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn requests_that_wait_for_a_connection_are_told_why_there_is_none() {
        let told = Opened::new();
        told.error.set(Code::ConnectTimeout.error("no answer")).unwrap();
        told.over.close();
        assert_eq!(told.wait().await.unwrap_err().code(), Code::ConnectTimeout);
    }
}
