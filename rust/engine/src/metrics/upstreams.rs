//! Upstreams of several origins, by the name of the upstream and of each origin.
//!
//! Names are the declared ones. Counters of several objects with one name are added; of gauges the worst value is given.

use std::collections::BTreeMap;
use std::time::Duration;

use super::kept::{Sum, named};
use super::{Board, Exposition, Value};
use crate::origin::{Upstream, UpstreamCounts};
use crate::sync::lock;

/// Counts by the name of the upstream.
#[derive(Debug, Clone, Default)]
pub(super) struct CountedByName(BTreeMap<Box<str>, Counted>);

/// The counts of one upstream, and of each of its origins.
#[derive(Debug, Clone, Default)]
struct Counted {
    counts: UpstreamCounts,
    origins: BTreeMap<Box<str>, OriginCounts>,
}

#[derive(Debug, Clone, Copy, Default)]
struct OriginCounts {
    requests: u64,
    failures: u64,
}

impl CountedByName {
    fn of(upstream: &Upstream) -> Self {
        let stats = upstream.stats();
        let mut counted = Counted { counts: stats.counts, origins: BTreeMap::new() };
        for member in &stats.members {
            let origin = counted.origins.entry(member.member.endpoint.to_string().into()).or_default();
            origin.requests += member.requests;
            origin.failures += member.failures;
        }
        Self(BTreeMap::from([(upstream.name().into(), counted)]))
    }
}

impl Sum for CountedByName {
    fn add(&mut self, other: &Self) {
        for (name, counted) in &other.0 {
            let sum = named(&mut self.0, name);
            sum.counts += counted.counts;
            for (origin, counts) in &counted.origins {
                let sum = named(&mut sum.origins, origin);
                sum.requests += counts.requests;
                sum.failures += counts.failures;
            }
        }
    }
}

/// Gauges.
#[derive(Debug, Default)]
struct Now {
    budget_left: u64,
    origins: BTreeMap<Box<str>, OriginNow>,
}

#[derive(Debug)]
struct OriginNow {
    is_up: bool,
    ejected: Duration,
    weight: f64,
    active: usize,
}

impl Default for OriginNow {
    fn default() -> Self {
        Self { is_up: true, ejected: Duration::ZERO, weight: f64::INFINITY, active: 0 }
    }
}

/// A counter, its help, and its value in the snapshot.
type Counter = (&'static str, &'static str, fn(&UpstreamCounts) -> u64);

const COUNTERS: [Counter; 6] = [
    ("penstock_upstream_requests_total", "Requests to several origins, each once.", |counts| counts.requests),
    (
        "penstock_upstream_retries_total",
        "Requests sent to another origin because one had failed.",
        |counts| counts.retries,
    ),
    (
        "penstock_upstream_hedges_total",
        "Requests sent to a second origin because the first was slow.",
        |counts| counts.hedges,
    ),
    (
        "penstock_upstream_resumptions_total",
        "Requests for the rest of a body that had broken off.",
        |counts| counts.resumed,
    ),
    (
        "penstock_upstream_over_budget_total",
        "Retries, hedges and resumptions that the budget did not allow.",
        |counts| counts.over_budget,
    ),
    ("penstock_upstream_ejections_total", "Times that origins were ejected.", |counts| counts.ejections),
];

/// A gauge of one origin.
type Gauge = (&'static str, &'static str, fn(&OriginNow) -> Value);

const GAUGES: [Gauge; 4] = [
    (
        "penstock_upstream_origin_up",
        "Whether health checks have found an origin healthy, or there was no check yet.",
        |now| now.is_up.into(),
    ),
    (
        "penstock_upstream_origin_ejected_seconds",
        "How long an origin stays ejected; 0 if it is not.",
        |now| now.ejected.into(),
    ),
    (
        "penstock_upstream_origin_weight",
        "The weight of an origin now, which grows while it comes back; 0 while it is not available.",
        |now| Value::Real(now.weight),
    ),
    (
        "penstock_upstream_origin_requests_active",
        "Requests that are under way to an origin, up to the ends of their bodies.",
        |now| now.active.into(),
    ),
];

impl Board {
    pub(super) fn write_upstreams(&self, out: &mut Exposition) {
        let (there, CountedByName(counted)) = {
            let mut upstreams = lock(&self.upstreams);
            (upstreams.there(), upstreams.sums(CountedByName::of))
        };
        let mut now = BTreeMap::<Box<str>, Now>::new();
        for upstream in &there {
            let stats = upstream.stats();
            let one = named(&mut now, upstream.name());
            one.budget_left = one.budget_left.saturating_add(stats.budget_left);
            for member in &stats.members {
                let origin = named(&mut one.origins, &member.member.endpoint.to_string());
                origin.is_up &= member.is_up;
                origin.ejected = origin.ejected.max(member.ejected.unwrap_or_default());
                origin.weight = origin.weight.min(member.weight);
                origin.active += member.active;
            }
        }
        for (name, help, count) in COUNTERS {
            let mut family = out.counter(name, help);
            for (upstream, counted) in &counted {
                family.sample(&[("upstream", upstream)], count(&counted.counts));
            }
        }
        let mut left = out.gauge("penstock_upstream_budget_left", "Retries that may begin now.");
        for (upstream, now) in &now {
            left.sample(&[("upstream", upstream)], now.budget_left);
        }
        for (name, help, value) in GAUGES {
            let mut gauge = out.gauge(name, help);
            for (upstream, now) in &now {
                for (origin, now) in &now.origins {
                    gauge.sample(&[("upstream", upstream), ("origin", origin)], value(now));
                }
            }
        }
        let mut requests =
            out.counter("penstock_upstream_origin_requests_total", "Requests sent to an origin.");
        for (upstream, counted) in &counted {
            for (origin, counts) in &counted.origins {
                requests.sample(&[("upstream", upstream), ("origin", origin)], counts.requests);
            }
        }
        let mut failures =
            out.counter("penstock_upstream_origin_failures_total", "Requests that an origin has failed.");
        for (upstream, counted) in &counted {
            for (origin, counts) in &counted.origins {
                failures.sample(&[("upstream", upstream), ("origin", origin)], counts.failures);
            }
        }
    }
}
