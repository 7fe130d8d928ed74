//! The part of a cache that a route has, and what one request gets by: the cache, its policy, and the origins to ask.

use std::sync::Arc as Plain;

use super::cache::Cache;
use super::eviction::Item;
use super::index::Note;
use super::policy::{CachePolicy, Overrides};
use super::requests::Requests;
use crate::cache::{Key, Stored};
use crate::error::Error;
use crate::origin::Origins;
use crate::relay::FillFields;
use crate::sync::Arc;

/// A route's part of a cache.
#[derive(Debug, Clone)]
pub struct Caching {
    pub(super) cache: Arc<Cache>,
    pub(super) policy: Plain<CachePolicy>,
    pub(super) requests: Arc<Requests>,
}

impl Caching {
    /// The part of `cache` that `policy` is for; requests are counted under `name`. From now on a purge by URL finds what
    /// is stored there.
    pub fn new(cache: Arc<Cache>, policy: CachePolicy, name: &str) -> Self {
        cache.learn(&policy.query);
        let requests = cache.requests.of(name);
        Self { cache, policy: Plain::new(policy), requests }
    }

    /// What of a client's request the origin is sent for what may be stored.
    pub(crate) fn fill_fields(&self) -> &FillFields {
        &self.policy.fields
    }

    /// How the cache's disk has failed, for the operator: not more often than is worth a line in a log.
    pub(crate) fn disk_trouble(&self) -> Option<Error> {
        self.cache.disk_trouble()
    }

    /// What one request gets by, on the thread that `origins` belong to.
    pub fn access(&self, origins: Arc<Origins>, overrides: Overrides) -> Access {
        let policy = match overrides.lifetime {
            None => Plain::clone(&self.policy),
            lifetime => {
                let mut policy = CachePolicy::clone(&self.policy);
                policy.rules.lifetime = lifetime;
                Plain::new(policy)
            }
        };
        let (cache, requests) = (Arc::clone(&self.cache), Arc::clone(&self.requests));
        Access { cache, requests, policy, overrides, origins }
    }
}

/// A cache, how a route and one request use it, and the connections to origins of the thread that all of it runs on. Made
/// by [`Caching::access`].
#[derive(Debug, Clone)]
pub struct Access {
    /// What is stored.
    pub(super) cache: Arc<Cache>,
    /// Where it is counted how the request went.
    pub(super) requests: Arc<Requests>,
    /// How it is used.
    pub(super) policy: Plain<CachePolicy>,
    /// What is decided about this request.
    pub(super) overrides: Overrides,
    /// Whom to ask. The thread that they belong to is the one that runs this.
    pub(super) origins: Arc<Origins>,
}

impl Access {
    /// What has turned out is believed for a while.
    pub(super) fn note(&self, key: &Key, note: Note) {
        let now = Cache::now();
        self.cache.index.note(key, note, now.plus(self.policy.apart), now);
    }

    /// Whether a body of that length may be kept.
    pub(super) fn has_room(&self, stored: &Stored) -> bool {
        // Of a length that is not known, a first slab must fit.
        let wanted = stored.length().unwrap_or_default();
        wanted <= self.policy.max_object
            && self.cache.make_room(usize::try_from(wanted).unwrap_or(usize::MAX))
    }

    /// That of the bytes from `start` on: each part has a past of its own.
    pub(super) fn item(&self, key: &Key, start: u64) -> Arc<Item<Key>> {
        Item::new(self.cache.index.hash(key).wrapping_add(start), key.clone())
    }

    /// What is stored can be purged by these, besides what the origin says.
    pub(super) fn tags(&self) -> impl Iterator<Item = &Box<str>> {
        self.policy.tags.iter().chain(&self.overrides.tags)
    }
}
