//! A stored response: its head, and its parts, each in memory, in a file, or in both. A whole response has one part. An
//! object does not change while a reader holds it: what replaces, confirms or moves a response makes another object,
//! which shares the bodies and the files.

mod parts;
mod places;
mod reader;

use super::body::Body;
use super::disk::{OpenFile, StoredFile};
use super::eviction::Item;
use crate::cache::{Candidate, Content, Key, Selection, Stored, Time};
use crate::sync::Arc;
use crate::wire::{Fields, Span, is_one_of, trim};

pub(super) use reader::Reader;

/// A stored response. Held by the index and its readers.
#[derive(Debug, Clone)]
pub(super) struct Object {
    pub(super) stored: Stored,
    /// The reason phrase of the origin.
    pub(super) reason: Box<[u8]>,
    /// Identity of the object across revalidations. For a whole response, also its eviction item.
    pub(super) item: Arc<Item<Key>>,
    /// The tags of the route and the request.
    own_tags: Box<[Box<str>]>,
    /// All tags, one per line: a purge by tag scans every object, and has no time to parse fields.
    tags: Box<[u8]>,
    /// Whether there is a Cache-Status of other caches. Rare; a hit does not search for it.
    pub(super) has_status: bool,
    /// In ascending order; none lies within another.
    parts: Vec<Part>,
}

/// A span of the representation, and where its bytes are: in memory, on disk, or both.
#[derive(Debug, Clone)]
pub(super) struct Part {
    start: u64,
    end: u64,
    bytes: Option<Bytes>,
    stored_file: Option<Arc<StoredFile>>,
    /// Its eviction item in memory.
    item: Arc<Item<Key>>,
}

/// Bytes that can be read now. `File` occurs only in objects of readers, not in the index.
#[derive(Debug, Clone)]
pub(super) enum Bytes {
    Body(Arc<Body>),
    File(Arc<OpenFile>),
}

/// The eviction item of the part that begins at `start`: each part has a history of its own.
pub(super) fn item(key: &Key, start: u64) -> Arc<Item<Key>> {
    Item::new(key.known_hash().wrapping_add(start), key.clone())
}

impl Object {
    fn new(
        stored: Stored,
        reason: Box<[u8]>,
        item: Arc<Item<Key>>,
        own_tags: Box<[Box<str>]>,
        parts: Vec<Part>,
    ) -> Self {
        let tags = lines(&stored.fields, &own_tags);
        let has_status = stored.fields.iter().any(|(name, _)| is_one_of(name, &["cache-status"]));
        Self { stored, reason, item, own_tags, tags, has_status, parts }
    }

    /// A response with a whole body.
    pub(super) fn whole(stored: Stored, reason: &[u8], item: Arc<Item<Key>>, body: Arc<Body>) -> Self {
        let bytes = Some(Bytes::Body(body));
        let whole = Part { start: 0, end: u64::MAX, bytes, stored_file: None, item: Arc::clone(&item) };
        Self::new(stored, reason.into(), item, Box::default(), vec![whole])
    }

    /// A response or a part whose body is in a file. `item` makes the item of the bytes from an offset on: the item of
    /// a response in parts is not the eviction item of its parts.
    pub(super) fn on_disk(
        stored: Stored,
        reason: Box<[u8]>,
        own_tags: Box<[Box<str>]>,
        item: impl Fn(u64) -> Arc<Item<Key>>,
        stored_file: Arc<StoredFile>,
    ) -> Self {
        let own = item(0);
        let span = stored.content.first();
        let (start, end) = (span.start(), span.end());
        let is_whole = matches!(stored.content, Content::Whole(_));
        let leaving = if is_whole { Arc::clone(&own) } else { item(start) };
        let length = stored_file.layout.length;
        let part = Part { start, end, bytes: None, stored_file: Some(stored_file), item: leaving };
        let mut object = Self::new(stored, reason, own, own_tags, vec![part]);
        object.measure(length);
        object
    }

    /// A response of which one part is stored or growing, with its own eviction item `leaving`.
    pub(super) fn part(
        stored: Stored,
        item: Arc<Item<Key>>,
        leaving: Arc<Item<Key>>,
        span: Span,
        body: Arc<Body>,
    ) -> Self {
        let (start, end, bytes) = (span.start(), span.end(), Some(Bytes::Body(body)));
        // It is served as a part, which has its own reason.
        let reason = b"OK".as_slice().into();
        let none = Self::new(stored, reason, item, Box::default(), Vec::new());
        none.with_parts(vec![Part { start, end, bytes, stored_file: None, item: leaving }])
    }

    /// Sets the length of a body that is complete now. Before, a body without Content-Length has no length, and no
    /// ranges.
    pub(super) fn measure(&mut self, length: u64) {
        if let Content::Whole(known @ None) = &mut self.stored.content {
            *known = Some(length);
        }
    }

    /// The same bytes with a newer head.
    pub(super) fn updated(&self, stored: Stored) -> Self {
        let (reason, item) = (self.reason.clone(), Arc::clone(&self.item));
        Self::new(stored, reason, item, self.own_tags.clone(), self.parts.clone())
    }

    /// The same, for these requests only.
    pub(super) fn selected_by(&self, selection: Selection) -> Arc<Self> {
        Arc::new(self.updated(Stored { selection, ..self.stored.clone() }))
    }

    /// The same, with the parts of `other`.
    pub(super) fn with_places_of(&self, other: &Self) -> Self {
        self.with_parts(other.parts.clone())
    }

    /// The tags of the route and the request.
    pub(super) fn own_tags(&self) -> &[Box<str>] {
        &self.own_tags
    }

    /// The same, stale from `now` on.
    pub(super) fn expired(&self, now: Time) -> Self {
        let mut stored = self.stored.clone();
        stored.freshness.expire(now);
        self.updated(stored)
    }

    /// The same, with more tags.
    #[must_use]
    pub(super) fn tagged<'a>(mut self, tags: impl Iterator<Item = &'a Box<str>>) -> Self {
        self.add_tags(tags);
        self
    }

    fn add_tags<'a>(&mut self, tags: impl Iterator<Item = &'a Box<str>>) {
        let mut all = std::mem::take(&mut self.own_tags).into_vec();
        for tag in tags {
            if !all.contains(tag) {
                all.push(tag.clone());
            }
        }
        self.own_tags = all.into();
        self.tags = lines(&self.stored.fields, &self.own_tags);
    }

    /// All tags: of Surrogate-Key and Cache-Tag, and its own.
    pub(super) fn tags(&self) -> impl Iterator<Item = &[u8]> {
        self.tags.split(|byte| *byte == b'\n').filter(|tag| !tag.is_empty())
    }

    /// Whether it has the bytes of `other`, with any head.
    pub(super) fn is_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.item, &other.item)
    }

    /// Bytes that have come.
    pub(super) fn size(&self) -> u64 {
        self.parts.iter().map(Part::length).sum()
    }

    /// The cost in memory of the part of `item`.
    pub(super) fn cost(&self, item: &Arc<Item<Key>>) -> usize {
        self.part_of(item).and_then(|part| part.body()).map_or(0, |body| body.cost())
    }

    /// The length of a whole body that is complete.
    pub(super) fn length(&self) -> Option<u64> {
        match self.parts.as_slice() {
            [Part { start: 0, end: u64::MAX, stored_file: Some(stored_file), .. }] => {
                Some(stored_file.layout.length)
            }
            [part @ Part { start: 0, end: u64::MAX, .. }] => part.complete().map(|body| body.length()),
            _ => None,
        }
    }
}

impl Part {
    /// The body, if it is in memory, complete or growing.
    fn body(&self) -> Option<&Arc<Body>> {
        match &self.bytes {
            Some(Bytes::Body(body)) => Some(body),
            Some(Bytes::File(_)) | None => None,
        }
    }

    /// Bytes that have come.
    fn length(&self) -> u64 {
        let come = || self.body().map_or(0, |body| body.length());
        self.stored_file.as_ref().map_or_else(come, |stored_file| stored_file.layout.length)
    }

    /// The body, if it is complete in memory.
    fn complete(&self) -> Option<&Arc<Body>> {
        self.body().filter(|body| body.ending().is_some())
    }
}

impl Candidate for Object {
    fn stored(&self) -> &Stored {
        &self.stored
    }
}

/// The tags of `fields` and the `own` tags, one per line. No field contains a line break.
fn lines(fields: &Fields, own: &[Box<str>]) -> Box<[u8]> {
    let mut lines = Vec::new();
    let mut add = |tag: &[u8]| {
        if !tag.is_empty() {
            lines.extend_from_slice(tag);
            lines.push(b'\n');
        }
    };
    for (name, value) in fields.iter() {
        if is_one_of(name, &["surrogate-key"]) {
            value.split(u8::is_ascii_whitespace).for_each(&mut add);
        } else if is_one_of(name, &["cache-tag"]) {
            value.split(|byte| *byte == b',').map(trim).for_each(&mut add);
        }
    }
    own.iter().map(|tag| tag.as_bytes()).for_each(add);
    lines.into()
}

#[cfg(test)]
mod tests;
