//! What an origin is asked for a request, on the way of a relay.

use std::borrow::Cow;
use std::sync::Arc as Plain;

use crate::access::Verifier;
use crate::edge::exchange::Task;
use crate::edge::grpc::{Call, TIMEOUT};
use crate::edge::grpc_web::Web;
use crate::edge::traced::Traced;
use crate::error::Result;
use crate::origin::{Passing, Request, RequestBody};
use crate::relay;
use crate::relay_spec::{Edit, Relay};
use crate::wire::{Fields, is_same_name, members};

impl Task<'_> {
    /// The target at the origin.
    pub(super) fn target_at(&self, relay: &Relay) -> Cow<'_, str> {
        if let Some(target) = self.target_at {
            return Cow::Borrowed(target);
        }
        match self.target() {
            Cow::Borrowed(path) => relay.target(path),
            Cow::Owned(path) => Cow::Owned(relay.target(&path).into_owned()),
        }
    }

    fn verifier(&self) -> Option<&dyn Verifier> {
        self.gate?.verifier()
    }

    /// What the cache and the origin see of a field of a client's: no token that lets in here.
    pub(super) fn forwarded<'v>(&self, name: &[u8], value: &'v [u8]) -> Option<Cow<'v, [u8]>> {
        match self.verifier() {
            Some(verifier) => verifier.forwarded(name, value),
            None => Some(Cow::Borrowed(value)),
        }
    }

    /// The fields that the origin is sent, which is told of the `time` that a call has left.
    pub(super) fn fields(&self, relay: &Relay, time: Option<&str>) -> Result<Fields> {
        let (spec, incoming) = (relay.spec(), self.incoming);
        let client = relay::Client {
            address: self.client.addresses.host.as_deref(),
            scheme: self.client.scheme(),
            host: incoming.authority_bytes(),
            version: self.client.version(incoming.minor_version),
        };
        let edits = spec.request.iter().filter_map(|edit| match edit {
            Edit::Set(name, value) => Some((name.as_slice(), Some(value.as_slice()))),
            Edit::Drop(name) => Some((name.as_slice(), None)),
            Edit::Add(..) => None,
        });
        let time = time.map(|time| (TIMEOUT.as_bytes(), Some(time.as_bytes())));
        let kind = self.call.and_then(|call| call.web).and_then(|_| Web::content_type(incoming));
        let kind = kind.as_deref().map(|kind| (&b"content-type"[..], Some(kind)));
        let mut replaced: Vec<relay::Replaced<'_>> = edits.chain(time).chain(kind).collect();
        if self.traced.is_some_and(Traced::replaces_fields) {
            // Each attempt has its own.
            replaced.extend(penstock_trace::FIELDS.map(|name| (name.as_bytes(), None)));
        }
        let fill = spec
            .caching
            .as_ref()
            .filter(|_| !self.is_tunnel)
            .and_then(|caching| caching.fill_fields().of_method(incoming.method()));
        let mut headers: Fields = if self.verifier().is_some() {
            let mut received = Fields::with_capacity(24, 1024);
            for (name, value) in incoming.headers() {
                if let Some(value) = self.forwarded(name, value) {
                    received.push(name, &value);
                }
            }
            spec.forwarding.request_fields(received.iter(), &client, &replaced, fill)?
        } else {
            spec.forwarding.request_fields(incoming.headers(), &client, &replaced, fill)?
        };
        for edit in &spec.request {
            if let Edit::Add(name, value) = edit {
                headers.push(name, value);
            }
        }
        if self.takes_trailers(relay) {
            headers.push(b"TE", b"trailers");
        }
        Ok(headers)
    }

    /// Whether the client takes trailers, and the relay passes them on. A client of gRPC-Web is sent them as a part of the body.
    pub(super) fn takes_trailers(&self, relay: &Relay) -> bool {
        let says = |value| members(value).any(|coding| is_same_name(coding, b"trailers"));
        self.call.is_some_and(|call| call.web.is_some())
            || (self.call.is_some() || relay.spec().forwarding.trailers)
                && self.incoming.get_all("te").any(says)
    }

    pub(super) fn request(&self, relay: &Relay, body: RequestBody) -> Result<Request> {
        let (spec, incoming) = (relay.spec(), self.incoming);
        let elapsed = self.progress.elapsed();
        let limits = self.call.map(|call| call.limits(&spec.timeouts, elapsed)).transpose()?;
        let time = limits.as_ref().and_then(Call::field);
        let passing = match self.call {
            Some(_) => Passing::Call,
            None if spec.forwarding.trailers => Passing::Trailers,
            None => Passing::Body,
        };
        let headers = self.fields(relay, time.as_deref())?;
        Ok(Request {
            endpoint: spec.origin.endpoint.clone(),
            upstream: spec.origin.upstream.clone(),
            method: incoming.shared_method(),
            target: self.target_at(relay).into_owned(),
            authority: Plain::clone(&spec.origin.authority),
            headers: headers.into(),
            body,
            timeouts: limits.unwrap_or(spec.timeouts),
            passing,
            is_proven: self.site.is_proven(self.client),
            // Of a relay that a handler has handed over, the application's log says it.
            reports: self.target_at.is_none(),
            in_frames: false,
            trace: self.trace(),
        })
    }
}
