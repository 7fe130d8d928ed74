//! What the history of all topics of a hub may take, and who has taken it: bytes at their true cost, which is whole slabs, and
//! the lists of what lies in them.
//!
//! What has left a history counts until it is sent to its last subscriber: its memory is taken until then.

use crate::pool::StoredBytes;
use crate::sync::{Arc, AtomicUsize, Ordering};

/// Bytes that a hub may take of the pool.
#[derive(Debug)]
pub(super) struct HistoryBudget {
    limit: usize,
    used: AtomicUsize,
    stored: StoredBytes,
}

impl HistoryBudget {
    /// Of `limit` bytes, which are counted in `stored` too while they are taken.
    pub(super) fn new(limit: usize, stored: &StoredBytes) -> Self {
        Self { limit, used: AtomicUsize::new(0), stored: stored.clone() }
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    pub(super) fn used(&self) -> usize {
        // Relaxed, here and below: a sum, on which no memory depends.
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes that can still be taken.
    pub(super) fn free(&self) -> usize {
        self.limit.saturating_sub(self.used())
    }

    fn give(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        self.stored.remove(bytes);
    }

    /// Takes `bytes` of `budget` until what this returns is dropped, if there is room for them.
    pub(super) fn take(budget: &Arc<Self>, bytes: usize) -> Option<Charge> {
        let room = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= budget.limit);
        budget.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).ok()?;
        budget.stored.add(bytes);
        Some(Charge { budget: Arc::clone(budget), bytes })
    }
}

/// Bytes that are taken.
#[derive(Debug)]
pub(super) struct Charge {
    budget: Arc<HistoryBudget>,
    bytes: usize,
}

impl Charge {
    /// Of nothing yet.
    pub(super) fn nothing(budget: &Arc<HistoryBudget>) -> Self {
        Self { budget: Arc::clone(budget), bytes: 0 }
    }

    /// Makes it `bytes`, if there is room for what that is more.
    pub(super) fn resize(&mut self, bytes: usize) -> bool {
        if bytes > self.bytes {
            let Some(mut more) = HistoryBudget::take(&self.budget, bytes - self.bytes) else { return false };
            more.bytes = 0;
        } else if bytes < self.bytes {
            self.budget.give(self.bytes - bytes);
        }
        self.bytes = bytes;
        true
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.give(self.bytes);
    }
}
