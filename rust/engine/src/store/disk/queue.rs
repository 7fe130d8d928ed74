//! What the file threads have before them: reads, which somebody waits for, and what the one writing thread does.
//!
//! Reads are bounded by who waits for them, each with memory of its own. What is to be written is bounded in bytes:
//! whoever finds no room keeps nothing there. Removals and changes of heads are small, and never refused. Removals go
//! before all else, because they make room. Changes take turns with what is to be written: a large object has thousands of
//! files, and all of their heads change when it is confirmed.

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

/// What the writing thread does.
#[derive(Debug)]
pub(crate) enum DiskTask {
    /// The head of a file is out of date.
    Change(Arc<StoredFile>),
    /// A file that nothing refers to any more.
    Remove(u64),
    /// What leaves memory.
    Keep(PendingWrite),
}

/// A whole body, or a part, that leaves memory by way of `item`, and what it takes there until then.
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

/// What one of the threads that read does for somebody who waits for it.
pub(crate) trait ReadTask: Send {
    /// Whether anybody does.
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
        // Nobody is there if the client has left.
        drop(self.reply.send((self.work)()));
    }
}

/// A reading that no thread has begun.
struct PendingRead {
    /// The name of its file.
    name: u64,
    since: Instant,
    reading: Box<dyn ReadTask>,
}

/// Threads that read, so that as many reads of pages that are not in memory are before the disk at once. Arbitrary.
pub(super) const READERS: usize = 4;

/// The most threads that read one file at once: half of them, so that one that hangs leaves others to read the rest.
const MAX_READERS_OF_FILE: usize = READERS / 2;

#[derive(Default)]
struct State {
    reads: VecDeque<PendingRead>,
    /// The names of the files that threads read.
    reading: Vec<u64>,
    removals: VecDeque<u64>,
    /// By name: what changes again before its turn has come is written once.
    changes: BTreeMap<u64, Arc<StoredFile>>,
    writes: VecDeque<PendingWrite>,
    /// What was done last was a change.
    has_changed: bool,
    /// Bytes of memory that leave once they are written.
    leaving: usize,
    /// From when on nothing is put in, and until when the rest may be written.
    closed: Option<Instant>,
    /// The writing thread has been told that there is nothing more.
    ended: bool,
}

impl State {
    /// Whether a thread that is free would begin it.
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

/// Shared by those who ask and the threads.
pub(crate) struct Queue {
    pub(crate) deadline: Deadline,
    state: Mutex<State>,
    for_reading: Condvar,
    for_writing: Condvar,
    /// Chores that are over.
    done: AtomicU64,
}

impl Queue {
    /// `limit` is how long anybody waits for a reading.
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            deadline: Deadline::new(limit),
            state: Mutex::default(),
            for_reading: Condvar::new(),
            for_writing: Condvar::new(),
            done: AtomicU64::new(0),
        }
    }

    /// A task is over.
    pub(crate) fn count_task(&self) {
        // Relaxed: a count, which orders nothing.
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// How many are.
    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Has a thread do `work` with the file `name`, and gives what it gives. Dropped unrun once the queue is closed: whoever waits is told by
    /// that.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        name: u64,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (reply, answer) = oneshot::channel();
        let mut state = lock(&self.state);
        if state.closed.is_none() {
            let (since, reading) = (Instant::now(), Box::new(Request { reply, work }));
            state.reads.push_back(PendingRead { name, since, reading });
            drop(state);
            self.for_reading.notify_one();
        }
        answer
    }

    /// Does as [`Queue::ask`], and waits, for as long as may be. None where that was not long enough, or the queue is closed.
    /// Not on an engine thread.
    pub(crate) fn wait_for<T: Send + 'static>(
        &self,
        name: u64,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (reply, answer) = sync_channel(1);
        // The other side waits for nothing: it may have left.
        let _wanted = self.ask(name, move || drop(reply.send(work())));
        answer.recv_timeout(self.deadline.limit()).ok()
    }

    /// Whether nothing more is taken.
    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.state).closed.is_some()
    }

    /// Somebody has waited for `stored_file`, if it was known, for too long, and no longer does. Says whether the disk hangs, and not
    /// that file alone. What nobody waits for leaves, with its memory: the threads may be kept for hours.
    pub(crate) fn record_timeout(&self, stored_file: Option<&StoredFile>) -> bool {
        let (is_hanging, unwanted) = {
            let mut state = lock(&self.state);
            // No thread has been free for as long.
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

    /// The file of that name is to go. Never refused while there is somebody to do it: what is written last may have others
    /// removed.
    pub(crate) fn remove(&self, name: u64) {
        self.add(|state| state.removals.push_back(name));
    }

    /// The heads of `files` are to be written anew. Never refused either.
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

    /// Takes what is to be written, unless more than `most` bytes would leave at once.
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

    /// So many bytes have left.
    pub(crate) fn has_left(&self, cost: usize) {
        lock(&self.state).leaving -= cost;
    }

    /// Bytes of memory that leave once they are written.
    pub(crate) fn leaving(&self) -> usize {
        lock(&self.state).leaving
    }

    /// Waits for something to read, and reads it if somebody waits for it. False when the queue is closed.
    pub(crate) fn read_next(&self) -> bool {
        let PendingRead { name, reading, .. } = {
            let mut state = lock(&self.state);
            loop {
                if state.closed.is_some() {
                    return false;
                }
                if let Some(next) = state.next_reading() {
                    break next;
                }
                state = wait(&self.for_reading, state);
            }
        };
        // Clients leave while theirs waits.
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
            // It may be its turn only now.
            self.for_reading.notify_one();
        }
        true
    }

    /// Waits for something to do; none when the queue is closed, and nothing is left to do or the time for it is over.
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

    /// What is small and is to be done now, for whoever is in the middle of something long; and whether to go on with it.
    pub(crate) fn next_small_task(&self) -> (Option<DiskTask>, bool) {
        let mut state = lock(&self.state);
        (state.removal().or_else(|| state.change()), state.closed.is_none())
    }

    /// What is to be removed, for whoever needs the room.
    pub(crate) fn removal(&self) -> Option<DiskTask> {
        lock(&self.state).removal()
    }

    /// Takes nothing more, but for `last`, which is written until then.
    pub(crate) fn close(&self, last: Vec<PendingWrite>, until: Instant) {
        let dropped = {
            let mut state = lock(&self.state);
            if state.closed.is_some() {
                return;
            }
            state.closed = Some(until);
            state.leaving += last.iter().map(|leaving| leaving.cost).sum::<usize>();
            state.writes.extend(last);
            std::mem::take(&mut state.reads)
        };
        self.for_reading.notify_all();
        self.for_writing.notify_all();
        // Their memory goes here, and those who wait are told.
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
