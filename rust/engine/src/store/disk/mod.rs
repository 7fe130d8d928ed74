//! The disk tier of a cache: responses that leave memory and are still of use, one file for a response or a part.
//!
//! The index treats both tiers alike: a part of an object is in memory, on disk, or in both, and what removes it from
//! the index removes its file. Engine threads do no file I/O: some threads read, and one does all the rest. The
//! invariants: no bytes with a wrong checksum are served; files take no more than the budget; a file that cannot be
//! written costs only itself.

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
pub(super) use write::{said_of, write_body};

/// The share of the memory tier in which evicted bodies wait to be written: an eighth. A body that finds no room there
/// is not written. A larger share would be missed by the bodies that stay.
const LEAVING_PART: usize = 8;

/// The settings of the disk tier.
#[derive(Debug, Clone)]
pub struct DiskConfig {
    /// Created if it does not exist; its parent must exist.
    pub directory: PathBuf,
    /// The limit of its files, in bytes.
    pub budget: u64,
    /// How long a request waits for a read.
    pub timeout: Duration,
}

/// Statistics of the disk tier.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskStats {
    /// Responses on disk; of a response in parts each part counts, as in all numbers here.
    pub objects: usize,
    /// Bytes of their files, in whole pages.
    pub used: u64,
    /// The limit, in bytes.
    pub limit: u64,
    /// Whether the scan at the start is complete; before, nothing is written.
    pub ready: bool,
    /// Answers from files.
    pub hits: u64,
    /// Responses that were read back into memory.
    pub promoted: u64,
    /// Responses written.
    pub written: u64,
    /// Responses that were evicted from memory without being written, because too many were evicted at once or the disk
    /// had just failed.
    pub skipped: u64,
    /// Failed writes, as for lack of space.
    pub failed: u64,
    /// Files with wrong checksums, which were dropped.
    pub damaged: u64,
    /// Reads that did not end within the timeout.
    pub timeouts: u64,
    /// Whether no read has ended since the last timeout: then responses on disk are treated as missing, and nothing is
    /// written.
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

/// How often a failure of the disk is logged.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// The last error of the disk, and when one was logged last.
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
    /// The eviction order of the files.
    eviction: Mutex<Eviction<Key>>,
    budget: u64,
    leaving_limit: usize,
    counts: Counts,
    /// The scan at the start is complete.
    is_ready: AtomicBool,
    /// After a failure nothing is written until then.
    paused: Mutex<Option<Instant>>,
    trouble: Mutex<DiskFailure>,
    threads: Mutex<Option<DiskThreads>>,
}

/// The threads of a disk.
#[derive(Debug)]
struct DiskThreads {
    readers: Vec<JoinHandle<()>>,
    /// Disconnects when the last of them has ended.
    reading: Receiver<Infallible>,
    /// `None` when it has ended.
    writer: Option<Writer>,
}

/// The writing thread.
#[derive(Debug)]
struct Writer {
    thread: JoinHandle<()>,
    /// Disconnects when it has ended.
    ended: Receiver<Infallible>,
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

    /// Bytes of memory that are reserved for bodies that wait to be written.
    pub(super) fn leaving_limit(&self) -> usize {
        self.leaving_limit
    }

    /// Bytes of memory that wait to be written.
    pub(super) fn leaving(&self) -> usize {
        self.queue.leaving()
    }

    /// The number of responses.
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

    /// Whether it hangs.
    pub(super) fn is_hanging(&self) -> bool {
        self.queue.deadline.is_hanging()
    }

    /// Whether it may be read now.
    pub(super) fn may_read(&self) -> bool {
        self.queue.deadline.may_read()
    }

    /// A failure to log: at most one in [`REPORT_INTERVAL`].
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

/// A name for a record, which its sums depend on.
pub(super) fn new_name() -> u64 {
    Directory::new_name()
}

/// Increments a counter.
fn count(count: &AtomicU64) {
    // Relaxed: a count.
    count.fetch_add(1, Ordering::Relaxed);
}
