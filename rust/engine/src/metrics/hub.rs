//! All hubs together: clients choose the names of topics, so these are not labels.

use std::ops::AddAssign;

use super::{Board, Exposition};
use crate::hub::{Counted, Hub, LogCounted};
use crate::sync::{Arc, lock};

/// The counts of hubs, and of the logs that they follow.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct HubTotals {
    pub(super) counted: Counted,
    log: LogCounted,
    /// Whether there has been a log.
    has_log: bool,
}

impl HubTotals {
    fn of(hub: &Hub) -> Self {
        let log = hub.log();
        let counted = log.map(|log| log.counted).unwrap_or_default();
        Self { counted: hub.stats().counted, log: counted, has_log: log.is_some() }
    }
}

impl AddAssign<&Self> for HubTotals {
    fn add_assign(&mut self, other: &Self) {
        self.counted += &other.counted;
        self.log += &other.log;
        self.has_log |= other.has_log;
    }
}

impl Board {
    /// The hubs that are there, and the totals of all that have been.
    pub(super) fn hubs(&self) -> (Vec<Arc<Hub>>, HubTotals) {
        let mut hubs = lock(&self.hubs);
        (hubs.there(), hubs.sums(HubTotals::of))
    }

    pub(super) fn write_hubs(&self, out: &mut Exposition) {
        let (there, totals) = self.hubs();
        let counted = totals.counted;
        let (mut topics, mut subscribers, mut used, mut limit) = (0, 0, 0, 0);
        for stats in there.iter().map(|hub| hub.stats()) {
            topics += stats.topics;
            subscribers += stats.subscribers;
            used += stats.used;
            limit += stats.limit;
        }
        out.gauge("penstock_hub_topics", "Topics that are there.").sample(&[], topics);
        out.gauge("penstock_hub_subscribers", "Subscribers of all topics.").sample(&[], subscribers);
        out.gauge("penstock_hub_used_bytes", "Bytes of the pool that history uses.").sample(&[], used);
        out.gauge("penstock_hub_limit_bytes", "Bytes that history may use.").sample(&[], limit);
        out.counter("penstock_hub_events_total", "Events that were published.").sample(&[], counted.events);
        out.counter("penstock_hub_event_bytes_total", "Bytes of published events, as they are sent.")
            .sample(&[], counted.bytes);
        let help = "Events that were given to subscribers, once for each subscriber.";
        out.counter("penstock_hub_deliveries_total", help).sample(&[], counted.delivered);
        out.counter("penstock_hub_subscriptions_total", "Subscriptions.").sample(&[], counted.subscribed);
        let help = "Subscriptions that resumed and got all that they had missed.";
        out.counter("penstock_hub_resumptions_total", help).sample(&[], counted.resumed);
        out.counter("penstock_hub_gaps_total", "Gaps that were announced.").sample(&[], counted.gaps);
        let help = "Subscribers that were cut off because they did not keep up.";
        out.counter("penstock_hub_slow_subscribers_total", help).sample(&[], counted.slow);
        let help = "Events that subscribers missed and were told of by a gap.";
        out.counter("penstock_hub_dropped_events_total", help).sample(&[], counted.dropped);
        let help = "Events that were replaced by newer ones of the same key.";
        out.counter("penstock_hub_conflated_events_total", help).sample(&[], counted.conflated);
        if totals.has_log {
            write_logs(&there, totals.log, out);
        }
    }
}

/// All logs that hubs follow, together.
fn write_logs(there: &[Arc<Hub>], counted: LogCounted, out: &mut Exposition) {
    let (mut ready, mut away, mut topics, mut behind) = (0_usize, 0_usize, 0, 0);
    for log in there.iter().filter_map(|hub| hub.log()) {
        *if log.is_ready { &mut ready } else { &mut away } += 1;
        topics += log.topics;
        behind += log.behind;
    }
    out.gauge("penstock_hub_logs", "Logs of other processes that hubs follow: ready, or away.")
        .sample(&[("state", "ready")], ready)
        .sample(&[("state", "away")], away);
    out.gauge("penstock_hub_log_topics", "Topics that are followed.").sample(&[], topics);
    let help = "Followed topics that wait for room in the hub's memory, or for missing entries.";
    out.gauge("penstock_hub_log_topics_behind", help).sample(&[], behind);
    out.counter("penstock_hub_log_connections_total", "Times that a log was connected to.")
        .sample(&[], counted.connections);
    let help = "Events for a log: published, refused, or delivered to the hub's own subscribers alone while it \
        was away.";
    out.counter("penstock_hub_log_events_total", help)
        .sample(&[("outcome", "published")], counted.published)
        .sample(&[("outcome", "refused")], counted.refused)
        .sample(&[("outcome", "delivered")], counted.delivered);
    let help = "Entries that came from a log, of the hub's own events as well.";
    out.counter("penstock_hub_log_entries_total", help).sample(&[], counted.received);
    let help = "Times that a topic's entries did not follow on what was there.";
    out.counter("penstock_hub_log_gaps_total", help).sample(&[], counted.gaps);
}
