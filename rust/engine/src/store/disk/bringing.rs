//! Serving what is on disk: from its file, or by way of memory.
//!
//! What is asked for once is read from its file, for whoever asked. What is asked for again is brought back into memory,
//! where all who ask from then on follow the one reading, as they do a fetch. Its file stays, so that it leaves memory
//! again at no cost.

use std::future::poll_fn;
use std::task::Poll;

use super::super::body::{Body, Filler, THIN};
use super::super::cache::{Cache, seconds};
use super::super::object::Object;
use super::reading::{self, FileReader, Opened, Unread};
use super::{Disk, Filed, count};
use crate::cache::Key;
use crate::sync::Arc;

/// What became of an object that was on disk.
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
    /// Makes `object`, which is on disk alone, such that it can be read from the byte at `place` on: that byte has been
    /// read, and is what was stored.
    pub(in super::super) async fn bring(
        self: &Arc<Self>,
        key: &Key,
        object: &Arc<Object>,
        place: u64,
    ) -> Brought {
        let (Some(disk), Some(filed)) = (&self.disk, object.filed()) else { return Brought::Again };
        let opened = if filed.is_damaged() {
            Err(Unread::Damaged)
        } else {
            reading::open(&disk.directory, &disk.queue, &self.pool, filed, place).await
        };
        let opened = match opened {
            Ok(opened) => opened,
            Err(Unread::Failed) => return Brought::Failed,
            // As if it were not there: the disk is not asked again.
            Err(Unread::Late) => return Brought::Again,
            Err(Unread::Damaged) => {
                filed.damage();
                self.forget(key, |other| other.is_of(object));
                return Brought::Again;
            }
        };
        count(&disk.counts.hits);
        filed.item.hit(seconds(Self::now()));
        if filed.ask() > 0 {
            if let Some(object) = self.bring_back(disk, key, object, &opened) {
                return Brought::Here(object);
            }
        }
        Brought::Here(object.opened(&opened))
    }

    /// Has all of it read into memory, if there is room and nobody else does.
    fn bring_back(
        self: &Arc<Self>,
        disk: &Disk,
        key: &Key,
        object: &Arc<Object>,
        opened: &Arc<Opened>,
    ) -> Option<Arc<Object>> {
        let length = opened.filed().layout.length;
        if !self.make_room(usize::try_from(length).ok()?) {
            return None;
        }
        let (body, filler) = Body::new(&self.budget);
        let back = object.brought_back(&body);
        if !self.index.with(key, |entry| entry.exchange(object, &back)) {
            return None;
        }
        count(&disk.counts.promoted);
        let reader = Opened::follow(opened, 0, u64::MAX);
        let (cache, object) = (Arc::clone(self), Arc::clone(&back));
        let filling = Filling { cache, key: key.clone(), object, is_kept: true };
        tokio::spawn(filling.run(reader, Arc::clone(opened.filed()), filler));
        Some(back)
    }
}

/// Reads a file into memory, for all who follow. Dropped before its end, the object is on disk alone again.
struct Filling {
    cache: Arc<Cache>,
    key: Key,
    object: Arc<Object>,
    is_kept: bool,
}

impl Filling {
    /// # Cancellation
    /// Whoever follows is told that it has failed.
    async fn run(mut self, mut reader: FileReader, filed: Arc<Filed>, filler: Filler) {
        loop {
            let next = poll_fn(|context| {
                if filler.poll_room(context).is_ready() {
                    if let Poll::Ready(next) = reader.poll_next(context) {
                        return Poll::Ready(next);
                    }
                }
                // What is kept is read for those who come as well.
                if !self.is_kept && filler.poll_abandoned(context).is_ready() {
                    return Poll::Ready(None);
                }
                Poll::Pending
            });
            match next.await {
                None => break,
                Some(Ok(piece)) => filler.push(piece),
                Some(Err(error)) => {
                    if filed.is_damaged() {
                        self.is_kept = false;
                        self.cache.forget(&self.key, |other| other.is_of(&self.object));
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
        filler.finish(filed.ending.clone());
        if self.is_kept {
            self.is_kept = false;
            self.cache.admit(&self.key, &self.object.item);
        }
    }

    /// Nobody finds it in memory from now on.
    fn leave(&mut self) {
        self.is_kept = false;
        self.cache.leave_memory(&self.object.item);
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        if self.is_kept {
            self.leave();
        }
    }
}
