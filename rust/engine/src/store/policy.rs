//! The operator's policy for one route's use of the cache, and the application's decisions about one request. The
//! values come from Python's config.

use std::time::Duration;

use crate::cache::{Policy, Query};
use crate::relay::FillFields;

/// How a route uses the cache.
#[derive(Debug, Clone)]
pub struct CachePolicy {
    /// The choices that RFC 9111 leaves open.
    pub rules: Policy,
    /// The part of a query that is in the key.
    pub query: Query,
    /// The client's fields that are sent to the origin when the response may be stored.
    pub fields: FillFields,
    /// The largest body that is stored, in bytes.
    pub max_object: u64,
    /// How long a key is hit-for-miss once an answer has proved not to be shared.
    pub apart: Duration,
    /// Whether a fill goes on without readers.
    pub unread: Unread,
    /// Tags of all responses of the route, besides those of the origin.
    pub tags: Vec<Box<str>>,
}

/// Decisions about one request, made before the lookup.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Replaces path and query in the key; it begins with a slash, so that it cannot become part of an authority.
    pub key: Option<Box<str>>,
    /// Replaces the lifetime of the policy.
    pub lifetime: Option<Duration>,
    /// Tags besides those of the route.
    pub tags: Vec<Box<str>>,
    /// Bypasses the cache.
    pub bypass: bool,
}

/// What a fill does when its last reader has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unread {
    /// It goes on for later requests.
    Finish,
    /// It goes on if this percentage has come.
    Past(u8),
    /// It ends.
    End,
}
