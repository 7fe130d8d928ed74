//! Origins, and the connections to them.

use super::Exposition;
use crate::origin::{Counts, OriginSums, Origins};
use crate::sync::Arc;

/// A counter of connections, its help, and its value in the snapshot.
type Counter = (&'static str, &'static str, fn(&Counts) -> u64);

const COUNTERS: [Counter; 6] = [
    ("penstock_origin_connections_opened_total", "Connections opened.", |counts| counts.opened),
    (
        "penstock_origin_connections_reused_total",
        "Requests that were given a connection an earlier one had opened.",
        |counts| counts.reused,
    ),
    (
        "penstock_origin_connections_expired_total",
        "Idle connections closed because of their age or disuse.",
        |counts| counts.expired,
    ),
    ("penstock_origin_connections_closed_total", "Idle connections that the origin closed.", |counts| {
        counts.closed
    }),
    (
        "penstock_origin_connections_unsolicited_total",
        "Connections closed because they brought bytes after a whole response, or while idle.",
        |counts| counts.unsolicited,
    ),
    (
        "penstock_origin_retries_total",
        "Requests sent a second time, after an idle connection turned out to be dead.",
        |counts| counts.retried,
    ),
];

pub(super) fn write(origins: &[Arc<Origins>], out: &mut Exposition) {
    let origins = Origins::sums(origins);
    let named: Vec<(&str, &OriginSums)> = origins.iter().map(|origin| (&*origin.origin, origin)).collect();
    let help = "Connections to an origin: in use by an exchange or being opened, or kept for the next one.";
    let mut connections = out.gauge("penstock_origin_connections", help);
    for (name, origin) in &named {
        connections.sample(&[("origin", name), ("state", "active")], origin.active);
        connections.sample(&[("origin", name), ("state", "idle")], origin.idle);
    }
    let help = "Requests in progress on connections of HTTP/2 to an origin.";
    let mut streams = out.gauge("penstock_origin_streams", help);
    for (name, origin) in &named {
        streams.sample(&[("origin", name)], origin.streams);
    }
    let mut waiting = out.gauge("penstock_origin_waiting_requests", "Requests that wait for a connection.");
    for (name, origin) in &named {
        waiting.sample(&[("origin", name)], origin.waiting);
    }
    for (metric, help, count) in COUNTERS {
        let mut counter = out.counter(metric, help);
        for (name, origin) in &named {
            counter.sample(&[("origin", name)], count(&origin.counts));
        }
    }
    let mut requests = out.counter("penstock_origin_requests_total", "Requests that were begun.");
    for (name, origin) in &named {
        requests.sample(&[("origin", name)], origin.requests);
    }
    let mut responses =
        out.counter("penstock_origin_responses_total", "Responses, by the class of their status.");
    for (name, origin) in &named {
        for (status, count) in origin.responses() {
            responses.sample(&[("origin", name), ("status", status)], count);
        }
    }
    let help =
        "Requests that failed before or after the head of their response, by the name of the error's code.";
    let mut failures = out.counter("penstock_origin_failures_total", help);
    for (name, origin) in &named {
        for (code, count) in origin.failures() {
            failures.sample(&[("origin", name), ("code", code)], count);
        }
    }
    let help = "Bytes of the bodies of responses so far, framing included.";
    let mut received = out.counter("penstock_origin_body_bytes_total", help);
    for (name, origin) in &named {
        received.sample(&[("origin", name)], origin.received);
    }
    let help = "How long it took to open a connection: the name, the connection itself, and TLS.";
    let mut connect = out.histogram("penstock_origin_connect_seconds", help);
    for (name, origin) in &named {
        connect.sample(&[("origin", name)], &origin.connect);
    }
    let help = "From the first byte of a request to the first of its response.";
    let mut first_byte = out.histogram("penstock_origin_first_byte_seconds", help);
    for (name, origin) in &named {
        first_byte.sample(&[("origin", name)], &origin.first_byte);
    }
}
