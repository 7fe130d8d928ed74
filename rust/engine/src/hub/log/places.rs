//! What there is for a reader at its place, and at which place one goes on that comes back.

use std::fmt;
use std::sync::Arc as Plain;

use super::super::encode::id_of;
use super::{Charge, Entry, Id, Log};
use crate::pool::Slice;
use crate::sync::Arc;
use crate::wire::CHUNK_END;

#[cfg(test)]
thread_local! {
    /// How many names of events have been read, for tests.
    pub(in crate::hub) static NAMES_READ: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// What an event is called on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::hub) enum Name {
    Id(Id),
    /// As its publisher says.
    Own(Plain<str>),
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Own(name) => f.write_str(name),
        }
    }
}

/// A run of events for one reader.
#[derive(Debug)]
pub(in crate::hub) struct Run {
    pub(in crate::hub) bytes: Slice,
    /// The number of the event after it.
    pub(in crate::hub) next: u64,
    /// Events in it.
    pub(in crate::hub) events: u64,
    /// What the last of them is called.
    pub(in crate::hub) last: Name,
    /// Events before it that newer ones of their keys stand for.
    pub(in crate::hub) conflated: u64,
    /// To be held as long as the bytes are.
    pub(in crate::hub) charge: Arc<Charge>,
}

/// What there is at a place.
#[derive(Debug)]
pub(in crate::hub) enum Found {
    Run(Run),
    /// All that there is has been read.
    Nothing,
    /// What was there has left.
    Evicted,
}

impl Log {
    /// The next events for a reader at `place`: as many as are contiguous, or one event without its framing unless
    /// `chunked`. `conflate`: leaves out events that newer ones of their keys replace.
    pub(in crate::hub) fn read(&self, place: u64, chunked: bool, conflate: bool) -> Found {
        let Some(mut at) = place.checked_sub(self.first).and_then(|at| usize::try_from(at).ok()) else {
            return Found::Evicted;
        };
        let from = at;
        if conflate {
            while self.entries.get(at).is_some_and(|entry| self.is_outdated(at, entry)) {
                at += 1;
            }
        }
        let Some(entry) = self.entries.get(at) else { return Found::Nothing };
        let (begin, mut end, mut last) = (entry.start, entry.start + entry.length, at + 1);
        if chunked {
            while let Some(next) = self.entries.get(last).filter(|next| next.segment == entry.segment) {
                if conflate && self.is_outdated(last, next) {
                    break;
                }
                end += next.length;
                last += 1;
            }
        }
        let segment = self.segment(entry);
        let range = if chunked { begin as usize..end as usize } else { range_of_lines(entry) };
        Found::Run(Run {
            bytes: segment.bytes.slice(range),
            next: self.first + last as u64,
            events: (last - at) as u64,
            last: self.name(self.entries.get(last - 1).unwrap_or(entry)),
            conflated: (at - from) as u64,
            charge: Arc::clone(&segment.charge),
        })
    }

    /// Bytes of the events from `place` on.
    pub(in crate::hub) fn behind(&self, place: u64) -> u64 {
        let at = usize::try_from(place.saturating_sub(self.first)).ok();
        at.and_then(|at| self.entries.get(at)).map_or(0, |entry| self.total - entry.before)
    }

    /// The place after the event that is called `name` on the wire, if that is there; also where it was the last to leave.
    pub(in crate::hub) fn place_after(&self, name: &str) -> Option<u64> {
        let is_here = |id: &Id| match id {
            // Between two that are there nothing is missing: a log that counts has places without an event.
            Id::Offset { .. } => self.floor <= *id && *id <= self.newest,
            Id::Time { .. } => {
                *id == self.floor || self.entries.binary_search_by_key(id, |entry| entry.id).is_ok()
            }
        };
        let by_name = || {
            let entry = self.index.find(name.as_bytes()).and_then(|number| self.entry(number))?;
            (self.name_of(entry) == name.as_bytes()).then_some(entry.id)
        };
        let by_floor = || (self.floor_name.as_deref() == Some(name)).then_some(self.floor);
        let id = name.parse().ok().filter(is_here).or_else(by_name).or_else(by_floor)?;
        // Events without a name share the place of the event before them, and no client comes back for them.
        Some(self.first + self.entries.partition_point(|entry| entry.id <= id) as u64)
    }

    /// The place after the event at `id`, if that is there, or was the last to leave.
    pub(in crate::hub) fn place_behind(&self, id: Id) -> Option<u64> {
        let after = self.entries.partition_point(|entry| entry.id <= id);
        let is_here = match after.checked_sub(1) {
            Some(before) => self.entries[before].id == id,
            None => self.floor == id,
        };
        is_here.then_some(self.first + after as u64)
    }

    /// What the event before `place` is called on the wire. Not for a place that has left.
    pub(in crate::hub) fn name_before(&self, place: u64) -> String {
        let before = usize::try_from(place.saturating_sub(self.first)).ok().and_then(|at| at.checked_sub(1));
        match before.and_then(|at| self.entries.get(at)) {
            Some(entry) => self.name(entry).to_string(),
            None => self.floor_name.as_deref().map_or_else(|| self.floor.to_string(), str::to_owned),
        }
    }

    fn name(&self, entry: &Entry) -> Name {
        if entry.named {
            Name::Own(String::from_utf8_lossy(self.name_of(entry)).into())
        } else {
            Name::Id(entry.id)
        }
    }

    /// What the publisher has called it.
    pub(super) fn name_of(&self, entry: &Entry) -> &[u8] {
        #[cfg(test)]
        NAMES_READ.with(|read| read.set(read.get() + 1));
        id_of(self.lines_of(entry))
    }

    /// The event's lines, without the framing.
    pub(super) fn lines_of(&self, entry: &Entry) -> &[u8] {
        &self.segment(entry).bytes[range_of_lines(entry)]
    }

    fn is_outdated(&self, at: usize, entry: &Entry) -> bool {
        entry.key.as_ref().is_some_and(|key| !self.index.is_newest(key, self.first + at as u64))
    }
}

/// Where an event lies in its segment, without the framing.
fn range_of_lines(entry: &Entry) -> std::ops::Range<usize> {
    let (start, end) = (entry.start as usize, (entry.start + entry.length) as usize);
    start + usize::from(entry.head)..end - CHUNK_END.len()
}
