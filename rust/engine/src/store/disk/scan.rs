//! The scan at the start for files of an earlier process, in the background. It reads heads, not bodies; a response
//! that it has not found yet is fetched from the origin.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

use super::super::cache::Cache;
use super::super::object::{Object, item};
use super::super::purge::RequestEpoch;
use super::file::StoredFile;
use super::format::{Head, Layout, PREFIX, decode, room};
use super::{Disk, count};
use crate::stream::Ending;
use crate::sync::Arc;

impl Cache {
    /// Runs on the writing thread before it writes anything: the room is not known before the end of the scan.
    pub(super) fn scan(&self) {
        let Some(disk) = &self.disk else { return };
        for folder in 0..=u8::MAX {
            let Ok(names) = disk.directory.names(folder) else {
                // Its files are not found before the next start.
                count(&disk.counts.failed);
                continue;
            };
            for name in names {
                match look(disk, name) {
                    Some(Ok(Some((layout, head)))) => self.offer(disk, layout, head),
                    Some(Ok(None)) => {
                        count(&disk.counts.damaged);
                        disk.remove(name);
                    }
                    // It is tried again at the next start.
                    Some(Err(_)) | None => count(&disk.counts.failed),
                }
                loop {
                    let (task, goes_on) = disk.queue.next_small_task();
                    if !goes_on {
                        return;
                    }
                    let Some(task) = task else { break };
                    self.run_task(task);
                }
            }
        }
        // Relaxed: a hint. The thread that closes the cache joins this one.
        disk.is_ready.store(true, Ordering::Relaxed);
    }

    /// Adds a response to the index, beside parts of the same state, unless it has been purged or there is a newer one.
    fn offer(&self, disk: &Disk, layout: Layout, head: Head) {
        let Head { key, stored, reason, tags, trailers } = head;
        let item = |start| item(&key, start);
        let ending = Ending { trailers, ..Ending::default() };
        let stored_file = Arc::new(StoredFile::new(layout, item(stored.content.first().start()), ending));
        let object = Arc::new(Object::on_disk(stored, reason, tags, item, Arc::clone(&stored_file)));
        // Before it is in the index: what removes it from there removes it from the eviction order too.
        disk.admit(&stored_file, &object);
        let since = RequestEpoch { requested: object.stored.freshness.received(), purge: 0, own_purge: None };
        match self.index.offer(&key, &object, since) {
            Some(added) => self.drop_replaced(added),
            None => self.remove_file(&stored_file),
        }
        self.make_room_on_disk(disk, 0);
    }
}

/// The head of a file, as [`read_head`] gives it; `None` if the file blocks. A reading thread does it, so that only
/// that thread is blocked. If the disk hangs it is waited for.
fn look(disk: &Disk, name: u64) -> Option<io::Result<Option<(Layout, Head)>>> {
    loop {
        let directory = Arc::clone(&disk.directory);
        let found =
            disk.queue.wait_for(name, move || directory.read(name).map(|file| read_head(name, &file)));
        if found.is_some() || disk.queue.is_closed() || !disk.queue.record_timeout(None) {
            return found;
        }
    }
}

/// The head of a file of the right size.
fn read_head(name: u64, file: &File) -> Option<(Layout, Head)> {
    let mut prefix = [0; PREFIX];
    file.read_exact_at(&mut prefix, 0).ok()?;
    let mut head = vec![0; room(&prefix)?];
    file.read_exact_at(&mut head, 0).ok()?;
    decode(name, &head, file.metadata().ok()?.len())
}
