//! The tier of a cache that is on disk: what leaves memory and is still of use, one file a response, or a part of one.
//!
//! The index knows both tiers alike: a part of an object is in memory, on disk, or in both, and whatever removes it from the
//! index removes its file. No file operation is made on an engine thread: some threads read, and one does all the rest. The
//! invariants: nothing is served whose checksum is wrong; files take no more than the budget; a file that cannot be
//! written, for whatever reason, costs nothing but itself.

mod bringing;
mod deadline;
mod directory;
mod filed;
pub mod format;
mod keeping;
mod queue;
mod reading;
mod scan;
#[cfg(test)]
pub(super) mod tests;

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc as Plain;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::cache::Cache;
use super::eviction::Eviction;
use crate::cache::Key;
use crate::error::{Code, Error, Result};
use crate::sync::{Arc, Mutex, lock};
use directory::Directory;
use queue::{Leaving, Queue};

pub(super) use bringing::Brought;
pub(super) use filed::Filed;
pub(super) use reading::{FileReader, Opened, Unread};

/// Threads that read, so that as many reads of pages that are not in memory are before the disk at once. Arbitrary.
const READERS: usize = 4;

/// For how long the threads are waited for at the end without a sign of life: a disk that is busy takes tenths of a second.
/// Arbitrary.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);

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
const TELL_AGAIN: Duration = Duration::from_secs(60);

/// What the disk has said when it failed, and when that was told last.
#[derive(Debug, Default)]
struct Trouble {
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
    trouble: Mutex<Trouble>,
    threads: Mutex<Option<Crew>>,
}

/// The threads of a disk.
#[derive(Debug)]
struct Crew {
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

    fn stats(&self) -> DiskStats {
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
            timeouts: self.queue.deadline.missed(),
            hanging: self.queue.deadline.is_hanging(),
        }
    }
}

impl Disk {
    /// Whether the thread that writes ends, which has until then to do so: a disk that gets nothing done for as long as anybody
    /// waits for a reading hangs.
    fn has_written(&self, thread: &Receiver<Infallible>, end: Instant) -> bool {
        let limit = self.queue.deadline.limit().max(SIGN_OF_LIFE);
        loop {
            let done = self.queue.done();
            if has_ended(thread, Instant::now() + limit) {
                return true;
            }
            if self.queue.done() == done || Instant::now() >= end + limit {
                return false;
            }
        }
    }
}

/// Whether all threads have ended, by then.
fn has_ended(threads: &Receiver<Infallible>, until: Instant) -> bool {
    let left = until.saturating_duration_since(Instant::now());
    matches!(threads.recv_timeout(left), Err(RecvTimeoutError::Disconnected))
}

fn join(threads: Vec<JoinHandle<()>>) {
    for thread in threads {
        // A panic of the thread has been printed by it; there is nothing to add when it is over.
        let _ = thread.join();
    }
}

/// One more.
fn count(count: &AtomicU64) {
    // Relaxed: it orders nothing.
    count.fetch_add(1, Ordering::Relaxed);
}

impl Cache {
    /// Whether there is a disk that hangs.
    pub(super) fn is_disk_hanging(&self) -> bool {
        self.disk.as_ref().is_some_and(|disk| disk.queue.deadline.is_hanging())
    }

    /// Whether what is on disk may be read now, and what is there is not to be passed over as if it were not.
    pub(super) fn may_read(&self) -> bool {
        self.disk.as_ref().is_some_and(|disk| disk.queue.deadline.may_ask())
    }

    /// How full the disk is, where there is one.
    pub fn disk_stats(&self) -> Option<DiskStats> {
        self.disk.as_ref().map(Disk::stats)
    }

    /// How the disk has failed, for the operator: not more often than is worth a line in a log.
    pub(crate) fn disk_trouble(&self) -> Option<Error> {
        let disk = self.disk.as_ref()?;
        let mut trouble = lock(&disk.trouble);
        if trouble.told.is_some_and(|told| told.elapsed() < TELL_AGAIN) {
            return None;
        }
        let deadline = &disk.queue.deadline;
        let hangs =
            || deadline.is_hanging().then(|| format!("it gave nothing back for {:?}", deadline.limit()));
        let said = trouble.said.take().or_else(hangs)?;
        trouble.told = Some(Instant::now());
        Some(
            Code::CacheDirectoryFailed
                .error(format!("the cache's disk fails, and what leaves memory is not kept for now: {said}")),
        )
    }

    /// Starts the threads, and with them the look at what is there.
    pub(super) fn start_disk(cache: &Plain<Self>) -> Result<()> {
        let Some(disk) = &cache.disk else { return Ok(()) };
        let failed =
            |error| Code::Internal.error(format!("cannot start a thread for the cache's disk: {error}"));
        let mut readers = Vec::new();
        let (read, reading) = channel::<Infallible>();
        for number in 0..READERS {
            let (queue, read) = (Arc::clone(&disk.queue), read.clone());
            let reader = thread::Builder::new().name(format!("penstock-read-{number}")).spawn(move || {
                let _reads = read;
                while queue.read_next() {}
            });
            readers.push(reader.map_err(failed)?);
        }
        // It does not keep the cache alive: one that is dropped ends its threads.
        let (weak, queue) = (Plain::downgrade(cache), Arc::clone(&disk.queue));
        let (written, writing) = channel::<Infallible>();
        let writer = thread::Builder::new().name("penstock-write".to_owned()).spawn(move || {
            let _writes = written;
            if let Some(cache) = weak.upgrade() {
                cache.scan();
            }
            while let Some(chore) = queue.next_chore() {
                let Some(cache) = weak.upgrade() else { return };
                cache.do_chore(chore);
                queue.finish_chore();
            }
        });
        *lock(&disk.threads) = Some(Crew { readers, writer: writer.map_err(failed)?, reading, writing });
        Ok(())
    }

    /// Writes what is in memory alone and still of use, for as long as `within`, and lets go of the directory's threads.
    /// For an orderly end, when nothing is fetched any more: what is not written by then is lost with the memory.
    ///
    /// A disk that hangs is waited for no longer than for a reading, from its last sign of life on. False if it still keeps what is written: the directory
    /// is taken then until it answers, or the process ends.
    pub fn close(&self, within: Duration) -> bool {
        let Some(disk) = self.disk.as_ref().filter(|_| !self.pool.dead()) else { return true };
        let Some(crew) = lock(&disk.threads).take() else { return true };
        let now = Self::now();
        let mut last = Vec::new();
        // A directory that was not looked through may be fuller than it seems.
        if disk.is_ready.load(Ordering::Relaxed) {
            self.index.each(|_, objects| {
                for object in objects.iter().filter(|object| keeping::is_of_use(object, now)) {
                    last.extend(object.in_memory_alone().map(|(item, body)| Leaving::new(item, body)));
                }
            });
        }
        let end = Instant::now() + within;
        disk.queue.close(last, end);
        let has_written = disk.has_written(&crew.writing, end);
        // One that a file keeps has nothing to say to anybody.
        if has_ended(&crew.reading, Instant::now() + SIGN_OF_LIFE) {
            join(crew.readers);
        }
        if has_written {
            join(vec![crew.writer]);
            disk.directory.release();
        }
        has_written
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        // The threads are not there in a forked child, and one of them may have held the lock.
        if let Some(disk) = self.disk.as_ref().filter(|_| !self.pool.dead()) {
            disk.queue.close(Vec::new(), Instant::now());
        }
    }
}
