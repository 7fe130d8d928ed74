//! What is known under one key: the responses that are stored there, and what is being fetched.

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

/// The most fills of one key that others may join. What is fetched beyond them is for the one request that wants it: else a
/// client that asks for ever new ranges would make each request of the key walk all of them. Arbitrary.
const MAX_FILLS_OF_KEY: usize = 64;

/// What all who waited for a fill are told.
#[derive(Debug, Clone)]
pub(super) enum FillOutcome {
    /// The index knows: look again. What comes is held by the follower until those who were told follow it themselves.
    LookAgain(#[expect(dead_code, reason = "held, and not read")] Option<Arc<Follower>>),
    /// The same; and whoever is in the middle of this finds no more of it: the origin has another by now.
    Replaced(Arc<Object>, #[expect(dead_code, reason = "held, and not read")] Option<Arc<Follower>>),
    /// The origin has refused who asked, which may be due to that request: look again, and ask.
    Refused,
    /// The origin fails, and this may stand in for it.
    Stale(Arc<Object>),
    /// The origin has failed.
    Failed(Error),
}

/// What is known under one key.
#[derive(Debug, Default)]
pub(super) struct Entry {
    /// Responses, each for other requests, the oldest first.
    objects: Vec<Arc<Object>>,
    /// Where each of those is found; made when it is needed after they have changed.
    variants: OnceCell<Box<Variants>>,
    /// What is being fetched, until its head is there: each with the bytes that are asked for.
    fills: Vec<(Span, Arc<InFlight<FillOutcome>>)>,
}

/// What is stored under a key and can be read.
pub(super) enum Readable<'a> {
    /// All of it.
    All(&'a Entry),
    /// What is in memory of it, while the disk does not answer.
    InMemory(Vec<Arc<Object>>, Variants),
}

impl Entry {
    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.fills.is_empty()
    }

    /// What is stored, the oldest first.
    pub(super) fn objects(&self) -> &[Arc<Object>] {
        &self.objects
    }

    /// The same, to be changed.
    pub(super) fn objects_mut(&mut self) -> &mut Vec<Arc<Object>> {
        self.variants.take();
        &mut self.objects
    }

    /// All that is stored.
    pub(super) fn into_objects(self) -> Vec<Arc<Object>> {
        self.objects
    }

    /// What a request may be answered with.
    pub(super) fn candidates(&self) -> Candidates<'_, Arc<Object>> {
        Candidates { all: &self.objects, variants: self.variants() }
    }

    /// None where there is one response with one set of values, as under nearly all keys.
    fn variants(&self) -> Option<&Variants> {
        if let [] | [_] = self.objects.as_slice() {
            if kinds(&self.objects) <= 1 {
                return None;
            }
        }
        Some(self.variants.get_or_init(|| Box::new(variants_of(&self.objects))))
    }

    /// Whether any request selects each of the responses.
    pub(super) fn is_open(&self) -> bool {
        let is_open = |object: &Arc<Object>| object.stored.selection.is_open();
        self.variants().map_or_else(|| self.objects.iter().all(is_open), Variants::are_open)
    }

    /// What is stored and can be read: all of it, unless the disk hangs; or where it `answers` even so.
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

    /// Whether something is being fetched that others may wait for.
    pub(super) fn is_filling(&self) -> bool {
        !self.fills.is_empty()
    }

    /// Waits along for what is being fetched that has all of `span`, if there is such a fill.
    pub(super) fn join(&self, span: Span) -> Option<Waiter<FillOutcome>> {
        self.fills.iter().find(|(there, _)| there.contains(span)).map(|(_, fill)| InFlight::join(fill))
    }

    /// Begins a fill of `span` that others may join; none where there are too many.
    pub(super) fn lead(&mut self, span: Span) -> Option<Leader<FillOutcome>> {
        (self.fills.len() < MAX_FILLS_OF_KEY).then(|| {
            let (fill, leader) = InFlight::new();
            self.fills.push((span, fill));
            leader
        })
    }

    /// From now on that fill is of `span`.
    pub(super) fn widen(&mut self, of: &Leader<FillOutcome>, span: Span) {
        for (awaited, _) in self.fills.iter_mut().filter(|(_, fill)| Arc::ptr_eq(fill, of.fill())) {
            *awaited = span;
        }
    }

    /// From now on nobody joins that fill.
    pub(super) fn release(&mut self, leader: &Leader<FillOutcome>) {
        self.fills.retain(|(_, other)| !Arc::ptr_eq(other, leader.fill()));
    }

    /// From now on nobody joins any.
    pub(super) fn release_all(&mut self) {
        self.fills.clear();
    }

    /// Whether what came while `object` was fetched, which the origin was asked for at `requested`, answers some of the same
    /// requests and is newer by its Date: the most recent response is used (RFC 9111, section 4).
    pub(super) fn has_newer(&self, object: &Object, requested: Time) -> bool {
        let Stored { selection, validators, .. } = &object.stored;
        self.objects.iter().any(|other| {
            other.stored.freshness.received() >= requested
                // A Date has whole seconds; where there was none, it is that of the clock, which has more.
                && other.stored.validators.date.as_secs() > validators.date.as_secs()
                && other.stored.selection.meets(selection)
        })
    }

    /// Puts `object` in the place of `old`, and of whatever answered the same requests; and gives what was there. It may be
    /// there already. Of more than `most` sets of values the oldest leave.
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
                // Its file still says otherwise: of two that a request selects the newer one is taken.
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

    /// What is of the same state, and answers some of the same requests.
    pub(super) fn same_state(&self, object: &Object) -> Option<&Arc<Object>> {
        self.objects.iter().find(|other| other.is_same_state(object))
    }

    /// What has the part that is meant.
    pub(super) fn having(&self, item: &Item<Key>, is_meant: impl Fn(&Part) -> bool) -> Option<&Arc<Object>> {
        self.objects.iter().find(|object| object.position(item, &is_meant).is_some())
    }

    /// Where the part is that is meant: in which object, and where there.
    fn position(&self, item: &Item<Key>, is_meant: impl Fn(&Part) -> bool) -> Option<(usize, usize)> {
        let position =
            |(place, object): (usize, &Arc<Object>)| Some((place, object.position(item, &is_meant)?));
        self.objects.iter().enumerate().find_map(position)
    }

    /// Has `change` done to the part that is meant.
    pub(super) fn change<T>(
        &mut self,
        item: &Item<Key>,
        is_meant: impl Fn(&Part) -> bool,
        change: impl FnOnce(&mut Part) -> T,
    ) -> Option<T> {
        let (place, part) = self.position(item, is_meant)?;
        Some(change(Arc::make_mut(&mut self.objects[place]).part_mut(part)))
    }

    /// Takes what leaves by way of `item` out of memory: what has no file is gone.
    pub(super) fn drop_from_memory(&mut self, item: &Arc<Item<Key>>) -> Option<Bytes> {
        let mut bytes = None;
        let rest = self.leave(item, |part| part.leaves_by(item), |part| part.drop_from_memory(&mut bytes));
        bytes.or(rest)
    }

    /// Gives the file up that is meant: what is not in memory, all of it, is gone.
    pub(super) fn drop_from_disk(&mut self, stored_file: &Arc<StoredFile>) -> Option<Bytes> {
        self.leave(&stored_file.item, |part| part.is_in(stored_file), Part::drop_from_disk)
    }

    /// Has the part that is meant leave one of its places, and removes it where that was its last; gives what it had in
    /// memory then.
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

    /// All of the body of what has that item has come, and has so many bytes.
    pub(super) fn measure(&mut self, item: &Arc<Item<Key>>, length: u64) {
        if let Some(object) = self.objects.iter_mut().find(|object| Arc::ptr_eq(&object.item, item)) {
            Arc::make_mut(object).measure(length);
        }
    }

    /// What has that item, however it has been confirmed or moved since.
    pub(super) fn with_item(&self, item: &Arc<Item<Key>>) -> Option<&Arc<Object>> {
        self.objects.iter().find(|object| Arc::ptr_eq(&object.item, item))
    }

    /// Removes what is meant, and gives it.
    pub(super) fn remove(&mut self, is_meant: impl Fn(&Arc<Object>) -> bool) -> Vec<Arc<Object>> {
        let (gone, kept) = std::mem::take(self.objects_mut()).into_iter().partition(is_meant);
        self.objects = kept;
        gone
    }
}

impl Readable<'_> {
    /// What a request may be answered with.
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

/// How many sets of values select them.
fn kinds(objects: &[Arc<Object>]) -> usize {
    objects.iter().map(|object| object.stored.selection.kinds()).sum()
}

#[cfg(test)]
mod tests;
