//! Where the bytes of a response are: in memory, on disk, or both.

use super::{Bytes, Object, Part};
use crate::cache::{Answer, Key};
use crate::store::body::Body;
use crate::store::disk::StoredFile;
use crate::store::eviction::Item;
use crate::sync::Arc;

impl Object {
    /// Whether all stored bytes are in memory.
    pub(in super::super) fn is_in_memory(&self) -> bool {
        self.parts.iter().all(Part::is_in_memory)
    }

    /// The same with the parts in memory, if there are any.
    pub(in super::super) fn in_memory(&self) -> Option<Self> {
        let parts: Vec<_> = self.parts.iter().filter(|part| part.is_in_memory()).cloned().collect();
        (!parts.is_empty()).then(|| self.with_parts(parts))
    }

    /// Whether `answer` to a request of `method` can be read now; of a response in parts without the disk, which may
    /// fail in between, so that the origin is asked.
    pub(in super::super) fn is_readable_now(&self, answer: &Answer, method: &str) -> bool {
        let is_whole = !self.is_in_parts();
        let has = |part: &Part| {
            part.body().is_some_and(|body| is_whole || part.stored_file.is_none() || !body.is_growing())
        };
        let has_all = |span| self.pieces(span).all(|(part, _)| has(part));
        method == "HEAD" || self.spans_of(answer).all(has_all)
    }

    /// The file that must be opened before `answer` to a request of `method` can be sent, and the offset in it of the
    /// first byte.
    pub(in super::super) fn first_of_disk(
        &self,
        answer: &Answer,
        method: &str,
    ) -> Option<(&Arc<StoredFile>, u64)> {
        let first = match answer {
            Answer::Full => 0,
            Answer::Partial(spans) => spans.first()?.start(),
            Answer::NotModified | Answer::Unsatisfiable => return None,
        };
        self.on_disk_at(first).filter(|_| method != "HEAD")
    }

    /// The file of the byte at `place`, and its offset there; `None` if it is in memory.
    pub(in super::super) fn on_disk_at(&self, place: u64) -> Option<(&Arc<StoredFile>, u64)> {
        let part = self.part_at(place).filter(|part| !part.is_in_memory())?;
        part.stored_file.as_ref().map(|stored_file| (stored_file, place - part.start))
    }

    /// The same, with the bytes of `stored_file` readable.
    pub(in super::super) fn readable(&self, stored_file: &Arc<StoredFile>, bytes: Bytes) -> Self {
        let mut readable = self.clone();
        if let Some(place) = self.position(&stored_file.item, |part| part.is_in(stored_file)) {
            readable.parts[place].bytes = Some(bytes);
        }
        readable
    }

    /// Whether it is the whole response that `other` has in a file, in memory alone: as it is when another process has given the
    /// bytes, and has written the file.
    pub(in super::super) fn lacks_file_of(&self, other: &Self) -> bool {
        let is_alone = |object: &Self| !object.is_in_parts() && object.in_memory_alone().next().is_some();
        is_alone(self)
            && !other.is_in_parts()
            && self.stored.freshness.received() == other.stored.freshness.received()
            && self.stored.selection == other.stored.selection
            && self.length() == other.length()
    }

    /// It has the file of `other` from now on.
    pub(in super::super) fn take_file_of(&mut self, other: &Self) {
        if let ([own], [part]) = (self.parts.as_mut_slice(), other.parts.as_slice()) {
            own.stored_file.clone_from(&part.stored_file);
        }
    }

    /// Its files.
    pub(in super::super) fn files(&self) -> impl Iterator<Item = &Arc<StoredFile>> {
        self.parts.iter().filter_map(|part| part.stored_file.as_ref())
    }

    /// The items and bodies of the parts that are complete in memory, and not on disk.
    pub(in super::super) fn in_memory_alone(&self) -> impl Iterator<Item = (&Arc<Item<Key>>, &Arc<Body>)> {
        self.parts.iter().filter_map(Part::in_memory_alone)
    }

    /// The same, of the part of `item`.
    pub(in super::super) fn alone_of(&self, item: &Arc<Item<Key>>) -> Option<&Arc<Body>> {
        self.part_of(item).and_then(Part::in_memory_alone).map(|(_, body)| body)
    }

    /// The head as if the matching part were all that is stored, without its bytes: a disk that hangs would keep them
    /// in memory.
    pub(in super::super) fn known_of(
        &self,
        item: &Item<Key>,
        is_meant: impl Fn(&Part) -> bool,
    ) -> Option<Self> {
        let place = self.position(item, is_meant)?;
        let Part { start, end, stored_file, item, .. } = self.parts[place].clone();
        Some(self.with_parts(vec![Part { start, end, bytes: None, stored_file, item }]))
    }
}

impl Part {
    /// Whether `item` is its eviction item.
    pub(in super::super) fn leaves_by(&self, item: &Arc<Item<Key>>) -> bool {
        Arc::ptr_eq(&self.item, item)
    }

    /// Whether it is in `stored_file`.
    pub(in super::super) fn is_in(&self, stored_file: &Arc<StoredFile>) -> bool {
        self.stored_file.as_ref().is_some_and(|other| Arc::ptr_eq(other, stored_file))
    }

    pub(in super::super) fn stored_file(&self) -> Option<&Arc<StoredFile>> {
        self.stored_file.as_ref()
    }

    /// Whether its bytes are in memory.
    fn is_in_memory(&self) -> bool {
        self.bytes.is_some()
    }

    fn in_memory_alone(&self) -> Option<(&Arc<Item<Key>>, &Arc<Body>)> {
        self.complete().filter(|_| self.stored_file.is_none()).map(|body| (&self.item, body))
    }

    /// Removes its bytes from memory if it has a file; otherwise returns false.
    pub(in super::super) fn drop_from_memory(&mut self, bytes: &mut Option<Bytes>) -> bool {
        if self.stored_file.is_some() {
            *bytes = self.bytes.take();
        }
        self.stored_file.is_some()
    }

    /// Removes its file if it is complete in memory; otherwise returns false.
    pub(in super::super) fn drop_from_disk(&mut self) -> bool {
        let is_there = self.complete().is_some();
        if is_there {
            self.stored_file = None;
        }
        is_there
    }

    /// It is in `stored_file` from now on, and no longer in memory.
    pub(in super::super) fn file(&mut self, stored_file: &Arc<StoredFile>) -> Option<Bytes> {
        self.stored_file = Some(Arc::clone(stored_file));
        self.bytes.take()
    }

    /// Adds `body`, which may be growing, and returns the eviction item; or the body that it has already.
    pub(in super::super) fn promote(&mut self, body: &Arc<Body>) -> Result<Arc<Item<Key>>, Arc<Body>> {
        if let Some(there) = self.body() {
            return Err(Arc::clone(there));
        }
        self.bytes = Some(Bytes::Body(Arc::clone(body)));
        Ok(Arc::clone(&self.item))
    }

    /// Its bytes in memory.
    pub(in super::super) fn into_bytes(self) -> Option<Bytes> {
        self.bytes
    }
}
