//! The entry of one key: its stored responses and in-flight fills.

use std::cell::OnceCell;

use super::body::Follower;
use super::disk::StoredFile;
use super::eviction::Item;
use super::in_flight::{InFlight, Leader, Waiter};
use super::object::{Bytes, Object, Part};
use crate::cache::{Candidates, Key, Stored, Time, Variants};
use crate::error::Error;
use crate::sync::Arc;
use crate::wire::Span;

/// The limit of the in-flight fills of a key that others may join. Fills above it are for one request each: otherwise a
/// client that asks for ever new ranges would make each request of the key walk all of them. Arbitrary.
const MAX_FILLS_OF_KEY: usize = 64;

/// The outcome of a fill for its waiters.
#[derive(Debug, Clone)]
pub(super) enum FillOutcome {
    /// The entry has changed: look it up again. The follower keeps the new body until the waiters follow it.
    LookAgain(#[expect(dead_code, reason = "held, and not read")] Option<Arc<Follower>>),
    /// The same, and the origin has replaced this state: a request in the middle of it fails.
    Replaced(Arc<Object>, #[expect(dead_code, reason = "held, and not read")] Option<Arc<Follower>>),
    /// The answer is not stored, perhaps because of the leader's request: look it up again, and lead a fill.
    Refused,
    /// The origin has failed, and this response may be served in its place.
    Stale(Arc<Object>),
    /// The origin has failed.
    Failed(Error),
}

/// The entry of a key.
#[derive(Debug, Default)]
pub(super) struct Entry {
    /// Stored responses, the oldest first. No two answer the same request.
    objects: Vec<Arc<Object>>,
    /// The index of `objects` by selecting values, built on demand.
    variants: OnceCell<Box<Variants>>,
    /// The in-flight fills until their heads have come, each with its range.
    fills: Vec<(Span, Arc<InFlight<FillOutcome>>)>,
}

/// The stored responses that can be read now.
pub(super) enum Readable<'a> {
    /// All.
    All(&'a Entry),
    /// Those in memory, while the disk does not answer.
    InMemory(Vec<Arc<Object>>, Variants),
}

impl Entry {
    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.fills.is_empty()
    }

    /// The stored responses, the oldest first.
    pub(super) fn objects(&self) -> &[Arc<Object>] {
        &self.objects
    }

    /// The stored responses, to be changed.
    pub(super) fn objects_mut(&mut self) -> &mut Vec<Arc<Object>> {
        self.variants.take();
        &mut self.objects
    }

    pub(super) fn into_objects(self) -> Vec<Arc<Object>> {
        self.objects
    }

    /// The candidates for a request.
    pub(super) fn candidates(&self) -> Candidates<'_, Arc<Object>> {
        Candidates { all: &self.objects, variants: self.variants() }
    }

    /// `None` if there is one response with one set of values, as under nearly all keys.
    fn variants(&self) -> Option<&Variants> {
        if let [] | [_] = self.objects.as_slice() {
            if kinds(&self.objects) <= 1 {
                return None;
            }
        }
        Some(self.variants.get_or_init(|| Box::new(variants_of(&self.objects))))
    }

    /// Whether every request selects each of the responses.
    pub(super) fn is_open(&self) -> bool {
        let is_open = |object: &Arc<Object>| object.stored.selection.is_open();
        self.variants().map_or_else(|| self.objects.iter().all(is_open), Variants::are_open)
    }

    /// The responses that can be read: all, unless the disk hangs and does not answer (`answers`).
    pub(super) fn readable(&self, is_hanging: bool, answers: impl FnOnce() -> bool) -> Readable<'_> {
        if !is_hanging || self.objects.iter().all(|object| object.is_in_memory()) || answers() {
            return Readable::All(self);
        }
        let in_memory = |object: &Arc<Object>| {
            if object.is_in_memory() { Some(Arc::clone(object)) } else { object.in_memory().map(Arc::new) }
        };
        let objects: Vec<_> = self.objects.iter().filter_map(in_memory).collect();
        let variants = variants_of(&objects);
        Readable::InMemory(objects, variants)
    }

    /// Whether there is an in-flight fill.
    pub(super) fn is_filling(&self) -> bool {
        !self.fills.is_empty()
    }

    /// Joins an in-flight fill of all of `span`, if there is one.
    pub(super) fn join(&self, span: Span) -> Option<Waiter<FillOutcome>> {
        self.fills.iter().find(|(there, _)| there.contains(span)).map(|(_, fill)| InFlight::join(fill))
    }

    /// Begins an in-flight fill of `span`; `None` if there are too many.
    pub(super) fn lead(&mut self, span: Span) -> Option<Leader<FillOutcome>> {
        (self.fills.len() < MAX_FILLS_OF_KEY).then(|| {
            let (fill, leader) = InFlight::new();
            self.fills.push((span, fill));
            leader
        })
    }

    /// The fill is of `span` from now on.
    pub(super) fn widen(&mut self, of: &Leader<FillOutcome>, span: Span) {
        for (awaited, _) in self.fills.iter_mut().filter(|(_, fill)| Arc::ptr_eq(fill, of.fill())) {
            *awaited = span;
        }
    }

    /// No request joins this fill from now on.
    pub(super) fn release(&mut self, leader: &Leader<FillOutcome>) {
        self.fills.retain(|(_, other)| !Arc::ptr_eq(other, leader.fill()));
    }

    /// No request joins any of the fills from now on.
    pub(super) fn release_all(&mut self) {
        self.fills.clear();
    }

    /// Whether a response that came after `requested` answers some of the same requests and has a later Date than
    /// `object`: the most recent response is used (RFC 9111, section 4).
    pub(super) fn has_newer(&self, object: &Object, requested: Time) -> bool {
        let Stored { selection, validators, .. } = &object.stored;
        self.objects.iter().any(|other| {
            other.stored.freshness.received() >= requested
                // A Date has whole seconds; the time of arrival, which replaces a missing Date, has more.
                && other.stored.validators.date.as_secs() > validators.date.as_secs()
                && other.stored.selection.meets(selection)
        })
    }

    /// Stores `object`, which may be stored already, in place of `old` and of all responses to the same requests;
    /// returns the replaced objects. Above `most` sets of values the oldest are dropped.
    pub(super) fn replace(
        &mut self,
        old: Option<&Object>,
        object: &Arc<Object>,
        most: usize,
    ) -> Vec<Arc<Object>> {
        let selection = &object.stored.selection;
        let mut gone = self.remove(|other| {
            old.is_some_and(|old| other.is_of(old)) || other.stored.selection.is_within(selection)
        });
        let objects = self.objects_mut();
        for other in objects.iter_mut().filter(|other| other.stored.selection.meets(selection)) {
            if let Some(left) = other.stored.selection.without(selection) {
                // Its file still has the old values: of two responses that a request selects, the newer is
                // used.
                *other = other.selected_by(left);
            }
        }
        objects.push(Arc::clone(object));
        let mut left = kinds(objects);
        let is_too_many = |object: &&Arc<Object>| {
            let is_too_many = left > most;
            left -= object.stored.selection.kinds();
            is_too_many
        };
        let too_many = objects[..objects.len() - 1].iter().take_while(is_too_many).count();
        gone.extend(objects.drain(..too_many));
        gone
    }

    /// The stored response of the same state that answers some of the same requests.
    pub(super) fn same_state(&self, object: &Object) -> Option<&Arc<Object>> {
        self.objects.iter().find(|other| other.is_same_state(object))
    }

    /// The object with the matching part.
    pub(super) fn having(&self, item: &Item<Key>, is_meant: impl Fn(&Part) -> bool) -> Option<&Arc<Object>> {
        self.objects.iter().find(|object| object.position(item, &is_meant).is_some())
    }

    /// The indexes of the object with the matching part, and of the part in it.
    fn position(&self, item: &Item<Key>, is_meant: impl Fn(&Part) -> bool) -> Option<(usize, usize)> {
        let position =
            |(place, object): (usize, &Arc<Object>)| Some((place, object.position(item, &is_meant)?));
        self.objects.iter().enumerate().find_map(position)
    }

    /// Applies `change` to the matching part.
    pub(super) fn change<T>(
        &mut self,
        item: &Item<Key>,
        is_meant: impl Fn(&Part) -> bool,
        change: impl FnOnce(&mut Part) -> T,
    ) -> Option<T> {
        let (place, part) = self.position(item, is_meant)?;
        Some(change(Arc::make_mut(&mut self.objects[place]).part_mut(part)))
    }

    /// Removes the part of `item` from memory. Without a file, it is gone.
    pub(super) fn drop_from_memory(&mut self, item: &Arc<Item<Key>>) -> Option<Bytes> {
        let mut bytes = None;
        let rest = self.leave(item, |part| part.leaves_by(item), |part| part.drop_from_memory(&mut bytes));
        bytes.or(rest)
    }

    /// Removes the file of a part. If not all of it is in memory, it is gone.
    pub(super) fn drop_from_disk(&mut self, stored_file: &Arc<StoredFile>) -> Option<Bytes> {
        self.leave(&stored_file.item, |part| part.is_in(stored_file), Part::drop_from_disk)
    }

    /// Removes the matching part from one tier, and altogether if that was its last; returns its bytes in memory then.
    fn leave(
        &mut self,
        item: &Item<Key>,
        is_meant: impl Fn(&Part) -> bool,
        leave: impl FnOnce(&mut Part) -> bool,
    ) -> Option<Bytes> {
        let (place, part) = self.position(item, is_meant)?;
        let object = Arc::make_mut(&mut self.objects[place]);
        if leave(object.part_mut(part)) {
            return None;
        }
        let part = object.remove(part);
        if object.is_empty() {
            self.objects_mut().remove(place);
        }
        part.into_bytes()
    }

    /// The body of the object of `item` is complete, with this length.
    pub(super) fn measure(&mut self, item: &Arc<Item<Key>>, length: u64) {
        if let Some(object) = self.objects.iter_mut().find(|object| Arc::ptr_eq(&object.item, item)) {
            Arc::make_mut(object).measure(length);
        }
    }

    /// The object of `item`, also after it was confirmed or moved.
    pub(super) fn with_item(&self, item: &Arc<Item<Key>>) -> Option<&Arc<Object>> {
        self.objects.iter().find(|object| Arc::ptr_eq(&object.item, item))
    }

    /// Removes the matching objects, and returns them.
    pub(super) fn remove(&mut self, is_meant: impl Fn(&Arc<Object>) -> bool) -> Vec<Arc<Object>> {
        let (gone, kept) = std::mem::take(self.objects_mut()).into_iter().partition(is_meant);
        self.objects = kept;
        gone
    }
}

impl Readable<'_> {
    /// The candidates for a request.
    pub(super) fn candidates(&self) -> Candidates<'_, Arc<Object>> {
        match self {
            Self::All(entry) => entry.candidates(),
            Self::InMemory(objects, variants) => Candidates { all: objects, variants: Some(variants) },
        }
    }
}

fn variants_of(objects: &[Arc<Object>]) -> Variants {
    Variants::of(objects.iter().map(|object| &object.stored))
}

/// The number of sets of values that select them.
fn kinds(objects: &[Arc<Object>]) -> usize {
    objects.iter().map(|object| object.stored.selection.kinds()).sum()
}

#[cfg(test)]
mod tests;
