//! How an event stream is frozen at rest, so that another process can go on with it.

use std::task::Context;

use super::exchange::Task;
use super::moved::may_go_on;
use super::route::Service;
use crate::net::{Outgoing, Socket};
use crate::takeover::streams::{StreamState, freeze};
use crate::wire::Head;

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
        if let Some(outcome) = freeze(context, client, origin, state) {
            self.progress.freeze(outcome);
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
