//! How much of the pool is kept for later.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the bytes of slabs that a cache or a history keeps: the rest of what is live is on its way. Clones count together.
#[derive(Debug, Clone, Default)]
pub struct StoredBytes(Arc<AtomicUsize>);

impl StoredBytes {
    // Relaxed throughout: a sum that orders nothing. Not loom's: the models do not look at it.

    /// So many bytes more are kept.
    pub fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many bytes less.
    pub fn remove(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// How many are kept.
    pub fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}
