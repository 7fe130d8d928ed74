//! The subscribers of a row, each a small entry in a flat list: what it has received, its connection, and its timers.

use std::ops::Range;
use std::task::Waker;
use std::time::Duration;

use slab::Slab;
use tokio::time::Instant;

use super::super::budget::Charge;
use super::super::encode::HEARTBEAT_CHUNK;
use super::super::log::{Name, Run};
use crate::net::{Connection, Payload, shortened};
use crate::sync::Arc;

/// The timers of a subscriber.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::hub) struct Times {
    /// The time without an event after which a heartbeat is sent.
    pub(in crate::hub) heartbeat: Option<Duration>,
    /// The time after which the response ends.
    pub(in crate::hub) most: Option<Duration>,
}

/// The state that a row gives to a subscriber's own task.
#[derive(Debug)]
pub(in crate::hub) struct Turn {
    /// The number of its next event, if the row may have written since.
    pub(in crate::hub) place: Option<u64>,
    /// The name of the last event that the row has written, if any.
    pub(in crate::hub) last: Option<Name>,
    /// The rest of a partial write.
    pub(in crate::hub) rest: Option<Box<Rest>>,
    /// A heartbeat is due.
    pub(in crate::hub) beats: bool,
    /// Its time has expired.
    pub(in crate::hub) ends: bool,
}

/// The seats of a row.
#[derive(Debug, Default)]
pub(super) struct Seats {
    places: Slab<Place>,
    /// Above the highest number of a seat so far.
    end: usize,
    /// The time of the next timer, and the task that waits for it.
    due: Option<Instant>,
    alarm: Option<Waker>,
}

/// A subscriber.
#[derive(Debug, Default)]
pub(super) struct Place {
    /// The number of the event that it gets next, while it is idle.
    next: u64,
    /// It has received all events, and the kernel has taken them.
    is_idle: bool,
    /// A heartbeat is due, or its time has expired: for its task.
    beats: bool,
    ends: bool,
    /// The connection to write to while it is idle. `None`: its task is woken instead.
    connection: Option<Arc<Connection>>,
    /// The name of the last event that was written here; the log may have dropped it when it is needed.
    last: Option<Name>,
    /// The waker of its task, while that waits.
    waker: Option<Waker>,
    /// Bytes that the row has written.
    written: u64,
    rest: Option<Box<Rest>>,
    clock: Option<Box<Schedule>>,
}

/// The timers of a subscriber that has some.
#[derive(Debug)]
struct Schedule {
    /// See [`Times`].
    heartbeat: Option<Duration>,
    /// The time of the last write.
    sent_at: Instant,
    ends_at: Option<Instant>,
}

/// The rest of a write that the socket did not take.
#[derive(Debug)]
pub(in crate::hub) struct Rest {
    pub(in crate::hub) bytes: Payload,
    /// Its charge to the hub's memory.
    pub(in crate::hub) charge: Option<Arc<Charge>>,
}

impl Seats {
    /// Takes a seat, and returns its number.
    pub(super) fn take(&mut self, connection: Option<Arc<Connection>>, times: Times) -> usize {
        let now = Instant::now();
        let (heartbeat, most) = (times.heartbeat.map(shortened), times.most.map(shortened));
        let clock = Schedule { heartbeat, sent_at: now, ends_at: most.map(|most| now + most) };
        let clock = (heartbeat.is_some() || most.is_some()).then(|| Box::new(clock));
        let place = Place { connection, clock, ..Place::default() };
        let due = place.due();
        let number = self.places.insert(place);
        self.end = self.end.max(number + 1);
        self.hasten(due);
        number
    }

    pub(super) fn give_back(&mut self, number: usize) {
        self.places.remove(number);
    }

    pub(super) fn place(&mut self, number: usize) -> &mut Place {
        &mut self.places[number]
    }

    /// A subscriber has received all events before `next`.
    pub(super) fn rest(&mut self, number: usize, next: u64) {
        let place = &mut self.places[number];
        (place.next, place.is_idle) = (next, true);
        if let Some(clock) = &mut place.clock {
            clock.sent_at = Instant::now();
        }
        let due = place.due();
        self.hasten(due);
    }

    /// Calls `work` with some of the subscribers; returns whether they are the last.
    pub(super) fn each(&mut self, seats: Range<usize>, mut work: impl FnMut(&mut Place)) -> bool {
        for number in seats.start..seats.end.min(self.end) {
            if let Some(place) = self.places.get_mut(number) {
                work(place);
            }
        }
        self.end < seats.end
    }

    /// The time of the next timer. The caller is woken when it becomes earlier.
    pub(super) fn due(&mut self, alarm: &Waker) -> Option<Instant> {
        if !self.alarm.as_ref().is_some_and(|known| known.will_wake(alarm)) {
            self.alarm = Some(alarm.clone());
        }
        self.due
    }

    /// Runs the timers of some of the subscribers; returns whether they are the last.
    pub(super) fn look(&mut self, seats: Range<usize>, now: Instant) -> bool {
        // A round from the first subscriber on finds the time of the next one.
        let mut due = self.due.filter(|_| seats.start > 0);
        let is_last = self.each(seats, |place| {
            place.look(now);
            due = earlier(due, place.due());
        });
        self.due = due;
        is_last
    }

    fn hasten(&mut self, due: Option<Instant>) {
        let sooner = earlier(self.due, due);
        if sooner != self.due {
            self.due = sooner;
            if let Some(alarm) = &self.alarm {
                alarm.wake_by_ref();
            }
        }
    }
}

fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}

impl Place {
    /// Writes `run`, which begins at the event `from`, and returns whether it did. If it cannot, its task is woken to
    /// read the log.
    pub(super) fn serve(&mut self, from: u64, run: &Run, now: Instant) -> bool {
        if self.is_idle && self.next == from {
            let rest = |taken| Rest {
                bytes: Payload::Kept(run.bytes.slice(taken..run.bytes.len())),
                charge: Some(Arc::clone(&run.charge)),
            };
            if self.write(&run.bytes, now, rest) {
                if !cfg!(all(test, planted_bug = "row-forgets-place")) {
                    self.next = run.next;
                }
                self.last = Some(run.last.clone());
                return true;
            }
        } else if self.is_idle && self.next >= run.next {
            // Its own task has already sent these.
            return false;
        }
        self.wake();
        false
    }

    /// Registers the waker of its task.
    pub(super) fn wait(&mut self, waker: &Waker) {
        if !self.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            self.waker = Some(waker.clone());
        }
    }

    pub(super) fn take_over(&mut self) -> Turn {
        let rest = self.rest.take();
        // Its connection wakes it, unless it waits here again.
        self.waker = None;
        let was_idle = std::mem::replace(&mut self.is_idle, false);
        Turn {
            place: Some(self.next).filter(|_| was_idle || rest.is_some()),
            last: self.last.take(),
            rest,
            beats: std::mem::take(&mut self.beats),
            ends: self.ends,
        }
    }

    pub(super) fn is_whole(&self) -> bool {
        self.rest.is_none() && !self.beats && !self.ends
    }

    pub(super) fn written(&self) -> u64 {
        self.written
    }

    fn look(&mut self, now: Instant) {
        let Some(clock) = &mut self.clock else { return };
        if clock.ends_at.is_some_and(|at| at <= now) {
            clock.ends_at = None;
            self.ends = true;
            self.wake();
        } else if self.beat_at().is_some_and(|at| at <= now) {
            let rest = |taken| Rest { bytes: Payload::Text(HEARTBEAT_CHUNK[taken..].to_vec()), charge: None };
            if !self.write(HEARTBEAT_CHUNK, now, rest) {
                self.is_idle = false;
                self.beats = true;
                self.wake();
            }
        }
    }

    /// The time of its heartbeat, if it is idle until then.
    fn beat_at(&self) -> Option<Instant> {
        let clock = self.clock.as_ref().filter(|_| self.is_idle)?;
        Some(clock.sent_at + clock.heartbeat?)
    }

    fn due(&self) -> Option<Instant> {
        earlier(self.beat_at(), self.clock.as_ref().and_then(|clock| clock.ends_at))
    }

    /// Writes what the socket takes, and leaves the rest to the task. Returns whether there is a connection to write to.
    fn write(&mut self, bytes: &[u8], now: Instant, rest: impl FnOnce(usize) -> Rest) -> bool {
        let Some(connection) = &self.connection else { return false };
        // An error of the socket is reported by the task, which meets it when it writes the rest.
        let taken = connection.write_now(bytes).unwrap_or(0);
        self.written += taken as u64;
        if let Some(clock) = &mut self.clock {
            clock.sent_at = now;
        }
        if taken < bytes.len() {
            self.rest = Some(Box::new(rest(taken)));
            self.is_idle = false;
            self.wake();
        }
        true
    }

    pub(super) fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}
