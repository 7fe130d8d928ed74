//! Connections of clients and requests that wait for applications, over all sites.

use std::ops::AddAssign;

use super::Exposition;
use super::tls::TlsTotals;
use crate::app::QueueStats;
use crate::edge::{Excess, Site, SiteCounts};

/// The counts of sites and their queues. Current connections and requests are those of the live sites.
#[derive(Debug, Clone, Default)]
pub(super) struct SiteTotals {
    pub(super) counts: SiteCounts,
    pub(super) queue: QueueStats,
    pub(super) tls: TlsTotals,
}

impl SiteTotals {
    pub(super) fn of(site: &Site) -> Self {
        Self { counts: site.counts(), queue: site.queue().unwrap_or_default(), tls: TlsTotals::of(site) }
    }
}

impl AddAssign<&Self> for SiteTotals {
    fn add_assign(&mut self, other: &Self) {
        let (counts, queue) = (&mut self.counts, &mut self.queue);
        counts.connections += other.counts.connections;
        counts.active += other.counts.active;
        counts.accepted += other.counts.accepted;
        counts.unaccepted += other.counts.unaccepted;
        counts.http2 += other.counts.http2;
        for (sum, count) in counts.excesses.iter_mut().zip(other.counts.excesses) {
            *sum += count;
        }
        counts.requests += other.counts.requests;
        counts.refused += other.counts.refused;
        counts.unlogged += other.counts.unlogged;
        counts.unconnected += other.counts.unconnected;
        // The sites of one engine share them.
        counts.evicted_heads = counts.evicted_heads.max(other.counts.evicted_heads);
        counts.cut_for_memory += other.counts.cut_for_memory;
        counts.cut_for_connections += other.counts.cut_for_connections;
        queue.taken += other.queue.taken;
        queue.refused += other.queue.refused;
        queue.withdrawn += other.queue.withdrawn;
        queue.expired += other.queue.expired;
        queue.untold += other.queue.untold;
        self.tls += &other.tls;
    }
}

pub(super) fn write(totals: &SiteTotals, out: &mut Exposition) {
    let counts = totals.counts;
    let help = "Connections of clients: with a request that is being answered, or without.";
    // The counts are read one by one: more requests may be answered than were open a moment before.
    let active = counts.active.min(counts.connections);
    out.gauge("penstock_client_connections", help)
        .sample(&[("state", "active")], active)
        .sample(&[("state", "idle")], counts.connections - active);
    out.counter("penstock_client_connections_accepted_total", "Connections of clients so far.")
        .sample(&[], counts.accepted);
    let help =
        "Times that the operating system refused to accept a connection, such as for want of descriptors.";
    out.counter("penstock_client_accept_failures_total", help).sample(&[], counts.unaccepted);
    out.counter("penstock_http2_connections_total", "Connections of clients that speak HTTP/2 so far.")
        .sample(&[], counts.http2);
    let help = "Connections of HTTP/2 that were ended for what their client did too often or wrong, and, as streams, requests on \
        them that were refused because earlier ones had not ended.";
    let mut excesses = out.counter("penstock_http2_refusals_total", help);
    for ((_, name), count) in Excess::ALL.iter().zip(counts.excesses) {
        excesses.sample(&[("reason", name)], count);
    }
    let help = "Requests that were answered by a refusal of the engine's own, on whatever route.";
    out.counter("penstock_refusals_total", help).sample(&[], counts.refused);
    let help = "Connections that were refused because their address had as many as it may.";
    out.counter("penstock_client_connections_refused_total", help).sample(&[], counts.unconnected);
    let help = "Clients that were cut because others needed what they held: memory of the pool or a connection \
        to an origin while they read nothing, or the memory of heads that they did not finish.";
    out.counter("penstock_client_evictions_total", help)
        .sample(&[("reason", "memory")], counts.cut_for_memory)
        .sample(&[("reason", "connection")], counts.cut_for_connections)
        .sample(&[("reason", "head")], counts.evicted_heads);
    out.counter("penstock_log_lines_dropped_total", "Lines that the access log had no room for.")
        .sample(&[], counts.unlogged);
}

/// The requests that wait for applications.
pub(super) fn write_queues(queues: &[QueueStats], totals: &SiteTotals, out: &mut Exposition) {
    let waiting = queues.iter().map(|queue| queue.waiting).sum::<usize>();
    let bound = queues.iter().map(|queue| queue.bound).sum::<usize>();
    let oldest = queues.iter().map(|queue| queue.oldest).max().unwrap_or_default();
    let lag = queues.iter().map(|queue| queue.lag).max().unwrap_or_default();
    out.gauge(
        "penstock_application_waiting_requests",
        "Requests that wait for the application to look at them.",
    )
    .sample(&[], waiting);
    out.gauge("penstock_application_waiting_limit", "Requests that may wait.").sample(&[], bound);
    out.gauge(
        "penstock_application_oldest_wait_seconds",
        "For how long the first waiting request has waited.",
    )
    .sample(&[], oldest);
    let help = "How long the application's event loop took to answer the last probe (at a scrape or a readiness \
        check), or for how long it has not answered. With workers, of the fastest one, or for how long \
        there has been no worker.";
    out.gauge("penstock_application_lag_seconds", help).sample(&[], lag);
    let queue = &totals.queue;
    let help = "Requests for the application: taken by it, refused because too many waited, expired because it \
        did not take them in time, or left by their clients before.";
    out.counter("penstock_application_requests_total", help)
        .sample(&[("outcome", "taken")], queue.taken)
        .sample(&[("outcome", "refused")], queue.refused)
        .sample(&[("outcome", "expired")], queue.expired)
        .sample(&[("outcome", "left")], queue.withdrawn);
    let help =
        "Ends of requests on native routes for which on_complete was not called, because Python was stalled.";
    out.counter("penstock_untold_ends_total", help).sample(&[], queue.untold);
}
