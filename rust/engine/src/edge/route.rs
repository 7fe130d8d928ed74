//! Which requests the engine answers alone, and how.

use std::sync::Arc as Plain;

use super::location::{Location, Pattern};
use super::pages::Pages;
use super::tally::{Ledger, Tallies};
use super::topics::Topics;
use crate::access::{Gate, without_port};
use crate::error::{Code, Error, Result};
use crate::inspect::Counts;
use crate::origin::Endpoint;
use crate::relay_spec::{Relay, RelaySpec};
use crate::sync::Arc;
use crate::wire::has_dot_segments;

/// A relay that the engine carries out alone, for the requests that match a pattern.
#[derive(Debug)]
pub struct Route {
    pub(super) location: Location,
    pub(super) relay: Relay,
}

impl Route {
    /// A route for the requests to `host`, or to every host, whose path begins as the relay's prefix.
    pub fn new(host: Option<String>, spec: RelaySpec, gate: Option<Arc<Gate>>) -> Self {
        let pattern = Pattern { host, prefix: spec.prefix.clone() };
        let location = Location::new(spec.name.clone(), pattern, spec.limits, gate);
        Self { location, relay: Relay::new(spec) }
    }

    /// The number under which the ends of its requests are told, if they are.
    pub fn completion(&self) -> Option<u64> {
        self.spec().completion
    }

    pub(super) fn spec(&self) -> &RelaySpec {
        self.relay.spec()
    }
}

/// What answers the requests that match its pattern.
#[derive(Debug, Clone)]
pub enum Service {
    /// An origin, or a cache.
    Relay(Arc<Route>),
    /// A hub.
    Topics(Arc<Topics>),
    /// The engine itself.
    Pages(Arc<Pages>),
}

impl Service {
    fn location(&self) -> &Location {
        match self {
            Self::Relay(route) => &route.location,
            Self::Topics(topics) => &topics.location,
            Self::Pages(pages) => &pages.location,
        }
    }

    /// What it is called in logs and counts.
    pub(super) fn name(&self) -> &str {
        &self.location().name
    }

    /// Whether its requests are those of clients, and not of the operator's programs.
    pub(super) fn is_traffic(&self) -> bool {
        !matches!(self, Self::Pages(pages) if !pages.is_traffic)
    }

    /// The route, if it relays.
    pub(super) fn relaying(&self) -> Option<&Route> {
        match self {
            Self::Relay(route) => Some(route),
            Self::Topics(_) | Self::Pages(_) => None,
        }
    }

    /// Where its requests are counted, if a site does so.
    pub(super) fn tallies(&self) -> Option<&Tallies> {
        self.location().tallies()
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
        routes.sort_by_key(|route| rank(&route.location().pattern));
        for (index, route) in routes.iter().enumerate() {
            let pattern = &route.location().pattern;
            if routes[..index].iter().any(|other| other.location().pattern == *pattern) {
                let detail = format!("two native routes have the prefix {:?}", pattern.prefix);
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
            if service.is_traffic() {
                service.location().count_in(ledger);
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
    pub(super) fn find<'a>(
        &self,
        method: &str,
        authority: impl Fn() -> &'a str,
        path: &str,
    ) -> Option<&Service> {
        if self.0.is_empty() || has_dot_segments(path) {
            return None;
        }
        let host = || without_port(authority());
        self.0.iter().find(|route| route.location().pattern.matches(host, path) && route.takes(method))
    }
}
