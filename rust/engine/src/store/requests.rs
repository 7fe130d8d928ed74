//! Results of requests through a cache, by route. Each request is counted once, when its result is known.
//!
//! The invariant: a hit writes no memory that another thread writes. Each thread counts for itself, and a reader adds
//! up. Names are those of declared routes, and bounded.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::cache::CacheStatus;
use crate::sync::{Arc, Mutex, lock};

/// The limit of route names; further ones are counted together. Arbitrary, as for all requests.
const MAX_ROUTES: usize = 256;

/// The name of routes above [`MAX_ROUTES`].
const OTHER: &str = "other";

/// Threads with counters of their own; above this number two share them. Arbitrary.
const STRIPES: usize = 16;

/// The result of a request, in the order of the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CacheResult {
    Hit,
    Stale,
    Revalidated,
    Collapsed,
    Miss,
    Passed,
    Error,
}

const RESULTS: usize = CacheResult::Error as usize + 1;

/// Numbers of requests by result. A request whose client left before the result is in none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestStats {
    /// Answered with a fresh stored response, without the origin (`hit`).
    pub hits: u64,
    /// Answered with a stale response: during its revalidation, in place of an error, or because the client accepts it.
    pub stale: u64,
    /// Answered with a stored response that the origin has just confirmed (`fwd-status=304`).
    pub revalidated: u64,
    /// Answered with the response that another request has fetched (`collapsed`).
    pub collapsed: u64,
    /// Answered with the origin's response, which was stored (`fwd`, `stored`).
    pub misses: u64,
    /// Answered with the origin's response, which was not stored (`fwd`).
    pub passed: u64,
    /// Answered with an error of the gateway: the origin failed, or must not be asked.
    pub errors: u64,
}

impl AddAssign for RequestStats {
    fn add_assign(&mut self, other: Self) {
        let Self { hits, stale, revalidated, collapsed, misses, passed, errors } = other;
        self.hits += hits;
        self.stale += stale;
        self.revalidated += revalidated;
        self.collapsed += collapsed;
        self.misses += misses;
        self.passed += passed;
        self.errors += errors;
    }
}

/// The counters of a cache by the name of the route.
#[derive(Debug, Default)]
pub(super) struct Routes(Mutex<BTreeMap<Box<str>, Arc<Requests>>>);

impl Routes {
    /// The counters of `name`. A route that is declared again keeps its counters.
    pub(super) fn of(&self, name: &str) -> Arc<Requests> {
        let mut routes = lock(&self.0);
        let name = if routes.contains_key(name) || routes.len() < MAX_ROUTES { name } else { OTHER };
        Arc::clone(routes.entry(name.into()).or_default())
    }

    /// The statistics in the order of the names.
    pub(super) fn stats(&self) -> Vec<(Box<str>, RequestStats)> {
        lock(&self.0).iter().map(|(name, requests)| (name.clone(), requests.stats())).collect()
    }
}

/// The counters of a route.
#[derive(Debug, Default)]
pub(super) struct Requests([Stripe; STRIPES]);

/// As large as two neighbouring cache lines, which are fetched together, so that threads do not share them.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe([AtomicU64; RESULTS]);

impl CacheResult {
    /// The result of a delivered stored response.
    pub(super) fn of(status: &CacheStatus) -> Self {
        match status {
            status if status.is_stale() => Self::Stale,
            CacheStatus { hit: true, collapsed: true, .. } => Self::Collapsed,
            CacheStatus { hit: true, .. } => Self::Hit,
            CacheStatus { stored: true, .. } => Self::Miss,
            _ => Self::Revalidated,
        }
    }
}

impl Requests {
    /// Counts a request.
    pub(super) fn count(&self, went: CacheResult) {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES;
        }
        let Stripe(counts) = &self.0[MINE.with(|mine| *mine)];
        // Relaxed, as all here: counts, which order nothing.
        counts[went as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The sum over all threads.
    pub(super) fn stats(&self) -> RequestStats {
        let sum = |went: CacheResult| {
            self.0.iter().map(|stripe| stripe.0[went as usize].load(Ordering::Relaxed)).sum()
        };
        RequestStats {
            hits: sum(CacheResult::Hit),
            stale: sum(CacheResult::Stale),
            revalidated: sum(CacheResult::Revalidated),
            collapsed: sum(CacheResult::Collapsed),
            misses: sum(CacheResult::Miss),
            passed: sum(CacheResult::Passed),
            errors: sum(CacheResult::Error),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_the_bound_are_counted_together() {
        let routes = Routes::default();
        for number in 0..2 * MAX_ROUTES {
            routes.of(&number.to_string()).count(CacheResult::Hit);
        }
        routes.of("0").count(CacheResult::Miss);
        let stats = routes.stats();
        assert_eq!(stats.len(), MAX_ROUTES + 1);
        let of = |name: &str| stats.iter().find(|(other, _)| &**other == name).unwrap().1;
        assert_eq!(of("0"), RequestStats { hits: 1, misses: 1, ..RequestStats::default() });
        assert_eq!(of(OTHER), RequestStats { hits: MAX_ROUTES as u64, ..RequestStats::default() });
    }
}
