//! What is stored in parts: which of them stand together, what each holds, and how each leaves by itself.
//!
//! The invariant: all parts of an object are of one state, under one strong entity tag; and what is known of which bytes
//! are there is what its parts have.

use super::{Object, Part};
use crate::cache::{Answer, Content, Key, Span};
use crate::store::eviction::Item;
use crate::sync::Arc;

impl Object {
    /// Whether it is the same representation in the same state, so that parts of both are parts of one (RFC 9111, section
    /// 3.4), and answers the same requests.
    pub(in super::super) fn is_same_state(&self, other: &Self) -> bool {
        let tags = self.stored.validators.strong().zip(other.stored.validators.strong());
        let lengths = self.stored.length().zip(other.stored.length());
        tags.is_some_and(|(ours, theirs)| ours.is_same(theirs))
            && lengths.is_none_or(|(ours, theirs)| ours == theirs)
            && self.stored.selection.meets(&other.stored.selection)
    }

    /// The same, with what `other` has besides, which is of the same state. Where both know something, what came later counts.
    pub(in super::super) fn joined(&self, other: &Self) -> Self {
        let is_later = other.stored.freshness.received() > self.stored.freshness.received();
        let (older, newer) = if is_later { (self, other) } else { (other, self) };
        let mut stored = newer.stored.clone();
        stored.selection = older.stored.selection.clone().with(stored.selection);
        if let Content::Parts(_, length) = &mut stored.content {
            *length = length.or(self.stored.length()).or(other.stored.length());
        }
        let is_in = |part: &Part, ours: &Part| ours.start <= part.start && part.end <= ours.end;
        let news = |part: &&Part| !self.parts.iter().any(|ours| is_in(part, ours));
        let parts = self.parts.iter().chain(other.parts.iter().filter(news)).cloned().collect();
        let joined = Self { stored, reason: newer.reason.clone(), ..self.clone() };
        joined.tagged(other.own_tags.iter()).with_parts(parts)
    }

    /// The same with these parts, and with what is known of which bytes are there.
    pub(super) fn with_parts(mut self, parts: Box<[Part]>) -> Self {
        if let Content::Parts(spans, _) = &mut self.stored.content {
            *spans = parts.iter().filter_map(|part| Span::new(part.start, part.end)).collect();
        }
        Self { parts, ..self }
    }

    /// The same without the part that leaves by way of `item`; none if nothing is left.
    pub(in super::super) fn without_part(&self, item: &Arc<Item<Key>>) -> Option<Self> {
        let kept: Box<[_]> =
            self.parts.iter().filter(|part| !Arc::ptr_eq(&part.item, item)).cloned().collect();
        (!kept.is_empty()).then(|| self.clone().with_parts(kept))
    }

    /// The same without any of its bytes: for who must know it, and not keep all of it in memory.
    pub(in super::super) fn without_parts(&self) -> Self {
        self.clone().with_parts(Box::default())
    }

    /// Whether it is there, or on its way, in parts.
    pub(in super::super) fn is_in_parts(&self) -> bool {
        matches!(self.stored.content, Content::Parts(..))
    }

    /// How far on from `place` one of its parts has the bytes.
    pub(in super::super) fn reaches_from(&self, place: u64) -> Option<u64> {
        self.part_at(place).map(|part| part.end)
    }

    /// Whether all of what `answer` needs is, span by span, in one part each.
    pub(in super::super) fn is_in_one(&self, answer: &Answer) -> bool {
        let whole = || Span::new(0, self.stored.length().unwrap_or(u64::MAX));
        let is_in_one =
            |span: Span| self.reaches_from(span.start()).is_some_and(|reached| span.end() <= reached);
        match answer {
            Answer::Full => whole().is_none_or(is_in_one),
            Answer::Partial(spans) => spans.iter().copied().all(is_in_one),
            Answer::NotModified | Answer::Unsatisfiable => true,
        }
    }

    /// The places in the order of leaving of what is in memory of it.
    pub(in super::super) fn items(&self) -> impl Iterator<Item = &Arc<Item<Key>>> {
        self.parts.iter().map(|part| &part.item)
    }

    /// Whether some of its bytes leave by way of `item`.
    pub(in super::super) fn has_item(&self, item: &Arc<Item<Key>>) -> bool {
        self.items().any(|other| Arc::ptr_eq(other, item))
    }

    /// It has been asked for, in the second `now`, and of its parts those that lie in `answer`; or where each span of that
    /// begins, and no more.
    pub(in super::super) fn hit(&self, answer: &Answer, only_first: bool, now: u32) {
        self.item.hit(now);
        let spans = match answer {
            Answer::Full => &[Span::ALL],
            Answer::Partial(spans) => spans.as_slice(),
            Answer::NotModified | Answer::Unsatisfiable => return,
        };
        for span in spans {
            if only_first {
                self.hit_part(span.start(), now);
            } else {
                self.hit_parts(now, |part| part.start < span.end() && span.start() < part.end);
            }
        }
    }

    /// The part with the byte at `place` has been asked for.
    pub(in super::super) fn hit_part(&self, place: u64, now: u32) {
        self.hit_parts(now, |part| part.start <= place && place < part.end);
    }

    fn hit_parts(&self, now: u32, is_meant: impl Fn(&Part) -> bool) {
        for part in self.parts.iter().filter(|part| is_meant(part)) {
            // That of a whole one is its own, and counted already.
            if !Arc::ptr_eq(&part.item, &self.item) {
                part.item.hit(now);
            }
        }
    }
}
