//! A cache in operation: what is stored, what it may cost, and what is needed to fetch more.

use std::sync::Arc as Plain;
use std::time::SystemTime;

use super::budget::Budget;
use super::index::Index;
use crate::cache::Time;
use crate::framing::Framing;
use crate::pool::Pool;
use crate::stream::{Feed, FlowConfig, Meter, Stream, channel};

/// Shared by all engine threads.
#[derive(Debug)]
pub struct Cache {
    pub(super) index: Index,
    pub(super) budget: Plain<Budget>,
    pub(super) pool: Pool,
    flow: FlowConfig,
    meter: Plain<Meter>,
}

/// How full a cache is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheStats {
    /// Keys under which something is stored or being fetched.
    pub keys: usize,
    /// Bytes that are taken, whole slabs.
    pub used: usize,
    /// Bytes that may be.
    pub limit: usize,
}

impl Cache {
    /// An empty one, for `limit` bytes of `pool`. `flow` and `meter` are those of the fetches it makes.
    pub fn new(pool: Pool, limit: usize, flow: FlowConfig, meter: Plain<Meter>) -> Self {
        Self { index: Index::new(), budget: Plain::new(Budget::new(limit)), pool, flow, meter }
    }

    /// How full it is.
    pub fn stats(&self) -> CacheStats {
        CacheStats { keys: self.index.len(), used: self.budget.used(), limit: self.budget.limit() }
    }

    /// Forgets all that is stored. Whoever reads goes on reading.
    pub fn clear(&self) {
        self.index.clear();
    }

    /// What time it is. A clock that is set back makes nothing younger, see [`Time::since`].
    pub(super) fn now() -> Time {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Time::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn stream(&self) -> (Feed, Stream) {
        channel(&self.pool, self.flow, &Framing::Raw, &self.meter)
    }
}
