//! A cache in operation: what is stored, what it may cost, and what is needed to fetch more.

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

/// So many are taken out of the order of leaving before others get at it: a purge can be of a hundred thousand. Arbitrary.
const EVICTION_BATCH: usize = 64;

/// Shared by all engine threads.
#[derive(Debug)]
pub struct Cache {
    pub(super) index: Index,
    pub(super) budget: Plain<CacheBudget>,
    pub(super) pool: Pool,
    pub(super) disk: Option<Disk>,
    pub(super) requests: Routes,
    /// What left memory because room was needed.
    evicted: AtomicU64,
    /// The ways in which routes make keys of URLs, each once.
    queries: Mutex<Vec<Query>>,
    eviction: Mutex<Eviction<Key>>,
    flow: FlowConfig,
    meter: Plain<Meter>,
}

/// How full a cache is, and how requests went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheStats {
    /// Keys under which something is stored or being fetched.
    pub keys: usize,
    /// Responses in memory that have come whole, variants of one key each for itself; of those in parts, the parts.
    pub objects: usize,
    /// Responses on disk; of those in parts, the parts. What is in memory as well counts there, too.
    pub disk_objects: usize,
    /// Bytes that are taken, whole slabs.
    pub used: usize,
    /// Bytes that may be.
    pub limit: usize,
    /// Responses, and parts, that left memory since it was made because room was needed.
    pub evicted: u64,
    /// Since it was made.
    pub requests: RequestStats,
}

impl Cache {
    /// An empty one, for `limit` bytes of `pool` and so many `variants` of one key. `flow` and `meter` are those of the
    /// fetches it makes.
    pub fn new(pool: Pool, limit: usize, variants: usize, flow: FlowConfig, meter: Plain<Meter>) -> Self {
        Self::build(pool, limit, variants, None, flow, meter)
    }

    /// One that keeps on disk what leaves its memory, and has what is there from before.
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
        let (budget, queries) = (Plain::new(CacheBudget::new(limit)), Mutex::default());
        let requests = Routes::default();
        let evicted = AtomicU64::new(0);
        Self { index, budget, pool, disk, requests, evicted, queries, eviction, flow, meter }
    }

    /// How full it is, and how requests went.
    pub fn stats(&self) -> CacheStats {
        CacheStats {
            keys: self.index.len(),
            objects: lock(&self.eviction).len(),
            disk_objects: self.disk.as_ref().map_or(0, Disk::objects),
            used: self.budget.used(),
            limit: self.budget.limit(),
            evicted: self.evicted.load(Ordering::Relaxed),
            requests: self.requests().into_iter().fold(RequestStats::default(), |mut sum, (_, route)| {
                sum += route;
                sum
            }),
        }
    }

    /// Whether there is a disk that hangs.
    pub(super) fn is_disk_hanging(&self) -> bool {
        self.disk.as_ref().is_some_and(Disk::is_hanging)
    }

    /// Whether what is on disk may be read now, and what is there is not to be passed over as if it were not.
    pub(super) fn may_read(&self) -> bool {
        self.disk.as_ref().is_some_and(Disk::may_read)
    }

    /// How full the disk is, if there is one.
    pub fn disk_stats(&self) -> Option<DiskStats> {
        self.disk.as_ref().map(Disk::stats)
    }

    /// How the disk has failed, for the operator: not more often than is worth a line in a log.
    pub(crate) fn disk_trouble(&self) -> Option<Error> {
        self.disk.as_ref()?.trouble()
    }

    /// How requests went, by the name of the route.
    pub fn requests(&self) -> Vec<(Box<str>, RequestStats)> {
        self.requests.stats()
    }

    /// From now on a purge by URL looks where `query` has put it, too.
    pub(super) fn learn(&self, query: &Query) {
        let mut queries = lock(&self.queries);
        if !queries.contains(query) {
            queries.push(query.clone());
        }
    }

    pub(super) fn queries(&self) -> Vec<Query> {
        lock(&self.queries).clone()
    }

    /// The origin is asked from now on.
    pub(super) fn since(&self) -> RequestEpoch {
        RequestEpoch { requested: Self::now(), purge: self.index.last_purge(), own_purge: None }
    }

    /// Puts `object` in the place of `old`, and of whatever answered the same requests; unless it has been purged since it was
    /// asked for, or something newer has come. Whether it is stored.
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

    /// Adds the parts of `object` to what is there of its state, and puts it in the place of `old` and of whatever else
    /// answered the same requests; unless it has been purged since it was asked for, or something newer has come. Whether it is
    /// stored.
    pub(super) fn add(
        &self,
        key: &Key,
        old: Option<&Object>,
        object: &Arc<Object>,
        since: RequestEpoch,
    ) -> bool {
        self.index.add(key, old, object, since).map(|added| self.drop_replaced(added)).is_some()
    }

    /// What was there in the place of what was added leaves, and so do parts of no use.
    pub(super) fn drop_replaced(&self, added: Added) {
        let Added { gone, useless, placed } = added;
        self.drop_objects(gone, Some(&placed));
        for part in &useless {
            lock(&self.eviction).remove(part.item());
            part.stored_file().into_iter().for_each(|stored_file| self.remove_file(stored_file));
        }
    }

    /// Puts `object`, which has the bytes of `old`, in its place, wherever those are by now. What has left meanwhile stays
    /// away.
    pub(super) fn renew(&self, key: &Key, old: &Object, object: &Arc<Object>, since: RequestEpoch) -> bool {
        let Some((gone, placed)) = self.index.renew(key, old, object, since) else { return false };
        self.drop_objects(gone, Some(&placed));
        self.change_files(&placed);
        true
    }

    /// Changes until when what was made stale is of use.
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

    /// Purges what is meant, and gives the number of stored responses: hard ones are gone, soft ones are stale from now on
    /// and stand in for what the origin's directives let them. What was asked of an origin before and comes after is
    /// not stored. Who reads what is purged goes on reading.
    ///
    /// Once this has returned no request on any thread is answered with what was asked for before, but for what may be
    /// served stale.
    ///
    /// # Errors
    /// `BAD_REQUEST`: it is no absolute http or https URL, or an empty tag.
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

    /// Forgets what is meant of a key.
    pub(super) fn forget(&self, key: &Key, is_meant: impl Fn(&Arc<Object>) -> bool) {
        let gone = self.index.with(key, |entry| entry.remove(is_meant));
        self.drop_objects(gone, None);
    }

    /// Those who were removed leave the order of leaving and the disk, unless `heir` has their bytes.
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
        // The bytes go here, outside the locks.
        drop(gone);
    }

    /// Takes what leaves by way of `item` out of memory: what has no file is forgotten.
    pub(super) fn forget_part(&self, key: &Key, item: &Arc<Item<Key>>) {
        let bytes = self.index.with(key, |entry| entry.drop_from_memory(item));
        lock(&self.eviction).remove(item);
        drop(bytes);
    }

    /// What leaves by way of `item` is whole: it counts from now on, and what is missed least leaves for it. What has been
    /// forgotten meanwhile does not.
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

    /// Lets go of what is missed least until so many bytes more fit, and says whether they do. What leaves for the disk
    /// has room of its own until it is written.
    pub(super) fn make_room(&self, wanted: usize) -> bool {
        loop {
            // In this order: what has left between the two is counted, and not taken off twice.
            let used = self.budget.used();
            let leaving = self.disk.as_ref().map_or(0, Disk::leaving);
            let limit = self.budget.limit() - self.disk.as_ref().map_or(0, Disk::leaving_limit);
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

    /// What time it is. A clock that is set back makes nothing younger, see [`Time::since`].
    pub(super) fn now() -> Time {
        Time::from_millis(u64::try_from(since_1970().as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn stream(&self) -> (Feed, Stream) {
        channel(&self.pool, self.flow, &Framing::Raw, &self.meter)
    }
}

/// From when on a response is not worth its room; none where it can be validated.
pub(super) fn until(object: &Object, now: Time) -> Option<u32> {
    if object.stored.validators.any() {
        return None;
    }
    let Stored { freshness, control, .. } = &object.stored;
    let left = if let State::Fresh(left) = freshness.state(now) { left } else { Duration::ZERO };
    Some(seconds(now.plus(left + freshness.beyond(control))))
}

/// The order of leaving is kept in seconds, which last until 2106.
pub(super) fn seconds(time: Time) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX)
}
