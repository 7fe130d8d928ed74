//! One stored response: what is known of it, and the bodies that hold its bytes. Neither changes: what replaces or
//! confirms a response makes another object, which shares the bodies.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use super::body::{Body, Follower};
use super::eviction::Item;
use crate::cache::{Content, Key, Span, Stored, Time};
use crate::error::Result;
use crate::pool::Slice;
use crate::stream::Ending;
use crate::sync::Arc;
use crate::wire::{Fields, is_one_of, trim};

/// A stored response. Held by the index and by whoever serves it.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) stored: Stored,
    /// As the origin wrote it.
    pub(super) reason: Box<[u8]>,
    /// Its place in the order of leaving, which is that of its bytes.
    pub(super) item: Arc<Item<Key>>,
    /// What the route, or who asked, wants it to be purged by.
    own_tags: Box<[Box<str>]>,
    /// All that it can be purged by, a line each: a purge by tag looks at every response, and has no time for fields.
    tags: Box<[u8]>,
    parts: Box<[Part]>,
}

/// A body, and which bytes of the representation it is.
#[derive(Debug, Clone)]
struct Part {
    start: u64,
    end: u64,
    body: Arc<Body>,
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
        Self { stored, reason, item, own_tags, tags, parts }
    }

    /// A response whose body is all of it.
    pub(super) fn whole(stored: Stored, reason: &[u8], item: Arc<Item<Key>>, body: Arc<Body>) -> Self {
        let parts = [Part { start: 0, end: u64::MAX, body }].into();
        Self::new(stored, reason.into(), item, Box::default(), parts)
    }

    /// A response of which only `span` is there, or will be; and what is there of `other`, which is of the same state.
    pub(super) fn part(
        mut stored: Stored,
        other: Option<&Self>,
        item: Arc<Item<Key>>,
        span: Span,
        body: Arc<Body>,
    ) -> Self {
        if let Content::Parts(spans, _) = &mut stored.content {
            spans.insert(span);
        }
        let there = other.into_iter().flat_map(|other| other.parts.iter().cloned());
        let parts = there.chain([Part { start: span.start(), end: span.end(), body }]).collect();
        // What is served of it is a part, whose reason is its own.
        let reason = other.map_or(b"OK".as_slice().into(), |other| other.reason.clone());
        let own_tags = other.map(|other| other.own_tags.clone()).unwrap_or_default();
        Self::new(stored, reason, item, own_tags, parts)
    }

    /// The same bytes, about which something newer is known.
    pub(super) fn updated(&self, stored: Stored) -> Self {
        let (reason, item) = (self.reason.clone(), Arc::clone(&self.item));
        Self::new(stored, reason, item, self.own_tags.clone(), self.parts.clone())
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
        self.parts.iter().map(|part| part.body.length()).sum()
    }

    /// What keeping it costs.
    pub(super) fn cost(&self) -> usize {
        self.parts.iter().map(|part| part.body.cost()).sum()
    }

    /// Bytes of the body once all have come, where it is one whole.
    pub(super) fn length(&self) -> Option<u64> {
        let [Part { start: 0, end: u64::MAX, body }] = &*self.parts else { return None };
        body.ending().map(|_| body.length())
    }

    /// Reads these bytes of the representation, which must be there or on their way; all where it is not said which.
    pub(super) fn read(&self, span: Option<Span>) -> Reader {
        let whole = self.stored.length().unwrap_or(u64::MAX);
        let (mut place, end) = span.map_or((0, whole), |span| (span.start(), span.end()));
        let mut followers = VecDeque::new();
        let mut last = None;
        while place < end {
            let there = self.parts.iter().filter(|part| part.start <= place && place < part.end);
            let Some(part) = there.max_by_key(|part| part.end) else { break };
            let until = part.end.min(end);
            followers.push_back(Body::follow(&part.body, place - part.start..until - part.start));
            last = Some(Arc::clone(&part.body));
            place = until;
        }
        Reader { followers, body: last }
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

/// Reads a response's bytes, body after body.
#[derive(Debug)]
pub(super) struct Reader {
    followers: VecDeque<Follower>,
    body: Option<Arc<Body>>,
}

impl Reader {
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Slice>>> {
        while let Some(follower) = self.followers.front_mut() {
            match follower.poll_next(context) {
                Poll::Ready(None) => drop(self.followers.pop_front()),
                other => return other,
            }
        }
        Poll::Ready(None)
    }

    /// What followed the last of the bodies.
    pub(super) fn ending(&self) -> Ending {
        self.body.as_ref().and_then(|body| body.ending()).unwrap_or_default()
    }
}
