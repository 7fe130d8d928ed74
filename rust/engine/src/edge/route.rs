//! Which requests the engine answers alone, and how.

use std::sync::Arc as Plain;
use std::sync::OnceLock;

use super::limiter::Limiter;
use super::pages::{NAME, Pages};
use super::tally::{Lane, Ledger, Tallies};
use super::topics::Topics;
use crate::access::{Entered, Gate, without_port};
use crate::error::{Code, Error, Result};
use crate::inspect::Counts;
use crate::origin::Endpoint;
use crate::relay_spec::{Relay, RelaySpec};
use crate::sync::Arc;
use crate::wire::has_dot_segments;

/// What a request must be to match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// The host that is asked for, in lower case and without its port; `None` for every host.
    pub host: Option<String>,
    /// How the path begins, as it stands on the wire.
    pub prefix: String,
}

/// A relay that the engine carries out alone, for the requests that match a pattern.
#[derive(Debug)]
pub struct Route {
    pub(super) pattern: Pattern,
    pub(super) relay: Relay,
    /// Decides who may, if that is asked.
    pub(super) gate: Option<Arc<Gate>>,
    limiter: Limiter,
    /// Known from when a site serves it.
    tallies: OnceLock<Arc<Tallies>>,
}

impl Route {
    /// A route for the requests to `host`, or to every host, whose path begins as the relay's prefix.
    pub fn new(host: Option<String>, spec: RelaySpec, gate: Option<Arc<Gate>>) -> Self {
        let pattern = Pattern { host, prefix: spec.prefix.clone() };
        let limiter = Limiter::new(spec.name.clone(), spec.limits);
        Self { pattern, relay: Relay::new(spec), gate, limiter, tallies: OnceLock::new() }
    }

    /// The number under which the ends of its requests are told, if they are.
    pub fn completion(&self) -> Option<u64> {
        self.spec().completion
    }

    pub(super) fn spec(&self) -> &RelaySpec {
        self.relay.spec()
    }

    /// Counts a request, until what it returns is dropped.
    ///
    /// # Errors
    /// `TOO_MANY_REQUESTS`.
    pub(super) fn enter(&self) -> Result<Entered> {
        self.limiter.enter()
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
            Self::Relay(route) => &route.spec().name,
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
            Service::Relay(route) => route.spec().caching.as_ref()?.disk_trouble(),
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
                let (_, counts) = route.spec().inspect.as_ref()?;
                Some((route.spec().name.clone(), Plain::clone(counts)))
            }
            Service::Topics(_) | Service::Pages(_) => None,
        })
    }

    /// The origins that requests go to.
    pub(super) fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.0.iter().filter_map(|route| match route {
            Service::Relay(route) => Some(&route.spec().origin.endpoint),
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
