//! What the operator decides about one route's part of a cache. The values come from Python's config.

use std::time::Duration;

use crate::cache::{Policy, Query};

/// How a route uses the cache.
#[derive(Debug, Clone)]
pub struct CachePolicy {
    /// What RFC 9111 leaves open.
    pub rules: Policy,
    /// What of a query is in the key.
    pub query: Query,
    /// The largest body that is kept.
    pub max_object: u64,
    /// For how long requests for a key do not wait for each other once an answer has turned out not to be shared.
    pub apart: Duration,
    /// Whether a fetch goes on that nobody reads any more.
    pub unread: Unread,
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
