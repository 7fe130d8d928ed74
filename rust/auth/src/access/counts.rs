//! Counts of decisions, by route.
//!
//! Keys carry the number of their route, so that events of a key are counted under the lock of its shard alone. The
//! invariant: the number of names is bounded.

use std::ops::AddAssign;

use penstock_memory::counters::ByName;
use penstock_memory::sync::{Mutex, lock};

penstock_memory::counts! {
    /// Totals since the start.
    pub struct Counted {
        /// Requests that a cached decision let in.
        allowed,
        /// Requests that a cached decision refused.
        denied,
        /// Questions that were asked.
        asked,
        /// Requests that waited for the answer to the question of another.
        joined,
        /// Questions without an answer: the hook failed, or took too long.
        failed,
        /// Decisions that were evicted before they expired.
        evicted,
        /// Decisions that were revoked.
        revoked,
    }
}

/// The state of the cache of decisions, and totals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DecisionStats {
    /// Cached decisions to let in.
    pub allowed: usize,
    /// Cached decisions to refuse.
    pub denied: usize,
    /// Open questions.
    pub open: usize,
    /// Responses in progress.
    pub running: usize,
    /// Totals since the start.
    pub counted: Counted,
}

impl AddAssign<&Self> for DecisionStats {
    fn add_assign(&mut self, other: &Self) {
        self.allowed += other.allowed;
        self.denied += other.denied;
        self.open += other.open;
        self.running += other.running;
        self.counted += &other.counted;
    }
}

/// A value for each route, by its number.
#[derive(Debug)]
pub(super) struct ByRoute<T>(Vec<T>);

impl<T> Default for ByRoute<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Clone + Default> ByRoute<T> {
    /// The value of the route of this number.
    pub(super) fn at(&mut self, route: usize) -> &mut T {
        if self.0.len() <= route {
            self.0.resize(route + 1, T::default());
        }
        &mut self.0[route]
    }

    /// The values, in the order of the numbers, up to the last route that has one.
    pub(super) fn iter(&self) -> impl Iterator<Item = T> {
        self.0.iter().cloned()
    }
}

/// The numbers of routes, by name. Routes above the limit of names share one.
#[derive(Debug, Default)]
pub(super) struct Names(Mutex<ByName<u16>>);

impl Names {
    /// The number of `name`; the same at each call.
    pub(super) fn number(&self, name: &str) -> u16 {
        let mut names = lock(&self.0);
        let next = names.len().try_into().expect("the limit of names fits");
        *names.get_or_insert_with(name, |_| next)
    }

    /// The number of `name`, if it has one of its own.
    pub(super) fn known(&self, name: &str) -> Option<u16> {
        lock(&self.0).get(name).copied()
    }

    /// All names, in the order of their numbers.
    pub(super) fn all(&self) -> Vec<Box<str>> {
        let names = lock(&self.0);
        let mut all = vec![Box::default(); names.len()];
        for (name, number) in &*names {
            all[usize::from(*number)] = name.clone();
        }
        all
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use penstock_memory::counters::OTHER;

    use super::*;

    #[test]
    fn a_route_keeps_its_number_and_routes_above_the_limit_share_one() {
        let names = Names::default();
        for _ in 0..2 {
            for number in 0..500 {
                assert_eq!(names.number(&number.to_string()), number.min(256));
            }
        }
        let all = names.all();
        assert_eq!((all.len(), &*all[7], &*all[256]), (257, "7", OTHER));
    }
}
