//! Responses in parts: which parts stand together.
//!
//! The invariants: all parts of an object are of one state, under one strong entity tag; they are in ascending order of
//! their starts, and of their ends, as none lies within another; the spans in the head are those of the parts.

use std::ops::Range;

use super::{Object, Part};
use crate::cache::{Answer, Content, Key, Stored};
use crate::store::eviction::Item;
use crate::sync::Arc;
use crate::wire::Span;

/// The limit of parts of a response, however small they are: each is visited now and then under the lock of its key,
/// some 10 ns.
const MAX_PARTS: usize = 1024;

/// Above the limit a response has one more part for this many bytes: a large film has more slices than the limit; a
/// client that asks for ranges of a few bytes does not get more. Arbitrary, a quarter of the smallest usual slice.
const BYTES_OF_PART: u64 = 256 << 10;

impl Object {
    /// Whether it is the same state of the same representation, so that parts of both can be combined (RFC 9111,
    /// section 3.4), and answers some of the same requests.
    pub(in super::super) fn is_same_state(&self, other: &Self) -> bool {
        let tags = self.stored.validators.strong().zip(other.stored.validators.strong());
        let lengths = self.stored.length().zip(other.stored.length());
        if cfg!(all(test, planted_bug = "versions-joined")) {
            return tags.is_some();
        }
        tags.is_some_and(|(ours, theirs)| ours.is_same(theirs))
            && lengths.is_none_or(|(ours, theirs)| ours == theirs)
            && self.stored.selection.meets(&other.stored.selection)
    }

    /// The same, with the parts of `other`, which is of the same state.
    pub(in super::super) fn joined(&self, other: &Self) -> Self {
        let mut joined = self.clone();
        joined.merge(other);
        joined
    }

    /// Adds the parts of `other`, which is of the same state, and returns the parts that are no longer of use. The
    /// later head counts. If there are too many parts the smallest are removed.
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

    /// Removes the parts that broke off: readers of them get an error.
    pub(in super::super) fn drop_failed(&mut self) {
        let has_failed =
            |part: &Part| part.stored_file.is_none() && part.body().is_some_and(|body| body.has_failed());
        while let Some(place) = self.parts.iter().position(has_failed) {
            self.remove(place);
        }
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
            // All but the spans.
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

    /// Adds a part, and returns the parts that it makes useless: itself, if its bytes are stored already.
    fn insert(&mut self, part: Part) -> Vec<Part> {
        let around = self.around(&part);
        let is_same = |other: &&mut Part| (other.start, other.end) == (part.start, part.end);
        if let Some(same) = self.parts[around.clone()].iter_mut().find(is_same) {
            return same.take(part);
        }
        let is_in_memory = |part: &Part| part.bytes.is_some();
        let is_smaller = !around.is_empty();
        // Bytes in memory replace bytes that are only on disk, because the disk may hang.
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

    /// The number of parts that begin at `place` or before.
    fn begins_until(&self, place: u64) -> usize {
        self.parts.partition_point(|part| part.start <= place)
    }

    /// The parts that `part` lies within.
    fn around(&self, part: &Part) -> Range<usize> {
        let end = self.begins_until(part.start);
        self.parts.partition_point(|other| other.end < part.end).min(end)..end
    }

    /// The parts within `part`, or the index at which it belongs.
    fn within(&self, part: &Part) -> Range<usize> {
        let first = self.parts.partition_point(|other| other.start < part.start);
        first..self.parts.partition_point(|other| other.end <= part.end).max(first)
    }

    /// Updates the spans in the head.
    fn count(&mut self) {
        if let Content::Parts(spans, _) = &mut self.stored.content {
            *spans = self.parts.iter().filter_map(|part| Span::new(part.start, part.end)).collect();
        }
    }

    /// The same with these parts and their spans.
    pub(super) fn with_parts(&self, parts: Vec<Part>) -> Self {
        let Self { stored, reason, item, own_tags, tags, has_status, .. } = self;
        let (stored, reason, item) = (stored.clone(), reason.clone(), Arc::clone(item));
        let (own_tags, tags, has_status) = (own_tags.clone(), tags.clone(), *has_status);
        let mut with = Self { stored, reason, item, own_tags, tags, has_status, parts };
        with.count();
        with
    }

    /// The same without bytes, so that its holder keeps none in memory.
    pub(in super::super) fn without_parts(&self) -> Self {
        self.with_parts(Vec::new())
    }

    /// The index of the matching part of `item`: the key of an item is that of its response plus the offset of the
    /// part.
    pub(in super::super) fn position(
        &self,
        item: &Item<Key>,
        is_meant: impl Fn(&Part) -> bool,
    ) -> Option<usize> {
        let start = item.key().wrapping_sub(self.item.key());
        let place = self.begins_until(start).checked_sub(1)?;
        is_meant(&self.parts[place]).then_some(place)
    }

    /// The part with this index.
    pub(in super::super) fn part_mut(&mut self, place: usize) -> &mut Part {
        &mut self.parts[place]
    }

    /// Removes the part with this index.
    pub(in super::super) fn remove(&mut self, place: usize) -> Part {
        let part = self.parts.remove(place);
        self.count();
        part
    }

    /// Whether it has no part.
    pub(in super::super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Whether it is stored in parts.
    pub(in super::super) fn is_in_parts(&self) -> bool {
        matches!(self.stored.content, Content::Parts(..))
    }

    /// The part with the byte at `place` that reaches furthest.
    pub(super) fn part_at(&self, place: u64) -> Option<&Part> {
        let last = self.begins_until(place).checked_sub(1)?;
        Some(&self.parts[last]).filter(|part| place < part.end)
    }

    /// The parts from which `span` is read, each with its bytes; up to the first gap.
    pub(super) fn pieces(&self, span: Span) -> impl Iterator<Item = (&Part, Range<u64>)> {
        let mut place = span.start();
        std::iter::from_fn(move || {
            let part = self.part_at(place).filter(|_| place < span.end())?;
            let piece = place..part.end.min(span.end());
            place = piece.end;
            Some((part, piece))
        })
    }

    /// The end of the part with the byte at `place`.
    pub(in super::super) fn reaches_from(&self, place: u64) -> Option<u64> {
        self.part_at(place).map(|part| part.end)
    }

    /// The spans that `answer` reads.
    pub(super) fn spans_of(&self, answer: &Answer) -> impl Iterator<Item = Span> {
        let (whole, spans) = match answer {
            Answer::Full => (Span::new(0, self.stored.length().unwrap_or(u64::MAX)), [].as_slice()),
            Answer::Partial(spans) => (None, spans.as_slice()),
            Answer::NotModified | Answer::Unsatisfiable => (None, [].as_slice()),
        };
        whole.into_iter().chain(spans.iter().copied())
    }

    /// Whether each span of `answer` is in one part.
    pub(in super::super) fn is_in_one(&self, answer: &Answer) -> bool {
        self.spans_of(answer)
            .all(|span| self.reaches_from(span.start()).is_some_and(|reached| span.end() <= reached))
    }

    /// The span of the part with the byte at `place`.
    pub(in super::super) fn span_at(&self, place: u64) -> Option<Span> {
        self.part_at(place).and_then(|part| Span::new(part.start, part.end))
    }

    /// The start of the first part after `place`.
    pub(in super::super) fn next_from(&self, place: u64) -> Option<u64> {
        self.parts.get(self.begins_until(place)).map(|part| part.start)
    }

    /// The part of `item`.
    pub(super) fn part_of(&self, item: &Arc<Item<Key>>) -> Option<&Part> {
        self.position(item, |part| part.leaves_by(item)).map(|place| &self.parts[place])
    }

    /// The eviction items of its parts.
    pub(in super::super) fn items(&self) -> impl Iterator<Item = &Arc<Item<Key>>> {
        self.parts.iter().map(Part::item)
    }

    /// Whether `item` is that of a part.
    pub(in super::super) fn has_item(&self, item: &Arc<Item<Key>>) -> bool {
        self.part_of(item).is_some()
    }

    /// Counts a hit in the second `now`, and of the parts that `answer` reads; with `only_first`, of the parts in which
    /// its spans begin.
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

    /// Counts a hit of the part with the byte at `place`.
    pub(in super::super) fn hit_part(&self, place: u64, now: u32) {
        self.part_at(place).into_iter().for_each(|part| self.hit_one(part, now));
    }

    fn hit_one(&self, part: &Part, now: u32) {
        // The item of a whole response is its own, and counted already.
        if !Arc::ptr_eq(&part.item, &self.item) {
            part.item.hit(now);
        }
    }
}

impl Part {
    /// Takes the bytes and the file of `other`, which has the same span, and returns the part that is useless.
    fn take(&mut self, other: Self) -> Vec<Self> {
        if self.bytes.is_none() && other.bytes.is_some() {
            // They are evicted by the item with which they came.
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
