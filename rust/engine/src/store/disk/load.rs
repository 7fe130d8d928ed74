//! Serving what is on disk: from its file, or by way of memory.
//!
//! What is asked for once is read from its file, for whoever asked. What is asked for again is brought back into memory,
//! where all who ask from then on follow the one reading, as they do a fetch. Its file stays, so that it leaves memory
//! again at no cost.

use std::future::poll_fn;

use super::super::body::{Body, Filler, PASS_THROUGH_WINDOW};
use super::super::cache::{Cache, seconds};
use super::super::eviction::Item;
use super::super::object::{Bytes, Object, Part};
use super::read::{self, FileReader, OpenFile, ReadFailure};
use super::{Disk, StoredFile, count};
use crate::cache::Key;
use crate::sync::Arc;

/// What became of an object of which something was on disk.
#[derive(Debug)]
pub(in super::super) enum Loaded {
    /// It can be read.
    Ready(Arc<Object>),
    /// It is not there any more, or something newer is: look again.
    Gone,
    /// It cannot be read now. The origin is to be asked, and what is stored stays.
    Failed,
}

impl Cache {
    /// Makes `object` such that it can be read from the byte at `place` of `stored_file` on.
    pub(in super::super) async fn bring(
        self: &Arc<Self>,
        object: &Object,
        stored_file: &Arc<StoredFile>,
        place: u64,
    ) -> Loaded {
        match self.open(stored_file, place).await {
            Ok(bytes) => Loaded::Ready(Arc::new(object.readable(stored_file, bytes))),
            Err(ReadFailure::Failed) => Loaded::Failed,
            // As if it were not there: the disk, or this file, is not asked again.
            Err(ReadFailure::Late | ReadFailure::Damaged) => Loaded::Gone,
        }
    }

    /// What is in `stored_file`, such that it can be read: the byte at `place` of it has been read, and is what was stored.
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

    /// Has all of a file read into memory, if there is room and nobody else does.
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
                tokio::spawn(Promotion { cache, stored_file, item, is_kept: true }.run(reader, filler));
                Some(body)
            }
        }
    }
}

/// Reads a file into memory, for all who follow. Dropped before its end, what it reads is on disk alone again.
struct Promotion {
    cache: Arc<Cache>,
    stored_file: Arc<StoredFile>,
    /// By what it leaves memory.
    item: Arc<Item<Key>>,
    is_kept: bool,
}

impl Promotion {
    /// # Cancellation
    /// Whoever follows is told that it has failed.
    async fn run(mut self, mut reader: FileReader, filler: Filler) {
        loop {
            // A body that is kept is read for later requests as well.
            let goes_on = || self.is_kept;
            let next =
                poll_fn(|context| filler.poll_next(context, |context| reader.poll_next(context), goes_on));
            match next.await.flatten() {
                None => break,
                Some(Ok(piece)) => filler.push(piece),
                Some(Err(error)) => {
                    // Before they are told: whoever looks again then does not find it.
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
                // Whoever reads it goes on; nobody else begins.
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

    /// Nobody finds it in memory from now on.
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
