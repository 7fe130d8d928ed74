//! Serves responses on disk: from the file, or through memory.
//!
//! The first request for a file reads it. The second reads it back into memory, where later requests follow the same
//! read, as they do a fill. The file stays, so that the response is evicted from memory again at no cost.

use std::future::poll_fn;

use super::super::body::{Body, Filler, PASS_THROUGH_WINDOW};
use super::super::cache::{Cache, seconds};
use super::super::eviction::Item;
use super::super::object::{Bytes, Object, Part};
use super::read::{self, FileReader, OpenFile, ReadFailure};
use super::{Disk, StoredFile, count};
use crate::cache::Key;
use crate::sync::Arc;
use crate::work::{Work, worked};

/// The result of loading an object that is on disk in part.
#[derive(Debug)]
pub(in super::super) enum Loaded {
    /// It can be read.
    Ready(Arc<Object>),
    /// It has been removed or replaced: look it up again.
    Gone,
    /// It cannot be read now. The caller asks the origin; the stored response stays.
    Failed,
}

impl Cache {
    /// Makes `object` readable from the byte at `place` of `stored_file`.
    pub(in super::super) async fn bring(
        self: &Arc<Self>,
        object: &Object,
        stored_file: &Arc<StoredFile>,
        place: u64,
    ) -> Loaded {
        match self.open(stored_file, place).await {
            Ok(bytes) => Loaded::Ready(Arc::new(object.readable(stored_file, bytes))),
            Err(ReadFailure::Failed) => Loaded::Failed,
            // Treated as missing: the disk, or this file, is not read again.
            Err(ReadFailure::Late | ReadFailure::Damaged) => Loaded::Gone,
        }
    }

    /// Opens `stored_file` and reads and verifies the block with the byte at `place`.
    pub(in super::super) async fn open(
        self: &Arc<Self>,
        stored_file: &Arc<StoredFile>,
        place: u64,
    ) -> Result<Bytes, ReadFailure> {
        let Some(disk) = &self.disk else { return Err(ReadFailure::Failed) };
        let opened = if stored_file.is_damaged() || stored_file.is_late() {
            Err(ReadFailure::Damaged)
        } else {
            read::open(&disk.directory, &disk.queue, &self.pool, stored_file, place).await
        };
        let opened = opened.inspect_err(|unread| {
            if matches!(unread, ReadFailure::Damaged) {
                if !stored_file.is_late() {
                    stored_file.damage();
                }
                self.forget_file(stored_file);
            }
        })?;
        count(&disk.counts.hits);
        stored_file.item.hit(seconds(Self::now()));
        let back = if stored_file.ask() > 0 { self.promote(disk, &opened) } else { None };
        Ok(back.map_or(Bytes::File(opened), Bytes::Body))
    }

    /// Reads the whole file into memory, if there is room and it is not being read already.
    fn promote(self: &Arc<Self>, disk: &Disk, opened: &Arc<OpenFile>) -> Option<Arc<Body>> {
        let stored_file = opened.stored_file();
        if !self.make_room(usize::try_from(stored_file.layout.length).ok()?) {
            return None;
        }
        let (body, filler) = Body::new(&self.budget);
        let bring = |part: &mut Part| part.promote(&body);
        let change = self.index.with(stored_file.item.value(), |entry| {
            entry.change(&stored_file.item, |part| part.is_in(stored_file), bring)
        });
        match change? {
            Err(there) => Some(there),
            Ok(item) => {
                count(&disk.counts.promoted);
                let reader = OpenFile::follow(opened, 0..u64::MAX);
                let (cache, stored_file) = (Arc::clone(self), Arc::clone(stored_file));
                let promotion = Promotion { cache, stored_file, item, is_kept: true };
                tokio::spawn(worked(Work::Cache, promotion.run(reader, filler)));
                Some(body)
            }
        }
    }
}

/// Reads a file into memory, for all followers. If it is dropped early, the response is on disk only again.
struct Promotion {
    cache: Arc<Cache>,
    stored_file: Arc<StoredFile>,
    /// The eviction item in memory.
    item: Arc<Item<Key>>,
    is_kept: bool,
}

impl Promotion {
    /// # Cancellation
    /// Followers get an error.
    async fn run(mut self, mut reader: FileReader, filler: Filler) {
        loop {
            // A retained body is read for later requests as well.
            let goes_on = || self.is_kept;
            let next =
                poll_fn(|context| filler.poll_next(context, |context| reader.poll_next(context), goes_on));
            match next.await.flatten() {
                None => break,
                Some(Ok(piece)) => filler.push(piece),
                Some(Err(error)) => {
                    // Before the followers get the error, so that a new lookup does not find the file.
                    if self.stored_file.is_damaged() || self.stored_file.is_late() {
                        self.cache.forget_file(&self.stored_file);
                    }
                    if self.is_kept {
                        self.leave();
                    }
                    return filler.fail(error);
                }
            }
            if self.is_kept && !self.cache.make_room(0) {
                // Its readers go on; no request begins to read it.
                self.leave();
                filler.stop_retaining(PASS_THROUGH_WINDOW);
            }
        }
        filler.finish(self.stored_file.ending.clone());
        if self.is_kept {
            self.is_kept = false;
            self.cache.admit(self.item.value(), &self.item);
        }
    }

    /// No request finds it in memory from now on.
    fn leave(&mut self) {
        self.is_kept = false;
        self.cache.drop_from_memory(&self.item);
    }
}

impl Drop for Promotion {
    fn drop(&mut self) {
        if self.is_kept {
            self.leave();
        }
    }
}
