//! What the operator decides about one route's part of a cache, and about one request. The values come from Python's
//! config.

use std::sync::Arc as Plain;
use std::time::Duration;

use super::cache::Cache;
use super::fetch::Access;
use super::requests::Requests;
use crate::cache::{Policy, Query};
use crate::error::Error;
use crate::origin::Origins;
use crate::relay::FillFields;
use crate::sync::Arc;

/// How a route uses the cache.
#[derive(Debug, Clone)]
pub struct CachePolicy {
    /// What RFC 9111 leaves open.
    pub rules: Policy,
    /// What of a query is in the key.
    pub query: Query,
    /// What of a client's request the origin is sent for what may be stored.
    pub fields: FillFields,
    /// The largest body that is kept.
    pub max_object: u64,
    /// For how long requests for a key do not wait for each other once an answer has turned out not to be shared.
    pub apart: Duration,
    /// Whether a fetch goes on that nobody reads any more.
    pub unread: Unread,
    /// What everything that is stored can be purged by, besides what the origin says.
    pub tags: Vec<Box<str>>,
}

/// What is decided about one request before anything is looked up. By default nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    /// In place of path and query in the key; it begins with a slash, so that it cannot become part of an authority.
    pub key: Option<Box<str>>,
    /// In place of that of the rules.
    pub lifetime: Option<Duration>,
    /// Besides those of the route.
    pub tags: Vec<Box<str>>,
    /// The origin is asked as if there were no cache.
    pub bypass: bool,
}

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

/// What becomes of a fetch when its last reader has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unread {
    /// It goes on: others will come.
    Finish,
    /// It goes on if that many percent of it have come.
    Past(u8),
    /// It ends.
    End,
}
