//! Counts of decisions, by route.
//!
//! Keys carry the number of their route, so that events of a key are counted under the lock of its shard alone. The
//! invariant: the number of names is bounded.

use std::ops::AddAssign;

use penstock_memory::sync::{Mutex, lock};

/// Routes with counts of their own; further ones share one row. Arbitrary, the same as for request counts.
const MOST: u16 = 256;

/// The name of the shared row.
const OTHER: &str = "other";

/// Totals since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// Requests that a cached decision let in.
    pub allowed: u64,
    /// Requests that a cached decision refused.
    pub denied: u64,
    /// Questions that were asked.
    pub asked: u64,
    /// Requests that waited for the answer to the question of another.
    pub joined: u64,
    /// Questions without an answer: the hook failed, or took too long.
    pub failed: u64,
    /// Decisions that were evicted before they expired.
    pub evicted: u64,
    /// Decisions that were revoked.
    pub revoked: u64,
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

impl AddAssign for Counted {
    fn add_assign(&mut self, other: Self) {
        let Self { allowed, denied, asked, joined, failed, evicted, revoked } = other;
        self.allowed += allowed;
        self.denied += denied;
        self.asked += asked;
        self.joined += joined;
        self.failed += failed;
        self.evicted += evicted;
        self.revoked += revoked;
    }
}

impl AddAssign for DecisionStats {
    fn add_assign(&mut self, other: Self) {
        let Self { allowed, denied, open, running, counted } = other;
        self.allowed += allowed;
        self.denied += denied;
        self.open += open;
        self.running += running;
        self.counted += counted;
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

impl<T: Copy + Default> ByRoute<T> {
    /// The value of the route of this number.
    pub(super) fn at(&mut self, route: usize) -> &mut T {
        if self.0.len() <= route {
            self.0.resize(route + 1, T::default());
        }
        &mut self.0[route]
    }

    /// The values, in the order of the numbers, up to the last route that has one.
    pub(super) fn iter(&self) -> impl Iterator<Item = T> {
        self.0.iter().copied()
    }
}

/// The names of routes, in the order of their numbers.
#[derive(Debug, Default)]
pub(super) struct Names(Mutex<Vec<Box<str>>>);

impl Names {
    /// The number of `name`; the same at each call.
    pub(super) fn number(&self, name: &str) -> u16 {
        let mut names = lock(&self.0);
        let known = (0..).zip(names.iter()).find(|(_, known)| ***known == *name);
        if let Some((number, _)) = known {
            return number;
        }
        if names.len() > MOST.into() {
            return MOST;
        }
        let name = if names.len() < MOST.into() { name } else { OTHER };
        names.push(name.into());
        (names.len() - 1).try_into().unwrap_or(MOST)
    }

    /// All of them.
    pub(super) fn all(&self) -> Vec<Box<str>> {
        lock(&self.0).clone()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_route_keeps_its_number_and_there_is_a_bound_to_them() {
        let names = Names::default();
        for _ in 0..2 {
            for number in 0..2 * MOST {
                assert_eq!(names.number(&number.to_string()), number.min(MOST));
            }
        }
        let all = names.all();
        assert_eq!((all.len(), &*all[7], &*all[256]), (257, "7", OTHER));
    }
}
