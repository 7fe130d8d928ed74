//! How requests went that came by way of a cache: each is counted once, when it is known what it gets.
//!
//! The invariant: a hit writes no memory that another thread writes as well. Each thread counts for itself, and whoever
//! wants to know adds up.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::cache::CacheStatus;

/// Threads that count for themselves; beyond, two share what they count in. Arbitrary.
const STRIPES: usize = 16;

/// What a request got. The order is that of the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Went {
    Hit,
    Stale,
    Revalidated,
    Collapsed,
    Miss,
    Passed,
    Error,
}

const KINDS: usize = Went::Error as usize + 1;

/// How requests went so far. Each is in one of these; one whose client left before it was known is in none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestStats {
    /// Answered with a fresh stored response, and nobody was asked (`hit`).
    pub hits: u64,
    /// Answered with a stale one: while it was fetched anew, in place of an error, or because the client did not mind.
    pub stale: u64,
    /// Answered with a stored one that the origin has just confirmed (`fwd-status=304`).
    pub revalidated: u64,
    /// Answered with what another request had fetched (`collapsed`).
    pub collapsed: u64,
    /// Answered with what the origin sent, and that was stored (`fwd`, `stored`).
    pub misses: u64,
    /// Answered with what the origin sent, and that was not stored (`fwd`).
    pub passed: u64,
    /// Answered with an error of the gateway's own: the origin failed, or was not to be asked.
    pub errors: u64,
}

/// The counters of a cache.
#[derive(Debug, Default)]
pub(super) struct Requests([Stripe; STRIPES]);

/// As large as what two neighbouring cache lines are fetched together: what one thread writes, another need not fetch.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe([AtomicU64; KINDS]);

impl Went {
    /// Of a stored response that was served.
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
    /// One more.
    pub(super) fn count(&self, went: Went) {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES;
        }
        let Stripe(counts) = &self.0[MINE.with(|mine| *mine)];
        // Relaxed, as all here: counts, which order nothing.
        counts[went as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// All together.
    pub(super) fn stats(&self) -> RequestStats {
        let sum =
            |went: Went| self.0.iter().map(|stripe| stripe.0[went as usize].load(Ordering::Relaxed)).sum();
        RequestStats {
            hits: sum(Went::Hit),
            stale: sum(Went::Stale),
            revalidated: sum(Went::Revalidated),
            collapsed: sum(Went::Collapsed),
            misses: sum(Went::Miss),
            passed: sum(Went::Passed),
            errors: sum(Went::Error),
        }
    }
}
