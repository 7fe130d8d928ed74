//! What is stored, by key. A shard is locked for as long as it takes to look or to change an entry, and never across I/O.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use super::body::Follower;
use super::eviction::Item;
use super::fill::Fill;
use super::object::Object;
use crate::cache::{Key, Stored, Time};
use crate::error::Error;
use crate::sync::{Arc, Mutex, lock};

/// Several threads look at once; with as many shards two seldom meet. Arbitrary.
const SHARDS: usize = 16;
/// Keys of a shard that are remembered for what is not stored there. Whoever asks for ever new ones makes the cache
/// forget, and nothing worse. Arbitrary.
const REMEMBERED: usize = 1024;

/// What all who waited for a fill are told.
#[derive(Debug, Clone)]
pub(super) enum Settled {
    /// The index knows: look again. What comes is held by the follower until those who were told follow it themselves.
    Look(#[expect(dead_code, reason = "held, and not read")] Option<Arc<Follower>>),
    /// The origin fails, and this may stand in for it.
    Stale(Arc<Object>),
    /// The origin has failed.
    Failed(Error),
}

/// What is known under one key.
#[derive(Debug, Default)]
pub(super) struct Entry {
    /// Responses, each for other requests.
    pub(super) objects: Vec<Arc<Object>>,
    /// What is being fetched, until its head is there.
    pub(super) fill: Option<Arc<Fill<Settled>>>,
}

/// All entries.
#[derive(Debug)]
pub(super) struct Index {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Shard {
    entries: HashMap<Key, Entry>,
    /// Hashes of keys, and until when nobody waits there for anybody, because the answers are not shared; or nobody with
    /// credentials.
    apart: HashMap<(u64, bool), Time>,
    /// Hashes of keys, and when what was stored there was made invalid.
    voided: HashMap<u64, Time>,
    /// The same for all keys whose hash has been forgotten.
    all_voided: Option<Time>,
}

/// What is remembered of a key though nothing is stored there.
pub(super) struct Memory<'a> {
    hash: u64,
    apart: &'a HashMap<(u64, bool), Time>,
}

impl Memory<'_> {
    /// Whether a request does not wait for others. Two keys of one hash only do not wait, at worst.
    pub(super) fn is_apart(&self, credentials: bool, now: Time) -> bool {
        let kept = |credentials| self.apart.get(&(self.hash, credentials)).is_some_and(|end| *end > now);
        kept(false) || (credentials && kept(true))
    }
}

impl Index {
    pub(super) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), hasher: RandomState::new() }
    }

    /// Looks at, and changes, the entry of a key. One with nothing in it afterwards is forgotten.
    pub(super) fn with<T>(&self, key: &Key, work: impl FnOnce(&mut Entry) -> T) -> T {
        self.with_memory(key, |entry, _| work(entry))
    }

    /// As [`Index::with`], where it may matter what is remembered of the key.
    pub(super) fn with_memory<T>(&self, key: &Key, work: impl FnOnce(&mut Entry, &Memory<'_>) -> T) -> T {
        let hash = self.hash(key);
        let Shard { entries, apart, .. } = &mut *lock(self.shard(hash));
        let memory = Memory { hash, apart };
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

    /// What a key is remembered by where it is not kept.
    pub(super) fn hash(&self, key: &Key) -> u64 {
        self.hasher.hash_one(key)
    }

    /// From now on and until then, nobody waits there for what another fetches; or nobody with credentials, where it is
    /// those that keep the answers from being shared.
    pub(super) fn keep_apart(&self, key: &Key, credentials: bool, until: Time, now: Time) {
        let hash = self.hash(key);
        let apart = &mut lock(self.shard(hash)).apart;
        if apart.len() >= REMEMBERED {
            apart.retain(|_, end| *end > now);
        }
        if apart.len() >= REMEMBERED {
            apart.clear();
        }
        apart.insert((hash, credentials), until);
    }

    /// What was asked for up to now is not stored there any more.
    pub(super) fn void(&self, key: &Key, now: Time) {
        let hash = self.hash(key);
        let mut shard = lock(self.shard(hash));
        if shard.voided.len() >= REMEMBERED {
            shard.voided.clear();
            shard.all_voided = Some(now);
        }
        shard.voided.insert(hash, now);
    }

    /// Whether what was asked for at `requested` has been made invalid since.
    pub(super) fn is_void(&self, key: &Key, requested: Time) -> bool {
        let hash = self.hash(key);
        let shard = lock(self.shard(hash));
        shard.voided.get(&hash).max(shard.all_voided.as_ref()).is_some_and(|when| *when >= requested)
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        // The remainder fits: it is less than the number of shards.
        &self.shards[usize::try_from(hash % self.shards.len() as u64).unwrap_or_default()]
    }

    /// Removes all that is stored, and gives it. What is being fetched goes on.
    pub(super) fn clear(&self) -> Vec<Arc<Object>> {
        let mut gone = Vec::new();
        for shard in &self.shards {
            lock(shard).entries.retain(|_, entry| {
                gone.append(&mut entry.objects);
                !entry.is_empty()
            });
        }
        gone
    }

    /// All that is stored, with its keys.
    pub(super) fn all(&self) -> Vec<(Key, Arc<Object>)> {
        let mut all = Vec::new();
        for shard in &self.shards {
            for (key, entry) in &lock(shard).entries {
                all.extend(entry.objects.iter().map(|object| (key.clone(), Arc::clone(object))));
            }
        }
        all
    }

    /// How many keys are known.
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).entries.len()).sum()
    }
}

impl Entry {
    fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.fill.is_none()
    }

    /// What is stored, without the bodies.
    pub(super) fn candidates(&self) -> Vec<&Stored> {
        self.objects.iter().map(|object| &object.stored).collect()
    }

    /// Puts `object` in the place of `old`, and of whatever answered the same requests; and gives what was there.
    pub(super) fn replace(&mut self, old: Option<&Arc<Object>>, object: Arc<Object>) -> Vec<Arc<Object>> {
        let gone = self.remove(|other| {
            old.is_some_and(|old| Arc::ptr_eq(other, old))
                || other.stored.selection == object.stored.selection
        });
        self.objects.push(object);
        gone
    }

    /// Puts `new` in the place of `old`, which is the same response; false if it is not there any more.
    pub(super) fn exchange(&mut self, old: &Arc<Object>, new: &Arc<Object>) -> bool {
        let place = self.objects.iter_mut().find(|other| Arc::ptr_eq(other, old));
        let is_there = place.is_some();
        if let Some(place) = place {
            *place = Arc::clone(new);
        }
        is_there
    }

    /// What has that item, however it has been confirmed or moved since.
    pub(super) fn with_item(&self, item: &Arc<Item<Key>>) -> Option<&Arc<Object>> {
        self.objects.iter().find(|object| Arc::ptr_eq(&object.item, item))
    }

    /// Removes what is meant, and gives it.
    pub(super) fn remove(&mut self, is_meant: impl Fn(&Arc<Object>) -> bool) -> Vec<Arc<Object>> {
        let (gone, kept) = std::mem::take(&mut self.objects).into_iter().partition(is_meant);
        self.objects = kept;
        gone
    }
}
