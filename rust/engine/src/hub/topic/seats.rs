//! What a row knows of each of its subscribers, one small entry each in a flat list: who has had all, where to write to, and
//! when something is due.

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

/// When something is due for a subscriber.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::hub) struct Times {
    /// How long nothing may be sent.
    pub(in crate::hub) heartbeat: Option<Duration>,
    /// How long the response may go on.
    pub(in crate::hub) most: Option<Duration>,
}

/// What a row has for a subscriber whose task goes on itself.
#[derive(Debug)]
pub(in crate::hub) struct Turn {
    /// The number of its next event, if the row may have written meanwhile.
    pub(in crate::hub) place: Option<u64>,
    /// What the last event is called that the row has written, if it has written any.
    pub(in crate::hub) last: Option<Name>,
    /// What is left of that.
    pub(in crate::hub) rest: Option<Box<Rest>>,
    /// A heartbeat is due.
    pub(in crate::hub) beats: bool,
    /// Its time is over.
    pub(in crate::hub) ends: bool,
}

/// The seats of a row.
#[derive(Debug, Default)]
pub(super) struct Seats {
    places: Slab<Place>,
    /// Above the highest number of a seat so far.
    end: usize,
    /// Nothing is due before, and who has the timer for it.
    due: Option<Instant>,
    alarm: Option<Waker>,
}

/// What is known of a subscriber.
#[derive(Debug, Default)]
pub(super) struct Place {
    /// The number of the event that it gets next, while it is idle.
    next: u64,
    /// It has had all that there was, and all of it is with the kernel.
    is_idle: bool,
    /// What its task is to be told.
    beats: bool,
    ends: bool,
    /// Where to write to while it is idle. None: its task has to be woken.
    connection: Option<Arc<Connection>>,
    /// What the last event is called that was written here; the log may not have it any more when it is asked for.
    last: Option<Name>,
    /// Its task, while that waits.
    waker: Option<Waker>,
    /// Bytes that were written here.
    written: u64,
    rest: Option<Box<Rest>>,
    clock: Option<Box<Schedule>>,
}

/// When something is due, for one for whom something ever is.
#[derive(Debug)]
struct Schedule {
    /// How long it may be sent nothing.
    heartbeat: Option<Duration>,
    /// When it was sent something.
    sent_at: Instant,
    ends_at: Option<Instant>,
}

/// What the socket did not take.
#[derive(Debug)]
pub(in crate::hub) struct Rest {
    pub(in crate::hub) bytes: Payload,
    /// Of the hub's memory.
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

    /// A subscriber has had all up to the event `next`.
    pub(super) fn rest(&mut self, number: usize, next: u64) {
        let place = &mut self.places[number];
        (place.next, place.is_idle) = (next, true);
        if let Some(clock) = &mut place.clock {
            clock.sent_at = Instant::now();
        }
        let due = place.due();
        self.hasten(due);
    }

    /// Calls `work` with some of the places; whether these are the last.
    pub(super) fn each(&mut self, seats: Range<usize>, mut work: impl FnMut(&mut Place)) -> bool {
        for number in seats.start..seats.end.min(self.end) {
            if let Some(place) = self.places.get_mut(number) {
                work(place);
            }
        }
        self.end < seats.end
    }

    /// Before when nothing is due. The caller is woken when that becomes earlier.
    pub(super) fn due(&mut self, alarm: &Waker) -> Option<Instant> {
        if !self.alarm.as_ref().is_some_and(|known| known.will_wake(alarm)) {
            self.alarm = Some(alarm.clone());
        }
        self.due
    }

    /// Does what is due for some of the places; whether these are the last.
    pub(super) fn look(&mut self, seats: Range<usize>, now: Instant) -> bool {
        // What is found from the first on says when the next look is due.
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
    /// Whether it was given `run`, which begins at the event `from`. None: it is to look itself.
    pub(super) fn serve(&mut self, from: u64, run: Option<&Run>, now: Instant) -> bool {
        match run {
            Some(run) if self.is_idle && self.next == from && self.connection.is_some() => {
                self.next = run.next;
                self.last = Some(run.last.clone());
                self.write(&run.bytes, now, |taken| Rest {
                    bytes: Payload::Kept(run.bytes.slice(taken..run.bytes.len())),
                    charge: Some(Arc::clone(&run.charge)),
                });
                true
            }
            // It has been faster than its row.
            Some(run) if self.is_idle && self.next >= run.next => false,
            _ => {
                self.wake();
                false
            }
        }
    }

    /// Has its task told when something is to be written, or by `waker`.
    pub(super) fn wait(&mut self, waker: &Waker) {
        if !self.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            self.waker = Some(waker.clone());
        }
    }

    pub(super) fn take_over(&mut self) -> Turn {
        let rest = self.rest.take();
        // Unless it waits again, its connection tells it when to go on.
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
            if self.connection.is_some() {
                self.write(HEARTBEAT_CHUNK, now, |taken| Rest {
                    bytes: Payload::Text(HEARTBEAT_CHUNK[taken..].to_vec()),
                    charge: None,
                });
            } else {
                self.is_idle = false;
                self.beats = true;
                self.wake();
            }
        }
    }

    /// When it is to be sent something, if it is idle until then.
    fn beat_at(&self) -> Option<Instant> {
        let clock = self.clock.as_ref().filter(|_| self.is_idle)?;
        Some(clock.sent_at + clock.heartbeat?)
    }

    fn due(&self) -> Option<Instant> {
        earlier(self.beat_at(), self.clock.as_ref().and_then(|clock| clock.ends_at))
    }

    /// Writes what the socket takes; the rest is the task's.
    fn write(&mut self, bytes: &[u8], now: Instant, rest: impl FnOnce(usize) -> Rest) {
        let Some(connection) = &self.connection else { return };
        // What is wrong with the socket is met again by the task that writes the rest, and told there.
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
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}
