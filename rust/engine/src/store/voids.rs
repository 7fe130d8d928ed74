//! What was purged, for those who had asked an origin before: what they bring is older than the purge.
//!
//! A purge has a number, and whoever asks an origin notes the number of the last one. Clocks can be set back; numbers
//! cannot. What there is no more room for is remembered as a purge of everything, which costs a fetch and no more.

use std::collections::{HashMap, VecDeque};

use super::object::Object;
use super::purge::Meant;
use crate::cache::{Key, Time};
use crate::sync::Arc;

/// Keys that are remembered in a shard. Arbitrary.
const KEYS: usize = 64;
/// Prefixes and tags that are. Each is compared with what comes, so there are few. Arbitrary.
const PATTERNS: usize = 64;

/// When something was asked of an origin: the time, and the number of the last purge before.
#[derive(Debug, Clone, Copy)]
pub(super) struct Since {
    pub(super) requested: Time,
    pub(super) purge: u64,
}

impl From<Since> for Began {
    fn from(since: Since) -> Self {
        Self { last: since.purge, own: None }
    }
}

/// When something was asked of an origin, in purges.
#[derive(Debug, Clone, Copy)]
pub(super) struct Began {
    /// The last one before.
    pub(super) last: u64,
    /// The one that it is the reason of itself: of what had been there before it.
    pub(super) own: Option<u64>,
}

impl From<u64> for Began {
    fn from(last: u64) -> Self {
        Self { last, own: None }
    }
}

/// The purges of one shard.
#[derive(Debug, Default)]
pub(super) struct Voids {
    /// Hashes of keys, each with the number of the last purge there. Two keys of one hash are fetched anew together.
    keys: HashMap<u64, u64>,
    /// Prefixes and tags, each with the number of its purge, the oldest in front.
    patterns: VecDeque<(Arc<Meant>, u64)>,
    /// The last purge of everything, or of what has been forgotten.
    all: u64,
    /// The last purge of all.
    last: u64,
}

impl Voids {
    /// The key of this hash was purged.
    pub(super) fn add_key(&mut self, hash: u64, number: u64) {
        if self.keys.len() >= KEYS && !self.keys.contains_key(&hash) {
            // None of these is later.
            self.all = self.last;
            self.keys.clear();
        }
        self.keys.insert(hash, number);
        self.last = self.last.max(number);
    }

    /// All that `meant` stands for was purged.
    pub(super) fn add(&mut self, meant: &Arc<Meant>, number: u64) {
        self.last = self.last.max(number);
        if **meant == Meant::All {
            self.all = self.all.max(number);
            return;
        }
        self.patterns.retain(|(other, _)| other != meant);
        self.patterns.push_back((Arc::clone(meant), number));
        if self.patterns.len() > PATTERNS {
            if let Some((_, forgotten)) = self.patterns.pop_front() {
                self.all = self.all.max(forgotten);
            }
        }
    }

    /// Whether `object` was purged since it `began` to be asked for.
    pub(super) fn has(&self, hash: u64, key: &Key, object: &Object, began: impl Into<Began>) -> bool {
        let Began { last, own } = began.into();
        if self.last <= last {
            return false;
        }
        self.all > last
            || self.keys.get(&hash).is_some_and(|number| *number > last && Some(*number) != own)
            || self.patterns.iter().any(|(meant, number)| *number > last && meant.has(key, object))
    }
}
