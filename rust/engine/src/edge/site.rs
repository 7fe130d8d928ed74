//! What the connections of one way in share.

use std::sync::Arc as Plain;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;
use std::time::Duration;

use penstock_memory::active::Active;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::client::Client;
use super::clients::Clients;
use super::config::EdgeConfig;
use super::handshakes::Handshakes;
use super::log::Log;
use super::proven::Proven;
use super::route::{Routes, Service};
use super::supplies::Supplies;
use super::tally::{Lane, Tallies};
use crate::app::{Fault, Queue, QueueStats};
use crate::drain::{Drain, Phase};
use crate::error::{Code, Error, Result};
use crate::events::retry;
use crate::inspect::Counts;
use crate::net::http2::Excess;
use crate::net::{Demand, Life, Question, StallClock, chance};
use crate::pool::CLASSES;
use crate::pressure::Pressure;
use crate::runtime::Threads;
use crate::sync::{Arc, Mutex, lock};
use crate::wire::Incoming;

/// How often it is looked whether requests wait for what stalled clients hold. A quarter of the shortest grace that is worth
/// giving.
const LOOK: Duration = Duration::from_millis(250);

/// As [`LOOK`], while some do, and for [`CROWDED`] after that, and while memory is short: for so long does a request wait longer
/// than it has to. A look at 1,600 responses takes 50 µs.
const CLOSE_LOOK: Duration = Duration::from_millis(10);

/// How long after requests have waited more of them are expected to. Clients that were cut off come back. Arbitrary.
const CROWDED: Duration = Duration::from_secs(1);

/// How often event streams are looked at, and the disks are asked for their troubles. The engine's threads wake as often anyway.
const TURN: Duration = Duration::from_secs(1);

/// The time between two turns in which event streams end. Arbitrary.
const END_TURN: Duration = Duration::from_millis(100);

/// How often it is said that clients are being cut. Arbitrary; an attack goes on for hours.
const TELL_AGAIN: Duration = Duration::from_secs(60);

/// One way in: listeners and their connections.
#[derive(Debug)]
pub struct Site {
    pub(super) config: EdgeConfig,
    pub(super) supplies: Supplies,
    routes: Mutex<Arc<Routes>>,
    /// Where requests go that no route matches.
    pub(super) app: Option<Queue>,
    /// The handshakes of its clients, if they speak TLS.
    pub(super) tls: Option<Plain<Handshakes>>,
    /// What responses over TLS say of https.
    hsts: Option<Box<[u8]>>,
    pub(super) drain: Drain,
    /// Milliseconds within which the clients of event streams are to come back that have ended because of that; 0: as they like.
    retry: AtomicU64,
    pub(super) log: Option<Plain<Log>>,
    /// Whether that has the lines of what the application answers as well.
    pub(super) logs_application: bool,
    /// Lines that the log had no room for.
    pub(super) unlogged: AtomicU64,
    pub(super) clock: Plain<StallClock>,
    begun: AtomicBool,
    /// Open connections, by engine thread.
    loads: Vec<AtomicUsize>,
    accepted: AtomicU64,
    pub(super) unaccepted: AtomicU64,
    /// Connections of HTTP/2 that were ended, or streams that were refused, by why.
    pub(super) excesses: [AtomicU64; Excess::ALL.len()],
    /// Connections of HTTP/2 that have begun.
    pub(super) http2: AtomicU64,
    pub(super) requests: AtomicU64,
    /// What is counted of requests for which there is no route: the application's, if there is one.
    unrouted: Arc<Tallies>,
    /// Of those whose heads could not be read.
    pub(super) unread: Arc<Tallies>,
    pub(super) refused: AtomicU64,
    pub(super) clients: Arc<Clients>,
    proven: Proven,
}

/// What a site counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SiteCounts {
    /// Connections that are open.
    pub connections: usize,
    /// Connections so far.
    pub accepted: u64,
    /// Times so far that the operating system refused to accept one.
    pub unaccepted: u64,
    /// Connections of HTTP/2 that have begun.
    pub http2: u64,
    /// What clients of HTTP/2 did too often: connections that were ended for it, and streams that were refused, by [`Excess`].
    pub excesses: [u64; Excess::ALL.len()],
    /// Requests so far.
    pub requests: u64,
    /// Requests that are being answered.
    pub active: usize,
    /// Requests that the edge has refused.
    pub refused: u64,
    /// Connections that were refused because their address had as many as it may.
    pub unconnected: u64,
    /// Clients whose unfinished heads others needed the memory of.
    pub evicted_heads: u64,
    /// Stalled clients that were cut off for the memory that they held.
    pub cut_for_memory: u64,
    /// Stalled clients that were cut off for the connections to origins that they held.
    pub cut_for_connections: u64,
    /// Lines so far that the access log had no room for.
    pub unlogged: u64,
}

impl Site {
    /// A site that listens to nothing yet. `log` has a line for each response, also of `app`; with
    /// [`Site::without_application_log`] not those.
    pub fn new(
        config: EdgeConfig,
        supplies: Supplies,
        routes: Routes,
        log: Option<Plain<Log>>,
        app: Option<Queue>,
    ) -> Self {
        let loads = supplies.origins.iter().map(|_| AtomicUsize::new(0)).collect();
        let unread = supplies.ledger.of(Lane::Edge, "none");
        let unrouted = match &app {
            Some(_) => supplies.ledger.of(Lane::App, "application"),
            None => Arc::clone(&unread),
        };
        count(&routes, &supplies);
        Self {
            config,
            supplies,
            routes: Mutex::new(Arc::new(routes)),
            app,
            tls: None,
            hsts: None,
            drain: Drain::new(),
            retry: AtomicU64::new(0),
            log,
            logs_application: true,
            unlogged: AtomicU64::new(0),
            clock: Plain::new(StallClock::new()),
            begun: AtomicBool::new(false),
            loads,
            accepted: AtomicU64::new(0),
            unaccepted: AtomicU64::new(0),
            excesses: Default::default(),
            http2: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            unrouted,
            unread,
            refused: AtomicU64::new(0),
            clients: Arc::new(Clients::new(config.clients)),
            proven: Proven::default(),
        }
    }

    /// Its clients speak TLS. `hsts` is the value of Strict-Transport-Security for responses without that field.
    #[must_use]
    pub fn with_tls(self, handshakes: Handshakes, hsts: Option<String>) -> Self {
        let hsts = hsts.map(|value| value.into_bytes().into());
        Self { tls: Some(Plain::new(handshakes)), hsts, ..self }
    }

    /// What a response to `client` says of https (RFC 6797, section 7.2: nothing in plain HTTP).
    pub(super) fn hsts(&self, client: &Client) -> Option<&[u8]> {
        client.tls.as_ref().and(self.hsts.as_deref())
    }

    /// The certificates and the handshakes, if its clients speak TLS.
    pub fn handshakes(&self) -> Option<&Plain<Handshakes>> {
        self.tls.as_ref()
    }

    /// Has one of `threads` read the files of certificates anew. What is wrong with them is logged.
    pub fn reload_certificates(self: &Arc<Self>, threads: &Threads) {
        let Some(handshakes) = self.tls.clone() else { return };
        let site = Arc::clone(self);
        threads.spawn(0, move || async move { handshakes.reload(|error| site.report(error)).await });
    }

    /// Whether the certificate of the connection is for the host of the request.
    ///
    /// # Errors
    /// `MISDIRECTED_REQUEST`.
    pub(super) fn check_host(&self, client: &Client, incoming: &Incoming) -> Result<()> {
        match self.tls.as_ref().zip(client.tls.as_ref()) {
            Some((handshakes, session)) => handshakes.check(session, incoming.authority()),
            None => Ok(()),
        }
    }

    /// The application logs by itself what it answers.
    #[must_use]
    pub fn without_application_log(self) -> Self {
        Self { logs_application: false, ..self }
    }

    /// Whether this is the first listener.
    pub(super) fn begin(&self) -> bool {
        // Relaxed: listeners are added by one thread.
        !self.begun.swap(true, Ordering::Relaxed)
    }

    /// Has the load of the engine be read from now on, unless it is already for another site, and the application's with it.
    pub(super) fn follow_pressure(&self, threads: &Arc<Threads>) {
        let Some(limit) = self.config.overload_after else { return };
        let pressure = self.pressure();
        if let Some(queue) = self.app.clone() {
            pressure.watch(move |refused| {
                let waits = queue.reading();
                if let Some(limit) = refused {
                    queue.shed(limit);
                }
                waits
            });
        }
        if pressure.begin(limit) {
            let (pressure, pool) = (Plain::clone(pressure), self.supplies.pool.clone());
            let weak = Arc::downgrade(threads);
            threads.spawn(0, move || pressure.follow_engine(weak, pool, limit));
        }
    }

    /// What the engine is under.
    pub(super) fn pressure(&self) -> &Plain<Pressure> {
        self.supplies.origins[0].pressure()
    }

    /// Until the site is closed: cuts stalled clients while others need what they hold, looks at the connections of event streams,
    /// and reports failures of the caches' disks, which no request reports.
    pub(super) async fn keep_room(&self) {
        let (mut turn, mut told, mut unmet) = (Instant::now(), None, None::<Instant>);
        while !self.is_closed() {
            let is_crowded = unmet.is_some_and(|unmet| unmet.elapsed() < CROWDED) || self.is_short();
            sleep(if is_crowded { CLOSE_LOOK } else { LOOK }).await;
            for change in self.pressure().take_changes() {
                self.report(Code::Overloaded.error(change.to_string()));
            }
            let demand = self.demand();
            if !demand.is_met() {
                unmet = Some(Instant::now());
                self.cut(demand, &mut told);
            }
            if turn.elapsed() >= TURN {
                turn = Instant::now();
                self.supplies.ledger.network.look_at_streams();
                for trouble in self.routes().disk_troubles() {
                    self.report(trouble);
                }
            }
        }
    }

    /// Whether `client` has taken a response to its end.
    pub(super) fn is_proven(&self, client: &Client) -> bool {
        client.is_proven() || client.network.is_some_and(|network| self.proven.contains(network))
    }

    /// What `client` proves by how a response to it has ended.
    pub(super) fn prove(&self, client: &Client, error: Option<&Error>) {
        let is_noted = match error {
            None => client.prove(),
            Some(error) => error.code() == Code::ClientStalled,
        };
        if let Some(network) = client.network.filter(|_| is_noted) {
            self.proven.note(network, error.is_none());
        }
    }

    /// What requests wait for that stalled clients may hold: memory, and connections to origins.
    fn demand(&self) -> Demand {
        let pool = &self.supplies.pool;
        // A read may wait although the pool is not full, where what is free is in pieces.
        let bytes = pool.excess().max(pool.waiting() * CLASSES[1]);
        let looks = self.config.stall_grace.as_millis() / CLOSE_LOOK.as_millis();
        let looks = usize::try_from(looks).unwrap_or(usize::MAX);
        let wanted = self.supplies.origins.iter().flat_map(|origins| origins.wanted(looks));
        Demand { bytes, connections: wanted.collect() }
    }

    /// Whether what is on its way has more than the half of the pool that streams share.
    fn is_short(&self) -> bool {
        let pool = &self.supplies.pool;
        pool.in_transit() > pool.budget() / 2
    }

    fn cut(&self, demand: Demand, told: &mut Option<Instant>) {
        let cut = self.clock.cut(self.config.stall_grace, demand);
        let is_any = cut.for_memory + cut.for_connections > 0;
        if is_any && told.is_none_or(|told| told.elapsed() >= TELL_AGAIN) {
            *told = Some(Instant::now());
            let which = if cut.for_memory > 0 {
                "clients that are waited for, and have held the most memory for longest, are cut off, because other \
                 requests need it"
                    .to_owned()
            } else {
                format!(
                    "clients that have read nothing for {:?} are cut off, because other requests need the connections to \
                     the origin that they hold",
                    self.config.stall_grace
                )
            };
            self.report(
                Code::ClientStalled.error(format!("{which}; penstock_client_evictions_total says how many")),
            );
        }
    }

    /// Replaces all routes. Requests that are being answered go on by the old ones.
    pub fn set_routes(&self, routes: Routes) {
        count(&routes, &self.supplies);
        *lock(&self.routes) = Arc::new(routes);
    }

    pub(super) fn routes(&self) -> Arc<Routes> {
        Arc::clone(&lock(&self.routes))
    }

    /// What is counted of requests for `route`.
    pub(super) fn tallies<'a>(&'a self, route: Option<&'a Service>) -> &'a Tallies {
        route.and_then(Service::tallies).unwrap_or(&self.unrouted)
    }

    /// Takes no new connection, and lets each that is open end with the response that is under way. Subscriptions end at
    /// once: who had one comes back with the id of the last event, and a new process has the next; within `retry`, each at a time
    /// of its own.
    pub fn drain(&self, retry: Duration) {
        // Relaxed: seen with the phase, or by a stream that is told nothing.
        self.retry.store(u64::try_from(retry.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.drain.drain();
        self.clock.stop_resumable();
    }

    /// Once it drains, ends the event streams whose clients come back by themselves: each at a time of its own, the last after
    /// `over`.
    pub async fn end_events(&self, over: Duration) {
        let end = Instant::now() + over;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let turns = left.as_millis() / END_TURN.as_millis() + 1;
            self.clock.stop_in_turn(u32::try_from(turns).unwrap_or(u32::MAX));
            if left.is_zero() || self.is_closed() || self.active() == 0 {
                return;
            }
            sleep(END_TURN.min(left)).await;
        }
    }

    /// Asks `most` more streams to move to the next process when they are at rest. How many were asked and are not frozen yet.
    pub(super) fn ask_to_move(&self, most: usize) -> usize {
        self.clock.ask_to_move(most)
    }

    /// What tells the client of an event stream when to come back: a field `retry` (HTML, 9.2.6); empty if it is to decide.
    pub(super) fn retry(&self) -> String {
        match self.retry.load(Ordering::Relaxed) {
            0 => String::new(),
            most => {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    clippy::cast_precision_loss,
                    reason = "milliseconds"
                )]
                let when = (most as f64 * chance()) as u64;
                retry(when.max(1))
            }
        }
    }

    /// The client of what is sent for `life` comes back for the rest.
    pub(super) fn note_resumable(&self, life: &Life) {
        life.note_resumable();
        if self.is_draining() {
            life.stop();
        }
    }

    /// Asks the tasks of the requests that came first what they are doing: `most` of those whose responses go on, and more of
    /// the others. How many requests there are, and how many were asked.
    pub(crate) fn ask(&self, most: usize, question: &Question) -> (usize, usize) {
        self.clock.ask(most, question)
    }

    /// Requests that are being answered, by lane and route, on all sites of the engine.
    pub fn waited_for(&self) -> Vec<(&'static str, String, u64)> {
        let sums = self.supplies.ledger.sums().into_iter().filter(|sums| sums.active > 0);
        sums.map(|sums| (sums.lane.name(), sums.route, sums.active)).collect()
    }

    /// Ends everything at once.
    pub fn close(&self) {
        self.drain.close();
        if let Some(handshakes) = &self.tls {
            handshakes.close();
        }
        self.clock.stop();
    }

    /// Whether it takes no more connections.
    pub(super) fn is_draining(&self) -> bool {
        self.drain.is_draining()
    }

    /// Whether no response may promise another on the connection of `client`.
    pub(super) fn parts_from(&self, client: &Client) -> bool {
        let is_told = !cfg!(all(test, planted_bug = "drain-promises-more"));
        self.is_draining() && !client.gives_away() && is_told
    }

    /// Whether no request may begin.
    pub(super) fn is_closed(&self) -> bool {
        self.drain.is_closed()
    }

    pub(super) fn phase(&self) -> watch::Receiver<Phase> {
        self.drain.phase()
    }

    fn connections(&self) -> usize {
        // Relaxed, here and below: counts, which order nothing.
        self.loads.iter().map(|load| load.load(Ordering::Relaxed)).sum()
    }

    /// The counts as they are now.
    pub fn counts(&self) -> SiteCounts {
        let cuts = self.clock.cuts();
        SiteCounts {
            connections: self.connections(),
            accepted: self.accepted.load(Ordering::Relaxed),
            unaccepted: self.unaccepted.load(Ordering::Relaxed),
            http2: self.http2.load(Ordering::Relaxed),
            excesses: std::array::from_fn(|excess| self.excesses[excess].load(Ordering::Relaxed)),
            requests: self.requests.load(Ordering::Relaxed),
            active: self.active(),
            refused: self.refused.load(Ordering::Relaxed),
            evicted_heads: self.supplies.heads.evicted(),
            unconnected: self.clients.refused(),
            cut_for_memory: cuts.for_memory,
            cut_for_connections: cuts.for_connections,
            unlogged: self.unlogged.load(Ordering::Relaxed),
        }
    }

    /// What the inspected responses of its routes are counted in, by the names of the routes.
    pub fn inspected(&self) -> Vec<(String, Plain<Counts>)> {
        self.routes().inspected().collect()
    }

    /// How the requests do that wait for the application, if there is one.
    pub fn queue(&self) -> Option<QueueStats> {
        self.app.as_ref().map(Queue::stats)
    }

    /// The requests that wait for the application.
    pub fn application(&self) -> Option<Queue> {
        self.app.clone()
    }

    /// Whether it takes connections and requests: it listens, and is not being stopped.
    pub fn is_listening(&self) -> bool {
        self.begun.load(Ordering::Relaxed) && !self.is_draining()
    }

    /// Has `error`, which concerns the whole site, logged by the application.
    pub(super) fn report(&self, error: Error) {
        if let Some(queue) = &self.app {
            queue.reports().fault(Fault { request: None, error, is_relay: false });
        }
    }

    /// Requests that are being answered. A connection that only waits for its client to close does not
    /// count.
    pub fn active(&self) -> usize {
        self.drain.active()
    }

    /// Whether no request is being answered; if some are, `waker` is woken once when the last of them has ended.
    pub fn is_idle(&self, waker: &Waker) -> bool {
        self.drain.is_idle(waker)
    }

    /// Counts a request, until the guard is dropped.
    pub(super) fn begin_exchange(&self) -> Active<'_> {
        self.drain.begin()
    }

    /// Counts a connection on the thread that has the fewest, until the guard is dropped.
    pub(super) fn admit(self: &Arc<Self>) -> Load {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        let load = |thread: &usize| self.loads[*thread].load(Ordering::Relaxed);
        let thread = (0..self.loads.len()).min_by_key(load).unwrap_or(0);
        self.loads[thread].fetch_add(1, Ordering::Relaxed);
        Load { site: Arc::clone(self), thread }
    }
}

/// Counts what `routes` declare under their own names.
fn count(routes: &Routes, supplies: &Supplies) {
    routes.count_in(&supplies.ledger);
    for endpoint in routes.endpoints() {
        for origins in &supplies.origins {
            origins.declare(endpoint);
        }
    }
}

/// A connection's place on an engine thread.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) site: Arc<Site>,
    pub(super) thread: usize,
}

impl Drop for Load {
    fn drop(&mut self) {
        self.site.loads[self.thread].fetch_sub(1, Ordering::Relaxed);
    }
}
