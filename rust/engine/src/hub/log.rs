//! The history of one topic: a ring of events, contiguous in slabs of the pool, as they are sent to clients.
//!
//! Events are numbered from the topic's beginning: a reader's place is the number of its next event. Guarded by the
//! topic's lock; nothing here waits. The invariants: a reader gets whole events in the order of their publication; an
//! event that was dropped is reported as such, and never skipped in silence.

mod index;
mod places;

use std::collections::VecDeque;
use std::mem::size_of;
use std::sync::Arc as Plain;
use std::time::Duration;

#[cfg(test)]
pub(super) use self::places::NAMES_READ;
pub(super) use self::places::{Found, Name, Run};

use self::index::Index;
use super::budget::{Charge, HistoryBudget};
use super::encode::{Event, Text};
use super::{History, Id};
use crate::error::{Code, Error, Result};
use crate::pool::{CLASSES, Pool, Purpose, Slice, Writer};
use crate::sync::Arc;

/// The largest slab that events share, as an index of [`CLASSES`]: 64 KiB. An event that is larger has one of its own.
const LARGEST: usize = 2;

/// Events that a topic has room for in its list as long as it exists: topics are limited by their number.
const FEW: usize = 4;

/// A slab that was full sooner is followed by a larger one, one that took 16 times as long by a smaller one. Arbitrary.
const BUSY: Duration = Duration::from_secs(1);

/// Where history lies, and what it may take.
#[derive(Debug, Clone)]
pub(super) struct Room {
    pub(super) pool: Pool,
    pub(super) budget: Arc<HistoryBudget>,
    pub(super) history: History,
}

impl Room {
    /// Bytes that the history of a topic has, if an event of `length` fits into it.
    ///
    /// # Errors
    /// `BAD_EVENT` if not.
    pub(super) fn fit(&self, length: usize) -> Result<usize> {
        let most = self.history.bytes;
        if length > most || u32::try_from(length).is_err() {
            let detail =
                format!("the event has {length} bytes on the wire; the history of a topic has {most}");
            return Err(Code::BadEvent.error(detail));
        }
        Ok(most)
    }
}

/// One event of the ring.
#[derive(Debug)]
struct Entry {
    id: Id,
    /// The number of its segment.
    segment: u64,
    /// Where its chunk begins there.
    start: u32,
    /// Bytes of the chunk.
    length: u32,
    /// Bytes of the chunk's size line.
    head: u8,
    /// It has an id of the publisher's.
    named: bool,
    key: Option<Plain<str>>,
    /// Bytes of all events of the topic before it.
    before: u64,
    /// When it was published, on the hub's own clock.
    at: Duration,
}

/// A slab that events lie in.
#[derive(Debug)]
struct Segment {
    /// All that has been written.
    bytes: Slice,
    charge: Arc<Charge>,
}

/// The history of a topic.
#[derive(Debug)]
pub(super) struct Log {
    room: Room,
    entries: VecDeque<Entry>,
    /// The number of the first entry.
    first: u64,
    segments: VecDeque<Segment>,
    /// The number of the first segment.
    first_segment: u64,
    /// The rest of the last segment.
    writer: Option<Writer>,
    /// The class of the next slab, and when the last one was begun.
    class: usize,
    begun: Duration,
    /// Bytes of the entries.
    bytes: usize,
    /// Bytes of all events so far.
    total: u64,
    /// What all that is there, or will be, is above.
    floor: Id,
    /// What the event at the floor was called on the wire, if not by its id.
    floor_name: Option<Box<str>>,
    newest: Id,
    index: Index,
    /// What the list of the entries and the index take of the hub's memory: with tiny events more than their slabs do.
    list: Charge,
}

/// An event as it is kept.
#[derive(Debug)]
pub(super) struct Kept<'a> {
    pub(super) id: Id,
    /// The id of the event before it, or the floor.
    pub(super) after: Id,
    pub(super) key: Option<&'a str>,
    /// When it was published, on the hub's own clock.
    pub(super) at: Duration,
    /// Its lines, without the framing.
    pub(super) lines: &'a [u8],
    /// It has an id of the publisher's.
    pub(super) named: bool,
}

impl Log {
    /// An empty one, of which nothing is known up to `floor`.
    pub(super) fn new(room: Room, floor: Id) -> Self {
        Self {
            list: Charge::nothing(&room.budget),
            room,
            entries: VecDeque::new(),
            first: 0,
            segments: VecDeque::new(),
            first_segment: 0,
            writer: None,
            class: 0,
            begun: Duration::ZERO,
            bytes: 0,
            total: 0,
            floor,
            floor_name: None,
            newest: floor,
            index: Index::default(),
        }
    }

    /// The number of the first event that is there, or will be.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// The number that the next event gets.
    pub(super) fn tail(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of the events that are there.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The highest id so far.
    pub(super) fn newest(&self) -> Id {
        self.newest
    }

    pub(super) fn floor(&self) -> Id {
        self.floor
    }

    /// Drops all, and goes on behind `floor`: nothing up to that will be here.
    pub(super) fn restart(&mut self, floor: Id) {
        self.clear();
        (self.floor, self.floor_name, self.newest) = (floor, None, floor);
    }

    /// As [`Log::restart`], after an event that is called `name` on the wire if not by its id.
    pub(super) fn restart_behind(&mut self, floor: Id, name: Option<&str>) {
        self.restart(floor);
        self.floor_name = name.map(Into::into);
    }

    /// What the event at the floor was called on the wire, if not by its id.
    pub(super) fn floor_name(&self) -> Option<&str> {
        self.floor_name.as_deref()
    }

    /// The event of that number, if it is there.
    pub(super) fn kept(&self, number: u64) -> Option<Kept<'_>> {
        let entry = self.entry(number)?;
        Some(Kept {
            id: entry.id,
            after: self.id_before(number),
            key: entry.key.as_deref(),
            at: entry.at,
            lines: self.lines_of(entry),
            named: entry.named,
        })
    }

    /// The id of the event before `place`, or the floor. Not for a place that has left.
    pub(super) fn id_before(&self, place: u64) -> Id {
        place.checked_sub(1).and_then(|before| self.entry(before)).map_or(self.floor, |entry| entry.id)
    }

    /// Appends `event` at `id`, which is above the newest, and returns the bytes that it takes. `now` is on the hub's clock.
    ///
    /// # Errors
    /// `BAD_EVENT` for one that no history of this size can hold, `POOL_FULL` where there is no room for it now.
    pub(super) fn append(&mut self, id: Id, event: &Event<'_>, now: Duration) -> Result<usize> {
        let text = Text::of(id);
        let lines = event.lines(&text);
        let chunk = lines.chunk();
        let length = chunk.len();
        let most = self.room.fit(length)?;
        self.expire(now);
        self.make_place(event)?;
        self.make_room(length, now)?;
        let Some((writer, segment)) = self.writer.as_mut().zip(self.segments.back_mut()) else {
            return Err(Code::Internal.error("a log has no room for what it has made room for"));
        };
        let start = writer.filled();
        chunk.write(&mut writer.spare()[..length]);
        let written = writer.commit(length);
        // The segment's bytes end where the writer was.
        segment
            .bytes
            .join(written)
            .map_err(|_| Code::Internal.error("two events do not lie side by side"))?;
        let number = self.tail();
        let key = event.key.map(|key| self.index.note_key(key, number));
        if let Some(name) = event.id {
            self.index.note_name(name.as_bytes(), number);
        }
        self.entries.push_back(Entry {
            id,
            segment: self.first_segment + self.segments.len() as u64 - 1,
            start: small(start),
            length: small(length),
            head: u8::try_from(chunk.head.len()).unwrap_or(u8::MAX),
            named: event.id.is_some(),
            key,
            before: self.total,
            at: now,
        });
        self.bytes += length;
        self.total += length as u64;
        self.newest = id;
        while self.entries.len() > self.room.history.events || self.bytes > most {
            self.evict();
        }
        Ok(length)
    }

    /// Drops events that are too old.
    pub(super) fn expire(&mut self, now: Duration) {
        let Some(age) = self.room.history.age else { return };
        while self.entries.front().is_some_and(|entry| now.saturating_sub(entry.at) > age) {
            self.evict();
        }
    }

    /// Drops all.
    pub(super) fn clear(&mut self) {
        while !self.entries.is_empty() {
            self.evict();
        }
    }

    fn entry(&self, number: u64) -> Option<&Entry> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.entries.get(at)
    }

    fn segment(&self, entry: &Entry) -> &Segment {
        &self.segments[usize::try_from(entry.segment - self.first_segment).unwrap_or(usize::MAX)]
    }

    /// Has room in the list for `event`. Where the hub has none, what is oldest here leaves.
    fn make_place(&mut self, event: &Event<'_>) -> Result<()> {
        loop {
            let (length, capacity) = (self.entries.len(), self.entries.capacity());
            // One more than the history may have: the oldest leaves behind the newest.
            let most = self.room.history.events.saturating_add(1).saturating_sub(length);
            let more = if length < capacity { 0 } else { length.max(FEW).min(most) };
            let size = list_cost(capacity + more, self.index.size() + self.index.cost_of(event));
            if self.list.resize(size) {
                self.entries.reserve_exact(more);
                return Ok(());
            }
            if length == 0 {
                return Err(self.full(size));
            }
            self.evict();
        }
    }

    /// Has `length` bytes follow those of the last segment, or begins another.
    fn make_room(&mut self, length: usize, now: Duration) -> Result<()> {
        if self.writer.as_ref().is_some_and(|writer| writer.remaining() >= length) {
            return Ok(());
        }
        if !self.segments.is_empty() {
            let took = now.saturating_sub(self.begun);
            if took < BUSY {
                // No more than a quarter of the history leaves with a slab.
                let fits = |class: &usize| CLASSES[*class] * 4 <= self.room.history.bytes.max(CLASSES[0] * 4);
                self.class = (0..=LARGEST.min(self.class + 1)).rev().find(fits).unwrap_or(0);
            } else if took > BUSY * 16 {
                self.class = self.class.saturating_sub(1);
            }
        }
        // Where there is no room for what is to come, there may be for what is here; and what is oldest goes for no more.
        let (writer, charge) = match self.take(length.max(CLASSES[self.class])) {
            Err(error) if error.code() == Code::PoolFull => self.take_at_cost(length)?,
            taken => taken?,
        };
        self.begin_segment(writer, charge);
        self.begun = now;
        Ok(())
    }

    fn begin_segment(&mut self, mut writer: Writer, charge: Charge) {
        let bytes = writer.commit(0);
        self.segments.push_back(Segment { bytes, charge: Arc::new(charge) });
        self.writer = Some(writer);
    }

    fn take(&self, size: usize) -> Result<(Writer, Charge)> {
        let writer = self.room.pool.writer(size, Purpose::Bulk)?;
        let charge = HistoryBudget::take(&self.room.budget, writer.capacity());
        Ok((writer, charge.ok_or_else(|| self.full(size))?))
    }

    /// As [`Log::take`]; where the hub or the pool has no room, what is oldest here leaves.
    fn take_at_cost(&mut self, size: usize) -> Result<(Writer, Charge)> {
        // What a subscriber is being sent would leave for nothing: it counts until then.
        let mine = self.segments.iter().filter(|segment| Arc::strong_count(&segment.charge) == 1);
        let own: usize = mine.map(|segment| segment.charge.bytes()).sum();
        if self.room.budget.free() + own < size {
            return Err(self.full(size));
        }
        loop {
            match self.take(size) {
                Err(error) if error.code() == Code::PoolFull && !self.segments.is_empty() => {
                    let before = self.segments.len();
                    while self.segments.len() == before {
                        self.evict();
                    }
                }
                taken => return taken,
            }
        }
    }

    fn full(&self, size: usize) -> Error {
        let (used, limit) = (self.room.budget.used(), self.room.budget.limit());
        Code::PoolFull.error(format!("no room for {size} bytes of history: {used} of {limit} are in use"))
    }

    /// Drops the oldest event, and its segment with the last of its events.
    fn evict(&mut self) {
        let Some(entry) = self.entries.pop_front() else {
            // A segment that was begun, and that nothing came into.
            self.segments.clear();
            self.writer = None;
            return;
        };
        self.floor = entry.id;
        self.floor_name =
            entry.named.then(|| String::from_utf8_lossy(self.name_of(&entry)).into_owned().into_boxed_str());
        self.bytes -= entry.length as usize;
        if entry.named {
            let name = self.index.hash(self.name_of(&entry));
            self.index.forget_name(name, self.first);
        }
        if let Some(key) = &entry.key {
            self.index.forget_key(key, self.first);
        }
        self.first += 1;
        let needed = self.entries.front().map_or(entry.segment + 1, |next| next.segment);
        while self.first_segment < needed && self.segments.pop_front().is_some() {
            self.first_segment += 1;
        }
        if self.segments.is_empty() {
            self.writer = None;
        }
        if self.entries.len() < self.entries.capacity() / 4 {
            // A burst is over, and what was made for it would be kept.
            self.entries.shrink_to(FEW.max(self.entries.len() * 2));
        }
        // What is less is always there.
        self.list.resize(list_cost(self.entries.capacity(), self.index.size()));
    }
}

/// What a list with room for so many events takes, and an index that takes `indexed`.
fn list_cost(capacity: usize, indexed: usize) -> usize {
    capacity.saturating_sub(FEW) * size_of::<Entry>() + indexed
}

/// What has been checked to fit.
fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
