//! Evicted items by hashes of their keys: as many of the latest as cost `limit` together.
//!
//! A key that came back stays in the line, with its cost, until it is the oldest. So the line is bounded, and is never
//! searched.

use std::collections::{HashMap, VecDeque};

pub(super) struct Ghost {
    limit: u64,
    bytes: u64,
    /// The oldest first: key, cost, and `total` before the eviction.
    line: VecDeque<(u64, u64, u64)>,
    /// The cost of all items ever added.
    total: u64,
    /// The keys that have not come back, with `total` before their last eviction, which tells it from earlier ones.
    keys: HashMap<u64, u64>,
}

impl Ghost {
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, bytes: 0, line: VecDeque::new(), total: 0, keys: HashMap::new() }
    }

    pub(super) fn add(&mut self, key: u64, cost: u64) {
        self.keys.insert(key, self.total);
        self.line.push_back((key, cost, self.total));
        self.total += cost;
        self.bytes += cost;
        while self.bytes > self.limit {
            let (key, cost, before) = self.line.pop_front().expect("bytes are those of the line");
            if self.keys.get(&key) == Some(&before) {
                self.keys.remove(&key);
            }
            self.bytes -= cost;
        }
    }

    /// The bytes that were evicted since `key`, including its own, if it is remembered. It is forgotten then.
    pub(super) fn take(&mut self, key: u64) -> Option<u64> {
        self.keys.remove(&key).map(|before| self.total - before)
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn check(&self) {
        assert_eq!(self.bytes, self.line.iter().map(|(_, cost, _)| cost).sum::<u64>());
        assert!(self.bytes <= self.limit);
        for (key, before) in &self.keys {
            assert!(self.line.iter().any(|(other, _, place)| (other, place) == (key, before)));
        }
    }
}
