//! The fields that the other side has sent, and may name by their numbers (RFC 7541, section 2.3.2).

use std::collections::VecDeque;

use super::names::FIELDS;

/// What an entry counts for besides its bytes (RFC 7541, section 4.1).
const OVERHEAD: usize = 32;

/// The newest field is the first.
#[derive(Debug)]
pub(super) struct Table {
    entries: VecDeque<Entry>,
    size: usize,
    limit: usize,
}

#[derive(Debug)]
struct Entry {
    /// The name, and the value after it.
    text: Box<[u8]>,
    name: usize,
}

impl Entry {
    fn size(&self) -> usize {
        self.text.len() + OVERHEAD
    }
}

impl Table {
    /// For entries of `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self { entries: VecDeque::new(), size: 0, limit }
    }

    /// The field of a number: one that both sides know from the start, or one that was sent.
    pub(super) fn get(&self, number: usize) -> Option<(&[u8], &[u8])> {
        let place = number.checked_sub(1)?;
        if let Some((name, value)) = FIELDS.get(place) {
            return Some((name.as_bytes(), value.as_bytes()));
        }
        self.entries.get(place - FIELDS.len()).map(|entry| entry.text.split_at(entry.name))
    }

    /// Adds a field. One that is larger than the table empties it (section 4.4).
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8]) {
        let entry = Entry { text: [name, value].concat().into(), name: name.len() };
        self.evict(self.limit.saturating_sub(entry.size()));
        if entry.size() <= self.limit {
            self.size += entry.size();
            self.entries.push_front(entry);
        }
    }

    /// Changes its size (section 4.3).
    pub(super) fn resize(&mut self, limit: usize) {
        self.limit = limit;
        self.evict(limit);
    }

    fn evict(&mut self, size: usize) {
        while self.size > size {
            let Some(entry) = self.entries.pop_back() else { return };
            self.size -= entry.size();
        }
    }

    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.size
    }
}
