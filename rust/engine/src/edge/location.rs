//! Where a service stands on a site: which requests are its own, who may make them, how many at once, and where they are counted.

use std::sync::OnceLock;

use super::limiter::Limiter;
use super::tally::{Lane, Ledger, Tallies};
use crate::access::{Entered, Gate};
use crate::error::Result;
use crate::relay_spec::RouteLimits;
use crate::sync::Arc;

/// What a request must be to match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// The host that is asked for, in lower case and without its port; `None` for every host.
    pub host: Option<String>,
    /// How the path begins, as it stands on the wire.
    pub prefix: String,
}

impl Pattern {
    /// Whether a request for `path` of `host`, which has no port, matches.
    pub(super) fn matches<'a>(&self, host: impl Fn() -> &'a str, path: &str) -> bool {
        path.starts_with(self.prefix.as_str())
            && self.host.as_ref().is_none_or(|name| name.eq_ignore_ascii_case(host()))
    }
}

/// The place of one service on a site.
#[derive(Debug)]
pub(super) struct Location {
    /// What it is called in logs and counts.
    pub(super) name: String,
    pub(super) pattern: Pattern,
    /// Decides about its requests; `None` admits all.
    pub(super) gate: Option<Arc<Gate>>,
    limiter: Limiter,
    /// Set when a site serves it.
    tallies: OnceLock<Arc<Tallies>>,
}

impl Location {
    pub(super) fn new(name: String, pattern: Pattern, limits: RouteLimits, gate: Option<Arc<Gate>>) -> Self {
        let limiter = Limiter::new(name.clone(), limits);
        Self { name, pattern, gate, limiter, tallies: OnceLock::new() }
    }

    /// Counts a request, until what it returns is dropped.
    ///
    /// # Errors
    /// `TOO_MANY_REQUESTS`.
    pub(super) fn enter(&self) -> Result<Entered> {
        self.limiter.enter()
    }

    /// Has its requests counted in `ledger`, under its name.
    pub(super) fn count_in(&self, ledger: &Ledger) {
        self.tallies.get_or_init(|| ledger.of(Lane::Native, &self.name));
    }

    /// Where its requests are counted, if a site does so.
    pub(super) fn tallies(&self) -> Option<&Tallies> {
        self.tallies.get().map(Arc::as_ref)
    }
}
