//! What a request's task says of it to an operator who looks at what is being answered.

use super::record::Record;
use super::route::Service;
use crate::access::Decision;
use crate::net::{InFlight, Life};
use crate::wire::{Incoming, shown};

/// Characters of a path, a route or a tenant that are told. Arbitrary: as many as a wide screen has room for.
const MOST: usize = 200;

/// What the request of `record` is. `awaited`: what it waits for, unless that is its client.
pub(super) fn in_flight(record: &Record<'_>, life: &Life, awaited: &'static str) -> InFlight {
    let Record { client, incoming, progress, .. } = *record;
    let target = incoming.map(Incoming::origin_form).unwrap_or_default();
    let path = shown(&target);
    let decision = progress.decision();
    InFlight {
        begun: progress.began(),
        method: short(incoming.map_or("", Incoming::method)),
        path: short(path.split('?').next().unwrap_or_default()),
        lane: record.lane().name(),
        route: record.route().map(short),
        client: client.addresses.host.as_deref().map(short),
        tenant: decision.as_deref().and_then(Decision::tenant).map(short),
        status: progress.status(),
        sent: progress.body_bytes(),
        awaits: if life.waits_for_client() { "client" } else { awaited },
    }
}

/// What a request waits for whose response does not come from an application. `has_gate`: its relay has one.
pub(super) fn awaited(record: &Record<'_>, has_gate: bool) -> &'static str {
    let (has_gate, awaited) = match record.service {
        Some(Service::Topics(topics)) => {
            let awaited = if record.progress.status().is_some() { "events" } else { "topic" };
            (topics.location.gate.is_some(), awaited)
        }
        Some(Service::Pages(_)) => (false, "page"),
        Some(Service::Relay(_)) | None => (has_gate, "origin"),
    };
    if has_gate && record.progress.decision().is_none() { "decision" } else { awaited }
}

fn short(text: &str) -> String {
    let mut characters = text.chars();
    let mut short: String = characters.by_ref().take(MOST).collect();
    if characters.next().is_some() {
        short.push('…');
    }
    short
}
