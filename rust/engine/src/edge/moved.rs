//! An event stream that another process has begun, and how this one goes on with it.
//!
//! The exchange is not moved, but played again up to where it was: the next process reads the heads of the request and of the
//! origin's response, finds its route, and sends nothing of what the client has. So what crosses is what a proxy could have
//! noted, and no parser's state.

use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::time::Instant;

use super::client::Addresses;
use super::route::{Route, Service};
use super::site::Site;
use super::topics::Topics;
use crate::clock;
use crate::hub::{Admitted, Guest};
use crate::sync::{Mutex, lock};
use crate::takeover::streams::{Place, Resting, StreamState};
use crate::wire::{Head, Incoming, parse_incoming};

/// A stream that the process before has begun.
#[derive(Debug)]
pub(super) struct Moved {
    /// Its request.
    pub(super) incoming: Incoming,
    /// When that came.
    pub(super) began: Instant,
    /// How long it took to the head of the response.
    pub(super) first_byte: Duration,
    pub(super) status: u16,
    /// Bytes that the client was sent after the head of its response.
    pub(super) sent: u64,
    /// Bytes of the body among them.
    pub(super) payload: u64,
    from: Mutex<Option<Beginning>>,
}

/// What it goes on from.
#[derive(Debug)]
pub(super) enum Beginning {
    /// The head of the origin's response, and its connection.
    Origin(Head, OwnedFd),
    /// The place of a subscriber.
    Place(Box<Admitted>),
}

impl Moved {
    /// As `state` says, if a route of `site` can go on with it.
    ///
    /// # Errors
    /// Why none can.
    pub(super) fn new(
        site: &Site,
        resting: Resting,
        state: &StreamState,
        addresses: &Addresses,
    ) -> Result<Self, String> {
        let incoming =
            parse_incoming(&state.request, &site.config.head).map_err(|error| error.to_string())?;
        let routes = site.routes();
        let route = routes.find(incoming.method(), || incoming.authority(), &incoming.origin_form());
        let (status, from) = match (route, resting) {
            (Some(Service::Relay(route)), Resting::Origin(origin)) => {
                may_go_on(route).map_err(|why| format!("route {} {why}", route.spec().name))?;
                let head = site.supplies.origins[0].parse_head(&state.response);
                let head = head.map_err(|error| error.to_string())?;
                (head.status, Beginning::Origin(head, origin))
            }
            (Some(Service::Topics(topics)), Resting::Place(place)) => {
                (200, Beginning::Place(take_up(topics, &incoming, &place, state.elapsed, addresses)?))
            }
            _ => return Err("no route goes on with its request".to_owned()),
        };
        Ok(Self {
            incoming,
            began: clock::now().checked_sub(state.elapsed).unwrap_or_else(clock::now),
            first_byte: state.first_byte,
            status,
            sent: state.sent,
            payload: state.payload,
            from: Mutex::new(Some(from)),
        })
    }

    /// What it goes on from; once.
    pub(super) fn take(&self) -> Option<Beginning> {
        lock(&self.from).take()
    }
}

/// Has the topic that `incoming` asks for go on from `place`.
fn take_up(
    topics: &Topics,
    incoming: &Incoming,
    place: &Place,
    elapsed: Duration,
    addresses: &Addresses,
) -> Result<Box<Admitted>, String> {
    if topics.location.gate.is_some() {
        return Err(format!("route {} has a gate", topics.location.name));
    }
    let (topic, _) = topics.asked(incoming, &incoming.origin_form()).map_err(|error| error.to_string())?;
    let guest = Guest { tenant: None, address: addresses.host.as_deref() };
    let mut terms = topics.terms;
    terms.max_age = terms.max_age.map(|most| most.saturating_sub(elapsed));
    topics.hub.take_up(&topic, place, terms, guest)
}

/// Whether streams of `route` move. What a gate has decided, and what was found in a body, is in the memory of one process.
pub(super) fn may_go_on(route: &Route) -> Result<(), &'static str> {
    let spec = route.spec();
    if route.location.gate.is_some() {
        return Err("has a gate");
    }
    if spec.inspect.is_some() {
        return Err("inspects");
    }
    if spec.forwarding.grpc_web.is_some() {
        return Err("translates gRPC-Web");
    }
    Ok(())
}
