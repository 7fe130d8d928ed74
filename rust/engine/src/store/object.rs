//! One stored response: what is known of it, the bodies in memory that hold its bytes, and the file that does. None of
//! it changes: what replaces, confirms or moves a response makes another object, which shares the bodies and the file.

mod parts;

use std::collections::VecDeque;
use std::task::{Context, Poll};

use super::body::{Body, Follower};
use super::disk::{FileReader, Filed, Opened};
use super::eviction::Item;
use crate::cache::{Answer, Key, Selection, Span, Stored, Time};
use crate::error::Result;
use crate::pool::Slice;
use crate::stream::Ending;
use crate::sync::Arc;
use crate::wire::{Fields, is_one_of, trim};

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
    /// None, where the bytes are on disk alone.
    parts: Box<[Part]>,
    /// Where they are on disk, if they are.
    filed: Option<Arc<Filed>>,
}

/// Bytes that can be read, and which of the representation they are.
#[derive(Debug, Clone)]
struct Part {
    start: u64,
    end: u64,
    bytes: Bytes,
    /// Its place in the order of leaving.
    item: Arc<Item<Key>>,
}

#[derive(Debug, Clone)]
enum Bytes {
    Body(Arc<Body>),
    File(Arc<Opened>),
}

impl Object {
    fn new(
        stored: Stored,
        reason: Box<[u8]>,
        item: Arc<Item<Key>>,
        own_tags: Box<[Box<str>]>,
        parts: Box<[Part]>,
    ) -> Self {
        let tags = lines(&stored.fields, &own_tags);
        Self { stored, reason, item, own_tags, tags, parts, filed: None }
    }

    /// A response whose body is all of it.
    pub(super) fn whole(stored: Stored, reason: &[u8], item: Arc<Item<Key>>, body: Arc<Body>) -> Self {
        let whole = Part { start: 0, end: u64::MAX, bytes: Bytes::Body(body), item: Arc::clone(&item) };
        let parts = [whole].into();
        Self::new(stored, reason.into(), item, Box::default(), parts)
    }

    /// A response whose body is in a file.
    pub(super) fn on_disk(
        stored: Stored,
        reason: Box<[u8]>,
        own_tags: Box<[Box<str>]>,
        item: Arc<Item<Key>>,
        filed: Arc<Filed>,
    ) -> Self {
        Self { filed: Some(filed), ..Self::new(stored, reason, item, own_tags, Box::default()) }
    }

    /// A response of which only `span` is there, or will be: a part, which leaves by itself by way of `leaving`.
    pub(super) fn part(
        stored: Stored,
        item: Arc<Item<Key>>,
        leaving: Arc<Item<Key>>,
        span: Span,
        body: Arc<Body>,
    ) -> Self {
        let (start, end, bytes) = (span.start(), span.end(), Bytes::Body(body));
        // What is served of it is a part, whose reason is its own.
        let reason = b"OK".as_slice().into();
        let none = Self::new(stored, reason, item, Box::default(), Box::default());
        none.with_parts([Part { start, end, bytes, item: leaving }].into())
    }

    /// The same bytes, about which something newer is known.
    pub(super) fn updated(&self, stored: Stored) -> Self {
        let (reason, item) = (self.reason.clone(), Arc::clone(&self.item));
        let (own_tags, parts) = (self.own_tags.clone(), self.parts.clone());
        Self { filed: self.filed.clone(), ..Self::new(stored, reason, item, own_tags, parts) }
    }

    /// The same, for these requests alone.
    pub(super) fn selected_by(&self, selection: Selection) -> Arc<Self> {
        Arc::new(self.updated(Stored { selection, ..self.stored.clone() }))
    }

    /// What is known of it, and the bytes where `other` has them.
    pub(super) fn placed_as(&self, other: &Self) -> Self {
        Self { filed: other.filed.clone(), ..self.clone() }.with_parts(other.parts.clone())
    }

    /// The same, in another place. Where it is neither in memory nor on disk, nothing can be read of it.
    fn moved(&self, bytes: Option<Bytes>, filed: Option<Arc<Filed>>) -> Arc<Self> {
        let part = bytes.map(|bytes| Part { start: 0, end: u64::MAX, bytes, item: Arc::clone(&self.item) });
        Arc::new(Self { parts: part.into_iter().collect(), filed, ..self.clone() })
    }

    /// The same, on disk alone.
    pub(super) fn moved_to(&self, filed: &Arc<Filed>) -> Arc<Self> {
        self.moved(None, Some(Arc::clone(filed)))
    }

    /// The same, in memory alone.
    pub(super) fn without_file(&self) -> Arc<Self> {
        Arc::new(Self { filed: None, ..self.clone() })
    }

    /// The same, to be read from its file.
    pub(super) fn opened(&self, opened: &Arc<Opened>) -> Arc<Self> {
        self.moved(Some(Bytes::File(Arc::clone(opened))), self.filed.clone())
    }

    /// The same, with a body in memory as well.
    pub(super) fn brought_back(&self, body: &Arc<Body>) -> Arc<Self> {
        self.moved(Some(Bytes::Body(Arc::clone(body))), self.filed.clone())
    }

    /// The file that it is in.
    pub(super) fn filed(&self) -> Option<&Arc<Filed>> {
        self.filed.as_ref()
    }

    /// Whether it can be read at once.
    pub(super) fn is_in_memory(&self) -> bool {
        !self.parts.is_empty()
    }

    /// From which byte on it must be read from disk for `answer` to a request of `method`, if it must.
    pub(super) fn wanted_of_disk(&self, answer: &Answer, method: &str) -> Option<u64> {
        let place = match answer {
            Answer::Full => 0,
            Answer::Partial(spans) => spans.first().map_or(0, |span| span.start()),
            Answer::NotModified | Answer::Unsatisfiable => return None,
        };
        (!self.is_in_memory() && method != "HEAD").then_some(place)
    }

    /// The body, where all of it is there, and nothing else.
    pub(super) fn whole_body(&self) -> Option<&Arc<Body>> {
        match &*self.parts {
            [Part { start: 0, end: u64::MAX, bytes: Bytes::Body(body), .. }] if body.ending().is_some() => {
                Some(body)
            }
            _ => None,
        }
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
        let mut all = std::mem::take(&mut self.own_tags).into_vec();
        for tag in tags {
            if !all.contains(tag) {
                all.push(tag.clone());
            }
        }
        self.own_tags = all.into();
        self.tags = lines(&self.stored.fields, &self.own_tags);
        self
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
        let length = |part: &Part| if let Bytes::Body(body) = &part.bytes { body.length() } else { 0 };
        let filed = self.filed.as_ref().filter(|_| !self.is_in_memory());
        filed.map_or_else(|| self.parts.iter().map(length).sum(), |filed| filed.layout.length)
    }

    /// What keeping those of its bytes costs that leave by way of `item`.
    pub(super) fn cost(&self, item: &Arc<Item<Key>>) -> usize {
        let cost = |part: &Part| if let Bytes::Body(body) = &part.bytes { body.cost() } else { 0 };
        self.parts.iter().filter(|part| Arc::ptr_eq(&part.item, item)).map(cost).sum()
    }

    /// Bytes of the body once all have come, where it is one whole.
    pub(super) fn length(&self) -> Option<u64> {
        let filed = || self.filed.as_ref().map(|filed| filed.layout.length);
        self.whole_body().map(|body| body.length()).or_else(filed)
    }

    /// Of the parts with the byte at `place` the one that goes on for longest.
    fn part_at(&self, place: u64) -> Option<&Part> {
        let there = self.parts.iter().filter(|part| part.start <= place && place < part.end);
        there.max_by_key(|part| part.end)
    }

    /// Reads these bytes of the representation, which must be there or on their way; all where it is not said which.
    pub(super) fn read(&self, span: Option<Span>) -> Reader {
        let whole = self.stored.length().unwrap_or(u64::MAX);
        let (mut place, end) = span.map_or((0, whole), |span| (span.start(), span.end()));
        let mut readers = VecDeque::new();
        let mut last = None;
        while place < end {
            let Some(part) = self.part_at(place) else { break };
            let until = part.end.min(end);
            readers.push_back(match &part.bytes {
                Bytes::Body(body) => One::Body(Body::follow(body, place - part.start..until - part.start)),
                Bytes::File(file) => One::File(Opened::follow(file, place - part.start, until - part.start)),
            });
            last = Some(part.bytes.clone());
            place = until;
        }
        Reader { readers, last }
    }
}

/// What is known of responses, without the bodies.
pub(super) fn candidates(objects: &[Arc<Object>]) -> Vec<&Stored> {
    objects.iter().map(|object| &object.stored).collect()
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

/// Reads a response's bytes, body after body.
#[derive(Debug)]
pub(super) struct Reader {
    readers: VecDeque<One>,
    last: Option<Bytes>,
}

#[derive(Debug)]
enum One {
    Body(Follower),
    File(FileReader),
}

impl Reader {
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Slice>>> {
        while let Some(one) = self.readers.front_mut() {
            let next = match one {
                One::Body(follower) => follower.poll_next(context),
                One::File(reader) => reader.poll_next(context),
            };
            match next {
                Poll::Ready(None) => drop(self.readers.pop_front()),
                other => return other,
            }
        }
        Poll::Ready(None)
    }

    /// What followed the last of the bodies.
    pub(super) fn ending(&self) -> Ending {
        match &self.last {
            Some(Bytes::Body(body)) => body.ending().unwrap_or_default(),
            Some(Bytes::File(file)) => file.filed().ending.clone(),
            None => Ending::default(),
        }
    }
}
