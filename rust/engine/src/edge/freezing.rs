//! How an event stream is frozen at rest, so that another process can go on with it.

use std::task::Context;

use super::exchange::Task;
use super::moved::may_go_on;
use super::route::Service;
use crate::net::{Outgoing, Socket};
use crate::takeover::streams::{StreamState, freeze};

impl Task<'_> {
    /// Has the stream that follows move when it is asked to, if another process could go on with it. `head` gives that of the
    /// origin's response, if there is an origin.
    pub(super) fn let_move(&self, head: impl FnOnce() -> Vec<u8>, outgoing: &Outgoing) {
        let may_go_on = match self.record.service {
            Some(Service::Relay(route)) => may_go_on(route).is_ok(),
            Some(Service::Topics(topics)) => topics.location.gate.is_none(),
            _ => false,
        };
        let is_plain = self.client.tls.is_none() && !self.client.is_stream && self.call.is_none();
        if is_plain && may_go_on {
            self.progress.keep_head(head());
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
        let Ok(client) = self.client.connection.with_socket(Socket::duplicate) else {
            return self.stay(outgoing);
        };
        let Some(resting) = outgoing.at_rest() else { return };
        self.note_sent(outgoing);
        let state = StreamState {
            request: self.incoming.as_bytes().to_vec(),
            response: response.to_vec(),
            sent: self.progress.body_bytes(),
            payload: self.progress.payload(),
            elapsed: self.progress.elapsed(),
            first_byte: self.progress.first_byte().unwrap_or_default(),
        };
        match freeze(context, client, resting, state) {
            Some(outcome) => self.progress.freeze(outcome),
            // Streams do not move any more: it goes on with what it was asked for at rest.
            None => context.waker().wake_by_ref(),
        }
        self.stay(outgoing);
    }

    /// It was asked to move, and is frozen, or goes on here.
    fn stay(&self, outgoing: &Outgoing) {
        outgoing.note_rest();
        self.progress.stay();
    }
}
