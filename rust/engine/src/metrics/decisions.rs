//! Decisions about requests, by route: about clients, and about tenants' limits.
//!
//! Tokens name the tenants, so tenants are not labels: all tenants of a route are counted together.

use std::ops::AddAssign;

use super::{Board, Exposition};
use crate::access::{self, DecisionStats, Decisions};
use crate::counters::{ByName, Histogram};
use crate::edge::{RouteSums, TenantSums};
use crate::sync::lock;

/// The counts of one route.
#[derive(Debug, Clone, Default)]
pub(super) struct Counted {
    counts: access::Counted,
    took: Histogram,
}

impl AddAssign<&Self> for Counted {
    fn add_assign(&mut self, other: &Self) {
        self.counts += &other.counts;
        self.took += &other.took;
    }
}

fn counted(decisions: &Decisions) -> ByName<Counted> {
    let mut by_route = ByName::<Counted>::default();
    for (name, stats) in decisions.stats_by_route() {
        by_route.entry(&name).counts += &stats.counted;
    }
    for (name, took) in decisions.answer_times() {
        by_route.entry(&name).took += &took;
    }
    by_route
}

/// A counter, its help, and its value in the snapshot.
type Counter = (&'static str, &'static str, fn(&access::Counted) -> u64);

const COUNTERS: [Counter; 3] = [
    (
        "penstock_decision_failures_total",
        "Questions that were not answered, because the hook failed or took too long.",
        |counted| counted.failed,
    ),
    (
        "penstock_decision_evictions_total",
        "Decisions that were evicted before their time, for lack of room.",
        |counted| counted.evicted,
    ),
    ("penstock_decision_revocations_total", "Decisions that were revoked.", |counted| counted.revoked),
];

impl Board {
    pub(super) fn write_decisions(&self, out: &mut Exposition) {
        let (there, counted) = {
            let mut decisions = lock(&self.decisions);
            (decisions.there(), decisions.sums(counted))
        };
        let mut now = ByName::<DecisionStats>::default();
        for (name, stats) in there.iter().flat_map(|decisions| decisions.stats_by_route()) {
            *now.entry(&name) += &stats;
        }
        let mut remembered = out.gauge("penstock_decisions_remembered", "Decisions that are remembered.");
        for (route, stats) in &now {
            remembered.sample(&[("route", route), ("verdict", "allow")], stats.allowed);
            remembered.sample(&[("route", route), ("verdict", "deny")], stats.denied);
        }
        let help = "Questions whose answers requests wait for.";
        let mut open = out.gauge("penstock_decision_questions_open", help);
        for (route, stats) in &now {
            open.sample(&[("route", route)], stats.open);
        }
        let help = "Responses that run by a decision, and take longer than a moment.";
        let mut running = out.gauge("penstock_decision_responses_running", help);
        for (route, stats) in &now {
            running.sample(&[("route", route)], stats.running);
        }
        let help = "Requests by the result of the lookup: allowed or refused by a remembered decision, asked about, \
            or joined to an open question.";
        let mut lookups = out.counter("penstock_decision_lookups_total", help);
        for (route, counted) in &counted {
            let route = ("route", &**route);
            lookups
                .sample(&[route, ("result", "hit")], counted.counts.allowed)
                .sample(&[route, ("result", "denied_hit")], counted.counts.denied)
                .sample(&[route, ("result", "asked")], counted.counts.asked)
                .sample(&[route, ("result", "joined")], counted.counts.joined);
        }
        for (name, help, count) in COUNTERS {
            let mut family = out.counter(name, help);
            for (route, counted) in &counted {
                family.sample(&[("route", route)], count(&counted.counts));
            }
        }
        let help = "From a question to the hook's answer, or to its failure.";
        let mut took = out.histogram("penstock_decision_seconds", help);
        for (route, counted) in &counted {
            took.sample(&[("route", route)], &counted.took);
        }
    }
}

/// Requests of tenants, on the routes that had some.
pub(super) fn write_tenants(routes: &[RouteSums], out: &mut Exposition) {
    let routes = || routes.iter().filter(|route| route.tenants != TenantSums::default());
    let help = "Requests on tenants' accounts that are being answered.";
    let mut active = out.gauge("penstock_tenant_requests_active", help);
    for route in routes() {
        active.sample(&[("route", &route.route)], route.tenants.active);
    }
    let help = "Requests on tenants' accounts: let in, or refused for a limit of the tenant's.";
    let mut requests = out.counter("penstock_tenant_requests_total", help);
    for route in routes() {
        let name = ("route", &*route.route);
        requests.sample(&[name, ("result", "let_in")], route.tenants.requests);
        requests.sample(&[name, ("result", "refused")], route.tenants.refused);
    }
    let help = "Bytes of bodies on tenants' accounts, of requests that are over.";
    let mut bytes = out.counter("penstock_tenant_body_bytes_total", help);
    for route in routes() {
        bytes.sample(&[("route", &route.route)], route.tenants.bytes);
    }
}
