//! A bounded cache with SIEVE eviction: entries that are used again stay, entries that were used once leave
//! first.
//!
//! Entries are in the order in which they were added. A hand moves from the oldest to the newest, and around. It skips
//! entries that were used since its last visit, and evicts the first that was not, or that has expired. So a burst of
//! entries that are used once is evicted soon, and entries that are used again keep their places without being moved.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::time::Instant;

use slab::Slab;

use super::counts::ByRoute;

/// A cryptographic hash that clients cannot compute, so that a map needs no other hash; and the number of its route.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key {
    hash: [u8; Key::LENGTH],
    route: u16,
}

impl Key {
    /// Bytes of the hash.
    pub const LENGTH: usize = 32;

    /// A key of the first route.
    pub fn new(hash: [u8; Self::LENGTH]) -> Self {
        Self { hash, route: 0 }
    }

    /// The hash.
    pub(super) fn hash(&self) -> &[u8; Self::LENGTH] {
        &self.hash
    }

    /// The same key, of another route.
    pub(super) fn on(self, route: u16) -> Self {
        Self { route, ..self }
    }

    /// The number of its route.
    pub(super) fn route(&self) -> usize {
        self.route.into()
    }

    /// Its shard, of `count`. Uses other bytes than the map of a shard.
    pub(super) fn shard(&self, count: usize) -> usize {
        usize::from(u16::from_le_bytes([self.hash[30], self.hash[31]])) % count
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut part = [0; 8];
        part.copy_from_slice(&self.hash[..8]);
        state.write_u64(u64::from_le_bytes(part));
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

/// A hasher that returns the part of the key that it is given.
#[derive(Debug, Default)]
pub(super) struct Itself(u64);

impl Hasher for Itself {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, part: u64) {
        self.0 = part;
    }
}

/// By key, without hashing it again.
pub(super) type ByKey<T> = HashMap<Key, T, BuildHasherDefault<Itself>>;

/// No entry.
const NONE: usize = usize::MAX;

/// Values by key, each with a time of expiry.
#[derive(Debug)]
pub(super) struct Table<T> {
    places: ByKey<usize>,
    by_route: ByRoute<usize>,
    entries: Slab<Entry<T>>,
    newest: usize,
    oldest: usize,
    /// The entry to look at next; `NONE` for the oldest.
    hand: usize,
    most: usize,
}

#[derive(Debug)]
struct Entry<T> {
    key: Key,
    value: T,
    until: Instant,
    /// It was used since the hand was there.
    asked_for: bool,
    newer: usize,
    older: usize,
}

impl<T> Table<T> {
    /// An empty table for `most` entries, at least one.
    pub(super) fn new(most: usize) -> Self {
        let (places, by_route, entries) = (ByKey::default(), ByRoute::default(), Slab::new());
        Self { places, by_route, entries, newest: NONE, oldest: NONE, hand: NONE, most }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether the next entry takes the place of another.
    pub(super) fn is_full(&self) -> bool {
        self.len() >= self.most
    }

    /// Calls `see` with each entry, from the oldest to the newest.
    pub(super) fn each(&self, mut see: impl FnMut(&Key, &T)) {
        let mut place = self.oldest;
        while place != NONE {
            let entry = &self.entries[place];
            see(&entry.key, &entry.value);
            place = entry.newer;
        }
    }

    /// The number of entries of each route, in the order of their numbers.
    pub(super) fn by_route(&self) -> impl Iterator<Item = usize> {
        self.by_route.iter()
    }

    /// The value of `key`, unless it has expired.
    pub(super) fn get(&mut self, key: &Key, now: Instant) -> Option<&T> {
        let place = *self.places.get(key)?;
        if self.entries[place].until <= now {
            self.take(place);
            return None;
        }
        let entry = &mut self.entries[place];
        entry.asked_for = true;
        Some(&entry.value)
    }

    /// Stores `value`, in place of an older one of the key. Returns the key that was evicted before it expired, if there is
    /// one.
    pub(super) fn put(&mut self, key: Key, value: T, until: Instant, now: Instant) -> Option<Key> {
        self.remove(&key);
        let evicted = if self.len() >= self.most { self.evict(now) } else { None };
        let entry = Entry { key, value, until, asked_for: false, newer: NONE, older: self.newest };
        let place = self.entries.insert(entry);
        match self.newest {
            NONE => self.oldest = place,
            newest => self.entries[newest].newer = place,
        }
        self.newest = place;
        self.places.insert(key, place);
        *self.by_route.at(key.route()) += 1;
        evicted
    }

    pub(super) fn remove(&mut self, key: &Key) -> Option<T> {
        let place = *self.places.get(key)?;
        Some(self.take(place))
    }

    /// Removes what `matches`, calls `see` with each key, and returns the number.
    pub(super) fn forget(&mut self, mut matches: impl FnMut(&T) -> bool, mut see: impl FnMut(&Key)) -> usize {
        let matching = self.entries.iter().filter(|(_, entry)| matches(&entry.value));
        let places: Vec<usize> = matching.map(|(place, _)| place).collect();
        for place in &places {
            see(&self.entries[*place].key);
            self.take(*place);
        }
        places.len()
    }

    /// Makes room for one. Returns the evicted key, unless it had expired.
    fn evict(&mut self, now: Instant) -> Option<Key> {
        loop {
            let place = if self.hand == NONE { self.oldest } else { self.hand };
            let entry = &mut self.entries[place];
            let is_over = entry.until <= now;
            if is_over || !std::mem::take(&mut entry.asked_for) {
                let key = entry.key;
                // The hand goes on with its successor.
                self.hand = place;
                self.take(place);
                return Some(key).filter(|_| !is_over);
            }
            self.hand = entry.newer;
        }
    }

    /// Removes an entry from the list.
    fn take(&mut self, place: usize) -> T {
        let Entry { key, value, newer, older, .. } = self.entries.remove(place);
        self.places.remove(&key);
        *self.by_route.at(key.route()) -= 1;
        match newer {
            NONE => self.newest = older,
            newer => self.entries[newer].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.entries[older].newer = newer,
        }
        if self.hand == place {
            self.hand = newer;
        }
        value
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;

    fn key(number: u16) -> Key {
        let mut bytes = [0; Key::LENGTH];
        bytes[..2].copy_from_slice(&number.to_le_bytes());
        Key::new(bytes)
    }

    fn table(most: usize) -> (Table<u16>, Instant, Instant) {
        let now = Instant::now();
        (Table::new(most), now, now + Duration::from_secs(60))
    }

    #[test]
    fn those_who_come_back_stay_and_a_crowd_that_comes_once_leaves() {
        let (mut table, now, until) = table(8);
        for number in 0..4 {
            table.put(key(number), number, until, now);
        }
        for number in 100..1000 {
            for regular in 0..4 {
                assert_eq!(table.get(&key(regular), now), Some(&regular));
            }
            table.put(key(number), number, until, now);
            assert!(table.len() <= 8);
        }
    }

    #[test]
    fn where_all_come_back_there_is_room_for_one_more_all_the_same() {
        let (mut table, now, until) = table(3);
        for number in 0..20 {
            let evicted = table.put(key(number), number, until, now);
            assert_eq!(evicted.is_some(), number >= 3);
            for known in 0..=number {
                table.get(&key(known), now);
            }
            assert_eq!(table.get(&key(number), now), Some(&number));
            assert_eq!(table.len(), 3.min(usize::from(number) + 1));
        }
    }

    #[test]
    fn whose_time_is_over_is_not_there_and_leaves_before_all() {
        let (mut table, now, until) = table(2);
        table.put(key(1), 1, until, now);
        table.put(key(2), 2, now + Duration::from_secs(1), now);
        let later = now + Duration::from_secs(1);
        for known in [1, 2] {
            table.get(&key(known), now);
        }
        assert_eq!(table.put(key(3), 3, until, later), None, "no entry had to leave early");
        assert_eq!(table.get(&key(1), later), Some(&1));
        assert_eq!(table.get(&key(2), later), None);
        assert_eq!(table.get(&key(1), until), None);
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn what_is_forgotten_is_gone_wherever_the_hand_is() {
        let (mut table, now, until) = table(4);
        for round in 0..50_u16 {
            for number in round..round + 6 {
                table.put(key(number), number, until, now);
                table.get(&key(number.saturating_sub(2)), now);
            }
            let before = table.len();
            let forgotten = table.forget(|value| value % 2 == round % 2, |_| ());
            assert_eq!(table.len(), before - forgotten);
            for number in 0..round + 6 {
                let is_there = table.get(&key(number), now).is_some();
                assert!(!is_there || number % 2 != round % 2);
                assert_eq!(table.remove(&key(number)).is_some(), is_there);
            }
        }
        let rest = table.len();
        assert_eq!(table.forget(|_| true, |_| ()), rest);
        assert_eq!((table.len(), table.newest, table.oldest, table.hand), (0, NONE, NONE, NONE));
    }
}
