//! How the response of a relay begins: its head, and the first look at its body.

use std::borrow::Cow;
use std::task::Context;

use crate::edge::exchange::Task;
use crate::edge::grpc_web::Web;
use crate::edge::head::{Persistence, encode, is_events};
use crate::error::Result;
use crate::events::{Field, Policy};
use crate::net::{Outgoing, Supply};
use crate::relay;
use crate::relay_spec::{Edit, Relay};
use crate::store::Delivery;
use crate::stream::ResponseHead;
use crate::wire::{BodyFraming, Head, grpc_kind};

impl Task<'_> {
    /// The gRPC-Web that the client reads, if the response to its call has a body of gRPC.
    pub(super) fn web(&self, head: &Head, framing: BodyFraming) -> Option<Web> {
        let web = self.call.and_then(|call| call.web)?;
        let is_grpc = head.get("content-type").and_then(grpc_kind).is_some();
        (is_grpc && !matches!(framing, BodyFraming::Empty | BodyFraming::Length(0))).then_some(web)
    }

    /// Puts what is stored, or on its way, into `outgoing`.
    pub(super) fn begin_stored(
        &self,
        context: &mut Context<'_>,
        relay: &Relay,
        mut delivery: Box<Delivery>,
        outgoing: &mut Outgoing,
    ) -> Result<()> {
        let framing = delivery.body.sent_to(self.incoming.minor_version);
        let status = (delivery.status, delivery.reason(), 1);
        if self.tells_of_cache() {
            self.progress.note_cache(delivery.fields());
        }
        self.put_head(relay, status, delivery.fields(), framing, (&[], &relay.spec().response), outgoing);
        delivery.drop_head();
        let mut supply = Supply::Source(delivery);
        // What is held to nothing is counted at its end.
        if self.progress.allotment().is_some_and(|allotment| allotment.is_limited()) {
            supply = self.metered(supply);
        }
        outgoing.attach(supply, framing);
        self.prime(context, outgoing)
    }

    /// Looks at the body once before its head is sent.
    pub(super) fn prime(&self, context: &mut Context<'_>, outgoing: &mut Outgoing) -> Result<()> {
        outgoing.prime(context).inspect_err(|_| {
            // The client has not seen the head, and can still be told what went wrong.
            if !outgoing.has_begun() {
                self.progress.begin(0);
            }
        })
    }

    /// Puts the head of the origin's response before its body, which the origin has delimited by `framing`. Returns how it
    /// is delimited here, and whether it is a stream of events, which can end after any of them.
    pub(super) fn begin(
        &self,
        relay: &Relay,
        ResponseHead { head, .. }: &ResponseHead,
        framing: BodyFraming,
        outgoing: &mut Outgoing,
    ) -> (BodyFraming, bool) {
        let framing = framing.sent_to(self.incoming.minor_version);
        if self.takes_trailers(relay) && self.call.is_none_or(|call| call.web.is_none()) {
            outgoing.pass_trailers();
        }
        // Without a cache of the relay's own the field is that of another one.
        if relay.spec().caching.is_some() && self.tells_of_cache() {
            self.progress.note_cache(head.headers());
        }
        let is_events = is_events(head, framing);
        let policy = relay.spec().events.as_deref().filter(|_| is_events);
        self.put_head(
            relay,
            (head.status, head.reason(), head.minor_version),
            relay::response_fields(head),
            framing,
            (policy.map_or(&[], Policy::fields), &self.edits(relay, head)),
            outgoing,
        );
        if is_events {
            self.begin_events();
            if self.comes_back() {
                outgoing.end_in_turn();
            }
        }
        (framing, is_events)
    }

    /// The changes to the response with `head`: the relay's, and what makes it one of gRPC-Web.
    fn edits<'r>(&self, relay: &'r Relay, head: &Head) -> Cow<'r, [Edit]> {
        let edits = &relay.spec().response;
        let Some(web) = self.call.and_then(|call| call.web) else { return Cow::Borrowed(edits) };
        let mut edits = edits.clone();
        let kind = head.get("content-type").and_then(|kind| web.answered(kind));
        edits.extend(kind.map(|kind| Edit::Set(b"Content-Type".to_vec(), kind)));
        for (name, value) in &self.progress.web().map_or_else(Vec::new, |answer| answer.fields.clone()) {
            edits.push(Edit::Set(name.to_vec(), value.clone()));
        }
        Cow::Owned(edits)
    }

    /// Puts the head of a response into `outgoing`; `fields` are end-to-end, and `defaults` are written for the fields that
    /// are missing.
    fn put_head<'a>(
        &self,
        relay: &Relay,
        (status, reason, minor_version): (u16, &[u8], u8),
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        framing: BodyFraming,
        (defaults, edits): (&[Field], &[Edit]),
        outgoing: &mut Outgoing,
    ) {
        let incoming = self.incoming;
        // Behind an offer that was not taken up may be bytes that were read as if it had been.
        if matches!(framing, BodyFraming::UntilClose | BodyFraming::Tunnel) || self.is_tunnel {
            self.progress.close(true);
        }
        // What is being stopped says so, however long the origin took to answer.
        if self.site.parts_from(self.client) {
            self.progress.close(true);
        }
        let persistence = Persistence::of(self.progress.closes(), incoming.minor_version);
        let via = relay.spec().forwarding.via((1, minor_version));
        let via = via.as_deref();
        let fields = relay::redirected(relay.redirects(), fields);
        let bytes =
            encode((status, reason), fields, framing, persistence, via, edits, (defaults, self.hsts()));
        self.progress.begin(status);
        self.progress.set_head(bytes.len());
        outgoing.push_head(bytes);
    }
}
