//! What is counted of requests, by lane and route. Each engine thread adds to a tally of its own, without a lock and
//! without writing memory that another one writes; they are summed when they are read.
//!
//! Names are those of routes, which an operator has declared, and never a client's. The invariant: sums never go back,
//! also where routes are replaced, because those of one name share what is counted; and there is a bound to names.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use penstock_trace::TraceId;

use super::exemplar::{Exemplars, Kept};
use super::network::{Network, NetworkSums};
use crate::counters::{Buckets, ByName, Counter, Histogram};
use crate::error::{Code, Error};
use crate::holder;
use crate::sync::{Arc, Mutex, lock};

/// Who answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// The engine alone, on a native route.
    Native,
    /// The application.
    App,
    /// The edge itself: the request was refused before it had a route.
    Edge,
}

impl Lane {
    /// The word used for it in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::App => "app",
            Self::Edge => "edge",
        }
    }
}

/// Statuses that are counted each for itself; of others the class is.
const STATUSES: [u16; 58] = [
    101, 200, 201, 202, 203, 204, 205, 206, 207, 226, 300, 301, 302, 303, 304, 307, 308, 400, 401, 402, 403,
    404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 416, 417, 418, 421, 422, 423, 424, 425, 426,
    428, 429, 431, 451, 499, 500, 501, 502, 503, 504, 505, 506, 507, 508, 510, 511,
];

/// The labels of all other statuses: no response, a number that is no status, and the classes.
const CLASSES: [&str; 7] = ["none", "other", "1xx", "2xx", "3xx", "4xx", "5xx"];

const PLACES: usize = CLASSES.len() + STATUSES.len();

fn place(status: u16) -> usize {
    if status == 0 {
        return 0;
    }
    match STATUSES.binary_search(&status) {
        Ok(at) => CLASSES.len() + at,
        Err(_) => match status / 100 {
            class @ 1..=5 => 1 + usize::from(class),
            _ => 1,
        },
    }
}

fn name(place: usize) -> Cow<'static, str> {
    match place.checked_sub(CLASSES.len()) {
        None => CLASSES[place].into(),
        Some(at) => STATUSES[at].to_string().into(),
    }
}

/// One thread's part of what is counted of a route. On cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Tally {
    begun: Counter,
    statuses: [Counter; PLACES],
    failures: [Counter; Code::COUNT],
    received: Counter,
    sent: Counter,
    first_byte: Buckets,
    duration: Buckets,
    first_byte_kept: Kept,
    duration_kept: Kept,
    /// Of those on tenants' accounts.
    tenants: TenantTally,
}

#[derive(Debug, Default)]
struct TenantTally {
    begun: Counter,
    ended: Counter,
    refused: Counter,
    bytes: Counter,
}

impl Tally {
    fn new() -> Self {
        Self {
            begun: Counter::new(),
            statuses: [const { Counter::new() }; PLACES],
            failures: [const { Counter::new() }; Code::COUNT],
            received: Counter::new(),
            sent: Counter::new(),
            first_byte: Buckets::default(),
            duration: Buckets::default(),
            first_byte_kept: Kept::default(),
            duration_kept: Kept::default(),
            tenants: TenantTally::default(),
        }
    }

    /// A request has come.
    pub(super) fn begin(&self) {
        self.begun.add(1);
    }

    /// The kernel took so many bytes of a response.
    pub(super) fn sent(&self, bytes: usize) {
        self.sent.add(bytes as u64);
    }

    /// A request is on a tenant's account.
    pub(super) fn begin_tenant(&self) {
        self.tenants.begun.add(1);
    }

    /// It is no longer.
    pub(super) fn end_tenant(&self) {
        self.tenants.ended.add(1);
    }

    /// A request was refused for a limit of its tenant's.
    pub(super) fn refuse_tenant(&self) {
        self.tenants.refused.add(1);
    }

    /// So many bytes of a body were sent on a tenant's account.
    pub(super) fn sent_of_tenant(&self, bytes: u64) {
        self.tenants.bytes.add(bytes);
    }

    /// A request has been answered, or has not.
    pub(super) fn end(&self, end: &End<'_>) {
        self.statuses[place(end.status)].add(1);
        if let Some(error) = end.error {
            self.failures[error.code().position()].add(1);
        }
        if end.received > 0 {
            self.received.add(end.received);
        }
        if let Some(first_byte) = end.first_byte {
            self.first_byte.add(first_byte);
        }
        self.duration.add(end.duration);
        if let Some(trace) = end.trace {
            self.duration_kept.put(trace, end.duration);
            if let Some(first_byte) = end.first_byte {
                self.first_byte_kept.put(trace, first_byte);
            }
        }
    }
}

/// What became of a request.
#[derive(Debug)]
pub(super) struct End<'a> {
    /// What the client got; 499 if it left before a head, and 0 if there was none.
    pub(super) status: u16,
    pub(super) error: Option<&'a Error>,
    /// Bytes of its body.
    pub(super) received: u64,
    /// Up to the head of the response.
    pub(super) first_byte: Option<Duration>,
    pub(super) duration: Duration,
    /// Its trace, if that is kept.
    pub(super) trace: Option<TraceId>,
}

/// What is counted of a route, by engine thread.
#[derive(Debug)]
pub(super) struct Tallies {
    by_thread: Box<[Arc<Tally>]>,
    /// In whose name the requests take memory.
    pub(super) holder: u8,
}

impl Tallies {
    fn new(threads: usize, holder: u8) -> Self {
        Self { by_thread: (0..threads).map(|_| Arc::new(Tally::new())).collect(), holder }
    }

    /// That of the calling engine thread.
    pub(super) fn of(&self, thread: usize) -> Arc<Tally> {
        Arc::clone(&self.by_thread[thread])
    }

    fn sums(&self, lane: Lane, route: &str) -> RouteSums {
        let mut sums = RouteSums {
            lane,
            route: route.to_owned(),
            active: 0,
            statuses: Vec::new(),
            failures: Vec::new(),
            received: 0,
            sent: 0,
            first_byte: Histogram::default(),
            duration: Histogram::default(),
            first_byte_exemplars: Exemplars::default(),
            duration_exemplars: Exemplars::default(),
            tenants: TenantSums::default(),
        };
        let (mut begun, mut statuses, mut failures) = (0, [0; PLACES], [0; Code::COUNT]);
        for tally in &self.by_thread {
            // Ends before beginnings: whatever comes between the two looks is under way, and none has ended unbegun.
            for (sum, count) in statuses.iter_mut().zip(&tally.statuses) {
                *sum += count.get();
            }
            for (sum, count) in failures.iter_mut().zip(&tally.failures) {
                *sum += count.get();
            }
            begun += tally.begun.get();
            sums.received += tally.received.get();
            sums.sent += tally.sent.get();
            sums.first_byte.add(&tally.first_byte);
            sums.duration.add(&tally.duration);
            tally.first_byte_kept.add_to(&mut sums.first_byte_exemplars);
            tally.duration_kept.add_to(&mut sums.duration_exemplars);
            let tenants = &tally.tenants;
            // In this order, as above.
            let ended = tenants.ended.get();
            let begun = tenants.begun.get();
            sums.tenants.requests += begun;
            sums.tenants.active += begun.saturating_sub(ended);
            sums.tenants.refused += tenants.refused.get();
            sums.tenants.bytes += tenants.bytes.get();
        }
        sums.active = begun.saturating_sub(statuses.iter().sum());
        let counted = statuses.into_iter().enumerate().filter(|(_, count)| *count > 0);
        sums.statuses = counted.map(|(place, count)| (name(place), count)).collect();
        let named = Code::all().iter().map(|row| row.name).zip(failures);
        sums.failures = named.filter(|(_, count)| *count > 0).collect();
        sums
    }
}

/// What the requests of a route come to.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteSums {
    /// Who answers them.
    pub lane: Lane,
    /// The name of the route.
    pub route: String,
    /// Requests that are being answered.
    pub active: u64,
    /// Requests that were, by status, as far as there were some.
    pub statuses: Vec<(Cow<'static, str>, u64)>,
    /// Requests that failed, by the name of the code.
    pub failures: Vec<(&'static str, u64)>,
    /// Bytes of their bodies, without framing.
    pub received: u64,
    /// Bytes of responses that the kernel took, heads and framing included.
    pub sent: u64,
    /// From the head of the request to that of the response.
    pub first_byte: Histogram,
    /// From the head of the request to the end of the response.
    pub duration: Histogram,
    /// The last traces of `first_byte`, by bucket.
    pub first_byte_exemplars: Exemplars,
    /// Likewise of `duration`.
    pub duration_exemplars: Exemplars,
    /// Of those on tenants' accounts, all tenants together.
    pub tenants: TenantSums,
}

/// What the requests of a route come to that are on tenants' accounts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TenantSums {
    /// Requests that are being answered.
    pub active: u64,
    /// Requests that were let in.
    pub requests: u64,
    /// Requests that were refused for a limit.
    pub refused: u64,
    /// Bytes of bodies of requests that are over.
    pub bytes: u64,
}

/// What an engine counts of requests, over all of its sites.
#[derive(Debug)]
pub struct Ledger {
    threads: usize,
    by_route: Mutex<BTreeMap<Lane, ByName<Arc<Tallies>>>>,
    /// What the network does to responses.
    pub(super) network: Arc<Network>,
}

impl Ledger {
    /// An empty one, of an engine of so many threads.
    pub fn new(threads: usize) -> Self {
        Self { threads, by_route: Mutex::default(), network: Arc::new(Network::new()) }
    }

    /// What is counted under `name`.
    pub(super) fn of(&self, lane: Lane, name: &str) -> Arc<Tallies> {
        let mut by_route = lock(&self.by_route);
        let place = by_route.values().map(ByName::len).sum();
        let tallies = by_route.entry(lane).or_default();
        let make = |_: &str| Arc::new(Tallies::new(self.threads, holder::number(place)));
        Arc::clone(tallies.get_or_insert_with(name, make))
    }

    /// The routes, in the order of lanes and names, each with the number in whose name its requests take memory.
    pub fn holders(&self) -> Vec<(Lane, Box<str>, u8)> {
        let by_route = lock(&self.by_route);
        let routes = by_route.iter().flat_map(|(lane, routes)| routes.iter().map(|route| (*lane, route)));
        routes.map(|(lane, (name, tallies))| (lane, name.clone(), tallies.holder)).collect()
    }

    /// What was seen of the network's part in responses, by class.
    pub fn network(&self) -> Vec<NetworkSums> {
        self.network.sums()
    }

    /// What all of them come to, in the order of lanes and names.
    pub fn sums(&self) -> Vec<RouteSums> {
        let by_route = lock(&self.by_route);
        let routes = by_route.iter().flat_map(|(lane, routes)| routes.iter().map(|route| (*lane, route)));
        routes.map(|(lane, (name, tallies))| tallies.sums(lane, name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(status: u16) -> End<'static> {
        End {
            status,
            error: None,
            received: 3,
            first_byte: Some(Duration::ZERO),
            duration: Duration::ZERO,
            trace: None,
        }
    }

    #[test]
    fn every_status_has_a_place_and_known_ones_their_own() {
        assert!(STATUSES.is_sorted());
        for status in 0..=u16::MAX {
            let name = name(place(status));
            match status {
                0 => assert_eq!(name, "none"),
                status if STATUSES.contains(&status) => assert_eq!(name, status.to_string()),
                100..=599 => assert_eq!(name, format!("{}xx", status / 100)),
                _ => assert_eq!(name, "other"),
            }
        }
    }

    #[test]
    fn what_threads_count_is_summed() {
        let ledger = Ledger::new(2);
        let tallies = ledger.of(Lane::Native, "vod");
        for thread in [0, 1, 1] {
            let tally = tallies.of(thread);
            tally.begin();
            tally.sent(10);
            tally.end(&end(200));
        }
        tallies.of(0).begin();
        tallies.of(0).begin_tenant();
        tallies.of(0).sent_of_tenant(7);
        tallies.of(1).begin_tenant();
        tallies.of(1).end_tenant();
        tallies.of(1).refuse_tenant();
        let error = Code::IoTimeout.error("x");
        tallies.of(1).begin();
        tallies.of(1).end(&End { error: Some(&error), first_byte: None, ..end(504) });
        let [sums] = &ledger.sums()[..] else { panic!("one route") };
        assert_eq!((sums.lane, sums.route.as_str(), sums.active), (Lane::Native, "vod", 1));
        assert_eq!(sums.statuses, [("200".into(), 3), ("504".into(), 1)]);
        assert_eq!(sums.failures, [("IO_TIMEOUT", 1)]);
        assert_eq!((sums.received, sums.sent), (12, 30));
        assert_eq!(sums.tenants, TenantSums { active: 1, requests: 2, refused: 1, bytes: 7 });
        assert_eq!(sums.first_byte.counts.iter().sum::<u64>(), 3);
        assert_eq!(sums.duration.counts.iter().sum::<u64>(), 4);
    }

    #[test]
    fn a_route_that_is_declared_again_goes_on_counting() {
        let ledger = Ledger::new(1);
        for _ in 0..2 {
            let tally = ledger.of(Lane::Native, "vod").of(0);
            tally.begin();
            tally.end(&end(200));
        }
        assert_eq!(ledger.sums()[0].statuses, [("200".into(), 2)]);
    }
}
