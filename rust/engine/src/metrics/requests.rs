//! Requests of clients, by lane and route.

use super::Exposition;
use crate::edge::RouteSums;

pub(super) fn write(routes: &[RouteSums], out: &mut Exposition) {
    let mut requests =
        out.counter("penstock_requests_total", "Requests that are over, by the status that was sent.");
    for route in routes {
        let [lane, name] = labels(route);
        for (status, count) in &route.statuses {
            requests.sample(&[lane, name, ("status", status)], *count);
        }
    }
    let mut active = out.gauge("penstock_requests_active", "Requests that are being answered.");
    for route in routes {
        active.sample(&labels(route), route.active);
    }
    let help = "Requests that failed, by the name of the error's code.";
    let mut failures = out.counter("penstock_request_failures_total", help);
    for route in routes {
        let [lane, name] = labels(route);
        for (code, count) in &route.failures {
            failures.sample(&[lane, name, ("code", code)], *count);
        }
    }
    let help = "Bytes of the bodies of requests that are over, without framing.";
    let mut received = out.counter("penstock_request_body_bytes_total", help);
    for route in routes {
        received.sample(&labels(route), route.received);
    }
    let help = "Bytes of responses that the kernel took so far, heads and framing included.";
    let mut sent = out.counter("penstock_response_bytes_total", help);
    for route in routes {
        sent.sample(&labels(route), route.sent);
    }
    let help = "From the head of a request to that of its response.";
    let mut first_byte = out.histogram("penstock_request_first_byte_seconds", help);
    for route in routes {
        first_byte.sample_with(&labels(route), &route.first_byte, &route.first_byte_exemplars);
    }
    let help = "From the head of a request to the end of its response.";
    let mut duration = out.histogram("penstock_request_duration_seconds", help);
    for route in routes {
        duration.sample_with(&labels(route), &route.duration, &route.duration_exemplars);
    }
}

fn labels(route: &RouteSums) -> [(&str, &str); 2] {
    [("lane", route.lane.name()), ("route", &route.route)]
}
