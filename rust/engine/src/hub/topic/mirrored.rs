//! A topic that two processes have during an upgrade: what one of them, which gives the events their order, tells the other.
//!
//! What is told is read from the history, from the place that the other has reached. So nothing is queued for a process that is
//! slow, and its first copy is told in the same way as what follows.

use std::time::Duration;

use super::super::log::{Kept, Log};
use super::super::{Event, Id};
use super::external::give_up;
use super::{Gone, Phase, Topic};
use crate::sync::lock;

/// What a process that follows has been told of a topic.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Told {
    /// The number of its link.
    link: u64,
    /// The number of the next event; `None` before the first word.
    next: Option<u64>,
    is_finished: bool,
    is_fed: bool,
}

/// Something that a process which follows has not been told.
#[derive(Debug)]
pub(in crate::hub) enum News<'a> {
    /// There is the topic. All that was published up to `floor` is not told.
    Begun { floor: Id, floor_name: Option<&'a str> },
    /// An event.
    Event(Kept<'a>),
    /// The topic has been finished.
    Finished,
    /// Whether a stream publishes to it.
    Fed(bool),
}

impl Topic {
    /// Passes to `put` what the process of `link` has not been told, while that returns that there is room for more. Whether that
    /// is all.
    pub(in crate::hub) fn tell_news(&self, link: u64, mut put: impl FnMut(News<'_>) -> bool) -> bool {
        let mut state = lock(&self.state);
        let state = &mut *state;
        if state.phase == Phase::Gone {
            return true;
        }
        let at = state.told.iter().position(|told| told.link == link).unwrap_or_else(|| {
            state.told.push(Told { link, ..Told::default() });
            state.told.len() - 1
        });
        let told = &mut state.told[at];
        if told.next.is_none() {
            put(News::Begun { floor: state.log.floor(), floor_name: state.log.floor_name() });
        }
        let mut next = told.next.unwrap_or_default().max(state.log.first());
        while let Some(kept) = state.log.kept(next) {
            next += 1;
            told.next = Some(next);
            if !put(News::Event(kept)) {
                return false;
            }
        }
        told.next = Some(next);
        if state.is_fed != std::mem::replace(&mut told.is_fed, state.is_fed) {
            put(News::Fed(state.is_fed));
        }
        let is_finished = matches!(state.phase, Phase::Finished(_));
        if is_finished && !std::mem::replace(&mut told.is_finished, true) {
            put(News::Finished);
        }
        true
    }

    /// The process of `link` has all that there is: it has told it.
    pub(in crate::hub) fn note_told(&self, link: u64) {
        let mut state = lock(&self.state);
        let told = Told {
            link,
            next: Some(state.log.tail()),
            is_finished: matches!(state.phase, Phase::Finished(_)),
            is_fed: state.is_fed,
        };
        state.told.retain(|other| other.link != link);
        state.told.push(told);
    }

    /// Nothing is told up to `floor`, where an event was called `name` on the wire if not by its id. A topic that has had events
    /// knows better.
    pub(in crate::hub) fn begin_at(&self, floor: Id, name: Option<&str>) -> Result<(), Gone> {
        let mut state = self.live()?;
        if state.log.tail() == 0 {
            state.log.restart_behind(floor, name);
        }
        Ok(())
    }

    /// Appends the event at `id`, which was published at `at` on the hub's clock and follows on the one at `after`. Subscribers are
    /// told of what is missing in between.
    pub(in crate::hub) fn append_behind(
        &self,
        after: Id,
        id: Id,
        event: &Event<'_>,
        at: Duration,
    ) -> Result<(), Gone> {
        let mut state = self.live()?;
        let newest = state.log.newest();
        if state.log.tail() == 0 && newest != after {
            state.log.restart(after);
        } else if id <= newest {
            return Ok(());
        } else if newest != after && !self.miss(&mut state, after, at) {
            return Err(give_up(state));
        }
        let choose = |_: &Log| Ok(Some(id));
        let is_kept = event.check().and_then(|()| self.append_to(&mut state, event, at, choose)).is_ok();
        if !is_kept && !self.miss(&mut state, id, at) {
            return Err(give_up(state));
        }
        super::tell(state);
        Ok(())
    }

    /// Whether a stream of another process publishes to it from now on. False if a stream of this one does.
    pub(in crate::hub) fn set_fed_afar(&self, is_fed: bool) -> Result<bool, Gone> {
        let mut state = self.live()?;
        if is_fed && (state.is_fed || state.is_fed_afar) {
            return Ok(false);
        }
        state.is_fed_afar = is_fed;
        Ok(true)
    }

    /// Whether a stream of this process publishes to it.
    pub(in crate::hub) fn is_fed(&self) -> bool {
        lock(&self.state).is_fed
    }

    /// Whether a stream of another process publishes to it.
    pub(in crate::hub) fn is_fed_afar(&self) -> bool {
        lock(&self.state).is_fed_afar
    }

    /// Admits a subscriber that another process has served: its place, after the event at `id`, and what that is called. `None`
    /// if it is not known here what follows on that, or there are `most` subscribers already.
    pub(in crate::hub) fn enter_behind(&self, id: Id, most: Option<usize>) -> Option<(u64, String)> {
        let mut state = self.live().ok()?;
        let place = state.log.place_behind(id)?;
        if most.is_some_and(|most| state.subscribers >= most) {
            return None;
        }
        state.subscribers += 1;
        let name = state.log.name_before(place);
        drop(state);
        self.counts.subscribed.add(1);
        self.counts.resumed.add(1);
        Some((place, name))
    }

    /// The id of the event before `place`; `None` if that is not known.
    pub(in crate::hub) fn id_before(&self, place: u64) -> Option<Id> {
        let state = lock(&self.state);
        (state.phase != Phase::Gone && place >= state.log.first()).then(|| state.log.id_before(place))
    }

    /// Calls `work` with each event that is kept.
    pub(in crate::hub) fn each_kept(&self, mut work: impl FnMut(Kept<'_>)) {
        let state = lock(&self.state);
        for number in state.log.first()..state.log.tail() {
            state.log.kept(number).map(&mut work);
        }
    }
}
