//! One stored response: what is known of it, and its parts, each with where its bytes are: in memory, in a file, or in both.
//! One that is whole has a single part. Whoever holds one sees it as it was when it was found: what replaces, confirms or
//! moves a response makes another object, which shares the bodies and the files.

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

/// A stored response. Held by the index and by whoever serves it.
#[derive(Debug, Clone)]
pub(super) struct Object {
    pub(super) stored: Stored,
    /// As the origin wrote it.
    pub(super) reason: Box<[u8]>,
    /// What it is known by, whatever is known of it. Of one that is whole it is its place in the order of leaving as well.
    pub(super) item: Arc<Item<Key>>,
    /// What the route, or who asked, wants it to be purged by.
    own_tags: Box<[Box<str>]>,
    /// All that it can be purged by, a line each: a purge by tag looks at every response, and has no time for fields.
    tags: Box<[u8]>,
    /// Whether other caches have said in Cache-Status what they did: mostly not, and a hit does not look for it.
    pub(super) has_status: bool,
    /// In their order; none lies within another.
    parts: Vec<Part>,
}

/// Which bytes of the representation, and where they are: at least in one place.
#[derive(Debug, Clone)]
pub(super) struct Part {
    start: u64,
    end: u64,
    bytes: Option<Bytes>,
    stored_file: Option<Arc<StoredFile>>,
    /// Its place in the order of leaving memory.
    item: Arc<Item<Key>>,
}

/// Bytes that can be read at once. Those of a file are one reader's: in the index they are in memory, or not there.
#[derive(Debug, Clone)]
pub(super) enum Bytes {
    Body(Arc<Body>),
    File(Arc<OpenFile>),
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

    /// A response whose body is all of it.
    pub(super) fn whole(stored: Stored, reason: &[u8], item: Arc<Item<Key>>, body: Arc<Body>) -> Self {
        let bytes = Some(Bytes::Body(body));
        let whole = Part { start: 0, end: u64::MAX, bytes, stored_file: None, item: Arc::clone(&item) };
        Self::new(stored, reason.into(), item, Box::default(), vec![whole])
    }

    /// A response, or the part of one that `stored` says, whose body is in a file. `item` makes one of the bytes from a
    /// place on: what is in parts is known by another than that by which the part leaves.
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

    /// A response of which only `span` is there, or will be: a part, which leaves by itself by way of `leaving`.
    pub(super) fn part(
        stored: Stored,
        item: Arc<Item<Key>>,
        leaving: Arc<Item<Key>>,
        span: Span,
        body: Arc<Body>,
    ) -> Self {
        let (start, end, bytes) = (span.start(), span.end(), Some(Bytes::Body(body)));
        // What is served of it is a part, whose reason is its own.
        let reason = b"OK".as_slice().into();
        let none = Self::new(stored, reason, item, Box::default(), Vec::new());
        none.with_parts(vec![Part { start, end, bytes, stored_file: None, item: leaving }])
    }

    /// All of its body has come, and has so many bytes. Until then what is of a length that was not told has none, and no
    /// range can be told of it.
    pub(super) fn measure(&mut self, length: u64) {
        if let Content::Whole(known @ None) = &mut self.stored.content {
            *known = Some(length);
        }
    }

    /// The same bytes, about which something newer is known.
    pub(super) fn updated(&self, stored: Stored) -> Self {
        let (reason, item) = (self.reason.clone(), Arc::clone(&self.item));
        Self::new(stored, reason, item, self.own_tags.clone(), self.parts.clone())
    }

    /// The same, for these requests alone.
    pub(super) fn selected_by(&self, selection: Selection) -> Arc<Self> {
        Arc::new(self.updated(Stored { selection, ..self.stored.clone() }))
    }

    /// What is known of it, and the bytes where `other` has them.
    pub(super) fn with_places_of(&self, other: &Self) -> Self {
        self.with_parts(other.parts.clone())
    }

    /// What the route, or who asked, wants it to be purged by.
    pub(super) fn own_tags(&self) -> &[Box<str>] {
        &self.own_tags
    }

    /// The same, stale from `now` on.
    pub(super) fn expired(&self, now: Time) -> Self {
        let mut stored = self.stored.clone();
        stored.freshness.expire(now);
        self.updated(stored)
    }

    /// The same, with more to be purged by.
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

    /// What it can be purged by: what the origin says in Surrogate-Key and Cache-Tag, and what was added here.
    pub(super) fn tags(&self) -> impl Iterator<Item = &[u8]> {
        self.tags.split(|byte| *byte == b'\n').filter(|tag| !tag.is_empty())
    }

    /// Whether it has the bytes of `other`, whatever is known of them.
    pub(super) fn is_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.item, &other.item)
    }

    /// Bytes that have come.
    pub(super) fn size(&self) -> u64 {
        self.parts.iter().map(Part::length).sum()
    }

    /// What keeping those of its bytes in memory costs that leave by way of `item`.
    pub(super) fn cost(&self, item: &Arc<Item<Key>>) -> usize {
        self.part_of(item).and_then(|part| part.body()).map_or(0, |body| body.cost())
    }

    /// Bytes of the body once all have come, where it is one whole.
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
    /// Its bytes, where they are in memory or on their way.
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

    /// Its bytes, where all of them are in memory.
    fn complete(&self) -> Option<&Arc<Body>> {
        self.body().filter(|body| body.ending().is_some())
    }
}

impl Candidate for Object {
    fn stored(&self) -> &Stored {
        &self.stored
    }
}

/// The tags in `fields`, and `own` ones, a line each. No field has a line break in it.
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
