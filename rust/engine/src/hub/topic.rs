//! One topic: its history under a lock, and its followers.
//!
//! A publisher appends under the lock, which gives the order, and wakes one follower for each engine thread that has
//! subscribers. The lock is never held across I/O. The invariant: a follower that has been told that there is nothing new
//! is woken by the next change, because it is told and takes its place under the same lock.

#[cfg(not(loom))]
mod external;
#[cfg(not(loom))]
mod mirrored;
#[cfg(not(loom))]
mod row;
#[cfg(not(loom))]
mod seats;

use std::collections::BTreeMap;
use std::task::Waker;
use std::time::Duration;

use super::counts::Counts;
use super::encode::Event;
use super::log::{Found, Log, Room};
use super::resume::{Beginning, Resumption, begin};
use super::{Id, Join};
use crate::error::{Code, Result};
use crate::sync::{Mutex, MutexGuard, lock};

#[cfg(not(loom))]
pub use external::{Published, Refused, Taken};
#[cfg(not(loom))]
pub(super) use mirrored::News;
#[cfg(not(loom))]
use mirrored::Told;
#[cfg(not(loom))]
pub(super) use row::{Row, Seat};
#[cfg(not(loom))]
pub(super) use seats::{Rest, Times, Turn};

/// The phase of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Its history is being loaded; no subscriber is admitted yet.
    Loading,
    /// More may come.
    Open,
    /// It is finished, since that time.
    Finished(Duration),
    /// The hub has dropped it.
    Gone,
}

/// What a follower has seen: the number of the next event, and the phase.
pub(super) type Mark = (u64, Phase);

/// A topic of a hub.
#[derive(Debug)]
pub(super) struct Topic {
    pub(super) name: Box<str>,
    state: Mutex<State>,
    pub(super) counts: Counts,
    #[cfg(not(loom))]
    rows: row::Rows,
}

#[derive(Debug)]
struct State {
    log: Log,
    phase: Phase,
    /// An external log is being asked whether it has more; no subscriber is admitted meanwhile.
    is_checked: bool,
    subscribers: usize,
    /// Whether a stream publishes to it.
    is_fed: bool,
    /// Whether a stream of another process does.
    is_fed_afar: bool,
    /// What each process that follows the hub has been told.
    #[cfg(not(loom))]
    told: Vec<Told>,
    /// The followers, by their numbers.
    followers: BTreeMap<u64, Waker>,
    next_follower: u64,
}

/// An admitted subscriber.
#[derive(Debug)]
pub(super) struct Entered {
    pub(super) beginning: Beginning,
    /// What the client may take to be before what it is sent.
    pub(super) resumed: String,
    /// The topic has ended, and there is nothing that the client lacks.
    pub(super) is_over: bool,
}

/// A snapshot of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fullness {
    pub(super) subscribers: usize,
    pub(super) events: usize,
    pub(super) bytes: usize,
    pub(super) newest: Id,
    pub(super) floor: Id,
    pub(super) is_finished: bool,
}

/// The topic has been dropped by its hub: look for it again.
#[derive(Debug)]
pub(super) struct Gone;

impl Topic {
    /// An empty topic. Nothing is known of events up to the id `floor`.
    pub(super) fn new(name: &str, room: Room, floor: Id, phase: Phase) -> Self {
        Self {
            name: name.into(),
            state: Mutex::new(State {
                log: Log::new(room, floor),
                phase,
                is_checked: false,
                subscribers: 0,
                is_fed: false,
                is_fed_afar: false,
                #[cfg(not(loom))]
                told: Vec::new(),
                followers: BTreeMap::new(),
                next_follower: 0,
            }),
            counts: Counts::default(),
            #[cfg(not(loom))]
            rows: row::Rows::default(),
        }
    }

    /// Appends `event` at the id that `choose` makes of the log, if it makes one.
    ///
    /// # Errors
    /// `TOPIC_FINISHED`, `POOL_FULL`, `BAD_EVENT`, and what `choose` says.
    pub(super) fn append(
        &self,
        event: &Event<'_>,
        now: Duration,
        choose: impl FnOnce(&Log) -> Result<Option<Id>>,
    ) -> std::result::Result<Result<Option<Id>>, Gone> {
        let mut state = self.live()?;
        Ok(self.append_to(&mut state, event, now, choose).inspect(|id| {
            if id.is_some() {
                tell(state);
            }
        }))
    }

    fn append_to(
        &self,
        state: &mut State,
        event: &Event<'_>,
        now: Duration,
        choose: impl FnOnce(&Log) -> Result<Option<Id>>,
    ) -> Result<Option<Id>> {
        if let Phase::Finished(_) = state.phase {
            let detail = format!("the topic {:?} has been finished", self.name);
            return Err(Code::TopicFinished.error(detail));
        }
        let Some(id) = choose(&state.log)? else { return Ok(None) };
        let bytes = state.log.append(id, event, now)?;
        self.counts.events.add(1);
        self.counts.bytes.add(bytes as u64);
        Ok(Some(id))
    }

    /// Finishes the topic; returns whether it was not finished.
    pub(super) fn finish(&self, now: Duration) -> std::result::Result<bool, Gone> {
        let mut state = self.live()?;
        let news = !state.is_finished();
        if news {
            state.phase = Phase::Finished(now);
            tell(state);
        }
        Ok(news)
    }

    /// Claims the topic for a stream, until [`Topic::end_feed`]; false if a stream has it.
    pub(super) fn begin_feed(&self) -> std::result::Result<bool, Gone> {
        let mut state = self.live()?;
        Ok(!state.is_fed_afar && !std::mem::replace(&mut state.is_fed, true))
    }

    pub(super) fn end_feed(&self) {
        lock(&self.state).is_fed = false;
    }

    /// Whether subscribers are admitted; if not yet, `waker` is woken when that may have changed.
    pub(super) fn is_loaded(&self, follower: u64, waker: &Waker) -> bool {
        let mut state = lock(&self.state);
        let waits = state.phase == Phase::Loading || state.is_checked;
        if waits {
            state.follow(follower, waker);
        }
        !waits
    }

    /// Admits a subscriber, unless its response is over at once. [`Topic::leave`] is called at its
    /// end.
    ///
    /// # Errors
    /// `TOO_MANY_REQUESTS` where there are `most` already.
    pub(super) fn enter(
        &self,
        after: Option<&str>,
        join: Join,
        most: Option<usize>,
        now: Duration,
    ) -> std::result::Result<Result<Entered>, Gone> {
        let mut state = self.live()?;
        if let Some(most) = most.filter(|most| state.subscribers >= *most) {
            let detail = format!("the topic {:?} has {most} subscribers already", self.name);
            return Ok(Err(Code::TooManyRequests.error(detail)));
        }
        state.log.expire(now);
        let beginning = begin(&state.log, after, join);
        let has_all = after.is_some() || matches!(join, Join::Now | Join::Last(0));
        let is_over = state.is_finished()
            && has_all
            && beginning.place == state.log.tail()
            && beginning.resumption != Resumption::Gap;
        if !is_over {
            state.subscribers += 1;
        }
        let resumed = state.log.name_before(beginning.place);
        drop(state);
        self.counts.subscribed.add(1);
        match beginning.resumption {
            Resumption::Full => self.counts.resumed.add(1),
            Resumption::Gap => self.counts.gaps.add(1),
            Resumption::Fresh => {}
        }
        Ok(Ok(Entered { beginning, resumed, is_over }))
    }

    pub(super) fn leave(&self) {
        lock(&self.state).subscribers -= 1;
    }

    /// The next events at `place`, and the phase of the topic.
    pub(super) fn read(&self, place: u64, chunked: bool, conflate: bool) -> (Found, Phase) {
        let state = lock(&self.state);
        (state.log.read(place, chunked, conflate), state.phase)
    }

    /// Bytes of the events from `place` on.
    pub(super) fn behind(&self, place: u64) -> u64 {
        lock(&self.state).log.behind(place)
    }

    /// The number of the first event in the history, and the name of the event before it.
    pub(super) fn oldest(&self) -> (u64, String) {
        let state = lock(&self.state);
        (state.log.first(), state.log.name_before(state.log.first()))
    }

    /// The name of the event before `place`; `None` if it is not known.
    pub(super) fn name_before(&self, place: u64) -> Option<String> {
        let state = lock(&self.state);
        let is_known = state.phase != Phase::Gone && place >= state.log.first();
        is_known.then(|| state.log.name_before(place))
    }

    /// The name of the newest event.
    pub(super) fn last_name(&self) -> String {
        let state = lock(&self.state);
        state.log.name_before(state.log.tail())
    }

    /// The number of a new follower, and its mark.
    pub(super) fn follow(&self) -> (u64, Mark) {
        let mut state = lock(&self.state);
        state.next_follower += 1;
        (state.next_follower, state.mark())
    }

    /// What has changed since `seen`; if nothing has, `waker` is woken with the next change.
    pub(super) fn changed(&self, follower: u64, seen: Mark, waker: &Waker) -> Option<Mark> {
        let mut state = lock(&self.state);
        let mark = state.mark();
        if mark != seen {
            return Some(mark);
        }
        state.follow(follower, waker);
        None
    }

    /// Wakes a follower, which then checks whether it is still needed.
    pub(super) fn dismiss(&self, follower: u64) {
        let waker = {
            let mut state = lock(&self.state);
            state.followers.remove(&follower)
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Drops events that are too old. Returns whether the topic is gone: it has no subscriber, and no event or was finished
    /// long enough ago.
    pub(super) fn tend(&self, now: Duration, finished_age: Duration) -> bool {
        let mut state = lock(&self.state);
        state.log.expire(now);
        let is_over = match state.phase {
            Phase::Open => state.log.is_empty(),
            Phase::Loading => state.log.is_empty() && state.followers.is_empty(),
            Phase::Finished(since) => now.saturating_sub(since) >= finished_age,
            Phase::Gone => true,
        };
        let goes = is_over && state.subscribers == 0 && !state.is_fed && !state.is_fed_afar;
        if goes {
            state.phase = Phase::Gone;
            state.log.clear();
        }
        goes
    }

    /// The hub is closed: ends the subscribers.
    pub(super) fn close(&self) {
        let mut state = lock(&self.state);
        state.phase = Phase::Gone;
        state.log.clear();
        tell(state);
    }

    pub(super) fn fullness(&self) -> Fullness {
        let state = lock(&self.state);
        Fullness {
            subscribers: state.subscribers,
            events: usize::try_from(state.log.tail() - state.log.first()).unwrap_or(usize::MAX),
            bytes: state.log.bytes(),
            newest: state.log.newest(),
            floor: state.log.floor(),
            is_finished: state.is_finished(),
        }
    }

    fn live(&self) -> std::result::Result<MutexGuard<'_, State>, Gone> {
        let state = lock(&self.state);
        if state.phase == Phase::Gone { Err(Gone) } else { Ok(state) }
    }
}

impl State {
    fn mark(&self) -> Mark {
        (self.log.tail(), self.phase)
    }

    fn is_finished(&self) -> bool {
        matches!(self.phase, Phase::Finished(_))
    }

    fn follow(&mut self, follower: u64, waker: &Waker) {
        // By number: while a topic is loaded each of its subscribers waits here.
        self.followers.insert(follower, waker.clone());
    }
}

/// Wakes all followers, after the lock was released.
fn tell(mut state: MutexGuard<'_, State>) {
    let followers = std::mem::take(&mut state.followers);
    drop(state);
    for waker in followers.into_values() {
        waker.wake();
    }
}
