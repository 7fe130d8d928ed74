//! Event streams between two processes: how one is frozen at rest, and how another is gone on with.
//!
//! The exchange is not moved, but played again up to where it was: the next process reads the heads of the request and of the
//! origin's response, finds its route, and sends nothing of what the client has. So what crosses is what a proxy could have
//! noted, and no parser's state.

use std::os::fd::OwnedFd;
use std::task::Context;
use std::time::Duration;

use tokio::time::Instant;

use super::exchange::Task;
use super::route::{Route, Service};
use super::site::Site;
use crate::clock;
use crate::net::{Outgoing, Socket};
use crate::sync::{Mutex, lock};
use crate::takeover::streams::{StreamState, freeze};
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
        may_go_on(route)?;
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
fn may_go_on(route: &Route) -> Result<(), String> {
    let spec = route.spec();
    if route.location.gate.is_some() {
        return Err(format!("route {} has a gate", spec.name));
    }
    if spec.inspect.is_some() {
        return Err(format!("route {} inspects", spec.name));
    }
    if spec.forwarding.grpc_web.is_some() {
        return Err(format!("route {} translates gRPC-Web", spec.name));
    }
    Ok(())
}

impl Task<'_> {
    /// Notes the head of the origin's response if another process could go on with the stream that follows.
    pub(super) fn let_move(&self, head: &Head, outgoing: &Outgoing) {
        let Some(Service::Relay(route)) = self.record.service else { return };
        let is_plain = self.client.tls.is_none() && !self.client.is_stream && self.call.is_none();
        if is_plain && may_go_on(route).is_ok() {
            self.progress.keep_head(head.to_bytes());
            outgoing.let_move();
        }
    }

    /// Freezes the exchange if it is at rest, and streams move.
    #[cold]
    pub(super) fn rest(&self, context: &Context<'_>, outgoing: &mut Outgoing) {
        let pipelines = self.client.connection.has_pipelined();
        let Some(response) = self.progress.kept_head().filter(|_| !pipelines) else {
            return self.stay(outgoing);
        };
        let Some(origin) = outgoing.at_rest() else { return };
        let Ok(client) = self.client.connection.with_socket(Socket::duplicate) else {
            return self.stay(outgoing);
        };
        self.note_sent(outgoing);
        let state = StreamState {
            request: self.incoming.as_bytes().to_vec(),
            response: response.to_vec(),
            sent: self.progress.body_bytes(),
            payload: self.progress.payload(),
            elapsed: self.progress.elapsed(),
            first_byte: self.progress.first_byte().unwrap_or_default(),
        };
        if let Some(fate) = freeze(context, client, origin, state) {
            self.progress.freeze(fate);
        }
        // If streams do not move any more, it was asked too late.
        self.stay(outgoing);
    }

    /// It was asked to move, and is frozen, or goes on here.
    fn stay(&self, outgoing: &Outgoing) {
        outgoing.note_rest();
        self.progress.stay();
    }
}
