//! Upstreams of several origins: which origin gets a request, which is ejected, and which requests may be
//! repeated.
//!
//! An [`Upstream`] is shared by all engine threads: its state is under one lock, which is held for a choice and never
//! across I/O. Each request takes a [`Turn`] at one origin and gives it the result. [`failover`] tries one after the
//! other up to a head, [`resume`] continues a body that broke, [`checks`] finds out whether origins are up; `balance`,
//! `budget` and `health` decide without sockets. The invariants: an origin's requests under way are counted until their
//! bodies have ended; a request never goes to one origin twice, but for a body that has no other; all retries, hedges and
//! resumptions are within one budget; while there is an origin, ejections never leave a request without one.

mod balance;
mod budget;
mod checks;
pub(super) mod failover;
mod health;
mod latency;
mod policy;
pub(super) mod resume;
mod seat;
mod turn;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::sync::Arc as Plain;
use std::time::Duration;

use tokio::time::Instant;

pub use policy::{Balance, CheckPolicy, HashKey, HealthPolicy, Hedge, Member, RetryPolicy, UpstreamPolicy};
pub use seat::MemberStats;
pub(super) use turn::Turn;

use super::endpoint::Endpoint;
use crate::sync::{Arc, Mutex, MutexGuard, lock};
use crate::wire::Fields;
use budget::RetryBudget;
use latency::Latencies;
use seat::Seat;

/// Several origins and their state.
#[derive(Debug)]
pub struct Upstream {
    /// The name in errors that belong to no single origin.
    pub(super) name: Plain<str>,
    pub(super) policy: UpstreamPolicy,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    seats: Vec<Seat>,
    /// The number of seats so far.
    named: u64,
    budget: RetryBudget,
    counts: UpstreamCounts,
    latencies: Latencies,
    /// Whether a task of some engine thread sends checks.
    is_checked: bool,
    /// The candidates; kept, because each choice needs this memory.
    eligible: Vec<usize>,
}

penstock_memory::counts! {
    /// The counts of an upstream since it was made.
    pub struct UpstreamCounts {
        /// Requests.
        requests,
        /// Requests sent to another origin because one had failed.
        retries,
        /// Requests sent to a second origin because the first was slow.
        hedges,
        /// Bodies that continued from another connection.
        resumed,
        /// Retries, hedges and resumptions that the budget did not allow.
        over_budget,
        /// Times that origins were ejected.
        ejections,
    }
}

/// A snapshot of an upstream.
#[derive(Debug, Clone)]
pub struct UpstreamStats {
    /// Counts since it was made.
    pub counts: UpstreamCounts,
    /// Retries that may begin now.
    pub budget_left: u64,
    /// Its origins, in their declared order.
    pub members: Vec<MemberStats>,
}

/// Why an origin is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    First,
    Retry,
    Hedge,
    Resume,
}

/// A function that returns whether `scheme://authority`, in the form of endpoints, is the origin at `endpoint`, or one of
/// `upstream` if there is one.
pub fn own(
    endpoint: &Endpoint,
    upstream: Option<Arc<Upstream>>,
) -> impl Fn(&str) -> bool + Send + Sync + use<> {
    let origin = endpoint.to_string();
    move |named| upstream.as_ref().map_or(named == origin, |upstream| upstream.has(named))
}

impl Upstream {
    /// An upstream of `members`, which must not be empty. `name` is `scheme://authority`.
    pub fn new(name: Plain<str>, policy: UpstreamPolicy, members: Vec<Member>) -> Self {
        let now = Instant::now();
        let retries = &policy.retries;
        let count = members.len() as u64;
        let state = State {
            seats: (0..).zip(members).map(|(id, member)| Seat::new(id, member, false, now)).collect(),
            named: count,
            budget: RetryBudget::new(retries.budget_percent, retries.budget_per_second, now),
            counts: UpstreamCounts::default(),
            latencies: Latencies::new(),
            is_checked: false,
            eligible: Vec::new(),
        };
        Self { name, policy, state: Mutex::new(state) }
    }

    /// The common name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether one of them is `origin`, `scheme://authority` as endpoints are shown.
    pub fn has(&self, origin: &str) -> bool {
        self.state().seats.iter().any(|seat| seat.member.endpoint.to_string() == origin)
    }

    /// Replaces the origins by `members`, which must not be empty. Origins that stay keep their state; requests at
    /// origins that go may end.
    pub fn set(&self, members: Vec<Member>) {
        let now = Instant::now();
        let mut state = self.state();
        let mut before = std::mem::take(&mut state.seats);
        for member in members {
            let known = before.iter().position(|seat| seat.member.endpoint == member.endpoint);
            let seat = if let Some(place) = known {
                before.swap_remove(place).declared(member)
            } else {
                state.named += 1;
                Seat::new(state.named, member, true, now)
            };
            state.seats.push(seat);
        }
    }

    /// A snapshot of counts and states.
    pub fn stats(&self) -> UpstreamStats {
        let now = Instant::now();
        let state = self.state();
        UpstreamStats {
            counts: state.counts,
            budget_left: state.budget.left(now),
            members: state.seats.iter().map(|seat| seat.stats(&self.policy.health, now)).collect(),
        }
    }

    /// The hash key of a request for `target` with `headers`.
    pub(super) fn key(&self, target: &str, headers: &Fields) -> u64 {
        let Balance::Hash(key) = &self.policy.balance else { return 0 };
        let path = target.split('?').next().unwrap_or_default();
        match key {
            HashKey::Path => balance::hash(path.as_bytes()),
            HashKey::Target => balance::hash(target.as_bytes()),
            HashKey::Field(name) => {
                let named = |(field, _): &(&[u8], &[u8])| field.eq_ignore_ascii_case(name.as_bytes());
                let value = headers.iter().find(named).map(|(_, value)| value);
                balance::hash(value.unwrap_or(path.as_bytes()))
            }
        }
    }

    /// Chooses an origin that was not `tried`; `None` if no origin may have another request, or if `reason` needs
    /// the budget and that is empty.
    pub(super) fn choose(self: &Arc<Self>, key: u64, tried: &[u64], reason: Reason) -> Option<Turn> {
        let now = Instant::now();
        let mut state = self.state();
        let place = state.choose(&self.policy, key, tried, now)?;
        let is_free = cfg!(all(test, planted_bug = "hedge-not-in-budget")) && reason == Reason::Hedge;
        if reason == Reason::First {
            state.budget.earn(now);
        } else if !(is_free || state.budget.spend(now)) {
            state.counts.over_budget += 1;
            return None;
        }
        let counts = &mut state.counts;
        *match reason {
            Reason::First => &mut counts.requests,
            Reason::Retry => &mut counts.retries,
            Reason::Hedge => &mut counts.hedges,
            Reason::Resume => &mut counts.resumed,
        } += 1;
        let (seat, member) = (state.seats[place].id, state.seats[place].enter());
        drop(state);
        Some(Turn::new(Arc::clone(self), seat, member))
    }

    /// Whether an origin that was not `tried` may have a request.
    fn has_beside(&self, tried: &[u64]) -> bool {
        self.state().seats.iter().any(|seat| seat.is_open(tried))
    }

    /// The time without an answer after which a hedge begins.
    fn hedge(&self) -> Option<Duration> {
        match self.policy.retries.hedge? {
            Hedge::After(pause) => Some(pause),
            Hedge::Percentile(percent) => self.state().latencies.percentile(percent),
        }
    }

    /// Notes the time up to the answer to a request, from any origin.
    fn note_latency(&self, took: Duration) {
        if matches!(self.policy.retries.hedge, Some(Hedge::Percentile(_))) {
            self.state().latencies.record(took);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// A request has failed at an origin.
    fn fail(&self, id: u64) {
        let now = Instant::now();
        self.with_seat(id, |seat, counts| counts.ejections += u64::from(seat.fail(&self.policy.health, now)));
    }

    /// Changes what is known of an origin, if it is still one.
    fn with_seat(&self, id: u64, change: impl FnOnce(&mut Seat, &mut UpstreamCounts)) {
        let State { seats, counts, .. } = &mut *self.state();
        if let Some(seat) = seats.iter_mut().find(|seat| seat.id == id) {
            change(seat, counts);
        }
    }
}

impl State {
    fn choose(&mut self, policy: &UpstreamPolicy, key: u64, tried: &[u64], now: Instant) -> Option<usize> {
        let Self { seats, eligible, .. } = self;
        let available =
            seats.iter().filter(|seat| !seat.member.backup && seat.health.is_available(now)).count();
        let regular = seats.iter().filter(|seat| !seat.member.backup).count();
        // Too few would have to bear it all.
        let panics = available * 100 < regular * policy.health.panic_percent as usize;
        let well = |seat: &Seat| panics || seat.health.is_available(now);
        // Healthy origins, then backups, then any: an ejected one may have come back.
        let tiers: [&dyn Fn(&Seat) -> bool; 3] = [
            &|seat| !seat.member.backup && well(seat),
            &|seat| seat.member.backup && seat.health.is_available(now),
            &|_| true,
        ];
        for tier in tiers {
            eligible.clear();
            eligible.extend(
                (0..seats.len()).filter(|place| seats[*place].is_open(tried) && tier(&seats[*place])),
            );
            if !eligible.is_empty() {
                break;
            }
        }
        let mut places = eligible.iter().peekable();
        let candidates = seats.iter_mut().enumerate().filter_map(|(place, seat)| {
            places.next_if_eq(&&place)?;
            Some(seat.candidate(&policy.health, now))
        });
        let chosen = match policy.balance {
            Balance::RoundRobin => balance::in_turn(candidates),
            Balance::LeastLoaded => balance::least_loaded(candidates),
            Balance::Hash(_) => balance::by_key(key, candidates),
        };
        chosen.map(|place| eligible[place])
    }
}
