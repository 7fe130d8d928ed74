//! An event stream that another process has begun, and how this one goes on with it.
//!
//! The exchange is not moved, but played again up to where it was: the next process reads the heads of the request and of the
//! origin's response, finds its route, and sends nothing of what the client has. So what crosses is what a proxy could have
//! noted, and no parser's state.

use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::time::Instant;

use super::route::{Route, Service};
use super::site::Site;
use crate::clock;
use crate::sync::{Mutex, lock};
use crate::takeover::streams::StreamState;
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
    origin: Mutex<Option<(Head, OwnedFd)>>,
}

impl Moved {
    /// As `state` says, if a route of `site` can go on with it.
    ///
    /// # Errors
    /// Why none can.
    pub(super) fn new(site: &Site, origin: OwnedFd, state: &StreamState) -> Result<Self, String> {
        let incoming =
            parse_incoming(&state.request, &site.config.head).map_err(|error| error.to_string())?;
        let head = site.supplies.origins[0].parse_head(&state.response).map_err(|error| error.to_string())?;
        let routes = site.routes();
        let route = routes.find(incoming.method(), || incoming.authority(), &incoming.origin_form());
        let Some(Service::Relay(route)) = route else {
            return Err("no route relays its request".to_owned());
        };
        may_go_on(route).map_err(|why| format!("route {} {why}", route.spec().name))?;
        Ok(Self {
            incoming,
            began: clock::now().checked_sub(state.elapsed).unwrap_or_else(clock::now),
            first_byte: state.first_byte,
            status: head.status,
            sent: state.sent,
            payload: state.payload,
            origin: Mutex::new(Some((head, origin))),
        })
    }

    /// The head of the origin's response, and its connection; once.
    pub(super) fn take_origin(&self) -> Option<(Head, OwnedFd)> {
        lock(&self.origin).take()
    }
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
