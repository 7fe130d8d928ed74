//! What a cache may keep, and what it keeps: bytes at their true cost, which is whole slabs.
//!
//! What has been evicted counts as long as somebody reads it: its memory is taken until then.

use std::sync::atomic::{AtomicUsize, Ordering};

/// What a piece costs besides its slab, so that a body of a million chunks is not taken to be small.
pub(super) const PIECE: usize = 64;

/// Bytes that a cache may keep.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    used: AtomicUsize,
}

impl Budget {
    /// One of which nothing is used.
    pub fn new(limit: usize) -> Self {
        Self { limit, used: AtomicUsize::new(0) }
    }

    /// What may be kept.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// What is kept.
    pub fn used(&self) -> usize {
        // Relaxed here and below: a sum, which orders nothing.
        self.used.load(Ordering::Relaxed)
    }

    pub(super) fn take(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn give(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}
