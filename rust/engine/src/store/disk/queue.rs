//! The work queue of the file threads: reads, for which requests wait, and tasks of the writing thread.
//!
//! Reads are bounded by the requests that wait, each with memory of its own. Writes are bounded in bytes: a body that
//! finds no room is not written. Removals and updates of heads are small, and never refused. Removals go before all
//! else, because they make room. Updates and writes take turns: a large object has thousands of files, and all of their
//! heads change when it is confirmed.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Condvar, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::super::body::Body;
use super::super::eviction::Item;
use super::deadline::Deadline;
use super::file::StoredFile;
use crate::cache::Key;
use crate::sync::{Arc, Mutex, MutexGuard, lock};

/// A task of the writing thread.
#[derive(Debug)]
pub(crate) enum DiskTask {
    /// Write the head of a file again.
    Change(Arc<StoredFile>),
    /// Remove a file, by name.
    Remove(u64),
    /// Write a body that is evicted from memory.
    Keep(PendingWrite),
}

/// A body, whole or a part, that is evicted from memory once it is written, and its cost until then.
#[derive(Debug)]
pub(crate) struct PendingWrite {
    pub(crate) item: Arc<Item<Key>>,
    pub(crate) body: Arc<Body>,
    pub(crate) cost: usize,
}

impl PendingWrite {
    pub(crate) fn new(item: &Arc<Item<Key>>, body: &Arc<Body>) -> Self {
        Self { item: Arc::clone(item), body: Arc::clone(body), cost: body.cost() }
    }
}

/// A read, for a request that waits.
pub(crate) trait ReadTask: Send {
    /// Whether the request still waits.
    fn is_wanted(&self) -> bool;
    fn read(self: Box<Self>);
}

struct Request<T, F> {
    reply: oneshot::Sender<T>,
    work: F,
}

impl<T: Send, F: FnOnce() -> T + Send> ReadTask for Request<T, F> {
    fn is_wanted(&self) -> bool {
        !self.reply.is_closed()
    }

    fn read(self: Box<Self>) {
        // The receiver is gone if the client has left.
        drop(self.reply.send((self.work)()));
    }
}

/// A read that no thread has begun.
struct PendingRead {
    /// The name of its file.
    name: u64,
    since: Instant,
    reading: Box<dyn ReadTask>,
}

/// The number of reading threads, so that as many reads of uncached pages are at the disk at once. Arbitrary.
pub(super) const READERS: usize = 4;

/// The limit of threads that read one file: half of them, so that a file that hangs leaves threads for the others.
const MAX_READERS_OF_FILE: usize = READERS / 2;

#[derive(Default)]
struct State {
    reads: VecDeque<PendingRead>,
    /// The names of the files that are being read.
    reading: Vec<u64>,
    removals: VecDeque<u64>,
    /// By name: a second update before the first is written replaces it.
    changes: BTreeMap<u64, Arc<StoredFile>>,
    writes: VecDeque<PendingWrite>,
    /// The last task was an update of a head.
    has_changed: bool,
    /// Bytes of memory that wait to be written.
    leaving: usize,
    /// Set when nothing more is written: until when the rest may be.
    closed: Option<Instant>,
    /// Nothing more is read.
    no_reads: bool,
    /// The writing thread has ended.
    ended: bool,
}

impl State {
    /// Whether a free thread would begin this read.
    fn may_read(&self, waiting: &PendingRead) -> bool {
        self.reading.iter().filter(|name| **name == waiting.name).count() < MAX_READERS_OF_FILE
    }

    fn next_reading(&mut self) -> Option<PendingRead> {
        let next = self.reads.iter().position(|waiting| self.may_read(waiting))?;
        let next = self.reads.remove(next)?;
        self.reading.push(next.name);
        Some(next)
    }

    fn removal(&mut self) -> Option<DiskTask> {
        self.removals.pop_front().map(DiskTask::Remove)
    }

    fn change(&mut self) -> Option<DiskTask> {
        let (_, stored_file) = self.changes.pop_first()?;
        self.has_changed = true;
        Some(DiskTask::Change(stored_file))
    }
}

/// Shared by the engine threads and the file threads.
pub(crate) struct Queue {
    pub(crate) deadline: Deadline,
    state: Mutex<State>,
    for_reading: Condvar,
    for_writing: Condvar,
    /// The number of completed tasks.
    done: AtomicU64,
}

impl Queue {
    /// `limit`: how long a read may take.
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            deadline: Deadline::new(limit),
            state: Mutex::default(),
            for_reading: Condvar::new(),
            for_writing: Condvar::new(),
            done: AtomicU64::new(0),
        }
    }

    /// Counts a completed task.
    pub(crate) fn count_task(&self) {
        // Relaxed: a count, which orders nothing.
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of completed tasks.
    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Runs `work` with the file `name` on a reading thread. If the queue is closed, `work` is dropped and the receiver
    /// gets an error.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        name: u64,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (reply, answer) = oneshot::channel();
        let mut state = lock(&self.state);
        if !state.no_reads {
            let (since, reading) = (Instant::now(), Box::new(Request { reply, work }));
            state.reads.push_back(PendingRead { name, since, reading });
            drop(state);
            self.for_reading.notify_one();
        }
        answer
    }

    /// As [`Queue::ask`], blocking. `None` after the timeout, or if the queue is closed. Not for engine threads.
    pub(crate) fn wait_for<T: Send + 'static>(
        &self,
        name: u64,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (reply, answer) = sync_channel(1);
        // The sender does not wait: the receiver may be gone.
        let _wanted = self.ask(name, move || drop(reply.send(work())));
        answer.recv_timeout(self.deadline.limit()).ok()
    }

    /// Whether nothing more is written.
    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.state).closed.is_some()
    }

    /// A read of `stored_file`, if it was known, has not ended in time. Returns whether the disk hangs, and not that
    /// file alone. Reads for which no request waits are dropped with their memory: the threads may be blocked for
    /// hours.
    pub(crate) fn record_timeout(&self, stored_file: Option<&StoredFile>) -> bool {
        let (is_hanging, unwanted) = {
            let mut state = lock(&self.state);
            // No thread has been free for the timeout.
            let is_late = |waiting: &PendingRead| waiting.since.elapsed() >= self.deadline.limit();
            let is_hanging = state.reads.iter().any(|waiting| is_late(waiting) && state.may_read(waiting));
            let reads = std::mem::take(&mut state.reads);
            let (wanted, unwanted): (VecDeque<_>, VecDeque<_>) =
                reads.into_iter().partition(|waiting| waiting.reading.is_wanted());
            state.reads = wanted;
            (is_hanging, unwanted)
        };
        self.deadline.record_timeout(is_hanging);
        if let Some(stored_file) = stored_file.filter(|_| !is_hanging) {
            stored_file.set_late(true);
        }
        drop(unwanted);
        is_hanging
    }

    /// Queues the removal of a file. Never refused while the writing thread runs: the last write may evict other files.
    pub(crate) fn remove(&self, name: u64) {
        self.add(|state| state.removals.push_back(name));
    }

    /// Queues updates of heads. Never refused either.
    pub(crate) fn change<'a>(&self, files: impl Iterator<Item = &'a Arc<StoredFile>>) {
        let named = files.map(|stored_file| (stored_file.layout.name, Arc::clone(stored_file)));
        self.add(|state| state.changes.extend(named));
    }

    fn add(&self, add: impl FnOnce(&mut State)) {
        let mut state = lock(&self.state);
        if !state.ended {
            add(&mut state);
            drop(state);
            self.for_writing.notify_one();
        }
    }

    /// Queues a write, unless more than `most` bytes would wait.
    pub(crate) fn keep(&self, leaving: PendingWrite, most: usize) -> bool {
        let mut state = lock(&self.state);
        let together = state.leaving.saturating_add(leaving.cost);
        if state.closed.is_some() || together > most {
            return false;
        }
        state.leaving = together;
        state.writes.push_back(leaving);
        drop(state);
        self.for_writing.notify_one();
        true
    }

    /// These bytes have been written or dropped.
    pub(crate) fn has_left(&self, cost: usize) {
        lock(&self.state).leaving -= cost;
    }

    /// Bytes of memory that wait to be written.
    pub(crate) fn leaving(&self) -> usize {
        lock(&self.state).leaving
    }

    /// Waits for a read and does it if it is still wanted. False when the queue is closed.
    pub(crate) fn read_next(&self) -> bool {
        let PendingRead { name, reading, .. } = {
            let mut state = lock(&self.state);
            loop {
                if state.no_reads {
                    return false;
                }
                if let Some(next) = state.next_reading() {
                    break next;
                }
                state = wait(&self.for_reading, state);
            }
        };
        // The client may have left meanwhile.
        if reading.is_wanted() {
            reading.read();
            self.deadline.record_answer();
        }
        let mut state = lock(&self.state);
        if let Some(place) = state.reading.iter().position(|other| *other == name) {
            state.reading.swap_remove(place);
        }
        if state.reads.iter().any(|waiting| waiting.name == name) {
            drop(state);
            // Another read of this file may be possible now.
            self.for_reading.notify_one();
        }
        true
    }

    /// Waits for a task; `None` when the queue is closed, and no task is left or the time is over.
    pub(crate) fn next_task(&self) -> Option<DiskTask> {
        let mut state = lock(&self.state);
        loop {
            if state.closed.is_some_and(|until| Instant::now() >= until) {
                state.writes.clear();
            }
            let may_change = !state.has_changed || state.writes.is_empty();
            let change = |state: &mut State| if may_change { state.change() } else { None };
            if let Some(task) = state.removal().or_else(|| change(&mut state)) {
                return Some(task);
            }
            if let Some(leaving) = state.writes.pop_front() {
                state.has_changed = false;
                return Some(DiskTask::Keep(leaving));
            }
            if state.closed.is_some() {
                state.ended = true;
                return None;
            }
            state = wait(&self.for_writing, state);
        }
    }

    /// The next removal or update, for a long task that lets them go first; and whether to go on with the long one.
    pub(crate) fn next_small_task(&self) -> (Option<DiskTask>, bool) {
        let mut state = lock(&self.state);
        (state.removal().or_else(|| state.change()), state.closed.is_none())
    }

    /// The next removal, for a task that needs the room.
    pub(crate) fn removal(&self) -> Option<DiskTask> {
        lock(&self.state).removal()
    }

    /// Takes no more to write. `last` is written if that ends before `until`.
    pub(crate) fn finish_writes(&self, last: Vec<PendingWrite>, until: Instant) {
        let mut state = lock(&self.state);
        if state.closed.is_none() {
            state.closed = Some(until);
            state.leaving += last.iter().map(|leaving| leaving.cost).sum::<usize>();
            state.writes.extend(last);
        }
        drop(state);
        self.for_writing.notify_all();
    }

    /// Nothing is written, whatever waits: for the writing thread, in place of its last task.
    pub(crate) fn abandon_writes(&self) {
        let mut state = lock(&self.state);
        state.writes.clear();
        state.ended = true;
    }

    /// Takes no more reads.
    pub(crate) fn end_reads(&self) {
        let dropped = {
            let mut state = lock(&self.state);
            state.no_reads = true;
            std::mem::take(&mut state.reads)
        };
        self.for_reading.notify_all();
        // Their memory is released here, and their requests get an error.
        drop(dropped);
    }
}

fn wait<'a>(condition: &Condvar, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
    condition.wait(state).unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("leaving", &self.leaving()).finish_non_exhaustive()
    }
}
