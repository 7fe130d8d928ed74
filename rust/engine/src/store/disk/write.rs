//! Eviction from memory to disk and from disk: the work of the writing thread.

use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::super::body::Body;
use super::super::cache::{Cache, seconds, until};
use super::super::entry::Entry;
use super::super::eviction::Item;
use super::super::object::{Object, Part};
use super::directory::Directory;
use super::file::{StoredFile, cost};
use super::format::{BLOCK, Known, Layout, encode};
use super::queue::{DiskTask, PendingWrite};
use super::{Disk, count};
use crate::cache::{Key, Time};
use crate::stream::Ending;
use crate::sync::{Arc, lock};

/// A response that expires within this time is not written: live segments expire before they would be read from disk.
/// Arbitrary.
const MIN_LIFETIME: Duration = Duration::from_secs(60);

/// How long nothing is written after a failure. A full disk is not tried for each object, and is used again soon after
/// there is space. Arbitrary.
const WRITE_PAUSE: Duration = Duration::from_secs(5);

/// Whether a response can be served, or validated, for long enough to be worth writing.
pub(super) fn is_of_use(object: &Object, now: Time) -> bool {
    !object.stored.is_invalid
        && until(object, now).is_none_or(|until| until > seconds(now.plus(MIN_LIFETIME)))
}

impl Cache {
    /// Evicts the part of `item` from memory: it is written to disk first if it is not there, and can be.
    pub(in super::super) fn drop_from_memory(&self, item: &Arc<Item<Key>>) {
        let gone = self.index.with(item.value(), |entry| {
            let object = entry.having(item, |part| part.leaves_by(item))?;
            if self.keep(object, item) { None } else { entry.drop_from_memory(item) }
        });
        // The bytes are released here, outside the lock.
        drop(gone);
    }

    /// Queues the part of `item` to be written, and returns whether it will be. It is read from memory until then.
    fn keep(&self, object: &Object, item: &Arc<Item<Key>>) -> bool {
        let (Some(disk), Some(body)) = (&self.disk, object.alone_of(item)) else { return false };
        if !is_of_use(object, Self::now()) {
            return false;
        }
        let is_taken =
            !disk.is_paused() && disk.queue.keep(PendingWrite::new(item, body), disk.leaving_limit);
        if !is_taken {
            count(&disk.counts.skipped);
        }
        is_taken
    }

    /// Updates the heads of the files of `object`.
    pub(in super::super) fn change_files(&self, object: &Object) {
        if let Some(disk) = &self.disk {
            disk.queue.change(object.files());
        }
    }

    /// Removes a file to which nothing refers any more.
    pub(in super::super) fn remove_file(&self, stored_file: &Arc<StoredFile>) {
        if let Some(disk) = self.disk.as_ref().filter(|_| stored_file.remove()) {
            lock(&disk.eviction).remove(&stored_file.item);
            if stored_file.is_damaged() {
                count(&disk.counts.damaged);
            }
            disk.queue.remove(stored_file.layout.name);
        }
    }

    /// Removes a file from the index. Bytes in memory stay.
    pub(in super::super) fn forget_file(&self, stored_file: &Arc<StoredFile>) {
        let bytes = self.index.with(stored_file.item.value(), |entry| entry.drop_from_disk(stored_file));
        self.remove_file(stored_file);
        drop(bytes);
    }

    /// Runs a task on the writing thread.
    pub(super) fn run_task(&self, task: DiskTask) {
        let Some(disk) = &self.disk else { return };
        match task {
            DiskTask::Remove(name) => disk.remove(name),
            DiskTask::Change(stored_file) => {
                if let Some(known) = self.known_of(&stored_file).filter(|_| !stored_file.is_removed()) {
                    disk.change(&known, &stored_file);
                }
            }
            DiskTask::Keep(leaving) => {
                let cost = leaving.cost;
                self.write(disk, &leaving);
                // Before the memory is released: bytes that are released and still count would make it seem
                // that there is room.
                disk.queue.has_left(cost);
                drop(leaving);
            }
        }
    }

    /// The object for the head of `stored_file`.
    fn known_of(&self, stored_file: &Arc<StoredFile>) -> Option<Object> {
        let is_meant = |part: &Part| part.is_in(stored_file);
        let item = &stored_file.item;
        let known = |entry: &Entry| entry.having(item, is_meant)?.known_of(item, is_meant);
        self.index.look(stored_file.item.value(), known).flatten()
    }

    fn write(&self, disk: &Disk, leaving: &PendingWrite) {
        let PendingWrite { item, body, .. } = leaving;
        let (key, is_meant) = (item.value(), |part: &Part| part.leaves_by(item));
        let known = |entry: &Entry| {
            let object = entry.having(item, is_meant).filter(|object| object.alone_of(item).is_some());
            object.and_then(|object| object.known_of(item, is_meant))
        };
        let Some(known) = self.index.look(key, known).flatten() else {
            // Purged, replaced or written meanwhile.
            return;
        };
        let written = if disk.is_paused() {
            count(&disk.counts.skipped);
            None
        } else {
            self.file(disk, &known, item, body)
        };
        let Some((stored_file, head)) = written else { return self.forget_part(key, item) };
        let bytes =
            self.index.with(key, |entry| entry.change(item, is_meant, |part| part.file(&stored_file)));
        match self.known_of(&stored_file) {
            None => self.remove_file(&stored_file),
            // It was confirmed meanwhile.
            Some(known) if head_of(&known, &stored_file).as_ref() != Some(&head) => {
                disk.queue.change([&stored_file].into_iter());
            }
            Some(_) => {}
        }
        drop(bytes);
    }

    /// Writes a file, and returns it with its head; `None` if the disk does not take it.
    fn file(
        &self,
        disk: &Disk,
        known: &Object,
        item: &Arc<Item<Key>>,
        body: &Arc<Body>,
    ) -> Option<(Arc<StoredFile>, Vec<u8>)> {
        let ending = Ending { trailers: body.ending()?.trailers, ..Ending::default() };
        let (layout, head) =
            encode(said_of(known, &ending.trailers), Directory::new_name(), body.length(), None)?;
        if !self.make_room_on_disk(disk, cost(layout)) {
            count(&disk.counts.skipped);
            return None;
        }
        if let Err(error) = write_file(&disk.directory, layout, &head, body) {
            disk.fail(&error);
            // It may not exist; a later start removes it otherwise.
            let _ = disk.directory.give_up(layout.name);
            return None;
        }
        count(&disk.counts.written);
        let stored_file =
            Arc::new(StoredFile::new(layout, Item::new(item.key(), item.value().clone()), ending));
        disk.admit(&stored_file, known);
        Some((stored_file, head))
    }

    /// Evicts from disk until `wanted` more bytes fit, and returns whether they do.
    pub(super) fn make_room_on_disk(&self, disk: &Disk, wanted: u64) -> bool {
        loop {
            let Some(room) = disk.budget.checked_sub(wanted) else { return false };
            let item = {
                let mut eviction = lock(&disk.eviction);
                if eviction.bytes() <= room {
                    break;
                }
                eviction.evict(seconds(Self::now()), room)
            };
            let Some(item) = item else { return false };
            self.drop_from_disk(&item);
        }
        // The evicted files are removed before anything takes their room.
        while let Some(task) = disk.queue.removal() {
            self.run_task(task);
        }
        true
    }

    /// Evicts a part from disk. It stays in memory, if it is there.
    fn drop_from_disk(&self, item: &Arc<Item<Key>>) {
        let is_meant =
            |part: &Part| part.stored_file().is_some_and(|stored_file| Arc::ptr_eq(&stored_file.item, item));
        let stored_file = self.index.look(item.value(), |entry| {
            entry.having(item, is_meant).and_then(|object| {
                object.files().find(|stored_file| Arc::ptr_eq(&stored_file.item, item)).cloned()
            })
        });
        if let Some(stored_file) = stored_file.flatten() {
            self.forget_file(&stored_file);
        }
    }
}

impl Disk {
    /// Adds a file to the eviction order.
    pub(super) fn admit(&self, stored_file: &StoredFile, object: &Object) {
        let now = Cache::now();
        lock(&self.eviction).insert(&stored_file.item, stored_file.cost(), until(object, now), seconds(now));
    }

    fn is_paused(&self) -> bool {
        if self.queue.deadline.is_hanging() {
            return true;
        }
        let mut paused = lock(&self.paused);
        *paused = paused.filter(|until| *until > Instant::now());
        paused.is_some()
    }

    /// A write has failed.
    fn fail(&self, error: &io::Error) {
        count(&self.counts.failed);
        *lock(&self.paused) = Some(Instant::now() + WRITE_PAUSE);
        lock(&self.trouble).said = Some(error.to_string());
    }

    /// A missing file is as good as removed; a file that cannot be removed is found at the next start.
    pub(super) fn remove(&self, name: u64) {
        match self.directory.remove(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => self.fail(&error),
            _ => {}
        }
    }

    /// Writes the head of a file again, in its place: a head that is torn by a crash has a wrong checksum. If it cannot
    /// be written, the file is of use until this process ends, and not to the next.
    fn change(&self, known: &Object, stored_file: &StoredFile) {
        let blank = || vec![0; usize::try_from(stored_file.layout.room).unwrap_or_default()];
        let head = head_of(known, stored_file).unwrap_or_else(blank);
        let file = self.directory.change(stored_file.layout.name);
        if let Err(error) = file.and_then(|file| file.write_all_at(&head, 0)) {
            stored_file.damage();
            self.fail(&error);
        }
    }
}

/// The head of `stored_file` for that object; `None` if it does not fit.
fn head_of(known: &Object, stored_file: &StoredFile) -> Option<Vec<u8>> {
    let Layout { name, room, length } = stored_file.layout;
    encode(said_of(known, &stored_file.ending.trailers), name, length, Some(room)).map(|(_, head)| head)
}

pub(in super::super) fn said_of<'a>(known: &'a Object, trailers: &'a [(Vec<u8>, Vec<u8>)]) -> Known<'a> {
    let Object { stored, reason, item, .. } = known;
    Known { key: item.value(), stored, reason, tags: known.own_tags(), trailers }
}

fn write_file(directory: &Directory, layout: Layout, head: &[u8], body: &Arc<Body>) -> io::Result<()> {
    let mut file = directory.begin(layout.name)?;
    file.write_all(head)?;
    let sums = write_body(&mut file, layout, body)?;
    file.write_all(&sums)?;
    directory.finish(layout.name)
}

/// Writes the body, and returns the sums of its blocks.
pub(in super::super) fn write_body(
    file: &mut impl Write,
    layout: Layout,
    body: &Arc<Body>,
) -> io::Result<Vec<u8>> {
    let mut follower = Body::follow(body, 0..u64::MAX);
    let mut context = Context::from_waker(Waker::noop());
    let mut sums = Vec::new();
    let mut written = 0;
    let mut sum = layout.summing(0);
    // It is complete: the follower is never pending.
    while let Poll::Ready(Some(piece)) = follower.poll_next(&mut context) {
        let piece = piece.map_err(io::Error::other)?;
        file.write_all(&piece)?;
        let mut rest: &[u8] = &piece;
        while !rest.is_empty() {
            let room = usize::try_from(BLOCK - written % BLOCK).unwrap_or(usize::MAX);
            let (now, later) = rest.split_at(room.min(rest.len()));
            sum.update(now);
            written += now.len() as u64;
            rest = later;
            if written % BLOCK == 0 || written == layout.length {
                sums.extend_from_slice(&sum.digest().to_le_bytes());
                sum = layout.summing(written / BLOCK);
            }
        }
    }
    if written == layout.length { Ok(sums) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}
