//! The threads of the disk: started with the cache, ended with it.

use std::convert::Infallible;
use std::sync::Arc as Plain;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::super::cache::Cache;
use super::queue::{PendingWrite, READERS};
use super::write::is_of_use;
use super::{Disk, DiskThreads};
use crate::error::{Code, Result};
use crate::sync::{Arc, lock};

/// How long the threads may make no progress at the end. A busy disk needs tenths of a second. Arbitrary.
const THREAD_TIMEOUT: Duration = Duration::from_secs(1);

impl Cache {
    /// Starts the threads, and with them the scan.
    pub(in super::super) fn start_disk(cache: &Plain<Self>) -> Result<()> {
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
        // It does not keep the cache alive: dropping the cache ends its threads.
        let (weak, queue) = (Plain::downgrade(cache), Arc::clone(&disk.queue));
        let (written, writing) = channel::<Infallible>();
        let writer = thread::Builder::new().name("penstock-write".to_owned()).spawn(move || {
            let _writes = written;
            if let Some(cache) = weak.upgrade() {
                cache.scan();
            }
            while let Some(task) = queue.next_task() {
                let Some(cache) = weak.upgrade() else { return };
                cache.run_task(task);
                queue.count_task();
            }
        });
        *lock(&disk.threads) =
            Some(DiskThreads { readers, writer: writer.map_err(failed)?, reading, writing });
        Ok(())
    }

    /// Writes the bodies that are only in memory and still of use, for at most `within`, and releases the directory.
    /// For an orderly end, when nothing is fetched any more: bodies that are not written by then are lost.
    ///
    /// A disk that makes no progress is waited for as long as for a read. False if the writing thread is still blocked:
    /// then the directory remains locked until the disk answers, or the process ends.
    pub fn close(&self, within: Duration) -> bool {
        let Some(disk) = self.disk.as_ref().filter(|_| !self.pool.dead()) else { return true };
        let Some(threads) = lock(&disk.threads).take() else { return true };
        let now = Self::now();
        let mut last = Vec::new();
        // A directory that was not scanned may be fuller than it seems.
        if disk.is_ready.load(Ordering::Relaxed) {
            self.index.each(|_, objects| {
                for object in objects.iter().filter(|object| is_of_use(object, now)) {
                    last.extend(object.in_memory_alone().map(|(item, body)| PendingWrite::new(item, body)));
                }
            });
        }
        let end = Instant::now() + within;
        disk.queue.close(last, end);
        let has_written = disk.has_written(&threads.writing, end);
        // A thread that a file blocks has nothing to write.
        if has_ended(&threads.reading, Instant::now() + THREAD_TIMEOUT) {
            join(threads.readers);
        }
        if has_written {
            join(vec![threads.writer]);
            disk.directory.release();
        }
        has_written
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        // A forked child does not have the threads, and one of them may have held the lock.
        if let Some(disk) = self.disk.as_ref().filter(|_| !self.pool.dead()) {
            disk.queue.close(Vec::new(), Instant::now());
        }
    }
}

impl Disk {
    /// Whether the writing thread ends in time: a disk that completes no task for the read timeout hangs.
    fn has_written(&self, thread: &Receiver<Infallible>, end: Instant) -> bool {
        let limit = self.queue.deadline.limit().max(THREAD_TIMEOUT);
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

/// Whether all threads end before `until`.
fn has_ended(threads: &Receiver<Infallible>, until: Instant) -> bool {
    let left = until.saturating_duration_since(Instant::now());
    matches!(threads.recv_timeout(left), Err(RecvTimeoutError::Disconnected))
}

fn join(threads: Vec<JoinHandle<()>>) {
    for thread in threads {
        // A panic of the thread has been printed; there is nothing to add.
        let _ = thread.join();
    }
}
