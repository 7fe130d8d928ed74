//! Upstreams of several origins, by the name of the upstream and of each origin.
//!
//! Names are the declared ones. Counters of several objects with one name are added; of gauges the worst value is given.

use std::ops::AddAssign;
use std::time::Duration;

use super::{Board, Exposition, Value};
use crate::counters::ByName;
use crate::origin::{MemberStats, Upstream, UpstreamCounts};
use crate::sync::lock;

/// The counts of one upstream, and of each of its origins.
#[derive(Debug, Clone, Default)]
pub(super) struct Counted {
    counts: UpstreamCounts,
    origins: ByName<OriginCounts>,
}

penstock_memory::counts! {
    /// The counts of one origin.
    struct OriginCounts {
        /// Requests sent to it.
        requests,
        /// Requests that it has failed.
        failures,
    }
}

impl AddAssign<&Self> for Counted {
    fn add_assign(&mut self, other: &Self) {
        self.counts += &other.counts;
        self.origins += &other.origins;
    }
}

fn counted(upstream: &Upstream) -> ByName<Counted> {
    let stats = upstream.stats();
    let mut counted = Counted { counts: stats.counts, ..Counted::default() };
    for MemberStats { member, requests, failures, .. } in stats.members {
        *counted.origins.entry(&member.endpoint.to_string()) += &OriginCounts { requests, failures };
    }
    let mut by_name = ByName::default();
    *by_name.entry(upstream.name()) = counted;
    by_name
}

/// Gauges.
#[derive(Debug, Default)]
struct Now {
    budget_left: u64,
    origins: ByName<OriginNow>,
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
        let (there, counted) = {
            let mut upstreams = lock(&self.upstreams);
            (upstreams.there(), upstreams.sums(counted))
        };
        let mut now = ByName::<Now>::default();
        for upstream in &there {
            let stats = upstream.stats();
            let one = now.entry(upstream.name());
            one.budget_left = one.budget_left.saturating_add(stats.budget_left);
            for member in &stats.members {
                let origin = one.origins.entry(&member.member.endpoint.to_string());
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
