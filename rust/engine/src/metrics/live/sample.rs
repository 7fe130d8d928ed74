//! The counts of an engine at a moment, as far as the page shows them, and what they have grown by since another.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use crate::counters::{BOUNDS, Histogram};
use crate::edge::RouteSums;
use crate::hub::{LogStats, TopicStats};
use crate::metrics::hub::HubTotals;
use crate::metrics::sites::SiteTotals;
use crate::metrics::{Board, process};
use crate::origin::{OriginSums, Origins};
use crate::pool::PoolStats;
use crate::store::RequestStats;
use crate::sync::{Arc, lock};

/// Rows of a table at most. Arbitrary: what a person can look through.
pub(super) const ROWS: usize = 20;

/// The state of an origin that is one of several for one another; of several the worst.
#[derive(Debug, Clone, Copy)]
pub(super) struct OriginHealth {
    pub(super) is_up: bool,
    pub(super) ejected: Duration,
}

/// A topic, and the number of its hub.
#[derive(Debug)]
pub(super) struct Topic {
    pub(super) hub: usize,
    pub(super) stats: TopicStats,
}

/// What is waited for by requests of applications.
#[derive(Debug, Default)]
pub(super) struct Application {
    pub(super) waiting: usize,
    pub(super) lag: Duration,
    /// Worker processes that take requests, if there are some.
    pub(super) workers: Option<usize>,
}

/// The counts at a moment.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) at: Instant,
    pub(super) routes: Vec<RouteSums>,
    pub(super) origins: Vec<OriginSums>,
    pub(super) health: BTreeMap<String, OriginHealth>,
    pub(super) cache: BTreeMap<Box<str>, RequestStats>,
    pub(super) topics: Vec<Topic>,
    pub(super) topic_count: usize,
    pub(super) subscribers: usize,
    pub(super) log: Option<LogStats>,
    pub(super) hubs: HubTotals,
    pub(super) sites: SiteTotals,
    /// Whether all sites are being stopped.
    pub(super) is_draining: bool,
    /// `None`: no site has an application.
    pub(super) application: Option<Application>,
    pub(super) pool: PoolStats,
    pub(super) resident: Option<u64>,
    /// Bytes read from origins and of request bodies.
    pub(super) read: u64,
    /// Time that each engine thread has been at work.
    pub(super) busy: Vec<Duration>,
}

impl Sample {
    /// Those of `board` now.
    pub(super) fn of(board: &Board) -> Self {
        let (there, sites) = {
            let mut sites = lock(&board.sites);
            (sites.there(), sites.sums(SiteTotals::of))
        };
        let queues: Vec<_> = there.iter().filter_map(|site| site.queue()).collect();
        let application = (!queues.is_empty()).then(|| Application {
            waiting: queues.iter().map(|queue| queue.waiting).sum(),
            lag: queues.iter().map(|queue| queue.lag).max().unwrap_or_default(),
            workers: queues.iter().filter_map(|queue| queue.processes).reduce(|sum, more| sum + more),
        });
        let (hubs, hub_totals) = board.hubs();
        let mut topics: Vec<_> = hubs
            .iter()
            .enumerate()
            .flat_map(|(hub, there)| {
                there.largest_topics(ROWS).into_iter().map(move |stats| Topic { hub, stats })
            })
            .collect();
        topics.sort_by_key(|topic| Reverse((topic.stats.subscribers, topic.stats.counted.events)));
        topics.truncate(ROWS);
        let stats: Vec<_> = hubs.iter().map(|hub| hub.stats()).collect();
        let cache = lock(&board.cache).upgrade().map(|cache| cache.requests()).unwrap_or_default();
        Self {
            at: Instant::now(),
            routes: board.parts.ledger.sums(),
            origins: Origins::sums(&board.parts.origins),
            health: health(board),
            cache: cache.into_iter().collect(),
            topics,
            topic_count: stats.iter().map(|hub| hub.topics).sum(),
            subscribers: stats.iter().map(|hub| hub.subscribers).sum(),
            log: hubs.iter().filter_map(|hub| hub.log()).reduce(both),
            hubs: hub_totals,
            is_draining: !there.is_empty() && !there.iter().any(|site| site.is_listening()),
            sites,
            application,
            pool: board.parts.pool.stats(),
            resident: process::resident_now(),
            read: board.parts.meter.bytes(),
            busy: board.parts.threads.activity().iter().map(|thread| thread.busy).collect(),
        }
    }
}

fn health(board: &Board) -> BTreeMap<String, OriginHealth> {
    let upstreams = lock(&board.upstreams).there();
    let mut health = BTreeMap::new();
    for member in upstreams.iter().flat_map(|upstream| upstream.stats().members) {
        let one = health
            .entry(member.member.endpoint.to_string())
            .or_insert(OriginHealth { is_up: true, ejected: Duration::ZERO });
        one.is_up &= member.is_up;
        one.ejected = one.ejected.max(member.ejected.unwrap_or_default());
    }
    health
}

fn both(one: LogStats, other: LogStats) -> LogStats {
    LogStats {
        is_ready: one.is_ready && other.is_ready,
        topics: one.topics + other.topics,
        behind: one.behind + other.behind,
        ..one
    }
}

/// What has been counted in a time.
pub(super) struct Growth {
    seconds: f64,
}

impl Growth {
    /// Between two samples.
    pub(super) fn between(before: &Sample, now: &Sample) -> Self {
        Self { seconds: now.at.saturating_duration_since(before.at).as_secs_f64() }
    }

    /// The share of the time that the busiest engine thread was at work.
    pub(super) fn busiest(&self, before: &Sample, now: &Sample) -> f64 {
        let each = now.busy.iter().zip(&before.busy).map(|(now, before)| now.saturating_sub(*before));
        each.max().unwrap_or_default().as_secs_f64() / self.seconds.max(0.001)
    }

    /// In a second.
    #[expect(clippy::cast_precision_loss, reason = "a figure for a person")]
    pub(super) fn rate(&self, before: u64, now: u64) -> f64 {
        now.saturating_sub(before) as f64 / self.seconds.max(0.001)
    }
}

/// All requests of a route that are over.
pub(super) fn ended(route: &RouteSums) -> u64 {
    route.statuses.iter().map(|(_, count)| count).sum()
}

/// Requests of a route that the gateway or an origin has failed.
pub(super) fn failed(route: &RouteSums) -> u64 {
    let is_failure = |status: &str| status.starts_with('5') || status == "none";
    route.statuses.iter().filter(|(status, _)| is_failure(status)).map(|(_, count)| count).sum()
}

/// Requests of an origin that failed, and responses that say that the origin did.
pub(super) fn errors(origin: &OriginSums) -> u64 {
    let responses = origin.responses().filter(|(class, _)| *class == "5xx");
    responses.chain(origin.failures()).map(|(_, count)| count).sum()
}

/// Requests to the cache that it has answered, and all of them.
pub(super) fn answered(requests: &RequestStats) -> (u64, u64) {
    let RequestStats { hits, stale, revalidated, collapsed, misses, passed, errors } = *requests;
    let good = hits + stale + revalidated + collapsed;
    (good, good + misses + passed + errors)
}

/// Routes by lane and name.
pub(super) fn by_name(routes: &[RouteSums]) -> HashMap<(&'static str, &str), &RouteSums> {
    routes.iter().map(|route| ((route.lane.name(), &*route.route), route)).collect()
}

/// Origins by name.
pub(super) fn by_origin(origins: &[OriginSums]) -> HashMap<Arc<str>, &OriginSums> {
    origins.iter().map(|origin| (Arc::clone(&origin.origin), origin)).collect()
}

/// The duration in seconds that the share `of` of those counted since `before` did not exceed, as Prometheus'
/// `histogram_quantile` has it.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
pub(super) fn quantile(of: f64, before: Option<&Histogram>, now: &Histogram) -> Option<f64> {
    let counts: Vec<u64> = (0..now.counts.len())
        .map(|at| now.counts[at].saturating_sub(before.map_or(0, |before| before.counts[at])))
        .collect();
    let all: u64 = counts.iter().sum();
    let wanted = of * all as f64;
    let mut below = 0;
    for (at, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        if (below + count) as f64 >= wanted {
            let lower = at.checked_sub(1).map_or(0.0, |at| BOUNDS[at].as_secs_f64());
            // The last bucket has no end.
            let upper = BOUNDS.get(at).map_or(lower, Duration::as_secs_f64);
            return Some(lower + (upper - lower) * (wanted - below as f64) / *count as f64);
        }
        below += count;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Buckets;

    #[test]
    fn a_quantile_lies_within_its_bucket_and_counts_what_is_new() {
        let mut before = Histogram::default();
        let buckets = Buckets::default();
        buckets.add(Duration::from_secs(60));
        before.add(&buckets);
        assert_eq!(quantile(0.5, Some(&before), &before), None);
        for _ in 0..10 {
            buckets.add(Duration::from_millis(15));
        }
        let mut now = Histogram::default();
        now.add(&buckets);
        assert_eq!(quantile(0.5, Some(&before), &now), Some(0.015));
        assert_eq!(quantile(1.0, Some(&before), &now), Some(0.02));
        assert_eq!(quantile(1.0, None, &now), Some(60.0));
        buckets.add(Duration::from_secs(1000));
        let mut now = Histogram::default();
        now.add(&buckets);
        assert_eq!(quantile(1.0, None, &now), Some(120.0), "the last bound");
    }
}
