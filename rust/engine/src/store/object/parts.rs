//! What is stored in parts: which of them stand together, and what each holds.
//!
//! The invariants: all parts of an object are of one state, under one strong entity tag; they are in the order of their
//! beginnings and none lies within another, so that their ends are in order as well; and what is known of which bytes are
//! there is what its parts have.

use std::ops::Range;

use super::{Object, Part};
use crate::cache::{Answer, Content, Key, Stored};
use crate::store::eviction::Item;
use crate::sync::Arc;
use crate::wire::Span;

/// Parts that a response may have, however small they are: each is walked now and then under the lock of its key, some 10 ns.
const MAX_PARTS: usize = 1024;

/// Beyond that it has one more for so many bytes on average: slices of a large film are more, ranges of a few bytes that a
/// client asks for one by one are not. Arbitrary, a quarter of the smallest usual slice.
const BYTES_OF_PART: u64 = 256 << 10;

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

    /// The same, with what `other` has besides, which is of the same state.
    pub(in super::super) fn joined(&self, other: &Self) -> Self {
        let mut joined = self.clone();
        joined.merge(other);
        joined
    }

    /// Takes what `other` has besides, which is of the same state, and gives the parts that are of no use then, whosever they
    /// were. Where both know something, what came later counts. The smallest leave where there are too many.
    pub(in super::super) fn join(&mut self, other: &Self) -> Vec<Part> {
        let mut gone = self.merge(other);
        while self.has_too_many_parts() {
            let is_new = |part: &Part| other.parts.iter().any(|new| new.start == part.start);
            let old = self.parts.iter().enumerate().filter(|(_, part)| !is_new(part));
            let Some((place, _)) = old.min_by_key(|(_, part)| part.end - part.start) else { break };
            gone.push(self.remove(place));
        }
        gone
    }

    fn has_too_many_parts(&self) -> bool {
        let beyond = self.parts.len().saturating_sub(MAX_PARTS) as u64;
        beyond > 0
            && self.parts.iter().map(|part| part.end - part.start).sum::<u64>() / BYTES_OF_PART < beyond
    }

    fn merge(&mut self, other: &Self) -> Vec<Part> {
        let is_later = other.stored.freshness.received() > self.stored.freshness.received();
        let length = self.stored.length().or(other.stored.length());
        let ours = &self.stored.selection;
        let theirs = &other.stored.selection;
        let (older, newer) = if is_later { (ours, theirs) } else { (theirs, ours) };
        let selection = older.clone().with(newer.clone());
        if is_later {
            // All but which bytes are there.
            let content = self.stored.content.clone();
            self.stored = Stored { content, ..other.stored.clone() };
            self.has_status = other.has_status;
            self.reason.clone_from(&other.reason);
        }
        self.stored.selection = selection;
        if let Content::Parts(_, ours) = &mut self.stored.content {
            *ours = length;
        }
        self.add_tags(other.own_tags.iter());
        other.parts.iter().flat_map(|part| self.insert(part.clone())).collect()
    }

    /// Adds a part, and gives those that are of no use then: itself, where all of it is there.
    fn insert(&mut self, part: Part) -> Vec<Part> {
        let around = self.around(&part);
        let is_same = |other: &&mut Part| (other.start, other.end) == (part.start, part.end);
        if let Some(same) = self.parts[around.clone()].iter_mut().find(is_same) {
            return same.take(part);
        }
        let is_in_memory = |part: &Part| part.bytes.is_some();
        let is_smaller = !around.is_empty();
        // What is in memory takes the place of what is on disk alone: that may hang.
        if is_smaller && (!is_in_memory(&part) || self.parts[around.clone()].iter().any(is_in_memory)) {
            return vec![part];
        }
        let replaced = if is_smaller { around } else { self.within(&part) };
        let span = Span::new(part.start, part.end);
        let gone = self.parts.splice(replaced, [part]).collect();
        match &mut self.stored.content {
            Content::Parts(spans, _) if !is_smaller => span.into_iter().for_each(|span| spans.insert(span)),
            _ => self.count(),
        }
        gone
    }

    /// How many parts begin at `place` or before.
    fn begins_until(&self, place: u64) -> usize {
        self.parts.partition_point(|part| part.start <= place)
    }

    /// Those that `part` lies within.
    fn around(&self, part: &Part) -> Range<usize> {
        let end = self.begins_until(part.start);
        self.parts.partition_point(|other| other.end < part.end).min(end)..end
    }

    /// Those that lie within `part`, or the place where it belongs.
    fn within(&self, part: &Part) -> Range<usize> {
        let first = self.parts.partition_point(|other| other.start < part.start);
        first..self.parts.partition_point(|other| other.end <= part.end).max(first)
    }

    /// Notes which bytes its parts have.
    fn count(&mut self) {
        if let Content::Parts(spans, _) = &mut self.stored.content {
            *spans = self.parts.iter().filter_map(|part| Span::new(part.start, part.end)).collect();
        }
    }

    /// The same with these parts, and with what is known of which bytes are there.
    pub(super) fn with_parts(&self, parts: Vec<Part>) -> Self {
        let Self { stored, reason, item, own_tags, tags, has_status, .. } = self;
        let (stored, reason, item) = (stored.clone(), reason.clone(), Arc::clone(item));
        let (own_tags, tags, has_status) = (own_tags.clone(), tags.clone(), *has_status);
        let mut with = Self { stored, reason, item, own_tags, tags, has_status, parts };
        with.count();
        with
    }

    /// The same without any of its bytes: for who must know it, and not keep all of it in memory.
    pub(in super::super) fn without_parts(&self) -> Self {
        self.with_parts(Vec::new())
    }

    /// Where the part is that is meant, which `item` was made for: an item's key is that of its response and the place where
    /// the part begins.
    pub(in super::super) fn position(
        &self,
        item: &Item<Key>,
        is_meant: impl Fn(&Part) -> bool,
    ) -> Option<usize> {
        let start = item.key().wrapping_sub(self.item.key());
        let place = self.begins_until(start).checked_sub(1)?;
        is_meant(&self.parts[place]).then_some(place)
    }

    /// The part at that place among them.
    pub(in super::super) fn part_mut(&mut self, place: usize) -> &mut Part {
        &mut self.parts[place]
    }

    /// Takes out the part at that place among them.
    pub(in super::super) fn remove(&mut self, place: usize) -> Part {
        let part = self.parts.remove(place);
        self.count();
        part
    }

    /// Whether nothing of it is left.
    pub(in super::super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Whether it is there, or on its way, in parts.
    pub(in super::super) fn is_in_parts(&self) -> bool {
        matches!(self.stored.content, Content::Parts(..))
    }

    /// Of the parts with the byte at `place` the one that goes on for longest.
    pub(super) fn part_at(&self, place: u64) -> Option<&Part> {
        let last = self.begins_until(place).checked_sub(1)?;
        Some(&self.parts[last]).filter(|part| place < part.end)
    }

    /// The parts that `span` is read of, and which of its bytes each has; up to the first that is missing.
    pub(super) fn pieces(&self, span: Span) -> impl Iterator<Item = (&Part, Range<u64>)> {
        let mut place = span.start();
        std::iter::from_fn(move || {
            let part = self.part_at(place).filter(|_| place < span.end())?;
            let piece = place..part.end.min(span.end());
            place = piece.end;
            Some((part, piece))
        })
    }

    /// How far on from `place` one of its parts has the bytes.
    pub(in super::super) fn reaches_from(&self, place: u64) -> Option<u64> {
        self.part_at(place).map(|part| part.end)
    }

    /// What is read of it for `answer`.
    pub(super) fn spans_of(&self, answer: &Answer) -> impl Iterator<Item = Span> {
        let (whole, spans) = match answer {
            Answer::Full => (Span::new(0, self.stored.length().unwrap_or(u64::MAX)), [].as_slice()),
            Answer::Partial(spans) => (None, spans.as_slice()),
            Answer::NotModified | Answer::Unsatisfiable => (None, [].as_slice()),
        };
        whole.into_iter().chain(spans.iter().copied())
    }

    /// Whether all of what `answer` needs is, span by span, in one part each.
    pub(in super::super) fn is_in_one(&self, answer: &Answer) -> bool {
        self.spans_of(answer)
            .all(|span| self.reaches_from(span.start()).is_some_and(|reached| span.end() <= reached))
    }

    /// Which bytes the part has that has the byte at `place`.
    pub(in super::super) fn span_at(&self, place: u64) -> Option<Span> {
        self.part_at(place).and_then(|part| Span::new(part.start, part.end))
    }

    /// Where the first part begins that is behind `place`.
    pub(in super::super) fn next_from(&self, place: u64) -> Option<u64> {
        self.parts.get(self.begins_until(place)).map(|part| part.start)
    }

    /// The part that leaves by way of `item`.
    pub(super) fn part_of(&self, item: &Arc<Item<Key>>) -> Option<&Part> {
        self.position(item, |part| part.leaves_by(item)).map(|place| &self.parts[place])
    }

    /// The places of its parts in the order of leaving memory.
    pub(in super::super) fn items(&self) -> impl Iterator<Item = &Arc<Item<Key>>> {
        self.parts.iter().map(Part::item)
    }

    /// Whether some of its bytes leave by way of `item`.
    pub(in super::super) fn has_item(&self, item: &Arc<Item<Key>>) -> bool {
        self.part_of(item).is_some()
    }

    /// It has been asked for, in the second `now`, and of its parts those that lie in `answer`; or where each span of that
    /// begins, and no more.
    pub(in super::super) fn hit(&self, answer: &Answer, only_first: bool, now: u32) {
        self.item.hit(now);
        for span in self.spans_of(answer) {
            if only_first {
                self.hit_part(span.start(), now);
            } else {
                self.pieces(span).for_each(|(part, _)| self.hit_one(part, now));
            }
        }
    }

    /// The part with the byte at `place` has been asked for.
    pub(in super::super) fn hit_part(&self, place: u64, now: u32) {
        self.part_at(place).into_iter().for_each(|part| self.hit_one(part, now));
    }

    fn hit_one(&self, part: &Part, now: u32) {
        // That of a whole one is its own, and counted already.
        if !Arc::ptr_eq(&part.item, &self.item) {
            part.item.hit(now);
        }
    }
}

impl Part {
    /// Takes what `other`, which has the same bytes, knows of where they are, and gives what is of no use of it.
    fn take(&mut self, other: Self) -> Vec<Self> {
        if self.bytes.is_none() && other.bytes.is_some() {
            // They leave by the way by which they have come.
            (self.bytes, self.item) = (other.bytes.clone(), Arc::clone(&other.item));
        }
        let stored_file = other.stored_file.as_ref();
        let is_known = |stored_file: &Arc<_>| {
            self.stored_file.as_ref().is_some_and(|ours| Arc::ptr_eq(ours, stored_file))
        };
        match stored_file.filter(|stored_file| !is_known(stored_file)) {
            None => Vec::new(),
            Some(_) if self.stored_file.is_some() => vec![Self { bytes: None, ..other }],
            Some(stored_file) => {
                self.stored_file = Some(Arc::clone(stored_file));
                Vec::new()
            }
        }
    }

    pub(in super::super) fn item(&self) -> &Arc<Item<Key>> {
        &self.item
    }
}
