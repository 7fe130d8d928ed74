//! What a relay does: which origin it asks, under which rules, and what the client is sent. A value that says it all, so
//! that a native route, a handler of the application and a worker process order the same thing in the same words.
//!
//! `penstock.serving.relay_spec.RelaySpec` is the same value in Python, with the same field names.

use std::borrow::Cow;
use std::sync::Arc as Plain;

use crate::access::Limits;
use crate::cache::{is_read, tells_url};
use crate::events::{Leave, Policy};
use crate::framing::Framing;
use crate::inspect::{Counts, Rules};
use crate::origin::{Endpoint, Timeouts, Upstream, own};
use crate::relay::{Forwarding, Redirects};
use crate::store::Caching;
use crate::sync::Arc;

/// A change to the fields of a message on its way through. Names are compared case-insensitively.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Replaces all fields of that name.
    Set(Vec<u8>, Vec<u8>),
    /// Follows the fields of that name.
    Add(Vec<u8>, Vec<u8>),
    /// Removes all fields of that name.
    Drop(Vec<u8>),
}

/// What all requests of one name may take together.
#[derive(Debug, Clone, Copy)]
pub struct RouteLimits {
    /// Requests at a time, and by the second.
    pub requests: Limits,
    /// Bytes of a request body; `None` leaves it to the edge.
    pub body: Option<u64>,
}

/// Where requests are sent.
#[derive(Debug, Clone)]
pub struct Origin {
    /// What connections are kept by; with an upstream, the name that its origins share.
    pub endpoint: Endpoint,
    /// The origins of which one is asked instead of `endpoint`.
    pub upstream: Option<Arc<Upstream>>,
    /// `Host`, unless the request has its own.
    pub authority: Plain<str>,
}

/// A relay as it is ordered. [`Relay::new`] makes it ready to be carried out.
#[derive(Debug)]
pub struct RelaySpec {
    /// Its name in logs and counts.
    pub name: String,
    /// Where requests are sent.
    pub origin: Origin,
    /// How the target of a request begins here; replaced by `replacement`.
    pub prefix: String,
    /// How it begins at the origin.
    pub replacement: String,
    /// What each side is told of the other.
    pub forwarding: Forwarding,
    /// Limits on the origin's time.
    pub timeouts: Timeouts,
    /// What all of its requests may take together.
    pub limits: RouteLimits,
    /// Changes to requests, after the forwarding.
    pub request: Vec<Edit>,
    /// Changes to responses.
    pub response: Vec<Edit>,
    /// How a response goes on after its client has disconnected.
    pub drain: Leave,
    /// What is done with event streams besides, and when their clients disconnect.
    pub events: Option<Plain<Policy>>,
    /// Bytes of the longest event; `None` leaves it to the edge.
    pub max_event: Option<usize>,
    /// What is stored of it, and how.
    pub caching: Option<Caching>,
    /// What its responses are inspected for, and where that is counted.
    pub inspect: Option<(Plain<Rules>, Plain<Counts>)>,
    /// The number under which the ends of its requests are told, if they are.
    pub completion: Option<u64>,
}

/// A [`RelaySpec`], and what follows from it for every request.
#[derive(Debug)]
pub struct Relay {
    spec: RelaySpec,
    /// Whether it puts a field into requests that says something to a cache by itself.
    sets_read: bool,
    /// What stands for URLs of the origin in its responses.
    redirects: Option<Redirects>,
}

impl Relay {
    /// Works out once what every request needs.
    pub fn new(spec: RelaySpec) -> Self {
        // A Host of the relay's or the client's makes another variant, and so does the origin's socket; otherwise the
        // origin is sent its own Host.
        let sets = |name: &[u8]| is_read(name) || tells_url(name) || name.eq_ignore_ascii_case(b"host");
        let is_sent = |name: &[u8]| spec.caching.as_ref().is_some_and(|cache| cache.fill_fields().has(name));
        let sets_read = spec.forwarding.preserve_host
            || spec.origin.endpoint.unix().is_some()
            || (spec.forwarding.x_forwarded && is_sent(b"x-forwarded-host"))
            || (spec.forwarding.forwarded && is_sent(b"forwarded"))
            || spec.request.iter().any(|edit| match edit {
                Edit::Set(name, _) | Edit::Add(name, _) => sets(name),
                Edit::Drop(_) => false,
            });
        let redirects = spec.forwarding.map_location.then(|| {
            let is_own = own(&spec.origin.endpoint, spec.origin.upstream.clone());
            Redirects::new(is_own, spec.replacement.as_str(), spec.prefix.as_str())
        });
        Self { spec, sets_read, redirects }
    }

    /// What was ordered.
    pub fn spec(&self) -> &RelaySpec {
        &self.spec
    }

    /// Whether it puts a field into requests that says something to a cache by itself.
    pub(crate) fn sets_read(&self) -> bool {
        self.sets_read
    }

    /// What stands for URLs of the origin in its responses.
    pub(crate) fn redirects(&self) -> Option<&Redirects> {
        self.redirects.as_ref()
    }

    /// Whether the origin is not sent the client's fields of that name.
    pub(crate) fn replaces(&self, name: &[u8]) -> bool {
        self.spec.request.iter().any(|edit| match edit {
            Edit::Set(other, _) | Edit::Drop(other) => other.eq_ignore_ascii_case(name),
            Edit::Add(..) => false,
        })
    }

    /// How a response goes on after its client has disconnected: before the head it is not known whether events follow.
    pub(crate) fn leave(&self, is_events: Option<bool>) -> &Leave {
        let (all, events) = (&self.spec.drain, self.spec.events.as_deref());
        match is_events {
            None => Leave::before_head(all, events),
            Some(is_events) => Leave::of(all, events, is_events),
        }
    }

    /// How its event streams are cut; `longest` is the longest event where the relay does not say.
    pub(crate) fn framing(&self, longest: usize) -> Framing {
        Framing::Events { max_frame: self.spec.max_event.unwrap_or(longest), blocks: true }
    }

    /// The target at the origin of a request for `path`.
    pub(crate) fn target<'p>(&self, path: &'p str) -> Cow<'p, str> {
        let RelaySpec { prefix, replacement, .. } = &self.spec;
        match path.strip_prefix(prefix.as_str()) {
            Some(_) if prefix == replacement => Cow::Borrowed(path),
            rest => Cow::Owned([replacement.as_str(), rest.unwrap_or(path)].concat()),
        }
    }
}
