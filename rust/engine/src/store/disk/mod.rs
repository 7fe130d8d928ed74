//! The tier of a cache that is on disk: what leaves memory and is still of use, one file a response, or a part of one.
//!
//! The index knows both tiers alike: a part of an object is in memory, on disk, or in both, and whatever removes it from the
//! index removes its file. No file operation is made on an engine thread: some threads read, and one does all the rest. The
//! invariants: nothing is served whose checksum is wrong; files take no more than the budget; a file that cannot be
//! written, for whatever reason, costs nothing but itself.

mod deadline;
mod directory;
mod file;
pub mod format;
mod load;
mod queue;
mod read;
mod scan;
#[cfg(test)]
pub(super) mod tests;
mod threads;
mod write;

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::eviction::Eviction;
use crate::cache::Key;
use crate::error::{Code, Error, Result};
use crate::sync::{Arc, Mutex, lock};
use directory::Directory;
use queue::Queue;

pub(super) use file::StoredFile;
pub(super) use load::Loaded;
pub(super) use read::{FileReader, OpenFile, ReadFailure};

/// The part of the memory tier in which what leaves it waits to be written: an eighth. Whatever finds no room there is
/// not written. More would be missed by what stays.
const LEAVING_PART: usize = 8;

/// Where the disk's tier is.
#[derive(Debug, Clone)]
pub struct DiskConfig {
    /// Made if it is not there, in a directory that is.
    pub directory: PathBuf,
    /// What its files take at most, in bytes.
    pub budget: u64,
    /// How long anybody waits for the disk to give something back.
    pub timeout: Duration,
}

/// What a disk's tier has done, and how full it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskStats {
    /// Responses that are on disk; of those in parts, the parts. So it is with all that is counted here.
    pub objects: usize,
    /// Bytes that their files take, whole pages.
    pub used: u64,
    /// Bytes that they may.
    pub limit: u64,
    /// Whether what was there at the start has been looked through; until then nothing is written.
    pub ready: bool,
    /// Answers out of files.
    pub hits: u64,
    /// Responses brought back into memory.
    pub promoted: u64,
    /// Responses written.
    pub written: u64,
    /// Responses that left memory unwritten because too many left at once, or the disk had failed a moment ago.
    pub skipped: u64,
    /// Failures of writing, such as for want of space.
    pub failed: u64,
    /// Files that were not what was written, and were dropped.
    pub damaged: u64,
    /// Times that somebody has waited for a reading for as long as may be.
    pub timeouts: u64,
    /// Whether no reading has ended since the last of those: nothing is asked for that is on disk, and nothing written.
    pub hanging: bool,
}

#[derive(Debug, Default)]
struct Counts {
    hits: AtomicU64,
    promoted: AtomicU64,
    written: AtomicU64,
    skipped: AtomicU64,
    failed: AtomicU64,
    damaged: AtomicU64,
}

/// How often an operator is told that the disk fails.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// What the disk has said when it failed, and when that was told last.
#[derive(Debug, Default)]
struct DiskFailure {
    said: Option<String>,
    told: Option<Instant>,
}

/// The disk of a cache. Its threads end with the cache.
#[derive(Debug)]
pub(super) struct Disk {
    directory: Arc<Directory>,
    queue: Arc<Queue>,
    /// Who leaves the disk.
    eviction: Mutex<Eviction<Key>>,
    budget: u64,
    leaving_limit: usize,
    counts: Counts,
    /// All that was there at the start has been looked at.
    is_ready: AtomicBool,
    /// Nothing is written until then: the disk has failed.
    paused: Mutex<Option<Instant>>,
    trouble: Mutex<DiskFailure>,
    threads: Mutex<Option<DiskThreads>>,
}

/// The threads of a disk.
#[derive(Debug)]
struct DiskThreads {
    readers: Vec<JoinHandle<()>>,
    writer: JoinHandle<()>,
    /// Each disconnects with the last of its threads.
    reading: Receiver<Infallible>,
    writing: Receiver<Infallible>,
}

impl Disk {
    pub(super) fn new(config: &DiskConfig, memory: usize) -> Result<Self> {
        Ok(Self {
            directory: Arc::new(Directory::open(&config.directory)?),
            queue: Arc::new(Queue::new(config.timeout)),
            eviction: Mutex::new(Eviction::new(config.budget)),
            budget: config.budget,
            leaving_limit: memory / LEAVING_PART,
            counts: Counts::default(),
            is_ready: AtomicBool::new(false),
            paused: Mutex::new(None),
            trouble: Mutex::default(),
            threads: Mutex::new(None),
        })
    }

    /// Bytes of memory that are kept free for what leaves it.
    pub(super) fn leaving_limit(&self) -> usize {
        self.leaving_limit
    }

    /// Bytes of memory that leave it once they are written.
    pub(super) fn leaving(&self) -> usize {
        self.queue.leaving()
    }

    /// How many responses are on it.
    pub(super) fn objects(&self) -> usize {
        lock(&self.eviction).len()
    }

    pub(super) fn stats(&self) -> DiskStats {
        let (objects, used) = {
            let eviction = lock(&self.eviction);
            (eviction.len(), eviction.bytes())
        };
        // Relaxed: counts, which order nothing.
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        DiskStats {
            objects,
            used,
            limit: self.budget,
            ready: self.is_ready.load(Ordering::Relaxed),
            hits: count(&self.counts.hits),
            promoted: count(&self.counts.promoted),
            written: count(&self.counts.written),
            skipped: count(&self.counts.skipped),
            failed: count(&self.counts.failed),
            damaged: count(&self.counts.damaged),
            timeouts: self.queue.deadline.timeouts(),
            hanging: self.queue.deadline.is_hanging(),
        }
    }

    /// Whether it gives nothing back.
    pub(super) fn is_hanging(&self) -> bool {
        self.queue.deadline.is_hanging()
    }

    /// Whether it may be asked to read now.
    pub(super) fn may_read(&self) -> bool {
        self.queue.deadline.may_read()
    }

    /// How it has failed, for the operator: at most once in [`REPORT_INTERVAL`].
    pub(super) fn trouble(&self) -> Option<Error> {
        let mut trouble = lock(&self.trouble);
        if trouble.told.is_some_and(|told| told.elapsed() < REPORT_INTERVAL) {
            return None;
        }
        let deadline = &self.queue.deadline;
        let hangs =
            || deadline.is_hanging().then(|| format!("it gave nothing back for {:?}", deadline.limit()));
        let said = trouble.said.take().or_else(hangs)?;
        trouble.told = Some(Instant::now());
        Some(
            Code::CacheDirectoryFailed
                .error(format!("the cache's disk fails, and what leaves memory is not kept for now: {said}")),
        )
    }
}

/// One more.
fn count(count: &AtomicU64) {
    // Relaxed: it orders nothing.
    count.fetch_add(1, Ordering::Relaxed);
}
