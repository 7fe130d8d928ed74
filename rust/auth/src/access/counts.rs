//! What is counted of decisions, by route.
//!
//! Routes are known by their number, which keys carry, so that what happens to a key is counted under its lock and nowhere else.
//! The invariant: names are those of routes, which an operator has declared, and there is a bound to them.

use std::ops::AddAssign;

use penstock_memory::sync::{Mutex, lock};

/// Names of routes that are told apart; what is beyond is counted together. Arbitrary, as for all requests.
const MOST: u16 = 256;

/// What is beyond [`MOST`] is called.
const OTHER: &str = "other";

/// What was counted so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// Requests that were let in by what was remembered.
    pub allowed: u64,
    /// Requests that were refused by what was remembered.
    pub denied: u64,
    /// Questions.
    pub asked: u64,
    /// Requests that waited for the answer to a question that another had asked.
    pub joined: u64,
    /// Questions that nobody answered in time, or that could not be answered.
    pub failed: u64,
    /// Decisions that were forgotten before their time, for want of room.
    pub evicted: u64,
    /// Decisions that were revoked.
    pub revoked: u64,
}

/// How full it is, and what was counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DecisionStats {
    /// Decisions to let in that are remembered.
    pub allowed: usize,
    /// Decisions to refuse that are remembered.
    pub denied: usize,
    /// Questions that are not answered.
    pub open: usize,
    /// Responses that run.
    pub running: usize,
    /// Since the beginning.
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

/// Something of each route, by its number.
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

    /// That of each route, in the order of the numbers, as far as there was something.
    pub(super) fn iter(&self) -> impl Iterator<Item = T> {
        self.0.iter().copied()
    }
}

/// The names of routes, in the order of their numbers.
#[derive(Debug, Default)]
pub(super) struct Names(Mutex<Vec<Box<str>>>);

impl Names {
    /// The number of `name`, which is the same each time.
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
