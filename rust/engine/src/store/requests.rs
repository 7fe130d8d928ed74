//! Results of requests through a cache, by route. Each request is counted once, when its result is known.
//!
//! The invariant: a hit writes no memory that another thread writes. Each thread counts for itself, and a reader adds
//! up. Names are those of declared routes, and bounded.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cache::CacheStatus;
use crate::counters::{ByName, Counter};
use crate::sync::{Arc, Mutex, lock};

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

penstock_memory::counts! {
    /// Numbers of requests by result. A request whose client left before the result is in none.
    pub struct RequestStats {
        /// Answered with a fresh stored response, without the origin (`hit`).
        hits,
        /// Answered with a stale response: during its revalidation, in place of an error, or because the client accepts it.
        stale,
        /// Answered with a stored response that the origin has just confirmed (`fwd-status=304`).
        revalidated,
        /// Answered with the response that another request has fetched (`collapsed`).
        collapsed,
        /// Answered with the origin's response, which was stored (`fwd`, `stored`).
        misses,
        /// Answered with the origin's response, which was not stored (`fwd`).
        passed,
        /// Answered with an error of the gateway: the origin failed, or must not be asked.
        errors,
    }
}

/// The counters of a cache by the name of the route.
#[derive(Debug, Default)]
pub(super) struct Routes(Mutex<ByName<Arc<Requests>>>);

impl Routes {
    /// The counters of `name`. A route that is declared again keeps its counters.
    pub(super) fn of(&self, name: &str) -> Arc<Requests> {
        Arc::clone(lock(&self.0).entry(name))
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
struct Stripe([Counter; RESULTS]);

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
        counts[went as usize].add(1);
    }

    /// The sum over all threads.
    pub(super) fn stats(&self) -> RequestStats {
        let sum = |went: CacheResult| self.0.iter().map(|stripe| stripe.0[went as usize].get()).sum();
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
