//! What subscribers of a hub may get, as a plain model: a list of all that was published.

use super::{Id, Slow};
use crate::simulation::{Verdict, hold};

/// An event as it was published.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) topic: usize,
    pub(crate) id: Id,
    pub(crate) key: Option<u8>,
    pub(crate) data: String,
}

/// The data of the event of this `number`: no other one has it.
pub(crate) fn data(number: usize, length: usize) -> String {
    format!("{number} {}", "x".repeat(length))
}

/// The newest event of `topic`.
pub(crate) fn newest(written: &[Written], topic: usize) -> Id {
    written.iter().rfind(|written| written.topic == topic).map_or_else(Id::default, |written| written.id)
}

/// The fields of an event on the wire.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) id: Option<String>,
    pub(crate) kind: Option<String>,
    pub(crate) data: String,
}

/// The whole events in `bytes`, without comments, and how many bytes these and the comments take.
pub(crate) fn blocks(bytes: &[u8]) -> (Vec<Block>, usize) {
    let text = String::from_utf8_lossy(bytes);
    let length = text.rfind("\n\n").map_or(0, |last| last + 2);
    let found = text[..length].split_terminator("\n\n").map(|block| block.trim_start_matches(":\n"));
    let found = found.filter(|block| !matches!(*block, "" | ":"));
    let found = found.map(|block| {
        let first = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        let data: Vec<_> = block.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
        Block { id: first("id: "), kind: first("event: "), data: data.join("\n") }
    });
    (found.collect(), length)
}

/// One subscriber, and what its client knows.
#[derive(Debug)]
pub(crate) struct Follower {
    topic: usize,
    slow: Slow,
    /// All up to this it has, or was told that it may be missing; `None`: it has to be told of a gap.
    pub(crate) place: Option<Id>,
    /// What came last is not above this.
    pub(crate) last: Id,
    pub(crate) is_told_of_end: bool,
    /// Events that were published.
    pub(crate) received: u64,
}

impl Follower {
    /// One that has all up to `place`.
    pub(crate) fn new(topic: usize, slow: Slow, place: Option<Id>) -> Self {
        let last = place.unwrap_or_default();
        Self { topic, slow, place, last, is_told_of_end: false, received: 0 }
    }

    /// Holds an event that has come against what was `written`.
    pub(crate) fn take(&mut self, block: &Block, written: &[Written]) -> Verdict {
        let Block { id, kind, data } = block;
        let name = id.as_ref().ok_or("got an event without an id")?;
        let id: Id = name.parse().map_err(|_| format!("got {name:?}, which is no id"))?;
        match kind.as_deref() {
            Some("penstock-gap") => {
                (self.place, self.last) = (Some(id), id);
                return Ok(());
            }
            Some("penstock-end") => {
                let newest = newest(written, self.topic);
                let has_all = self.place.is_some_and(|place| place >= newest);
                hold!(has_all, "was told the end before {newest}");
                self.is_told_of_end = true;
                return Ok(());
            }
            Some(kind) => return Err(format!("got an event of the type {kind:?}")),
            None => {}
        }
        self.received += 1;
        let place = self.place.ok_or_else(|| format!("got {id}, and no gap before it was told"))?;
        hold!(id > self.last, "got {id} after {}", self.last);
        let at = written.iter().position(|written| written.id == id && written.topic == self.topic);
        let at = at.ok_or_else(|| format!("got {id}, which was not published to its topic"))?;
        hold!(written[at].data == *data, "got {id} with other bytes than were published");
        let conflates = self.slow == Slow::NewestPerKey;
        let before = written[..at].iter().enumerate();
        let missed = before.filter(|(_, one)| one.topic == self.topic && one.id > place);
        for (before, one) in missed {
            let newer = |other: &Written| other.topic == one.topic && other.key == one.key;
            let is_replaced = conflates && one.key.is_some() && written[before + 1..].iter().any(newer);
            hold!(is_replaced, "got {id} after {place}, and {} is missing", one.id);
        }
        (self.place, self.last) = (Some(place.max(id)), id);
        Ok(())
    }
}
