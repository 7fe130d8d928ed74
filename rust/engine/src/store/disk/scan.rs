//! What is on disk from before: looked through at the start, in the background. Heads are read, and bodies are not;
//! whoever asks for what has not been found yet gets it from the origin.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

use super::super::cache::Cache;
use super::super::eviction::Item;
use super::super::object::Object;
use super::super::purge::RequestEpoch;
use super::file::StoredFile;
use super::format::{Head, Layout, PREFIX, decode, room};
use super::{Disk, count};
use crate::stream::Ending;
use crate::sync::Arc;

impl Cache {
    /// Runs on the thread that writes, before it writes anything: until all is known, what there is room for is not.
    pub(super) fn scan(&self) {
        let Some(disk) = &self.disk else { return };
        for folder in 0..=u8::MAX {
            let Ok(names) = disk.directory.names(folder) else {
                // Nothing of it will be found; it is looked through at the next start.
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
                    // It is looked at again at the next start.
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
        // Relaxed: a hint. Whoever closes does so from one thread, and joins this one.
        disk.is_ready.store(true, Ordering::Relaxed);
    }

    /// Puts what was found into the index, beside parts of the same state; unless it has been purged or something newer is
    /// there.
    fn offer(&self, disk: &Disk, layout: Layout, head: Head) {
        let Head { key, stored, reason, tags, trailers } = head;
        let hash = self.index.hash(&key);
        let item = |place| Item::new(hash.wrapping_add(place), key.clone());
        let ending = Ending { trailers, ..Ending::default() };
        let stored_file = Arc::new(StoredFile::new(layout, item(stored.content.first().start()), ending));
        let object = Arc::new(Object::on_disk(stored, reason, tags, item, Arc::clone(&stored_file)));
        // Before it can be found: whoever removes it from the index takes it out here as well.
        disk.admit(&stored_file, &object);
        let since = RequestEpoch { requested: object.stored.freshness.received(), purge: 0, own_purge: None };
        match self.index.offer(&key, &object, since) {
            Some(added) => self.drop_replaced(added),
            None => self.remove_file(&stored_file),
        }
        self.make_room_on_disk(disk, 0);
    }
}

/// The head of a file, as [`read_head`] has it; none if only that file does not come. One of the threads that read looks, so that
/// what hangs keeps that one alone. A disk that hangs is waited for.
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

/// The head of a file that is as long as it says.
fn read_head(name: u64, file: &File) -> Option<(Layout, Head)> {
    let mut prefix = [0; PREFIX];
    file.read_exact_at(&mut prefix, 0).ok()?;
    let mut head = vec![0; room(&prefix)?];
    file.read_exact_at(&mut head, 0).ok()?;
    decode(name, &head, file.metadata().ok()?.len())
}
