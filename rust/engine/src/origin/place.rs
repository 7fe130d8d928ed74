//! The connection pool of one endpoint: connections in use, idle connections, and requests that
//! wait.
//!
//! A [`Lease`] is the right to one connection; dropping it passes the right on. Invariants: leased and idle connections
//! together never exceed the limit; requests wait only while all connections, or their share, are leased; an idle
//! connection is always watched (see [`sweep`]).
//!
//! Requests of proven clients and all others wait in two [`Line`]s, which take turns; some connections are kept for the
//! former.

mod lease;
mod sessions;
mod sweep;

use std::net::SocketAddr;
use std::sync::Arc as Plain;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::endpoint::Endpoint;
use super::limits::{OriginLimits, within};
use super::line::{Line, STANDING, Seat};
use super::names::Names;
use super::resolve::resolve;
use super::stats::{Counts, EndpointStats};
use super::tally::Tally;
use crate::clock;
use crate::error::{Code, Error, Result, Source};
use crate::net::http2::SessionLimits;
use crate::net::{Connection, Unrest};
use crate::runtime;
use crate::sync::{Arc, Mutex, MutexGuard, lock};
use sessions::Sessions;

/// One in this many connections is kept for proven clients: most of their requests end within milliseconds, and need not
/// wait until another client has stalled for long enough to be cut. Arbitrary; of fewer connections none is kept.
const KEPT: usize = 16;

/// How long connections are kept after a request of a proven client. If only new clients ask an origin, each for one long
/// stream, all connections serve them. Arbitrary: longer than a player waits between two segments.
const KEPT_FOR: Duration = Duration::from_secs(60);

/// The index of the line of proven clients; the other is 0.
const PROVEN: usize = 1;

/// The connection pool of one endpoint in one engine thread.
#[derive(Debug)]
pub(super) struct Place {
    /// `scheme://authority`, for errors and stats.
    pub(super) origin: Plain<str>,
    pub(super) endpoint: Endpoint,
    /// The counts of all places with its name.
    pub(super) tally: Arc<Tally>,
    limits: OriginLimits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The connection that came back last is taken first: its congestion window is the widest, and surplus
    /// connections at the other end expire.
    idle: Vec<Idle>,
    leased: usize,
    /// The leases that are not for proven clients.
    unproven: usize,
    /// The leases for requests whose bodies were still coming.
    uploads: usize,
    /// Requests that wait, of unproven and of proven clients. A request that gives up removes itself.
    lines: [Line<oneshot::Sender<Lease>>; 2],
    /// The line that is served next.
    turn: usize,
    numbered: u64,
    /// Since when a request waits.
    crowded_since: Option<Instant>,
    /// When a proven client last asked.
    proven_at: Option<Instant>,
    counts: Counts,
    sweeper: Sweeper,
    /// `None`: the origin is asked by HTTP/1.1.
    sessions: Option<Sessions>,
    names: Names,
    closed: bool,
    /// It is no longer in the map of places: a task with a reference to it has to look there again.
    retired: bool,
}

#[derive(Debug)]
struct Idle {
    /// On the heap, so that it is not moved with each lease of it.
    connection: Box<Connection>,
    deadline: Instant,
}

/// The task that watches the idle connections.
#[derive(Debug, Default)]
struct Sweeper {
    /// The time of its next wake-up; `None` if it does not run.
    armed: Option<Instant>,
    /// Set after its first poll.
    waker: Option<Waker>,
}

/// A request's seat in the line for a connection. Dropping it gives up the seat.
#[derive(Debug)]
pub(super) struct Turn {
    place: Arc<Place>,
    line: usize,
    seat: Seat,
    granted: oneshot::Receiver<Lease>,
    /// The request is no longer in the line.
    is_over: bool,
}

/// The purpose of a lease.
#[derive(Debug, Clone, Copy)]
struct Purpose {
    /// A request whose body was still coming.
    upload: bool,
    /// See [`super::Request::is_proven`].
    is_proven: bool,
}

pub(super) use lease::Lease;
pub(super) use sessions::{Join, Opening};

/// The answer to a request for a lease.
pub(super) enum Answer {
    Granted(Lease),
    Wait(Turn),
    /// The place is no longer in the map; the caller has to look there again.
    Retired,
}

impl Place {
    pub(super) fn new(
        origin: Plain<str>,
        endpoint: Endpoint,
        tally: Arc<Tally>,
        limits: OriginLimits,
        http2: Option<SessionLimits>,
    ) -> Self {
        let state = State { sessions: http2.map(Sessions::new), ..State::default() };
        Self { origin, endpoint, tally, limits, state: Mutex::new(state) }
    }

    /// Asks for a lease. `upload`: the body of the request is still coming. Such requests have a share of the connections
    /// and of the line, so that clients that send slowly do not keep others out. `is_proven`: see
    /// [`super::Request::is_proven`].
    pub(super) fn ask(self: &Arc<Self>, upload: bool, is_proven: bool) -> Result<Answer> {
        let mut state = lock(&self.state);
        if state.closed {
            return Err(closed());
        }
        if state.retired {
            return Ok(Answer::Retired);
        }
        let now = clock::now();
        if state.names.begin(now) {
            // The caller is on an engine thread, whose runtime runs.
            if let Ok(runtime) = Handle::try_current() {
                runtime.spawn(refresh(Arc::clone(self)));
            }
        }
        if is_proven {
            state.proven_at = Some(now);
        }
        let purpose = Purpose { upload, is_proven };
        if self.has_room(&state, purpose, now) {
            let connection = state.pop_idle(now);
            state.counts.reused += u64::from(connection.is_some());
            return Ok(Answer::Granted(self.lease(&mut state, connection, purpose)));
        }
        let line = usize::from(is_proven);
        if self.is_crowded(&state, upload) && !state.displace(now, line, upload) {
            return Err(self.full(&state, upload));
        }
        let (sender, granted) = oneshot::channel();
        state.numbered += 1;
        let seat = Seat { number: state.numbered, upload };
        state.lines[line].push(seat, sender);
        state.crowded_since.get_or_insert(now);
        Ok(Answer::Wait(Turn { place: Arc::clone(self), line, seat, granted, is_over: false }))
    }

    /// The right to go on with `connection`, whose request another process has sent; however many are in use.
    pub(super) fn adopt(self: &Arc<Self>, connection: Box<Connection>, is_proven: bool) -> Lease {
        let purpose = Purpose { upload: false, is_proven };
        let mut lease = self.lease(&mut lock(&self.state), Some(connection), purpose);
        lease.note_use();
        lease
    }

    /// Whether there is a connection for one more request.
    fn has_room(&self, state: &State, Purpose { upload, is_proven }: Purpose, now: Instant) -> bool {
        let all = self.capacity(state);
        let is_kept = || state.proven_at.is_some_and(|at| now.duration_since(at) < KEPT_FOR);
        state.leased < all
            && (!upload || state.uploads < self.share(all))
            && (is_proven || state.unproven < all - all / KEPT || !is_kept())
    }

    /// The requests that can be in progress: one of each connection, or of each of its streams.
    fn capacity(&self, state: &State) -> usize {
        let connections = self.limits.connections;
        state.sessions.as_ref().map_or(connections, |sessions| sessions.capacity(connections))
    }

    /// The share of `all` for requests whose bodies are still coming; at least one, if there are any.
    fn share(&self, all: usize) -> usize {
        (all.saturating_mul(self.limits.upload_percent) / 100).max(1).min(all)
    }

    fn is_crowded(&self, state: &State, upload: bool) -> bool {
        let most = self.limits.waiting;
        state.waiting() >= most || upload && state.uploads_waiting() >= self.share(most)
    }

    fn full(&self, state: &State, upload: bool) -> Error {
        let (all, waiting) = (self.capacity(state), state.waiting());
        Code::QueueFull.error(if upload && state.leased < all {
            format!(
                "requests whose bodies are still coming use their share of {} of {all} connections, and {} wait",
                self.share(all),
                state.uploads_waiting()
            )
        } else if state.leased < all {
            format!(
                "all but {} of {all} connections, which are kept for clients that have taken a whole response, are in use \
                 and {waiting} requests wait for one",
                all / KEPT
            )
        } else {
            format!("all {all} connections are in use and {waiting} requests wait for one")
        })
    }

    fn lease(
        self: &Arc<Self>,
        state: &mut State,
        connection: Option<Box<Connection>>,
        purpose: Purpose,
    ) -> Lease {
        state.leased += 1;
        state.uploads += usize::from(purpose.upload);
        state.unproven += usize::from(!purpose.is_proven);
        Lease::new(Arc::clone(self), connection, purpose)
    }

    /// The identity of the line for its connections.
    pub(super) fn line(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// How many connections are to be freed at one of so many `looks` in the time in which a client stalls: one for each
    /// request of a proven client, and for all others three quarters of the clients that stall meanwhile. So there is
    /// always a stalled client that can be cut, and a proven client does not wait until another client has stalled.
    pub(super) fn wanted(&self, looks: usize) -> usize {
        let state = lock(&self.state);
        let may_upload = self.share(self.capacity(&state)).saturating_sub(state.uploads);
        let [others, proven] =
            state.lines.each_ref().map(|line| line.len() - line.uploads().saturating_sub(may_upload));
        proven + others.min((self.capacity(&state) * 3 / looks.max(1) / 4).max(1))
    }

    /// Changes the counts of the place.
    pub(super) fn count(&self, count: impl FnOnce(&mut Counts)) {
        count(&mut lock(&self.state).counts);
    }

    /// Notes that a request has failed with `error`, on a connection to `address` if there was one. With `reports` it is
    /// logged.
    pub(super) fn failed(&self, error: &Error, address: Option<SocketAddr>, reports: bool) {
        self.tally.failed(error);
        if reports && error.code().source() == Source::Origin {
            // Under the name of the tally, because the number of names has a bound.
            self.tally.notices.failed(&self.tally.name, address, error);
        }
    }

    /// Notes an event on an idle connection to `address`.
    pub(super) fn stirred(&self, counts: &mut Counts, unrest: Unrest, address: Option<SocketAddr>) {
        counts.count(unrest);
        if unrest == Unrest::Bytes {
            self.stray("bytes came on an idle connection, which was closed", address);
        }
    }

    /// Logs bytes that belong to no response.
    pub(super) fn stray(&self, what: &'static str, address: Option<SocketAddr>) {
        self.tally.notices.failed(&self.tally.name, address, &Code::ExcessBytes.error(what));
    }

    /// Whether the connection may carry another request.
    pub(super) fn reusable(&self, connection: &Connection) -> bool {
        !connection.is_channel()
            && connection.requests < self.limits.requests_per_connection
            && clock::since(connection.opened) < self.limits.connection_age
    }

    /// Takes back a lease, with its connection if that may serve again, and passes both to the next request. It may serve
    /// two requests: the lease may have been of both shares.
    fn release(self: &Arc<Self>, connection: Option<Box<Connection>>, purpose: Purpose) {
        let mut state = lock(&self.state);
        let connection = connection.filter(|connection| state.names.has(connection.peer));
        state.leave(purpose);
        self.serve(state, connection);
    }

    /// Serves requests that wait and for which there is room, the first by `connection` if there is one.
    fn serve<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, State>,
        mut connection: Option<Box<Connection>>,
    ) {
        while let Some((purpose, waiting)) = self.next(&mut state) {
            let connection_here = connection.take().or_else(|| state.pop_idle(clock::now()));
            if connection_here.is_some() && !waiting.is_closed() {
                state.counts.reused += 1;
            }
            let lease = self.lease(&mut state, connection_here, purpose);
            // The lock is not held here, because a request that has given up drops the lease that
            // it gets.
            drop(state);
            let refused = waiting.send(lease).err();
            state = lock(&self.state);
            if let Some(mut refused) = refused {
                refused.place = None;
                connection = refused.connection.take().filter(|connection| state.names.has(connection.peer));
                state.leave(refused.purpose);
            }
        }
        if let Some(connection) = connection.filter(|_| !state.closed) {
            self.park(&mut state, connection);
        }
    }

    /// Takes the request out of its line that is served next, of those for which there is a connection. The lines take turns
    /// while both have such a request.
    fn next(&self, state: &mut State) -> Option<(Purpose, oneshot::Sender<Lease>)> {
        if state.waiting() == 0 {
            return None;
        }
        let now = clock::now();
        let is_standing = state.is_standing(now);
        let next = [state.turn, 1 - state.turn].into_iter().find_map(|line| {
            let [may_have, may_upload] = [false, true]
                .map(|upload| self.has_room(state, Purpose { upload, is_proven: line == PROVEN }, now));
            let (upload, waiting) =
                if may_have { state.lines[line].pop(is_standing, may_upload) } else { None }?;
            Some((line, upload, waiting))
        });
        let (line, upload, waiting) = next?;
        state.turn = 1 - line;
        state.note_line();
        Some((Purpose { upload, is_proven: line == PROVEN }, waiting))
    }

    /// Lays a connection by. It is registered with the sweeper's waker, so that neither a task nor a wake-up is
    /// spent on it unless something happens to it.
    fn park(self: &Arc<Self>, state: &mut State, mut connection: Box<Connection>) {
        let now = clock::now();
        let deadline = (now + self.limits.idle_timeout).min(connection.opened + self.limits.connection_age);
        if let Some(waker) = &state.sweeper.waker {
            if let Poll::Ready(unrest) = connection.poll_unrest(&mut Context::from_waker(waker)) {
                self.stirred(&mut state.counts, unrest, connection.peer);
                return;
            }
        } else if state.sweeper.armed.is_none() {
            // Its first look will find this connection, and what is laid by before it.
            let Ok(runtime) = Handle::try_current() else { return };
            runtime.spawn(sweep::run(Arc::clone(self)));
            state.sweeper.armed = Some(deadline);
        }
        connection.idle_since = Some(runtime::turn());
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
            if let Some(sessions) = &mut state.sessions {
                sessions.close();
            }
            state.crowded_since = None;
            (std::mem::take(&mut state.idle), std::mem::take(&mut state.lines), state.sweeper.waker.take())
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
        let has_none = state.sessions.as_ref().is_none_or(Sessions::is_empty);
        let vacant = state.leased == 0 && state.idle.is_empty() && has_none && state.sweeper.armed.is_none();
        if vacant && !state.retired {
            self.tally.keep(&std::mem::take(&mut state.counts));
        }
        state.retired |= vacant;
        vacant
    }

    pub(super) fn stats(&self) -> EndpointStats {
        let state = lock(&self.state);
        let (streams, busy, quiet) = state.sessions.as_ref().map(Sessions::counts).unwrap_or_default();
        EndpointStats {
            origin: Plain::clone(&self.origin),
            active: state.leased.saturating_sub(streams) + busy,
            idle: state.idle.len() + quiet,
            streams,
            waiting: state.waiting(),
            counts: state.counts,
        }
    }
}

impl State {
    /// Whether there has been a line for so long that it does not go away by itself.
    fn is_standing(&self, now: Instant) -> bool {
        self.crowded_since.is_some_and(|since| now.duration_since(since) >= STANDING)
    }

    /// Sends a request away, for a new one of `line` to have its place; whether it did. It is one of the other line if that
    /// is longer, or in a standing line the one that has waited for longest.
    fn displace(&mut self, now: Instant, line: usize, upload: bool) -> bool {
        let other = 1 - line;
        self.lines[other].len() > self.lines[line].len() && self.lines[other].pop_oldest(upload).is_some()
            || self.is_standing(now) && self.lines[line].pop_oldest(upload).is_some()
    }

    /// A lease is over.
    fn leave(&mut self, Purpose { upload, is_proven }: Purpose) {
        self.leased -= 1;
        self.uploads -= usize::from(upload);
        self.unproven -= usize::from(!is_proven);
    }

    /// An idle connection that may still be used.
    fn pop_idle(&mut self, now: Instant) -> Option<Box<Connection>> {
        while let Some(idle) = self.idle.pop() {
            if idle.deadline > now {
                return Some(idle.connection);
            }
            self.counts.expired += 1;
        }
        None
    }

    fn waiting(&self) -> usize {
        self.lines.iter().map(Line::len).sum()
    }

    fn uploads_waiting(&self) -> usize {
        self.lines.iter().map(Line::uploads).sum()
    }

    /// Requests have left the line.
    fn note_line(&mut self) {
        if self.waiting() == 0 {
            self.crowded_since = None;
        }
    }
}

/// Resolves the name of `place` again.
async fn refresh(place: Arc<Place>) {
    let found = resolve(&place.endpoint).await;
    place.learn(found.ok());
}

/// Waits in line.
pub(super) async fn wait(mut turn: Turn, limit: Option<Duration>) -> Result<Lease> {
    let granted = async {
        let lease = (&mut turn.granted).await;
        turn.is_over = true;
        lease.map_err(|_| {
            if lock(&turn.place.state).closed {
                return closed();
            }
            Code::QueueFull.error(format!(
                "all {} connections are in use, and newer requests have taken the place in the line",
                turn.place.limits.connections
            ))
        })
    };
    within(limit, Code::QueueTimeout, "waiting for a free connection", granted).await
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut state = lock(&self.place.state);
        let request = state.lines[self.line].remove(self.seat);
        state.note_line();
        drop(state);
        // It has been granted meanwhile, if it was no longer there: the lease goes back with the receiver, without the lock.
        drop(request);
    }
}

fn closed() -> Error {
    Code::EngineClosed.error("the engine has been closed")
}

#[cfg(test)]
mod tests;
