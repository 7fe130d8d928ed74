//! What an external log says of one topic: what was published before, what is published now, and that something is missing.
//!
//! The log's reader alone calls this, one call at a time for each topic. The invariant: what subscribers get has the log's
//! order, and where it does not follow on what they had there is a gap event in front of it.

use std::time::Duration;

use super::super::encode::{GAP, gap_data};
use super::super::log::Log;
use super::super::{Event, Id};
use super::{Gone, Phase, State, Topic, tell};
use crate::error::{Code, Error, Result};
use crate::sync::{MutexGuard, lock};

/// What an external log has at a place.
#[derive(Debug, Clone, Copy)]
pub struct Published<'a> {
    /// The place.
    pub id: Id,
    /// What is there; `None` is the topic's end.
    pub event: Option<Event<'a>>,
}

/// How much a topic has taken of what it was given.
#[derive(Debug)]
pub struct Taken {
    /// The number of events that were taken, from the first on; events that were there already or are refused count.
    pub count: usize,
    /// Why not all.
    pub full: Option<Error>,
    /// Which of them it does not have.
    pub refused: Refused,
}

/// Events of the log that a topic cannot keep, now or later. Subscribers are told of a gap in place of each.
#[derive(Debug, Default)]
pub struct Refused {
    /// How many.
    pub count: usize,
    /// Why the first was refused.
    pub error: Option<Error>,
}

impl Refused {
    fn add(&mut self, error: Error) {
        self.count += 1;
        self.error.get_or_insert(error);
    }
}

impl Topic {
    /// Opens a topic that has been waiting for what was published before, of which all after `floor` is in `events`. Gives the
    /// events that it refuses, the last of which is the new floor; `None` if it was not waiting.
    pub(in crate::hub) fn load(
        &self,
        floor: Id,
        events: &[Published<'_>],
        now: Duration,
    ) -> std::result::Result<Option<Refused>, Gone> {
        let mut state = self.live()?;
        if state.phase != Phase::Loading {
            return Ok(None);
        }
        let mut refused = Refused::default();
        state.log.restart(floor);
        state.phase = Phase::Open;
        for Published { id, event } in events {
            let Some(event) = event else {
                state.phase = Phase::Finished(now);
                continue;
            };
            if let Err(error) = event.check().and_then(|()| state.log.append(*id, event, now)) {
                state.log.restart(*id);
                refused.add(error);
            }
        }
        tell(state);
        Ok(Some(refused))
    }

    /// Appends what follows on all before. `None` if the topic is waiting for what was published before.
    pub(in crate::hub) fn take(
        &self,
        events: &[Published<'_>],
        now: Duration,
    ) -> std::result::Result<Option<Taken>, Gone> {
        let mut state = self.live()?;
        if state.phase == Phase::Loading {
            return Ok(None);
        }
        let mut taken = Taken { count: 0, full: None, refused: Refused::default() };
        for Published { id, event } in events {
            let Some(event) = event else {
                state.phase = Phase::Finished(now);
                taken.count += 1;
                continue;
            };
            if *id > state.log.newest() {
                let choose = |_: &Log| Ok(Some(*id));
                match event.check().and_then(|()| self.append_to(&mut state, event, now, choose)) {
                    Ok(_) => {}
                    Err(error) if error.code() == Code::PoolFull => {
                        taken.full = Some(error);
                        break;
                    }
                    // It cannot be kept, now or later: it is missing.
                    Err(error) if self.miss(&mut state, *id, now) => taken.refused.add(error),
                    Err(_) => return Err(give_up(state)),
                }
            }
            taken.count += 1;
        }
        tell(state);
        Ok(Some(taken))
    }

    /// Says that it is not known what the log had between what is here and `floor`, behind which it goes on. Whether the topic
    /// was waiting for nothing.
    pub(in crate::hub) fn interrupt(&self, floor: Id, now: Duration) -> std::result::Result<bool, Gone> {
        let mut state = self.live()?;
        if state.phase == Phase::Loading {
            return Ok(false);
        }
        if !self.miss(&mut state, floor, now) {
            return Err(give_up(state));
        }
        tell(state);
        Ok(true)
    }

    /// Gives subscribers an event that the log does not have.
    pub(in crate::hub) fn deliver(
        &self,
        event: &Event<'_>,
        now: Duration,
    ) -> std::result::Result<Result<()>, Gone> {
        let mut state = self.live()?;
        let event = Event { id: None, nameless: true, ..*event };
        let appended = self.append_to(&mut state, &event, now, |log| Ok(Some(log.newest())));
        tell(state);
        Ok(appended.map(|_| ()))
    }

    /// Whether the log is to be asked before one is let in that had `after`: that may have been published elsewhere a moment
    /// ago. No subscriber is admitted then until [`Topic::checked`] is called.
    pub(in crate::hub) fn is_to_be_checked(&self, after: &str) -> bool {
        let mut state = lock(&self.state);
        let is = state.phase == Phase::Open && state.log.place_after(after).is_none();
        state.is_checked |= is;
        is
    }

    /// What the log had when it was asked is here.
    pub(in crate::hub) fn checked(&self) {
        let mut state = lock(&self.state);
        state.is_checked = false;
        tell(state);
    }

    /// Whether anything was ever published to it, as far as that can be said.
    pub(in crate::hub) fn is_known(&self) -> bool {
        lock(&self.state).log.newest() != Id::default()
    }

    /// Goes on behind `floor`, and tells subscribers. False: there is no room to tell them.
    pub(super) fn miss(&self, state: &mut State, floor: Id, now: Duration) -> bool {
        let after = state.log.name_before(state.log.tail());
        if floor != state.log.newest() {
            state.log.restart(floor);
        }
        state.phase = Phase::Open;
        if state.subscribers == 0 {
            return true;
        }
        let resumed = state.log.name_before(state.log.tail());
        let data = gap_data(Some(&after), &resumed);
        let is_named = resumed.parse() != Ok(floor);
        let id = is_named.then_some(resumed.as_str());
        let event = Event { data: data.as_bytes(), name: Some(GAP), id, ..Event::default() };
        self.counts.gaps.add(state.subscribers as u64);
        state.log.append(floor, &event, now).is_ok()
    }
}

/// Subscribers cannot be told that something is missing, so they end, and are told when they come back.
pub(super) fn give_up(mut state: MutexGuard<'_, State>) -> Gone {
    state.phase = Phase::Gone;
    state.log.clear();
    tell(state);
    Gone
}
