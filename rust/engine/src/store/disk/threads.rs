//! The threads of a cache's disk: started with the cache, ended with it.

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

/// For how long the threads are waited for at the end without a sign of life: a disk that is busy takes tenths of a second.
/// Arbitrary.
const THREAD_TIMEOUT: Duration = Duration::from_secs(1);

impl Cache {
    /// Starts the threads, and with them the look at what is there.
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
        // It does not keep the cache alive: one that is dropped ends its threads.
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

    /// Writes what is in memory alone and still of use, for as long as `within`, and lets go of the directory's threads.
    /// For an orderly end, when nothing is fetched any more: what is not written by then is lost with the memory.
    ///
    /// A disk that hangs is waited for no longer than for a reading, from its last sign of life on. False if it still keeps what is written: the directory
    /// is taken then until it answers, or the process ends.
    pub fn close(&self, within: Duration) -> bool {
        let Some(disk) = self.disk.as_ref().filter(|_| !self.pool.dead()) else { return true };
        let Some(threads) = lock(&disk.threads).take() else { return true };
        let now = Self::now();
        let mut last = Vec::new();
        // A directory that was not looked through may be fuller than it seems.
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
        // One that a file keeps has nothing to say to anybody.
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
        // The threads are not there in a forked child, and one of them may have held the lock.
        if let Some(disk) = self.disk.as_ref().filter(|_| !self.pool.dead()) {
            disk.queue.close(Vec::new(), Instant::now());
        }
    }
}

impl Disk {
    /// Whether the thread that writes ends, which has until then to do so: a disk that gets nothing done for as long as anybody
    /// waits for a reading hangs.
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
