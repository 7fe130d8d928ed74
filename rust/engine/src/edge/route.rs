//! Which requests the engine answers alone, and how.

use std::borrow::Cow;
use std::sync::Arc as Plain;
use std::sync::OnceLock;

use super::limiter::Limiter;
use super::pages::{NAME, Pages};
use super::tally::{Lane, Ledger, Tallies};
use super::topics::Topics;
use crate::access::{Entered, Gate, Limits, without_port};
use crate::cache::{is_read, tells_url};
use crate::error::{Code, Error, Result};
use crate::events::{Leave, Policy};
use crate::inspect::{Counts, Rules};
use crate::origin::{Endpoint, Timeouts, Upstream, own};
use crate::relay::{Forwarding, Redirects};
use crate::store::Caching;
use crate::sync::Arc;
use crate::wire::has_dot_segments;

/// A change to the fields of a message on its way through. Names are compared in whatever case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// In place of all of that name.
    Set(Vec<u8>, Vec<u8>),
    /// Behind those of that name.
    Add(Vec<u8>, Vec<u8>),
    /// None of that name.
    Drop(Vec<u8>),
}

/// What a route serves at most.
#[derive(Debug, Clone, Copy)]
pub struct RouteLimits {
    /// Requests at a time, and by the second.
    pub requests: Limits,
    /// Bytes of a request body; `None` leaves it to the edge.
    pub body: Option<u64>,
}

/// What a request must be to match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// The host that is asked for, in lower case and without its port; `None` for every host.
    pub host: Option<String>,
    /// How the path begins, as it stands on the wire.
    pub prefix: String,
}

/// A relay that the engine carries out alone.
#[derive(Debug)]
pub struct Native {
    /// Where requests go; with an upstream, by what its origins are known together.
    pub endpoint: Endpoint,
    /// The origins of which one is asked in place of that.
    pub upstream: Option<Arc<Upstream>>,
    /// The origin's `Host`.
    pub authority: String,
    /// What stands in the place of the pattern's prefix at the origin.
    pub replacement: String,
    /// What each side is told of the other.
    pub forwarding: Forwarding,
    /// Limits on the origin's time.
    pub timeouts: Timeouts,
    /// Changes to requests, after the forwarding.
    pub request: Vec<Edit>,
    /// Changes to responses.
    pub response: Vec<Edit>,
    /// What it serves at most.
    pub limits: RouteLimits,
    /// Who decides about its requests, if anybody does.
    pub gate: Option<Arc<Gate>>,
    /// What becomes of a response when its client leaves.
    pub leave: Leave,
    /// What is done with event streams besides, and when their clients leave.
    pub events: Option<Arc<Policy>>,
    /// What is stored of it, and how.
    pub cache: Option<Caching>,
    /// What its responses are looked at for, and where that is counted.
    pub inspection: Option<(Plain<Rules>, Plain<Counts>)>,
    /// By which whoever wants to hear what became of its requests knows it.
    pub ticket: Option<u64>,
    /// What it is called in logs and counts.
    pub name: String,
}

/// A route, and what is counted of it.
#[derive(Debug)]
pub struct Route {
    pub(super) pattern: Pattern,
    pub(super) native: Native,
    /// Whether it puts a field into requests that says something to a cache by itself.
    pub(super) sets_read: bool,
    /// What stands for URLs of the origin in its responses.
    pub(super) redirects: Option<Redirects>,
    limiter: Limiter,
    /// Known from when a site serves it.
    tallies: OnceLock<Arc<Tallies>>,
}

impl Route {
    /// A route that nothing has been asked of.
    pub fn new(pattern: Pattern, native: Native) -> Self {
        // A Host of the route's or the client's makes another variant, and so does the origin's socket; otherwise the
        // origin is sent its own Host.
        let sets = |name: &[u8]| is_read(name) || tells_url(name) || name.eq_ignore_ascii_case(b"host");
        let is_sent = |name: &[u8]| native.cache.as_ref().is_some_and(|cache| cache.fill_fields().has(name));
        let sets_read = native.forwarding.preserve_host
            || native.endpoint.unix().is_some()
            || (native.forwarding.x_forwarded && is_sent(b"x-forwarded-host"))
            || (native.forwarding.forwarded && is_sent(b"forwarded"))
            || native.request.iter().any(|edit| match edit {
                Edit::Set(name, _) | Edit::Add(name, _) => sets(name),
                Edit::Drop(_) => false,
            });
        let limiter = Limiter::new(native.name.clone(), native.limits);
        let redirects = native.forwarding.map_location.then(|| {
            let is_own = own(&native.endpoint, native.upstream.clone());
            Redirects::new(is_own, native.replacement.as_str(), pattern.prefix.as_str())
        });
        Self { pattern, native, sets_read, redirects, limiter, tallies: OnceLock::new() }
    }

    /// By which whoever wants to hear what became of its requests knows it.
    pub fn ticket(&self) -> Option<u64> {
        self.native.ticket
    }

    /// Counts a request, until what it returns is dropped.
    ///
    /// # Errors
    /// `TOO_MANY_REQUESTS`.
    pub(super) fn enter(&self) -> Result<Entered> {
        self.limiter.enter()
    }

    /// Whether the origin is not sent the client's fields of that name.
    pub(super) fn replaces(&self, name: &[u8]) -> bool {
        self.native.request.iter().any(|edit| match edit {
            Edit::Set(other, _) | Edit::Drop(other) => other.eq_ignore_ascii_case(name),
            Edit::Add(..) => false,
        })
    }

    /// What the cache and the origin see of a field of a client's: no token that lets in here.
    pub(super) fn forwarded<'a>(&self, name: &[u8], value: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        match self.native.gate.as_ref().and_then(|gate| gate.verifier()) {
            Some(verifier) => verifier.forwarded(name, value),
            None => Some(Cow::Borrowed(value)),
        }
    }

    /// What becomes of a response when its client leaves: whether it is one of events is not known before its head.
    pub(super) fn leave(&self, is_events: Option<bool>) -> &Leave {
        let (all, events) = (&self.native.leave, self.native.events.as_deref());
        match is_events {
            None => Leave::before_head(all, events),
            Some(is_events) => Leave::of(all, events, is_events),
        }
    }

    /// The target of a request for `path` at the origin.
    pub(super) fn target(&self, path: &str) -> String {
        let rest = path.strip_prefix(self.pattern.prefix.as_str()).unwrap_or(path);
        [self.native.replacement.as_str(), rest].concat()
    }
}

/// What answers the requests that match its pattern.
#[derive(Debug, Clone)]
pub enum Service {
    /// An origin, or a cache.
    Relay(Arc<Route>),
    /// A hub.
    Topics(Arc<Topics>),
    /// What the engine says of itself.
    Pages(Arc<Pages>),
}

impl Service {
    fn pattern(&self) -> &Pattern {
        match self {
            Self::Relay(route) => &route.pattern,
            Self::Topics(topics) => &topics.pattern,
            Self::Pages(pages) => &pages.pattern,
        }
    }

    /// What it is called in logs and counts.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Relay(route) => &route.native.name,
            Self::Topics(topics) => &topics.name,
            Self::Pages(_) => NAME,
        }
    }

    fn own_tallies(&self) -> Option<&OnceLock<Arc<Tallies>>> {
        match self {
            Self::Relay(route) => Some(&route.tallies),
            Self::Topics(topics) => Some(&topics.tallies),
            // Whoever asks how the engine does is none of those whom it serves.
            Self::Pages(_) => None,
        }
    }

    /// What is counted of its requests, if a site serves it.
    pub(super) fn tallies(&self) -> Option<&Tallies> {
        self.own_tallies()?.get().map(Arc::as_ref)
    }

    /// Whether it answers requests of `method`. What a hub does not answer is for others: an application may publish by
    /// the same path.
    fn takes(&self, method: &str) -> bool {
        match self {
            Self::Relay(_) | Self::Pages(_) => true,
            Self::Topics(_) => matches!(method, "GET" | "HEAD"),
        }
    }
}

/// All routes of a site: the longest prefix wins, and a host before any host.
#[derive(Debug, Default)]
pub struct Routes(Vec<Service>);

impl Routes {
    /// A table of `routes`.
    ///
    /// # Errors
    /// `BAD_CONFIGURATION` for two of the same pattern.
    pub fn new(mut routes: Vec<Service>) -> Result<Self> {
        let rank = |pattern: &Pattern| (pattern.host.is_none(), usize::MAX - pattern.prefix.len());
        routes.sort_by_key(|route| rank(route.pattern()));
        for (index, route) in routes.iter().enumerate() {
            if routes[..index].iter().any(|other| other.pattern() == route.pattern()) {
                let detail = format!("two native routes have the prefix {:?}", route.pattern().prefix);
                return Err(Code::BadConfiguration.error(detail));
            }
        }
        Ok(Self(routes))
    }

    /// How the disks of the routes' caches have failed, as far as that has not been told.
    pub(super) fn disk_troubles(&self) -> impl Iterator<Item = Error> {
        self.0.iter().filter_map(|route| match route {
            Service::Relay(route) => route.native.cache.as_ref()?.disk_trouble(),
            Service::Topics(_) | Service::Pages(_) => None,
        })
    }

    /// Has requests counted in `ledger`, under the names of the routes.
    pub(super) fn count_in(&self, ledger: &Ledger) {
        for service in &self.0 {
            if let Some(tallies) = service.own_tallies() {
                tallies.get_or_init(|| ledger.of(Lane::Native, service.name()));
            }
        }
    }

    /// What inspected responses are counted in, by the names of the routes.
    pub(super) fn inspected(&self) -> impl Iterator<Item = (String, Plain<Counts>)> {
        self.0.iter().filter_map(|route| match route {
            Service::Relay(route) => {
                let (_, counts) = route.native.inspection.as_ref()?;
                Some((route.native.name.clone(), Plain::clone(counts)))
            }
            Service::Topics(_) | Service::Pages(_) => None,
        })
    }

    /// The origins that requests go to.
    pub(super) fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.0.iter().filter_map(|route| match route {
            Service::Relay(route) => Some(&route.native.endpoint),
            Service::Topics(_) | Service::Pages(_) => None,
        })
    }

    /// The route of a request by `method` for `path` of `authority`.
    ///
    /// A path with dot segments, plain or percent-encoded, matches none: the origin might take it for another that no
    /// route, or another one, was meant for.
    pub(super) fn find(&self, method: &str, authority: &str, path: &str) -> Option<&Service> {
        if self.0.is_empty() || has_dot_segments(path) {
            return None;
        }
        let host = without_port(authority);
        self.0.iter().find(|route| {
            let pattern = route.pattern();
            path.starts_with(pattern.prefix.as_str())
                && pattern.host.as_ref().is_none_or(|name| name.eq_ignore_ascii_case(host))
                && route.takes(method)
        })
    }
}
