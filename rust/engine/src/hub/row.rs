//! The subscribers of one topic on one engine thread, and the one task that follows the topic for all of them.
//!
//! Whoever publishes wakes the task once, and the task writes the event to each subscriber that has had all before: a system
//! call each, and no task of a connection is woken. One whose socket does not take all of it is left to its connection's
//! task, with the rest. Made with the first subscriber, ended with the last. Everything here happens on one engine thread, so
//! that between two waits nobody else writes to these connections; the lock is for the compiler.

use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::sync::Weak;
use std::task::{Context, Poll, Waker};
use std::thread::ThreadId;

use super::budget::Charge;
use super::counts::add;
use super::log::{Found, Run};
use super::topic::{Mark, Topic};
use crate::net::Connection;
use crate::pool::Slice;
use crate::runtime::from_afar;
use crate::sync::{Arc, Mutex, lock};

/// Seats that are served before the thread turns to its other tasks: some 0.4 ms, and a row may have ten thousand.
const AT_ONCE: usize = 64;

/// The rows of a topic, one for each engine thread that has subscribers of it.
pub(super) type Rows = Mutex<Vec<(ThreadId, Weak<Row>)>>;

/// The subscribers of a topic on one thread.
#[derive(Debug)]
pub(super) struct Row {
    topic: Arc<Topic>,
    follower: u64,
    seats: Mutex<Seats>,
}

#[derive(Debug, Default)]
struct Seats {
    places: Vec<Place>,
    free: Vec<usize>,
}

/// What a row knows of a subscriber.
#[derive(Debug, Default)]
struct Place {
    /// The number of the event that it gets next, while it is idle.
    next: u64,
    /// It has had all that there was, and all of it is with the kernel.
    is_idle: bool,
    /// Where to write to while it is idle. None: its task has to be woken.
    connection: Option<Arc<Connection>>,
    /// Its task, while that waits.
    waker: Option<Waker>,
    /// Bytes that were written here.
    written: u64,
    rest: Option<Box<Rest>>,
}

/// What the socket did not take.
#[derive(Debug)]
pub(super) struct Rest {
    pub(super) bytes: Slice,
    pub(super) charge: Arc<Charge>,
}

/// A subscriber's place in a row. Dropping it gives it back.
#[derive(Debug)]
pub(super) struct Seat {
    row: Arc<Row>,
    number: usize,
}

impl Row {
    /// A seat in the row of `topic` on the calling engine thread, which may write to `connection`.
    pub(super) fn seat(topic: &Arc<Topic>, connection: Option<Arc<Connection>>) -> Seat {
        let row = Self::here(topic);
        let place = Place { connection, ..Place::default() };
        let number = {
            let mut seats = lock(&row.seats);
            if let Some(number) = seats.free.pop() {
                seats.places[number] = place;
                number
            } else {
                seats.places.push(place);
                seats.places.len() - 1
            }
        };
        Seat { row, number }
    }

    fn here(topic: &Arc<Topic>) -> Arc<Self> {
        let thread = std::thread::current().id();
        let mut rows = lock(&topic.rows);
        rows.retain(|(_, row)| row.strong_count() > 0);
        if let Some(row) = rows.iter().find(|(other, _)| *other == thread).and_then(|(_, row)| row.upgrade())
        {
            return row;
        }
        let (follower, seen) = topic.follow();
        let row = Arc::new(Self { topic: Arc::clone(topic), follower, seats: Mutex::default() });
        rows.push((thread, Arc::downgrade(&row)));
        tokio::spawn(serve(Arc::clone(topic), Arc::downgrade(&row), follower, seen));
        row
    }

    /// Gives some of the seats `run`, which begins at the event `from`; none if they are to look themselves. False: there are
    /// no more seats.
    fn serve_some(&self, seats: Range<usize>, from: u64, run: Option<&Run>) -> bool {
        let mut served = 0;
        let is_last = {
            let mut all = lock(&self.seats);
            let end = seats.end.min(all.places.len());
            for place in all.places.get_mut(seats.start..end).unwrap_or_default() {
                served += u64::from(place.serve(from, run));
            }
            end < seats.end
        };
        if let Some(run) = run {
            add(&self.topic.counts.delivered, served * run.events);
        }
        !is_last
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        self.topic.dismiss(self.follower);
    }
}

impl Place {
    /// Whether it was given `run` here.
    fn serve(&mut self, from: u64, run: Option<&Run>) -> bool {
        match (run, &self.connection) {
            (Some(run), Some(connection)) if self.is_idle && self.next == from => {
                let taken = connection.write_now(&run.bytes);
                self.next = run.next;
                self.settle(taken, run);
                true
            }
            // It has been faster than its row.
            (Some(run), _) if self.is_idle && self.next >= run.next => false,
            _ => {
                self.wake();
                false
            }
        }
    }

    fn settle(&mut self, taken: io::Result<usize>, run: &Run) {
        // What is wrong with the socket is met again by the task that writes the rest, and told there.
        let taken = taken.unwrap_or(0);
        self.written += taken as u64;
        if taken < run.bytes.len() {
            let bytes = run.bytes.slice(taken..run.bytes.len());
            self.rest = Some(Box::new(Rest { bytes, charge: Arc::clone(&run.charge) }));
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

impl Seat {
    /// Has the task woken when there is more than what had been read by now.
    pub(super) fn wait(&self, context: &Context<'_>) {
        self.place(|place| {
            if !place.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                place.waker = Some(context.waker().clone());
            }
        });
    }

    /// All up to the event `next` is with the kernel, and there is no more: the row may write what comes.
    pub(super) fn rest(&self, next: u64) {
        self.place(|place| (place.next, place.is_idle) = (next, true));
    }

    /// The task goes on itself: where, if the row has written meanwhile, and what was left of that.
    pub(super) fn take_over(&self) -> (Option<u64>, Option<Box<Rest>>) {
        self.place(|place| {
            let rest = place.rest.take();
            // Unless it waits again, its connection tells it when to go on.
            place.waker = None;
            let was_idle = std::mem::replace(&mut place.is_idle, false);
            (Some(place.next).filter(|_| was_idle || rest.is_some()), rest)
        })
    }

    /// Bytes that the row has written so far.
    pub(super) fn written(&self) -> u64 {
        self.place(|place| place.written)
    }

    fn place<T>(&self, work: impl FnOnce(&mut Place) -> T) -> T {
        work(&mut lock(&self.row.seats).places[self.number])
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut seats = lock(&self.row.seats);
        seats.places[self.number] = Place::default();
        seats.free.push(self.number);
    }
}

/// Follows `topic` for a row, as long as that has seats.
async fn serve(topic: Arc<Topic>, row: Weak<Row>, follower: u64, mut seen: Mark) {
    let mut waker = None;
    // The number of the event that comes next.
    let mut next = seen.0;
    loop {
        let changed = poll_fn(|context| {
            if row.strong_count() == 0 {
                return Poll::Ready(None);
            }
            let waker = waker.get_or_insert_with(|| from_afar(context.waker()));
            topic.changed(follower, seen, waker).map_or(Poll::Pending, |mark| Poll::Ready(Some(mark)))
        });
        let Some(mark) = changed.await else { return };
        let mut looks = mark.1 != seen.1;
        seen = mark;
        loop {
            let run = match topic.read(next, true, false).0 {
                Found::Run(run) => Some(run),
                // What has left before it came here each subscriber deals with itself, and so it does with the end.
                Found::Evicted => None,
                Found::Nothing if looks => None,
                Found::Nothing => break,
            };
            let mut first = 0;
            while row.upgrade().is_some_and(|row| row.serve_some(first..first + AT_ONCE, next, run.as_ref()))
            {
                first += AT_ONCE;
                tokio::task::yield_now().await;
            }
            looks &= run.is_some();
            next = run.map_or_else(|| next.max(topic.oldest().0), |run| run.next);
        }
    }
}
