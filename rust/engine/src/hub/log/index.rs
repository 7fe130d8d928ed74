//! Which event is the newest of its key, and which the newest of its own name.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::mem::size_of;
use std::sync::Arc as Plain;

use super::Event;

/// What a key takes, besides its text: the counts before that, and a place in a table that is half full.
const KEY: usize = 2 * size_of::<usize>() + 2 * (size_of::<(Plain<str>, u64)>() + 1);

/// What the own name of an event takes: a place in a table that is half full.
const NAME: usize = 2 * (size_of::<(u64, u64)>() + 1);

/// The numbers of events by their keys and own names.
#[derive(Debug, Default)]
pub(super) struct Index {
    keys: HashMap<Plain<str>, u64>,
    /// By the name's hash: a client may come back with any name, and is not to have a long history read for it under the
    /// lock.
    names: HashMap<u64, u64>,
    size: usize,
}

impl Index {
    /// Bytes that the keys and the names take.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Bytes that `event` would add.
    pub(super) fn cost_of(&self, event: &Event<'_>) -> usize {
        let key = event.key.filter(|key| !self.keys.contains_key(*key)).map_or(0, cost_of_key);
        key + event.id.map_or(0, |_| NAME)
    }

    /// Event `number` is the newest of `key`.
    pub(super) fn note_key(&mut self, key: &str, number: u64) -> Plain<str> {
        let key = if let Some((key, _)) = self.keys.get_key_value(key) {
            Plain::clone(key)
        } else {
            self.size += cost_of_key(key);
            Plain::from(key)
        };
        self.keys.insert(Plain::clone(&key), number);
        key
    }

    /// Event `number` is the newest of that own name.
    pub(super) fn note_name(&mut self, name: &[u8], number: u64) {
        if self.names.insert(self.hash(name), number).is_none() {
            self.size += NAME;
        }
    }

    /// Whether event `number` is the newest of `key`.
    pub(super) fn is_newest(&self, key: &str, number: u64) -> bool {
        self.keys.get(key) == Some(&number)
    }

    /// The newest event whose name has the hash of `name`.
    pub(super) fn find(&self, name: &[u8]) -> Option<u64> {
        self.names.get(&self.hash(name)).copied()
    }

    /// Event `number` leaves, whose key is `key`. A newer event may have the key as well.
    pub(super) fn forget_key(&mut self, key: &str, number: u64) {
        if self.is_newest(key, number) {
            self.keys.remove(key);
            self.size -= cost_of_key(key);
        }
    }

    /// Event `number` leaves, whose name has this hash. A newer event may have the name as well.
    pub(super) fn forget_name(&mut self, hash: u64, number: u64) {
        if self.names.get(&hash) == Some(&number) {
            self.names.remove(&hash);
            self.size -= NAME;
        }
    }

    pub(super) fn hash(&self, name: &[u8]) -> u64 {
        self.names.hasher().hash_one(name)
    }
}

fn cost_of_key(key: &str) -> usize {
    KEY + key.len()
}
