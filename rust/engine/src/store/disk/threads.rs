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
use super::{Disk, DiskThreads, Writer};
use crate::error::{Code, Result};
use crate::sync::{Arc, lock};

/// How long the threads may make no progress at the end. A busy disk needs tenths of a second. Arbitrary.
const THREAD_TIMEOUT: Duration = Duration::from_secs(1);

/// The time between two looks at whether the process before has released the directory. Arbitrary.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

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
            loop {
                let Some(cache) = weak.upgrade() else { return };
                if cache.has_directory() {
                    cache.scan();
                    break;
                }
                drop(cache);
                if queue.is_closed() {
                    return queue.abandon_writes();
                }
                thread::sleep(LOCK_PAUSE);
            }
            while let Some(task) = queue.next_task() {
                let Some(cache) = weak.upgrade() else { return };
                cache.run_task(task);
                queue.count_task();
            }
        });
        let writer = Writer { thread: writer.map_err(failed)?, ended: writing };
        *lock(&disk.threads) = Some(DiskThreads { readers, writer: Some(writer), reading });
        Ok(())
    }

    /// Whether the directory is locked by this process; tries to.
    fn has_directory(&self) -> bool {
        let Some(disk) = &self.disk else { return true };
        disk.directory.try_lock().unwrap_or_else(|error| {
            lock(&disk.trouble).said = Some(error.detail().to_owned());
            false
        })
    }

    /// Writes the bodies that are only in memory and still of use, for at most `within`, and releases the directory. Responses
    /// are read from it after that, and none are written. Bodies that are not written by then are lost, with what is fetched
    /// after it.
    ///
    /// A disk that makes no progress is waited for as long as for a read. False if the writing thread is still blocked:
    /// then the directory remains locked until the disk answers, or the process ends.
    pub fn release_directory(&self, within: Duration) -> bool {
        let Some(disk) = self.disk.as_ref().filter(|_| !self.pool.dead()) else { return true };
        // Held to the end: the close of the engine waits for it.
        let mut threads = lock(&disk.threads);
        let Some(threads) = &mut *threads else { return true };
        let Some(writer) = threads.writer.take() else { return true };
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
        disk.queue.finish_writes(last, end);
        if !disk.has_written(&writer.ended, end) {
            threads.writer = Some(writer);
            return false;
        }
        join(vec![writer.thread]);
        disk.directory.release();
        true
    }

    /// As [`Cache::release_directory`], and ends the reading threads. For an orderly end, when nothing is fetched any more.
    pub fn close(&self, within: Duration) -> bool {
        let has_written = self.release_directory(within);
        let Some(disk) = self.disk.as_ref().filter(|_| !self.pool.dead()) else { return true };
        let Some(threads) = lock(&disk.threads).take() else { return true };
        disk.queue.end_reads();
        // A thread that a file blocks has nothing to write.
        if has_ended(&threads.reading, Instant::now() + THREAD_TIMEOUT) {
            join(threads.readers);
        }
        has_written
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        // A forked child does not have the threads, and one of them may have held the lock.
        if let Some(disk) = self.disk.as_ref().filter(|_| !self.pool.dead()) {
            disk.queue.finish_writes(Vec::new(), Instant::now());
            disk.queue.end_reads();
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
