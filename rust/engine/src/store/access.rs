//! A route's access to a cache, and one request's: the cache, its policy, and the origins.

use std::sync::Arc as Plain;

use super::cache::Cache;
use super::index::Note;
use super::policy::{CachePolicy, Overrides};
use super::requests::Requests;
use crate::cache::{Key, Stored};
use crate::error::{Error, Result};
use crate::origin::Origins;
use crate::pressure::Rank;
use crate::relay::FillFields;
use crate::sync::Arc;

/// The use of a cache by one route.
#[derive(Debug, Clone)]
pub struct Caching {
    pub(super) cache: Arc<Cache>,
    pub(super) policy: Plain<CachePolicy>,
    pub(super) requests: Arc<Requests>,
}

impl Caching {
    /// Uses `cache` under `policy`, and counts requests under `name`. From now on a purge by URL finds the responses of
    /// this route.
    pub fn new(cache: Arc<Cache>, policy: CachePolicy, name: &str) -> Self {
        cache.learn(&policy.query);
        let requests = cache.requests.of(name);
        Self { cache, policy: Plain::new(policy), requests }
    }

    /// The client's fields that are sent to the origin when the response may be stored.
    pub(crate) fn fill_fields(&self) -> &FillFields {
        &self.policy.fields
    }

    /// A failure of the cache's disk to log; rate-limited.
    pub(crate) fn disk_trouble(&self) -> Option<Error> {
        self.cache.disk_trouble()
    }

    /// The access of one request, on the thread to which `origins` belong.
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
        Access { cache, requests, policy, overrides, origins, hands_over: false }
    }
}

/// The cache as one request uses it, with the connections to origins of its thread. Made by [`Caching::access`].
#[derive(Debug, Clone)]
pub struct Access {
    pub(super) cache: Arc<Cache>,
    /// The counters of the route.
    pub(super) requests: Arc<Requests>,
    pub(super) policy: Plain<CachePolicy>,
    /// The application's decisions about this request.
    pub(super) overrides: Overrides,
    /// The thread to which they belong runs this request.
    pub(super) origins: Arc<Origins>,
    /// The caller sends on what is not stored.
    pub(super) hands_over: bool,
}

impl Access {
    /// Notes what an answer has shown about a key, for the time of the policy.
    pub(super) fn note(&self, key: &Key, note: Note) {
        let now = Cache::now();
        self.cache.index.note(key, note, now.plus(self.policy.apart), now);
    }

    /// Lets a client's request to the origin in, or refuses it. What the application fetches is let in: it has been, as the request
    /// that it answers by that.
    ///
    /// # Errors
    /// `OVERLOADED`.
    pub(super) fn admit(&self, rank: Rank) -> Result<()> {
        if self.hands_over { self.origins.pressure().admit(rank) } else { Ok(()) }
    }

    /// Whether there is room for a body of the length of `stored`.
    pub(super) fn has_room(&self, stored: &Stored) -> bool {
        // If the length is unknown, a first slab must fit.
        let wanted = stored.length().unwrap_or_default();
        wanted <= self.policy.max_object
            && self.cache.make_room(usize::try_from(wanted).unwrap_or(usize::MAX))
    }

    /// The tags of the route and the request. The origin may add others.
    pub(super) fn tags(&self) -> impl Iterator<Item = &Box<str>> {
        self.policy.tags.iter().chain(&self.overrides.tags)
    }
}
