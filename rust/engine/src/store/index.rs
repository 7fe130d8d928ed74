//! What is stored, by key. A shard is locked for as long as it takes to look or to change an entry, and never across I/O.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use super::entry::Entry;
use super::object::{Object, Part};
use super::purge::{PurgeLog, PurgePattern, RequestEpoch};
use crate::cache::{Key, Stored, Time};
use crate::sync::{Arc, Mutex, lock};

/// So many that with 100,000 responses a purge that looks at all of them keeps no thread waiting for more than a hundred.
const SHARDS: usize = 1024;
/// Keys of a shard that are remembered for what is not stored there. Whoever asks for ever new ones makes the cache
/// forget, and nothing worse. Arbitrary.
const MAX_NOTES_OF_SHARD: usize = 64;

/// All entries.
#[derive(Debug)]
pub(super) struct Index {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
    /// The most variants of one key.
    most_variants: usize,
    /// Purges so far.
    purges: AtomicU64,
}

#[derive(Debug, Default)]
struct Shard {
    entries: HashMap<Key, Entry>,
    /// Hashes of keys, what has turned out there, and until when that is believed.
    notes: HashMap<(u64, Note), Time>,
    purges: PurgeLog,
}

/// What became of parts that were added.
pub(super) struct Added {
    /// What was there in their place.
    pub(super) gone: Vec<Arc<Object>>,
    /// Parts that are there twice, or lie within others.
    pub(super) useless: Vec<Part>,
    /// What has them.
    pub(super) placed: Arc<Object>,
}

/// What has turned out of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Note {
    /// Nobody waits there for anybody, because the answers are not shared.
    HitForMiss,
    /// Nobody with credentials does.
    HitForMissAuthorized,
    /// It cannot be had in slices, or is not stored: the origin is asked what its client asks for.
    Unsliced,
    /// It is too large to be stored in one piece, and may be had in slices.
    Large,
    /// The origin does not follow ranges there.
    Unranged,
}

/// What is remembered of a key though nothing is stored there. Two keys of one hash share it, at worst.
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
    /// `most_variants`: of one key. The oldest leaves for one more.
    pub(super) fn new(most_variants: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, hasher: RandomState::new(), most_variants, purges: AtomicU64::new(0) }
    }

    /// Looks at, and changes, the entry of a key. One with nothing in it afterwards is forgotten.
    pub(super) fn with<T>(&self, key: &Key, work: impl FnOnce(&mut Entry) -> T) -> T {
        self.with_notes(key, |entry, _| work(entry))
    }

    /// As [`Index::with`], where it may matter what is remembered of the key.
    pub(super) fn with_notes<T>(&self, key: &Key, work: impl FnOnce(&mut Entry, &KeyNotes<'_>) -> T) -> T {
        let hash = self.hash(key);
        let Shard { entries, notes, .. } = &mut *lock(self.shard(hash));
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

    /// Looks at the entry of a key, if there is one.
    pub(super) fn look<T>(&self, key: &Key, work: impl FnOnce(&Entry) -> T) -> Option<T> {
        lock(self.shard(self.hash(key))).entries.get(key).map(work)
    }

    /// What a key is remembered by where it is not kept.
    pub(super) fn hash(&self, key: &Key) -> u64 {
        self.hasher.hash_one(key)
    }

    /// Whether this is known of a key.
    pub(super) fn has_note(&self, key: &Key, note: Note, now: Time) -> bool {
        let hash = self.hash(key);
        lock(self.shard(hash)).notes.get(&(hash, note)).is_some_and(|end| *end > now)
    }

    /// From now on and until then, this is known of a key.
    pub(super) fn note(&self, key: &Key, note: Note, until: Time, now: Time) {
        let hash = self.hash(key);
        let notes = &mut lock(self.shard(hash)).notes;
        if notes.len() >= MAX_NOTES_OF_SHARD {
            notes.retain(|_, end| *end > now);
        }
        if notes.len() >= MAX_NOTES_OF_SHARD {
            notes.clear();
        }
        notes.insert((hash, note), until);
    }

    /// The number of the last purge. What is asked of an origin after this came is newer than what that purge was of.
    pub(super) fn last_purge(&self) -> u64 {
        // Acquire: with the Release of `next_purge`. The origin is not asked before this is read.
        self.purges.load(Ordering::Acquire)
    }

    fn next_purge(&self) -> u64 {
        // Release: with the Acquire of `last_purge`. Who purges has changed the origin before.
        self.purges.fetch_add(1, Ordering::Release) + 1
    }

    /// Puts `object` in the place of `old`, and of whatever answered the same requests, and gives what was there;
    /// unless it has been purged since it was asked for, or something newer has come.
    pub(super) fn put(
        &self,
        key: &Key,
        old: Option<&Object>,
        object: &Arc<Object>,
        since: RequestEpoch,
    ) -> Option<Vec<Arc<Object>>> {
        // Under one lock, as a purge: else one that comes between would miss it.
        let hash = self.hash(key);
        let Shard { entries, purges, .. } = &mut *lock(self.shard(hash));
        if purges.has(hash, key, object, since) {
            return None;
        }
        if entries.get(key).is_some_and(|entry| entry.has_newer(object, since.requested)) {
            return None;
        }
        Some(entries.entry(key.clone()).or_default().replace(old, object, self.most_variants))
    }

    /// Adds the parts of `object` to what is there of the same state, or puts it as [`Index::put`] does where there is none:
    /// parts of two states never stand beside each other.
    pub(super) fn add(
        &self,
        key: &Key,
        old: Option<&Object>,
        object: &Arc<Object>,
        since: RequestEpoch,
    ) -> Option<Added> {
        let hash = self.hash(key);
        let Shard { entries, purges, .. } = &mut *lock(self.shard(hash));
        if purges.has(hash, key, object, since) {
            return None;
        }
        let is_late = |entry: &Entry| {
            // Of the same state nothing is older: its parts stand beside each other.
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
            // It has all that there is.
            Some(current) if current.is_in_memory() => {
                return Some(Added { gone: Vec::new(), useless, placed: Arc::clone(current) });
            }
            // As it has, on a disk that did not answer.
            Some(_) | None => Arc::clone(object),
        };
        let gone = entry.replace(old, &placed, self.most_variants);
        Some(Added { gone, useless, placed })
    }

    /// Puts `object`, which has come a while ago, where nothing that came later answers the same requests; or adds its parts
    /// to what is there of the same state. Unless it has been purged since it was requested.
    pub(super) fn offer(&self, key: &Key, object: &Arc<Object>, since: RequestEpoch) -> Option<Added> {
        let hash = self.hash(key);
        let Shard { entries, purges, .. } = &mut *lock(self.shard(hash));
        if purges.has(hash, key, object, since) {
            return None;
        }
        let there = entries.get_mut(key).map_or([].as_mut_slice(), |entry| entry.objects_mut());
        if let Some(current) =
            there.iter_mut().find(|other| object.is_in_parts() && other.is_same_state(object))
        {
            // What is whole has all that there is.
            let useless = current.is_in_parts().then(|| Arc::make_mut(current).join(object))?;
            return Some(Added { gone: Vec::new(), useless, placed: Arc::clone(current) });
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

    /// The same as [`Index::put`] where `object` has the bytes of `old`, and does not stand for them if those have left
    /// meanwhile. Where they have moved, it does too: what was put is given as well.
    pub(super) fn renew(
        &self,
        key: &Key,
        old: &Object,
        object: &Arc<Object>,
        since: RequestEpoch,
    ) -> Option<(Vec<Arc<Object>>, Arc<Object>)> {
        let hash = self.hash(key);
        let Shard { entries, purges, .. } = &mut *lock(self.shard(hash));
        let entry = entries.get_mut(key)?;
        if purges.has(hash, key, object, since) || entry.has_newer(object, since.requested) {
            return None;
        }
        let current = entry.with_item(&old.item)?;
        let placed =
            if object.is_of(current) { Arc::new(object.with_places_of(current)) } else { Arc::clone(object) };
        Some((entry.replace(Some(old), &placed, self.most_variants), placed))
    }

    /// Whether `object` has been purged since it was asked for.
    pub(super) fn is_void(&self, key: &Key, object: &Object, since: RequestEpoch) -> bool {
        let hash = self.hash(key);
        lock(self.shard(hash)).purges.has(hash, key, object, since)
    }

    /// Removes all that is under a key because `object` has come in its place, and gives it; and from when on that is newer,
    /// unless it has been purged itself since it was requested.
    pub(super) fn supersede(
        &self,
        key: &Key,
        object: &Object,
        since: RequestEpoch,
    ) -> (Vec<Arc<Object>>, Option<RequestEpoch>) {
        let hash = self.hash(key);
        let Shard { entries, purges, .. } = &mut *lock(self.shard(hash));
        let is_void = purges.has(hash, key, object, since);
        let own = self.next_purge();
        purges.add_key(hash, own);
        let gone = entries.remove(key).map(Entry::into_objects).unwrap_or_default();
        (gone, (!is_void).then_some(RequestEpoch { own_purge: Some(own), ..since }))
    }

    /// Removes all that is meant, and gives it.
    pub(super) fn purge(&self, meant: &PurgePattern) -> Vec<Arc<Object>> {
        let mut gone = Vec::new();
        self.change(meant, |key, entry| {
            gone.append(&mut entry.remove(|object| meant.has(key, object)));
        });
        gone
    }

    /// Makes all that is meant stale, and gives it.
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

    /// Has `work` done at each entry that something is meant of; what is being fetched there is waited for no longer,
    /// and not stored.
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
                let hash = self.hash(key);
                let Shard { entries, purges, .. } = &mut *lock(self.shard(hash));
                // Under the lock: of two purges of a key the one that is noted last has the higher number.
                purges.add_key(hash, self.next_purge());
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

    /// Shows each key and what is stored there.
    pub(super) fn each(&self, mut look: impl FnMut(&Key, &[Arc<Object>])) {
        for shard in &self.shards {
            for (key, entry) in &lock(shard).entries {
                look(key, entry.objects());
            }
        }
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        // The remainder fits: it is less than the number of shards.
        &self.shards[usize::try_from(hash % self.shards.len() as u64).unwrap_or_default()]
    }

    /// How many keys are known.
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).entries.len()).sum()
    }
}
