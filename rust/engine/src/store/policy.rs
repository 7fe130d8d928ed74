//! What the operator decides about one route's part of a cache, and about one request. The values come from Python's
//! config.

use std::time::Duration;

use crate::cache::{Policy, Query};
use crate::relay::FillFields;

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
