//! The requests that wait for applications.

use super::Exposition;
use super::clients::SiteTotals;
use crate::app::QueueStats;

pub(super) fn write(queues: &[QueueStats], totals: &SiteTotals, out: &mut Exposition) {
    let waiting = queues.iter().map(|queue| queue.waiting).sum::<usize>();
    let bound = queues.iter().map(|queue| queue.bound).sum::<usize>();
    let oldest = queues.iter().map(|queue| queue.oldest).max().unwrap_or_default();
    let lag = queues.iter().map(|queue| queue.lag).max().unwrap_or_default();
    out.gauge(
        "penstock_application_waiting_requests",
        "Requests that wait for the application to look at them.",
    )
    .sample(&[], waiting);
    out.gauge("penstock_application_waiting_limit", "Requests that may.").sample(&[], bound);
    out.gauge("penstock_application_oldest_wait_seconds", "For how long the first of them has waited.")
        .sample(&[], oldest);
    let help = "How long the application's event loop took to answer when it was asked for a sign, at the last scrape or \
                look at whether it is ready; or for how long it has not. With workers that of the fastest, or for how long none \
                of them has been there.";
    out.gauge("penstock_application_lag_seconds", help).sample(&[], lag);
    let queue = &totals.queue;
    let help = "Requests for the application: taken by it, refused because too many waited, expired because it did not take \
                them in time, left by their clients before.";
    out.counter("penstock_application_requests_total", help)
        .sample(&[("outcome", "taken")], queue.taken)
        .sample(&[("outcome", "refused")], queue.refused)
        .sample(&[("outcome", "expired")], queue.expired)
        .sample(&[("outcome", "left")], queue.withdrawn);
    let help =
        "Ends of requests on native routes that no on_complete was told of, because Python was stalled.";
    out.counter("penstock_untold_ends_total", help).sample(&[], queue.untold);
}
