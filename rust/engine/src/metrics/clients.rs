//! Connections of clients, over all sites.

use super::Exposition;
use super::kept::Sum;
use crate::app::QueueStats;
use crate::edge::{Site, SiteCounts};

/// What sites and their queues have counted. Connections and requests that are there are of those that are there.
#[derive(Debug, Clone, Default)]
pub(super) struct SiteTotals {
    pub(super) counts: SiteCounts,
    pub(super) queue: QueueStats,
}

impl SiteTotals {
    pub(super) fn of(site: &Site) -> Self {
        Self { counts: site.counts(), queue: site.queue().unwrap_or_default() }
    }
}

impl Sum for SiteTotals {
    fn add(&mut self, other: &Self) {
        let (counts, queue) = (&mut self.counts, &mut self.queue);
        counts.connections += other.counts.connections;
        counts.active += other.counts.active;
        counts.accepted += other.counts.accepted;
        counts.unaccepted += other.counts.unaccepted;
        counts.requests += other.counts.requests;
        counts.refused += other.counts.refused;
        counts.unlogged += other.counts.unlogged;
        queue.taken += other.queue.taken;
        queue.refused += other.queue.refused;
        queue.withdrawn += other.queue.withdrawn;
        queue.expired += other.queue.expired;
        queue.untold += other.queue.untold;
    }
}

pub(super) fn write(totals: &SiteTotals, out: &mut Exposition) {
    let counts = totals.counts;
    let help = "Connections of clients: with a request that is being answered, or without.";
    // Each is read by itself: more may be answered than were open a moment before.
    let active = counts.active.min(counts.connections);
    out.gauge("penstock_client_connections", help)
        .sample(&[("state", "active")], active)
        .sample(&[("state", "idle")], counts.connections - active);
    out.counter("penstock_client_connections_accepted_total", "Connections of clients so far.")
        .sample(&[], counts.accepted);
    let help =
        "Times that the operating system refused to accept a connection, such as for want of descriptors.";
    out.counter("penstock_client_accept_failures_total", help).sample(&[], counts.unaccepted);
    let help = "Requests that were answered by a refusal of the engine's own, on whatever route.";
    out.counter("penstock_refusals_total", help).sample(&[], counts.refused);
    out.counter("penstock_log_lines_dropped_total", "Lines that the access log had no room for.")
        .sample(&[], counts.unlogged);
}
