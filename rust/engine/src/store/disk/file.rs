//! What is known in memory of one file: where its parts are, and its place in the order of leaving the disk.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::super::eviction::Item;
use super::format::Layout;
use crate::cache::Key;
use crate::stream::Ending;
use crate::sync::Arc;

/// A file that holds the body of a stored response. It is removed by name when the index has let go of it; whoever reads
/// it reads on.
#[derive(Debug)]
pub(crate) struct StoredFile {
    pub(crate) layout: Layout,
    pub(crate) item: Arc<Item<Key>>,
    pub(crate) ending: Ending,
    // All Relaxed and without a partner: hints, or said under the lock of the order of leaving.
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

    /// Notes that it is asked for, and says how often it was before.
    pub(crate) fn ask(&self) -> u32 {
        self.asked.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether a reading of it keeps a thread for longer than anybody waits, while the disk gives back other files.
    pub(crate) fn is_late(&self) -> bool {
        self.late.load(Ordering::Relaxed)
    }

    /// Says whether one does.
    pub(crate) fn set_late(&self, late: bool) {
        self.late.store(late, Ordering::Relaxed);
    }

    /// A part of it is not what was written.
    pub(crate) fn damage(&self) {
        self.damaged.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Says once that it is to be removed.
    pub(crate) fn remove(&self) -> bool {
        !self.removed.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Relaxed)
    }

    /// What it takes of the disk: whole pages, as file systems have them.
    pub(crate) fn cost(&self) -> u64 {
        cost(self.layout)
    }
}

/// What a file of that layout takes of the disk.
pub(crate) fn cost(layout: Layout) -> u64 {
    layout.size().unwrap_or(u64::MAX / 2).next_multiple_of(4096)
}
