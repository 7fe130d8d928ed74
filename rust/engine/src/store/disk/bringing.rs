//! Serving what is on disk: from its file, or by way of memory.
//!
//! What is asked for once is read from its file, for whoever asked. What is asked for again is brought back into memory,
//! where all who ask from then on follow the one reading, as they do a fetch. Its file stays, so that it leaves memory
//! again at no cost.

use std::future::poll_fn;

use super::super::body::{Body, Filler, THIN};
use super::super::cache::{Cache, seconds};
use super::super::eviction::Item;
use super::super::object::{Bytes, Object, Part};
use super::reading::{self, FileReader, Opened, Unread};
use super::{Disk, Filed, count};
use crate::cache::Key;
use crate::sync::Arc;

/// What became of an object of which something was on disk.
#[derive(Debug)]
pub(in super::super) enum Brought {
    /// It can be read.
    Here(Arc<Object>),
    /// It is not there any more, or something newer is: look again.
    Again,
    /// It cannot be read now. The origin is to be asked, and what is stored stays.
    Failed,
}

impl Cache {
    /// Makes `object` such that it can be read from the byte at `place` of `filed` on.
    pub(in super::super) async fn bring(
        self: &Arc<Self>,
        object: &Object,
        filed: &Arc<Filed>,
        place: u64,
    ) -> Brought {
        match self.open(filed, place).await {
            Ok(bytes) => Brought::Here(Arc::new(object.readable(filed, bytes))),
            Err(Unread::Failed) => Brought::Failed,
            // As if it were not there: the disk, or this file, is not asked again.
            Err(Unread::Late | Unread::Damaged) => Brought::Again,
        }
    }

    /// What is in `filed`, such that it can be read: the byte at `place` of it has been read, and is what was stored.
    pub(in super::super) async fn open(
        self: &Arc<Self>,
        filed: &Arc<Filed>,
        place: u64,
    ) -> Result<Bytes, Unread> {
        let Some(disk) = &self.disk else { return Err(Unread::Failed) };
        let opened = if filed.is_damaged() || filed.is_late() {
            Err(Unread::Damaged)
        } else {
            reading::open(&disk.directory, &disk.queue, &self.pool, filed, place).await
        };
        let opened = opened.inspect_err(|unread| {
            if matches!(unread, Unread::Damaged) {
                if !filed.is_late() {
                    filed.damage();
                }
                self.forget_file(filed);
            }
        })?;
        count(&disk.counts.hits);
        filed.item.hit(seconds(Self::now()));
        let back = if filed.ask() > 0 { self.bring_back(disk, &opened) } else { None };
        Ok(back.map_or(Bytes::File(opened), Bytes::Body))
    }

    /// Has all of a file read into memory, if there is room and nobody else does.
    fn bring_back(self: &Arc<Self>, disk: &Disk, opened: &Arc<Opened>) -> Option<Arc<Body>> {
        let filed = opened.filed();
        if !self.make_room(usize::try_from(filed.layout.length).ok()?) {
            return None;
        }
        let (body, filler) = Body::new(&self.budget);
        let bring = |part: &mut Part| part.bring_back(&body);
        let change = self
            .index
            .with(filed.item.value(), |entry| entry.change(&filed.item, |part| part.is_in(filed), bring));
        match change? {
            Err(there) => Some(there),
            Ok(item) => {
                count(&disk.counts.promoted);
                let reader = Opened::follow(opened, 0..u64::MAX);
                let (cache, filed) = (Arc::clone(self), Arc::clone(filed));
                tokio::spawn(Filling { cache, filed, item, is_kept: true }.run(reader, filler));
                Some(body)
            }
        }
    }
}

/// Reads a file into memory, for all who follow. Dropped before its end, what it reads is on disk alone again.
struct Filling {
    cache: Arc<Cache>,
    filed: Arc<Filed>,
    /// By what it leaves memory.
    item: Arc<Item<Key>>,
    is_kept: bool,
}

impl Filling {
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
                    if self.filed.is_damaged() || self.filed.is_late() {
                        self.cache.forget_file(&self.filed);
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
                filler.thin_out(THIN);
            }
        }
        filler.finish(self.filed.ending.clone());
        if self.is_kept {
            self.is_kept = false;
            self.cache.admit(self.item.value(), &self.item);
        }
    }

    /// Nobody finds it in memory from now on.
    fn leave(&mut self) {
        self.is_kept = false;
        self.cache.leave_memory(&self.item);
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        if self.is_kept {
            self.leave();
        }
    }
}
