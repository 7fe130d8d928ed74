//! Hubs, all together: names of topics are whatever clients ask for, and no labels.

use super::kept::Sum;
use super::{Board, Exposition};
use crate::hub::{Counted, Hub};
use crate::sync::lock;

impl Sum for Counted {
    fn add(&mut self, other: &Self) {
        *self += *other;
    }
}

impl Board {
    pub(super) fn write_hubs(&self, out: &mut Exposition) {
        let (there, counted) = {
            let mut hubs = lock(&self.hubs);
            (hubs.there(), hubs.sums(|hub: &Hub| hub.stats().counted))
        };
        let (mut topics, mut subscribers, mut used, mut limit) = (0, 0, 0, 0);
        for stats in there.iter().map(|hub| hub.stats()) {
            topics += stats.topics;
            subscribers += stats.subscribers;
            used += stats.used;
            limit += stats.limit;
        }
        out.gauge("penstock_hub_topics", "Topics that are there.").sample(&[], topics);
        out.gauge("penstock_hub_subscribers", "Subscribers of all of them.").sample(&[], subscribers);
        out.gauge("penstock_hub_used_bytes", "Bytes of the pool that history takes.").sample(&[], used);
        out.gauge("penstock_hub_limit_bytes", "Bytes that it may.").sample(&[], limit);
        out.counter("penstock_hub_events_total", "Events that were published.").sample(&[], counted.events);
        out.counter("penstock_hub_event_bytes_total", "Bytes of them, as they stand on the wire.")
            .sample(&[], counted.bytes);
        let help = "Events that were given to subscribers to be sent, once for each.";
        out.counter("penstock_hub_deliveries_total", help).sample(&[], counted.delivered);
        out.counter("penstock_hub_subscriptions_total", "Subscriptions.").sample(&[], counted.subscribed);
        let help = "Those of them that had something before and got all that they lacked.";
        out.counter("penstock_hub_resumptions_total", help).sample(&[], counted.resumed);
        out.counter("penstock_hub_gaps_total", "Gaps that were announced.").sample(&[], counted.gaps);
        let help = "Subscribers that were cut off because they did not keep up.";
        out.counter("penstock_hub_slow_subscribers_total", help).sample(&[], counted.slow);
        let help = "Events that subscribers missed who went on behind a gap.";
        out.counter("penstock_hub_dropped_events_total", help).sample(&[], counted.dropped);
        let help = "Events that newer ones of their keys stood for.";
        out.counter("penstock_hub_conflated_events_total", help).sample(&[], counted.conflated);
    }
}
