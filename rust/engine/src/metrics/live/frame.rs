//! What an event of the page says: the figures of the last second, as JSON, and one figure of each row for its sparkline.
//!
//! Strings go out as they are: the page shows them as text. Each table has [`ROWS`] rows at most.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use penstock_memory::sys::since_1970;

use super::InFlights;
use super::history::Second;
use super::sample::{
    Growth, ROWS, Sample, Topic, answered, by_name, by_origin, ended, errors, failed, quantile,
};
use crate::edge::{InFlight, Lane, RouteSums};
use crate::metrics::Check;
use crate::metrics::json::{Json, float, size};
use crate::origin::OriginSums;

/// A request that waits for its response for longer than this is told. Arbitrary: those of a moment would only flicker.
const SLOW: Duration = Duration::from_millis(100);

/// Characters of a name of an operator's or a topic's. Arbitrary.
const NAME: usize = 200;

/// What an event is made of.
pub(super) struct Frame<'a> {
    /// The newest first.
    pub(super) samples: &'a VecDeque<Sample>,
    pub(super) in_flight: &'a InFlights,
    pub(super) checks: &'a [Check],
}

/// An event that is being written.
struct Writer<'a> {
    out: Json,
    now: &'a Sample,
    /// The sample before, and what has grown since.
    last: Option<(&'a Sample, Growth)>,
    /// The oldest sample, for quantiles.
    first: &'a Sample,
    figures: BTreeMap<String, f64>,
}

impl Frame<'_> {
    /// The event, and its figures for the history.
    pub(super) fn write(&self, version: &str) -> (String, Second) {
        let now = &self.samples[0];
        let last = self.samples.get(1).map(|last| (last, Growth::between(last, now)));
        let first = self.samples.back().unwrap_or(now);
        let mut writer = Writer { out: Json::default(), now, last, first, figures: BTreeMap::new() };
        let at = u64::try_from(since_1970().as_millis()).unwrap_or(u64::MAX);
        writer.out.open('{');
        writer.out.name("at").number(Some(float(at)));
        writer.out.name("version").text(version);
        writer.out.name("draining").flag(now.is_draining);
        writer.write_checks(self.checks);
        writer.write_totals(self.in_flight);
        writer.write_routes();
        writer.write_origins();
        writer.write_topics();
        writer.write_in_flight(self.in_flight);
        writer.out.close('}');
        (writer.out.finish(), Second { at, figures: writer.figures })
    }
}

impl Writer<'_> {
    fn write_checks(&mut self, checks: &[Check]) {
        let out = &mut self.out;
        out.name("checks").open('[');
        for check in checks {
            out.open('{');
            out.name("check").text(check.name);
            out.name("ok").flag(check.is_good);
            out.name("seen").text(&check.seen);
            out.close('}');
        }
        out.close(']');
    }

    /// How much a count grows in a second, if that is known yet.
    fn rate(&self, count: impl Fn(&Sample) -> u64) -> Option<f64> {
        self.last.as_ref().map(|(last, growth)| growth.rate(count(last), count(self.now)))
    }

    fn write_totals(&mut self, in_flight: &InFlights) {
        let now = self.now;
        let sum = |sample: &Sample, count: fn(&RouteSums) -> u64| sample.routes.iter().map(count).sum();
        let requests = self.rate(|sample| sum(sample, ended));
        let failures = self.rate(|sample| sum(sample, failed));
        let sent = self.rate(|sample| sum(sample, |route| route.sent));
        let read = self.rate(|sample| sample.read);
        let published = self.rate(|sample| sample.hubs.counted.events);
        let delivered = self.rate(|sample| sample.hubs.counted.delivered);
        let hits = share(self.first, now, |sample| {
            let each = sample.cache.values().map(answered);
            each.fold((0, 0), |sum, (good, all)| (sum.0 + good, sum.1 + all))
        });
        let active: u64 = now.routes.iter().map(|route| route.active).sum();
        let connections = now.sites.counts.connections;
        let serving = now.sites.counts.active.min(connections);
        let busy = self.last.as_ref().map(|(last, growth)| growth.busiest(last, now));
        for (key, figure) in [
            ("requests", requests),
            ("failures", failures),
            ("sent", sent),
            ("read", read),
            ("delivered", delivered),
            ("active", Some(float(active))),
            ("pool", Some(size(now.pool.live_bytes))),
            ("hits", hits),
            ("busy", busy),
        ] {
            self.keep(key.to_owned(), figure);
        }
        let out = &mut self.out;
        out.name("totals").open('{');
        out.numbers(&[
            ("requests", requests),
            ("failures", failures),
            ("sent", sent),
            ("read", read),
            ("published", published),
            ("delivered", delivered),
            ("hits", hits),
            ("active", Some(float(active))),
            ("lasting", Some(size(in_flight.count))),
            ("connections", Some(size(connections))),
            ("serving", Some(size(serving))),
            ("pool", Some(size(now.pool.live_bytes))),
            ("budget", Some(size(now.pool.budget))),
            ("resident", now.resident.map(float)),
            ("busy", busy),
            ("threads", Some(size(now.busy.len()))),
            ("topics", Some(size(now.topic_count))),
            ("subscribers", Some(size(now.subscribers))),
        ]);
        self.write_states();
        self.out.close('}');
    }

    /// The part of the totals that is about what this process waits for.
    fn write_states(&mut self) {
        let (now, out) = (self.now, &mut self.out);
        out.name("pool_state").text(now.pool.state.name());
        if let Some(application) = &now.application {
            out.numbers(&[
                ("waiting", Some(size(application.waiting))),
                ("lag", Some(application.lag.as_secs_f64())),
                ("workers", application.workers.map(size)),
            ]);
        }
        if let Some(log) = &now.log {
            out.name("log_ready").flag(log.is_ready);
            out.numbers(&[("log_behind", Some(size(log.behind)))]);
        }
    }

    fn write_routes(&mut self) {
        let (now, first) = (self.now, by_name(&self.first.routes));
        let last = self.last.as_ref().map(|(last, _)| by_name(&last.routes)).unwrap_or_default();
        let before = |route: &RouteSums| first.get(&(route.lane.name(), &*route.route)).copied();
        let busy = |route: &&RouteSums| {
            let all = ended(route);
            (all.saturating_sub(before(route).map_or(0, ended)) + route.active, all)
        };
        let used = now.routes.iter().filter(|route| ended(route) > 0 || route.active > 0);
        let (rows, more) = largest(used.collect(), busy);
        self.begin_table("routes");
        for route in rows {
            let old = last.get(&(route.lane.name(), &*route.route)).copied();
            let requests = self.grown(old.map_or(0, ended), ended(route));
            let failures = self.grown(old.map_or(0, failed), failed(route));
            let sent = self.grown(old.map_or(0, |old| old.sent), route.sent);
            let received = self.grown(old.map_or(0, |old| old.received), route.received);
            let before = before(route);
            let first_byte = |of| quantile(of, before.map(|before| &before.first_byte), &route.first_byte);
            let is_native = route.lane == Lane::Native;
            let hits = is_native.then(|| {
                share(self.first, now, |sample| {
                    sample.cache.get(&*route.route).map(answered).unwrap_or_default()
                })
            });
            let lane = route.lane.name();
            self.begin_row(&format!("route {lane} {}", route.route), &route.route, requests);
            self.out.name("lane").text(lane);
            self.out.numbers(&[
                ("requests", requests),
                ("failures", failures),
                ("sent", sent),
                ("received", received),
                ("active", Some(float(route.active))),
                ("p50", first_byte(0.5)),
                ("p95", first_byte(0.95)),
                ("hits", hits.flatten()),
            ]);
            self.out.close('}');
        }
        self.end_table(more);
    }

    fn write_origins(&mut self) {
        let (now, first) = (self.now, by_origin(&self.first.origins));
        let last = self.last.as_ref().map(|(last, _)| by_origin(&last.origins)).unwrap_or_default();
        let busy = |origin: &&OriginSums| {
            let before = first.get(&origin.origin).map_or(0, |before| before.requests);
            (origin.requests.saturating_sub(before) + active(origin), origin.requests)
        };
        // The name of several origins together is asked for nothing itself.
        let is_used = |origin: &&OriginSums| {
            origin.requests > 0 || active(origin) > 0 || now.health.contains_key(&*origin.origin)
        };
        let (rows, more) = largest(now.origins.iter().filter(is_used).collect(), busy);
        self.begin_table("origins");
        for origin in rows {
            let old = last.get(&origin.origin).copied();
            let attempts = self.grown(old.map_or(0, |old| old.requests), origin.requests);
            let failures = self.grown(old.map_or(0, errors), errors(origin));
            let before = first.get(&origin.origin).copied();
            let first_byte = |of| quantile(of, before.map(|before| &before.first_byte), &origin.first_byte);
            self.begin_row(&format!("origin {}", origin.origin), &origin.origin, attempts);
            let health = now.health.get(&*origin.origin);
            let state = health.map(|health| match (health.is_up, health.ejected.is_zero()) {
                (false, _) => "down",
                (true, false) => "ejected",
                (true, true) => "up",
            });
            self.out.name("health").text_or_null(state);
            self.out.numbers(&[
                ("ejected", health.map(|health| health.ejected.as_secs_f64())),
                ("attempts", attempts),
                ("failures", failures),
                ("active", Some(size(origin.active))),
                ("idle", Some(size(origin.idle))),
                ("streams", Some(size(origin.streams))),
                ("waiting", Some(size(origin.waiting))),
                ("p50", first_byte(0.5)),
                ("p95", first_byte(0.95)),
            ]);
            self.out.close('}');
        }
        self.end_table(more);
    }

    fn write_topics(&mut self) {
        let now = self.now;
        self.begin_table("topics");
        for Topic { hub, stats } in &now.topics {
            let old = self.last.as_ref().and_then(|(last, _)| {
                let is_same = |old: &&Topic| old.hub == *hub && old.stats.name == stats.name;
                last.topics.iter().find(is_same).map(|old| old.stats.counted)
            });
            // One that has just come among the largest has no figure yet.
            let grown = |count: u64, before: Option<u64>| before.and_then(|before| self.grown(before, count));
            let counted = &stats.counted;
            let published = grown(counted.events, old.map(|old| old.events));
            let delivered = grown(counted.delivered, old.map(|old| old.delivered));
            let lost = grown(counted.dropped + counted.slow, old.map(|old| old.dropped + old.slow));
            self.begin_row(&format!("topic {hub} {}", stats.name), &stats.name, published);
            self.out.numbers(&[
                ("subscribers", Some(size(stats.subscribers))),
                ("published", published),
                ("delivered", delivered),
                ("lost", lost),
                ("events", Some(size(stats.events))),
                ("bytes", Some(size(stats.bytes))),
            ]);
            self.out.name("finished").flag(stats.is_finished);
            self.out.close('}');
        }
        self.end_table(now.topic_count.saturating_sub(now.topics.len()));
    }

    /// Requests whose response has not begun, and the responses that have gone on for longest.
    fn write_in_flight(&mut self, in_flight: &InFlights) {
        let mut told: Vec<_> = in_flight.told.iter().collect();
        told.sort_by_key(|one| one.begun);
        let (longest, mut slowest): (Vec<_>, Vec<_>) = told.into_iter().partition(|one| one.status.is_some());
        slowest.retain(|one| one.begun.elapsed() >= SLOW);
        for (name, rows) in [("slowest", slowest), ("longest", longest)] {
            self.out.name(name).open('[');
            for one in rows.into_iter().take(ROWS) {
                self.write_request(one);
            }
            self.out.close(']');
        }
        self.out.numbers(&[("silent", Some(size(in_flight.silent)))]);
    }

    fn write_request(&mut self, one: &InFlight) {
        let out = &mut self.out;
        out.open('{');
        out.name("method").text(&one.method);
        out.name("path").text(&one.path);
        out.name("lane").text(one.lane);
        out.name("route").text_or_null(one.route.as_deref());
        out.name("client").text_or_null(one.client.as_deref());
        out.name("tenant").text_or_null(one.tenant.as_deref());
        out.name("awaits").text(one.awaits);
        out.numbers(&[
            ("status", one.status.map(f64::from)),
            ("sent", Some(float(one.sent))),
            ("age", Some(one.begun.elapsed().as_secs_f64())),
        ]);
        out.close('}');
    }

    fn grown(&self, before: u64, now: u64) -> Option<f64> {
        self.last.as_ref().map(|(_, growth)| growth.rate(before, now))
    }

    fn keep(&mut self, key: String, figure: Option<f64>) {
        if let Some(figure) = figure {
            self.figures.insert(key, figure);
        }
    }

    fn begin_table(&mut self, name: &str) {
        self.out.name(name).open('{');
        self.out.name("rows").open('[');
    }

    /// Begins a row. `figure` is what its sparkline shows.
    fn begin_row(&mut self, key: &str, name: &str, figure: Option<f64>) {
        let key: String = key.chars().take(NAME).collect();
        self.out.open('{');
        self.out.name("key").text(&key);
        self.out.name("name").text(&name.chars().take(NAME).collect::<String>());
        self.keep(key, figure);
    }

    /// `more`: rows that are left out.
    fn end_table(&mut self, more: usize) {
        self.out.close(']');
        self.out.numbers(&[("more", Some(size(more)))]);
        self.out.close('}');
    }
}

/// The [`ROWS`] largest of `all`, the largest first, and how many are left out.
fn largest<T, K: Ord>(mut all: Vec<T>, key: impl Fn(&T) -> K) -> (Vec<T>, usize) {
    all.sort_by_cached_key(|one| Reverse(key(one)));
    let more = all.len().saturating_sub(ROWS);
    all.truncate(ROWS);
    (all, more)
}

fn active(origin: &OriginSums) -> u64 {
    u64::try_from(origin.active + origin.streams + origin.waiting).unwrap_or(u64::MAX)
}

/// The share of what has been counted between two samples; `None` if there was nothing.
fn share(first: &Sample, now: &Sample, counts: impl Fn(&Sample) -> (u64, u64)) -> Option<f64> {
    let (before, after) = (counts(first), counts(now));
    let (good, all) = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
    (all > 0).then(|| float(good) / float(all))
}
