//! A file of the cache, as known in memory: its layout, and its item in the eviction order of the disk.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::super::eviction::Item;
use super::format::Layout;
use crate::cache::Key;
use crate::stream::Ending;
use crate::sync::Arc;

/// A file with the body of a stored response. It is removed by name when the index no longer refers to it; its readers
/// go on.
#[derive(Debug)]
pub(crate) struct StoredFile {
    pub(crate) layout: Layout,
    pub(crate) item: Arc<Item<Key>>,
    pub(crate) ending: Ending,
    // All Relaxed without a partner: hints, or used under the lock of the eviction order.
    asked: AtomicU32,
    late: AtomicBool,
    damaged: AtomicBool,
    removed: AtomicBool,
}

impl StoredFile {
    pub(crate) fn new(layout: Layout, item: Arc<Item<Key>>, ending: Ending) -> Self {
        let (asked, late) = (AtomicU32::new(0), AtomicBool::new(false));
        let (damaged, removed) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { layout, item, ending, asked, late, damaged, removed }
    }

    /// Counts a read, and returns the number of earlier ones.
    pub(crate) fn ask(&self) -> u32 {
        self.asked.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether a read of it has blocked a thread beyond the timeout, while other files can be read.
    pub(crate) fn is_late(&self) -> bool {
        self.late.load(Ordering::Relaxed)
    }

    /// Sets [`StoredFile::is_late`].
    pub(crate) fn set_late(&self, late: bool) {
        self.late.store(late, Ordering::Relaxed);
    }

    /// Marks it as damaged: a checksum is wrong.
    pub(crate) fn damage(&self) {
        self.damaged.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Marks it as removed; true for the first caller.
    pub(crate) fn remove(&self) -> bool {
        !self.removed.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Relaxed)
    }

    /// The bytes of its pages on disk.
    pub(crate) fn cost(&self) -> u64 {
        cost(self.layout)
    }
}

/// The bytes of the pages of a file with this layout.
pub(crate) fn cost(layout: Layout) -> u64 {
    layout.size().unwrap_or(u64::MAX / 2).next_multiple_of(4096)
}
