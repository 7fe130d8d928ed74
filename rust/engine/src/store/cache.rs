//! The cache: the index, its budget and eviction, and the pool and settings of its fetches.

use std::sync::Arc as Plain;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::body::CacheBudget;
use super::disk::{Disk, DiskConfig, DiskStats};
use super::eviction::{Eviction, Item};
use super::index::{Added, Index};
use super::object::Object;
use super::purge::{Purge, RequestEpoch};
use super::requests::{RequestStats, Routes};
use crate::cache::{Key, Query, State, Stored, Time};
use crate::error::{Error, Result};
use crate::framing::Framing;
use crate::pool::Pool;
use crate::stream::{Feed, FlowConfig, Meter, Stream, channel};
use crate::sync::{Arc, Mutex, lock};
use penstock_memory::sys::since_1970;

/// The number of items that are removed from the eviction order under one lock: a purge can be of a hundred thousand.
/// Arbitrary.
const EVICTION_BATCH: usize = 64;

/// Shared by all engine threads.
#[derive(Debug)]
pub struct Cache {
    pub(super) index: Index,
    pub(super) budget: Plain<CacheBudget>,
    pub(super) pool: Pool,
    pub(super) disk: Option<Disk>,
    pub(super) requests: Routes,
    /// Objects and parts that were evicted from memory.
    evicted: AtomicU64,
    /// How routes make keys of URLs, each once.
    queries: Mutex<Vec<Query>>,
    eviction: Mutex<Eviction<Key>>,
    flow: FlowConfig,
    meter: Plain<Meter>,
}

/// Statistics of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheStats {
    /// Keys with a stored response or an in-flight fill.
    pub keys: usize,
    /// Complete responses in memory; each variant counts, and each part of a response in parts.
    pub objects: usize,
    /// Responses on disk, also if they are in memory too; each part of a response in parts counts.
    pub disk_objects: usize,
    /// Bytes in use, in whole slabs.
    pub used: usize,
    /// The limit, in bytes.
    pub limit: usize,
    /// Responses and parts that were evicted from memory, since the start.
    pub evicted: u64,
    /// Results of requests, since the start.
    pub requests: RequestStats,
}

impl Cache {
    /// An empty cache of `limit` bytes of `pool` and at most `variants` responses for a key. `flow` and `meter` are
    /// those of its fetches.
    pub fn new(pool: Pool, limit: usize, variants: usize, flow: FlowConfig, meter: Plain<Meter>) -> Self {
        Self::build(pool, limit, variants, None, flow, meter)
    }

    /// A cache that writes evicted responses to disk, and finds those of an earlier process there.
    ///
    /// # Errors
    /// `CACHE_DIRECTORY_FAILED` if the directory cannot be used, `CACHE_DIRECTORY_TAKEN` if another uses it.
    pub fn with_disk(
        pool: Pool,
        limit: usize,
        variants: usize,
        disk: &DiskConfig,
        flow: FlowConfig,
        meter: Plain<Meter>,
    ) -> Result<Plain<Self>> {
        let disk = Disk::new(disk, limit)?;
        let cache = Plain::new(Self::build(pool, limit, variants, Some(disk), flow, meter));
        Self::start_disk(&cache)?;
        Ok(cache)
    }

    fn build(
        pool: Pool,
        limit: usize,
        variants: usize,
        disk: Option<Disk>,
        flow: FlowConfig,
        meter: Plain<Meter>,
    ) -> Self {
        let kept = limit - disk.as_ref().map_or(0, Disk::leaving_limit);
        let eviction = Mutex::new(Eviction::new(kept as u64));
        let index = Index::new(variants);
        let (budget, queries) = (Plain::new(CacheBudget::new(limit, pool.stored())), Mutex::default());
        let requests = Routes::default();
        let evicted = AtomicU64::new(0);
        Self { index, budget, pool, disk, requests, evicted, queries, eviction, flow, meter }
    }

    /// The statistics.
    pub fn stats(&self) -> CacheStats {
        CacheStats {
            keys: self.index.len(),
            objects: lock(&self.eviction).len(),
            disk_objects: self.disk.as_ref().map_or(0, Disk::objects),
            used: self.budget.used(),
            limit: self.budget.limit(),
            evicted: self.evicted.load(Ordering::Relaxed),
            requests: self.requests().into_iter().fold(RequestStats::default(), |mut sum, (_, route)| {
                sum += &route;
                sum
            }),
        }
    }

    /// Whether the disk hangs.
    pub(super) fn is_disk_hanging(&self) -> bool {
        self.disk.as_ref().is_some_and(Disk::is_hanging)
    }

    /// Whether the disk may be read now. If not, responses on disk are treated as missing.
    pub(super) fn may_read(&self) -> bool {
        self.disk.as_ref().is_some_and(Disk::may_read)
    }

    /// The statistics of the disk, if there is one.
    pub fn disk_stats(&self) -> Option<DiskStats> {
        self.disk.as_ref().map(Disk::stats)
    }

    /// A failure of the disk to log; rate-limited.
    pub(crate) fn disk_trouble(&self) -> Option<Error> {
        self.disk.as_ref()?.trouble()
    }

    /// Results of requests by the name of the route.
    pub fn requests(&self) -> Vec<(Box<str>, RequestStats)> {
        self.requests.stats()
    }

    /// From now on a purge by URL also finds the keys that `query` makes.
    pub(super) fn learn(&self, query: &Query) {
        let mut queries = lock(&self.queries);
        if !queries.contains(query) {
            queries.push(query.clone());
        }
    }

    pub(super) fn queries(&self) -> Vec<Query> {
        lock(&self.queries).clone()
    }

    /// The epoch of a request that is sent now.
    pub(super) fn since(&self) -> RequestEpoch {
        RequestEpoch { requested: Self::now(), purge: self.index.last_purge(), own_purge: None }
    }

    /// Stores `object` in place of `old` and of all responses to the same requests, unless it has been purged since it
    /// was requested or a newer response has come. Returns whether it is stored.
    pub(super) fn put(
        &self,
        key: &Key,
        old: Option<&Object>,
        object: &Arc<Object>,
        since: RequestEpoch,
    ) -> bool {
        let gone = self.index.put(key, old, object, since);
        gone.map(|gone| self.drop_objects(gone, Some(object))).is_some()
    }

    /// Adds the parts of `object` to the stored parts of its state, in place of `old` and of all other responses to the
    /// same requests, unless it has been purged since it was requested or a newer response has come. Returns whether it
    /// is stored.
    pub(super) fn add(
        &self,
        key: &Key,
        old: Option<&Object>,
        object: &Arc<Object>,
        since: RequestEpoch,
    ) -> bool {
        self.index.add(key, old, object, since).map(|added| self.drop_replaced(added)).is_some()
    }

    /// Releases the replaced objects, and the parts that are no longer of use.
    pub(super) fn drop_replaced(&self, added: Added) {
        let Added { gone, useless, placed } = added;
        self.drop_objects(gone, Some(&placed));
        for part in &useless {
            lock(&self.eviction).remove(part.item());
            part.stored_file().into_iter().for_each(|stored_file| self.remove_file(stored_file));
        }
    }

    /// Replaces what is known of `old` by `object`, which has the same bytes, wherever these are by now. Parts that
    /// have been evicted meanwhile stay evicted.
    pub(super) fn renew(&self, key: &Key, old: &Object, object: &Arc<Object>, since: RequestEpoch) -> bool {
        let Some((gone, placed)) = self.index.renew(key, old, object, since) else { return false };
        self.drop_objects(gone, Some(&placed));
        self.change_files(&placed);
        true
    }

    /// Updates the expiry of objects that were made stale.
    pub(super) fn renew_until(&self, expired: &[Arc<Object>]) {
        let now = Self::now();
        let items: Vec<_> = expired
            .iter()
            .flat_map(|object| object.items().map(move |item| (item, until(object, now))))
            .collect();
        for some in items.chunks(EVICTION_BATCH) {
            let mut eviction = lock(&self.eviction);
            for (item, until) in some {
                eviction.renew(item, *until);
            }
        }
        for object in expired {
            self.change_files(object);
        }
    }

    /// Purges the matching responses and returns their number: a hard purge removes them; a soft purge makes them
    /// stale, so that they may be served stale as the origin's directives allow. The response to a request that was
    /// sent to the origin before is not stored. Readers of a purged response go on.
    ///
    /// After this returns, no request on any thread is answered with a response that was requested before, except with
    /// one that may be served stale.
    ///
    /// # Errors
    /// `BAD_REQUEST`: it is not an absolute http or https URL, or the tag is empty.
    pub fn purge(&self, what: Purge<'_>, soft: bool) -> Result<usize> {
        let meant = what.meant(&self.queries())?;
        if soft {
            let expired = self.index.expire(&meant, Self::now());
            let count = expired.len();
            self.renew_until(&expired);
            return Ok(count);
        }
        let gone = self.index.purge(&meant);
        let count = gone.len();
        self.drop_objects(gone, None);
        Ok(count)
    }

    /// Removes the matching objects of a key.
    pub(super) fn forget(&self, key: &Key, is_meant: impl Fn(&Arc<Object>) -> bool) {
        let gone = self.index.with(key, |entry| entry.remove(is_meant));
        self.drop_objects(gone, None);
    }

    /// Removes objects from the eviction order and from disk, unless `heir` has their bytes.
    pub(super) fn drop_objects(&self, mut gone: Vec<Arc<Object>>, heir: Option<&Arc<Object>>) {
        gone.retain(|object| !heir.is_some_and(|heir| heir.is_of(object)));
        let items: Vec<_> = gone.iter().flat_map(|object| object.items()).collect();
        for some in items.chunks(EVICTION_BATCH) {
            let mut eviction = lock(&self.eviction);
            for item in some {
                eviction.remove(item);
            }
        }
        for stored_file in gone.iter().flat_map(|object| object.files()) {
            self.remove_file(stored_file);
        }
        // The bytes are released here, outside the locks.
        drop(gone);
    }

    /// Removes the part of `item` from memory. Without a file, it is gone.
    pub(super) fn forget_part(&self, key: &Key, item: &Arc<Item<Key>>) {
        let bytes = self.index.with(key, |entry| entry.drop_from_memory(item));
        lock(&self.eviction).remove(item);
        drop(bytes);
    }

    /// Drops all that is in memory, and gives its memory back to the system. What is on disk stays, and what is being read is
    /// read on. How many bytes are given back.
    pub fn release_memory(&self) -> usize {
        loop {
            let item = lock(&self.eviction).evict(seconds(Self::now()), 0);
            let Some(item) = item else { return self.pool.release_free() };
            self.forget_part(item.value(), &item);
        }
    }

    /// The part of `item` is complete: it is counted and can be evicted from now on, and others are evicted for it. It
    /// may have been removed meanwhile.
    pub(super) fn admit(&self, key: &Key, item: &Arc<Item<Key>>) {
        let now = Self::now();
        let known = self.index.look(key, |entry| {
            let object = entry.objects().iter().find(|object| object.has_item(item))?;
            Some((object.cost(item) as u64, until(object, now)))
        });
        let Some((cost, until)) = known.flatten() else { return };
        if !lock(&self.eviction).insert(item, cost, until, seconds(now)) {
            self.forget_part(key, item);
        }
        self.make_room(0);
    }

    /// Bytes of memory for what stays there.
    pub(super) fn memory_limit(&self) -> usize {
        self.budget.limit() - self.disk.as_ref().map_or(0, Disk::leaving_limit)
    }

    /// Evicts until `wanted` more bytes fit, and returns whether they do. Parts that are queued for the disk have room
    /// of their own until they are written.
    pub(super) fn make_room(&self, wanted: usize) -> bool {
        loop {
            // Reads `used` before `leaving`, so that a part that is released in between is over-counted,
            // never under-counted.
            let used = self.budget.used();
            let leaving = self.disk.as_ref().map_or(0, Disk::leaving);
            let limit = self.memory_limit();
            let used = used.saturating_sub(leaving).saturating_add(wanted);
            if used <= limit {
                return true;
            }
            let item = {
                let mut eviction = lock(&self.eviction);
                let elsewhere = (used as u64).saturating_sub(eviction.bytes());
                eviction.evict(seconds(Self::now()), (limit as u64).saturating_sub(elsewhere))
            };
            let Some(item) = item else { return false };
            // Relaxed: a count.
            self.evicted.fetch_add(1, Ordering::Relaxed);
            self.drop_from_memory(&item);
        }
    }

    /// The time. After a clock was set back nothing becomes younger, see [`Time::since`].
    pub(super) fn now() -> Time {
        Time::from_millis(u64::try_from(since_1970().as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn stream(&self) -> (Feed, Stream) {
        let (feed, stream) = channel(&self.pool, self.flow, &Framing::Raw, &self.meter);
        feed.send_on();
        (feed, stream)
    }
}

/// When a response expires for eviction; `None` if it can be validated.
pub(super) fn until(object: &Object, now: Time) -> Option<u32> {
    if object.stored.validators.any() {
        return None;
    }
    let Stored { freshness, control, .. } = &object.stored;
    let left = if let State::Fresh(left) = freshness.state(now) { left } else { Duration::ZERO };
    Some(seconds(now.plus(left + freshness.beyond(control))))
}

/// The eviction order counts in seconds, which last until 2106.
pub(super) fn seconds(time: Time) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX)
}
