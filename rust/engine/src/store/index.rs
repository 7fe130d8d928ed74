//! All entries by key. A shard is locked while an entry is looked up or changed, and never across I/O.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::atomic::{AtomicU64, Ordering};

use super::entry::Entry;
use super::object::{Object, Part};
use super::purge::{PurgeLog, PurgePattern, RequestEpoch};
use crate::cache::{Key, Stored, Time};
use crate::origin::KnownHash;
use crate::sync::{Arc, Mutex, lock};

/// With this number of shards, a purge that looks at 100,000 responses keeps no thread waiting for more than a hundred
/// of them.
const SHARDS: usize = 1024;
/// The limit of notes of a shard. A client that asks for ever new keys makes the cache forget notes, and nothing worse.
/// Arbitrary.
const MAX_NOTES_OF_SHARD: usize = 64;

/// All entries.
#[derive(Debug)]
pub(super) struct Index {
    shards: Box<[Mutex<Shard>]>,
    /// The limit of variants of a key.
    most_variants: usize,
    /// The number of purges so far.
    purges: AtomicU64,
}

#[derive(Debug, Default)]
struct Shard {
    entries: HashMap<Key, Entry, BuildHasherDefault<KnownHash>>,
    /// Notes by the hash of the key, and until when they hold.
    notes: HashMap<(u64, Note), Time>,
    purges: PurgeLog,
}

/// The result of adding parts.
pub(super) struct Added {
    /// The replaced objects.
    pub(super) gone: Vec<Arc<Object>>,
    /// Parts that are stored twice, or lie within others.
    pub(super) useless: Vec<Part>,
    /// The object that has the parts.
    pub(super) placed: Arc<Object>,
}

/// What an answer has shown about a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Note {
    /// Hit-for-miss: requests do not wait for each other, because the answers are not shared.
    HitForMiss,
    /// The same, for requests with credentials.
    HitForMissAuthorized,
    /// It cannot be fetched in slices, or is not stored: the origin is asked for what the client wants.
    Unsliced,
    /// It is too large to be stored in one piece, and may be fetched in slices.
    Large,
    /// The origin ignores ranges.
    Unranged,
}

/// The notes about a key. Two keys with one hash share them.
pub(super) struct KeyNotes<'a> {
    hash: u64,
    notes: &'a HashMap<(u64, Note), Time>,
}

impl KeyNotes<'_> {
    /// Whether a request does not wait for others.
    pub(super) fn is_hit_for_miss(&self, credentials: bool, now: Time) -> bool {
        self.has(Note::HitForMiss, now) || (credentials && self.has(Note::HitForMissAuthorized, now))
    }

    pub(super) fn has(&self, note: Note, now: Time) -> bool {
        self.notes.get(&(self.hash, note)).is_some_and(|end| *end > now)
    }
}

impl Index {
    /// An empty index. `most_variants`: the limit for a key; the oldest is dropped for a new one.
    pub(super) fn new(most_variants: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, most_variants, purges: AtomicU64::new(0) }
    }

    /// Looks up and changes the entry of a key. An empty entry is removed afterwards.
    pub(super) fn with<T>(&self, key: &Key, work: impl FnOnce(&mut Entry) -> T) -> T {
        self.with_notes(key, |entry, _| work(entry))
    }

    /// As [`Index::with`], with the notes about the key.
    pub(super) fn with_notes<T>(&self, key: &Key, work: impl FnOnce(&mut Entry, &KeyNotes<'_>) -> T) -> T {
        let hash = key.known_hash();
        let Shard { entries, notes, .. } = &mut *lock(self.shard(key));
        let memory = KeyNotes { hash, notes };
        if let Some(entry) = entries.get_mut(key) {
            let found = work(entry, &memory);
            if entry.is_empty() {
                entries.remove(key);
            }
            return found;
        }
        let mut entry = Entry::default();
        let found = work(&mut entry, &memory);
        if !entry.is_empty() {
            entries.insert(key.clone(), entry);
        }
        found
    }

    /// Looks up the entry of a key, if there is one.
    pub(super) fn look<T>(&self, key: &Key, work: impl FnOnce(&Entry) -> T) -> Option<T> {
        lock(self.shard(key)).entries.get(key).map(work)
    }

    /// Whether there is this note about a key.
    pub(super) fn has_note(&self, key: &Key, note: Note, now: Time) -> bool {
        let hash = key.known_hash();
        lock(self.shard(key)).notes.get(&(hash, note)).is_some_and(|end| *end > now)
    }

    /// Adds a note about a key.
    pub(super) fn note(&self, key: &Key, note: Note, until: Time, now: Time) {
        let hash = key.known_hash();
        let notes = &mut lock(self.shard(key)).notes;
        if notes.len() >= MAX_NOTES_OF_SHARD {
            notes.retain(|_, end| *end > now);
        }
        if notes.len() >= MAX_NOTES_OF_SHARD {
            notes.clear();
        }
        notes.insert((hash, note), until);
    }

    /// The number of the last purge. A response that is requested after this call is newer than that purge.
    pub(super) fn last_purge(&self) -> u64 {
        // Acquire: with the Release of `next_purge`. The origin is asked after this read.
        self.purges.load(Ordering::Acquire)
    }

    fn next_purge(&self) -> u64 {
        // Release: with the Acquire of `last_purge`. The application has changed the origin before it purges.
        self.purges.fetch_add(1, Ordering::Release) + 1
    }

    /// Stores `object` in place of `old` and of all responses to the same requests, and returns the replaced objects;
    /// `None` if it has been purged since it was requested or a newer response has come.
    pub(super) fn put(
        &self,
        key: &Key,
        old: Option<&Object>,
        object: &Arc<Object>,
        since: RequestEpoch,
    ) -> Option<Vec<Arc<Object>>> {
        // Under one lock, as a purge: a purge in between would miss it.
        let Shard { entries, purges, .. } = &mut *lock(self.shard(key));
        if purges.has(key, object, since) {
            return None;
        }
        if entries.get(key).is_some_and(|entry| entry.has_newer(object, since.requested)) {
            return None;
        }
        Some(entries.entry(key.clone()).or_default().replace(old, object, self.most_variants))
    }

    /// Adds the parts of `object` to the stored parts of its state, or stores it as [`Index::put`] does if nothing of
    /// that state is stored: parts of two states never stand beside each other.
    pub(super) fn add(
        &self,
        key: &Key,
        old: Option<&Object>,
        object: &Arc<Object>,
        since: RequestEpoch,
    ) -> Option<Added> {
        let Shard { entries, purges, .. } = &mut *lock(self.shard(key));
        if purges.has(key, object, since) {
            return None;
        }
        let is_late = |entry: &Entry| {
            // Parts of the same state stand beside each other, whichever came first.
            entry.same_state(object).is_none() && entry.has_newer(object, since.requested)
        };
        if entries.get(key).is_some_and(is_late) {
            return None;
        }
        let entry = entries.entry(key.clone()).or_default();
        let mut useless = Vec::new();
        let placed = match entry.objects_mut().iter_mut().find(|other| other.is_same_state(object)) {
            Some(current) if current.is_in_parts() => {
                useless = Arc::make_mut(current).join(object);
                Arc::clone(current)
            }
            // It has all bytes.
            Some(current) if current.is_in_memory() => {
                return Some(Added { gone: Vec::new(), useless, placed: Arc::clone(current) });
            }
            // It has too, but on a disk that did not answer.
            Some(_) | None => Arc::clone(object),
        };
        let gone = entry.replace(old, &placed, self.most_variants);
        Some(Added { gone, useless, placed })
    }

    /// Stores `object`, which has come a while ago, for the requests that no later response answers; or adds its parts
    /// to the stored parts of its state. `None` if it has been purged since it was requested.
    pub(super) fn offer(&self, key: &Key, object: &Arc<Object>, since: RequestEpoch) -> Option<Added> {
        let Shard { entries, purges, .. } = &mut *lock(self.shard(key));
        if purges.has(key, object, since) {
            return None;
        }
        let there = entries.get_mut(key).map_or([].as_mut_slice(), |entry| entry.objects_mut());
        if let Some(current) =
            there.iter_mut().find(|other| object.is_in_parts() && other.is_same_state(object))
        {
            // A whole response has all bytes.
            let useless = current.is_in_parts().then(|| Arc::make_mut(current).join(object))?;
            return Some(Added { gone: Vec::new(), useless, placed: Arc::clone(current) });
        }
        if let Some(current) = there.iter_mut().find(|other| other.lacks_file_of(object)) {
            Arc::make_mut(current).take_file_of(object);
            return Some(Added { gone: Vec::new(), useless: Vec::new(), placed: Arc::clone(current) });
        }
        let Stored { selection, freshness, .. } = &object.stored;
        let mut left = selection.clone();
        for other in entries.get(key).map_or([].as_slice(), Entry::objects) {
            if other.stored.freshness.received() >= freshness.received() {
                left = left.without(&other.stored.selection)?;
            }
        }
        let placed = if left == *selection { Arc::clone(object) } else { object.selected_by(left) };
        let gone = entries.entry(key.clone()).or_default().replace(None, &placed, self.most_variants);
        Some(Added { gone, useless: Vec::new(), placed })
    }

    /// As [`Index::put`] for an `object` with the bytes of `old`; `None` also if those have been removed meanwhile. If
    /// they have moved, the stored object has their places; it is returned as well.
    pub(super) fn renew(
        &self,
        key: &Key,
        old: &Object,
        object: &Arc<Object>,
        since: RequestEpoch,
    ) -> Option<(Vec<Arc<Object>>, Arc<Object>)> {
        let Shard { entries, purges, .. } = &mut *lock(self.shard(key));
        let entry = entries.get_mut(key)?;
        if purges.has(key, object, since) || entry.has_newer(object, since.requested) {
            return None;
        }
        let current = entry.with_item(&old.item)?;
        let placed =
            if object.is_of(current) { Arc::new(object.with_places_of(current)) } else { Arc::clone(object) };
        Some((entry.replace(Some(old), &placed, self.most_variants), placed))
    }

    /// Whether `object` has been purged since it was requested.
    pub(super) fn is_void(&self, key: &Key, object: &Object, since: RequestEpoch) -> bool {
        lock(self.shard(key)).purges.has(key, object, since)
    }

    /// Removes all responses of a key because `object` replaces them, and returns them with the epoch from which
    /// `object` is newer than that; `None` if it has been purged itself since it was requested.
    pub(super) fn supersede(
        &self,
        key: &Key,
        object: &Object,
        since: RequestEpoch,
    ) -> (Vec<Arc<Object>>, Option<RequestEpoch>) {
        let Shard { entries, purges, .. } = &mut *lock(self.shard(key));
        let is_void = purges.has(key, object, since);
        let own = self.next_purge();
        purges.add_key(key, own);
        let gone = entries.remove(key).map(Entry::into_objects).unwrap_or_default();
        (gone, (!is_void).then_some(RequestEpoch { own_purge: Some(own), ..since }))
    }

    /// Removes the matching objects, and returns them.
    pub(super) fn purge(&self, meant: &PurgePattern) -> Vec<Arc<Object>> {
        let mut gone = Vec::new();
        self.change(meant, |key, entry| {
            gone.append(&mut entry.remove(|object| meant.has(key, object)));
        });
        gone
    }

    /// Makes the matching objects stale, and returns them.
    pub(super) fn expire(&self, meant: &PurgePattern, now: Time) -> Vec<Arc<Object>> {
        let mut expired = Vec::new();
        self.change(meant, |key, entry| {
            for object in entry.objects_mut().iter_mut().filter(|object| meant.has(key, object)) {
                *object = Arc::new(object.expired(now));
                expired.push(Arc::clone(object));
            }
        });
        expired
    }

    /// Applies `work` to each entry with a match. In-flight fills there are no longer joined, and not stored.
    fn change(&self, meant: &PurgePattern, mut work: impl FnMut(&Key, &mut Entry)) {
        let mut visit = |key: &Key, entry: &mut Entry| {
            if meant.has_key(key) || entry.objects().iter().any(|object| meant.has(key, object)) {
                entry.release_all();
                work(key, entry);
            }
            !entry.is_empty()
        };
        if let PurgePattern::Keys(keys) = meant {
            for key in keys {
                let Shard { entries, purges, .. } = &mut *lock(self.shard(key));
                // Under the lock: of two purges of a key, the one that is noted last has the higher number.
                purges.add_key(key, self.next_purge());
                if entries.get_mut(key).is_some_and(|entry| !visit(key, entry)) {
                    entries.remove(key);
                }
            }
            return;
        }
        let (remembered, number) = (Arc::new(meant.clone()), self.next_purge());
        for shard in &self.shards {
            let Shard { entries, purges, .. } = &mut *lock(shard);
            purges.add(&remembered, number);
            entries.retain(&mut visit);
        }
    }

    /// Calls `look` for each key with its stored responses.
    pub(super) fn each(&self, mut look: impl FnMut(&Key, &[Arc<Object>])) {
        for shard in &self.shards {
            for (key, entry) in &lock(shard).entries {
                look(key, entry.objects());
            }
        }
    }

    fn shard(&self, key: &Key) -> &Mutex<Shard> {
        // By bits in the middle: the map of a shard goes by those at either end. The remainder fits.
        &self.shards[usize::try_from((key.known_hash() >> 32) % self.shards.len() as u64).unwrap_or_default()]
    }

    /// The number of keys.
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).entries.len()).sum()
    }
}
