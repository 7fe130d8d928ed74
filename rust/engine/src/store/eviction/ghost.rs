//! What has left of late, by hashes of keys: as many as cost `limit` together.
//!
//! A key that came back keeps its place in the line, and its cost, until it gets to the end. So the line is bounded, and
//! nothing has to be looked for in it.

use std::collections::{HashMap, VecDeque};

pub(super) struct Ghost {
    limit: u64,
    bytes: u64,
    /// The oldest first: keys, their costs, and what all that ever left cost together before.
    line: VecDeque<(u64, u64, u64)>,
    /// What all that ever left cost together.
    total: u64,
    /// Those that have not come back, with what all before them cost: it tells the last leaving of a key from others.
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

    /// If `key` is remembered: what has left since, itself included, in bytes. It is no longer remembered then.
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
