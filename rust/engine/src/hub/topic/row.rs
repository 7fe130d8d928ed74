//! The subscribers of one topic on one engine thread, and the one task that follows the topic for all of them.
//!
//! A publisher wakes the task once. The task writes the event to each subscriber that has received all events before it:
//! one system call each, and no task of a connection is woken. If a socket does not take all of it, the connection's own
//! task writes the rest. The row has one timer. It begins with the first subscriber and ends with the last. Everything here
//! runs on one engine thread, so that between two waits no other task writes to these connections; the lock is for the
//! compiler.

use std::future::poll_fn;
use std::ops::Range;
use std::sync::Weak;
use std::task::{Context, Poll};
use std::thread::ThreadId;

use tokio::time::Instant;

use super::super::log::{Found, Run};
use super::seats::{Place, Seats, Times, Turn};
use super::{Mark, Topic};
use crate::net::{Connection, Watch};
use crate::runtime::from_afar;
use crate::sync::{Arc, Mutex, lock};
use crate::work::{Work, doing, worked};

/// Subscribers that are served before other tasks of the thread get their turn: some 0.4 ms; a row may have ten
/// thousand.
const AT_ONCE: usize = 64;

/// The rows of a topic, one for each engine thread that has subscribers of it.
pub(super) type Rows = Mutex<Vec<(ThreadId, Weak<Row>)>>;

/// The subscribers of a topic on one thread.
#[derive(Debug)]
pub(in crate::hub) struct Row {
    topic: Arc<Topic>,
    follower: u64,
    seats: Mutex<Seats>,
}

/// A subscriber's place in a row. Dropping it gives it back.
#[derive(Debug)]
pub(in crate::hub) struct Seat {
    row: Arc<Row>,
    number: usize,
}

/// The next task of a row.
enum Task {
    /// The topic has changed.
    Follow(Mark),
    /// A timer is due.
    Look,
}

impl Row {
    /// A seat in the row of `topic` on the calling engine thread, which may write to `connection`.
    pub(in crate::hub) fn seat(
        topic: &Arc<Topic>,
        connection: Option<Arc<Connection>>,
        times: Times,
    ) -> Seat {
        let row = Self::here(topic);
        let number = lock(&row.seats).take(connection, times);
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
        tokio::spawn(worked(Work::Hub, serve(Arc::clone(topic), Arc::downgrade(&row), follower, seen)));
        row
    }

    /// Writes `run`, which begins at the event `from`, to some of the subscribers. Without a run their tasks are woken.
    /// Returns whether there are more subscribers.
    fn serve_some(&self, seats: Range<usize>, from: u64, run: Option<&Run>) -> bool {
        let Some(run) = run else { return !lock(&self.seats).each(seats, Place::wake) };
        let mut served = 0;
        let now = Instant::now();
        // For all of them at once: a turn to each write and back is 30 instructions of 700 that a delivery takes.
        let _doing = doing(Work::Sockets);
        let is_last = lock(&self.seats).each(seats, |place| served += u64::from(place.serve(from, run, now)));
        self.topic.counts.delivered.add(served * run.events);
        !is_last
    }

    /// Runs the timers of some of the subscribers. Returns whether there are more.
    fn look_at_some(&self, seats: Range<usize>) -> bool {
        !lock(&self.seats).look(seats, Instant::now())
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        self.topic.dismiss(self.follower);
    }
}

impl Seat {
    /// Registers the task of `context` for the next event.
    pub(in crate::hub) fn wait(&self, context: &Context<'_>) {
        lock(&self.row.seats).place(self.number).wait(context.waker());
    }

    /// The kernel has taken all events before `next`, and there are no more: the row writes the following
    /// ones.
    pub(in crate::hub) fn rest(&self, next: u64) {
        lock(&self.row.seats).rest(self.number, next);
    }

    /// The subscriber's own task goes on.
    pub(in crate::hub) fn take_over(&self) -> Turn {
        lock(&self.row.seats).place(self.number).take_over()
    }

    /// Whether all that the row has written is with the kernel.
    pub(in crate::hub) fn is_whole(&self) -> bool {
        lock(&self.row.seats).place(self.number).is_whole()
    }

    /// Bytes that the row has written so far.
    pub(in crate::hub) fn written(&self) -> u64 {
        lock(&self.row.seats).place(self.number).written()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        lock(&self.row.seats).give_back(self.number);
    }
}

/// Follows `topic` for a row, while it has subscribers.
async fn serve(topic: Arc<Topic>, row: Weak<Row>, follower: u64, mut seen: Mark) {
    let (mut waker, mut armed, mut alarm) = (None, None, Watch::default());
    // The number of the event that comes next.
    let mut next = seen.0;
    loop {
        let task = poll_fn(|context| {
            let Some(row) = row.upgrade() else { return Poll::Ready(None) };
            let waker = waker.get_or_insert_with(|| from_afar(context.waker()));
            if let Some(mark) = topic.changed(follower, seen, waker) {
                return Poll::Ready(Some(Task::Follow(mark)));
            }
            let due = lock(&row.seats).due(context.waker());
            if armed != due {
                armed = due;
                alarm.start(due.map(|due| due.saturating_duration_since(Instant::now())));
            }
            alarm.poll_expired(context).map(|()| Some(Task::Look))
        });
        match task.await {
            None => return,
            Some(Task::Look) => {
                armed = None;
                alarm.start(None);
                in_turns(&row, Row::look_at_some).await;
            }
            Some(Task::Follow(mark)) => {
                let ends = mark.1 != seen.1;
                seen = mark;
                next = follow(&topic, &row, next, ends).await;
            }
        }
    }
}

/// Writes the events from `next` on to the row, and returns the number of the next one. `ends`: the phase of the topic
/// has changed.
async fn follow(topic: &Topic, row: &Weak<Row>, mut next: u64, mut ends: bool) -> u64 {
    loop {
        let run = match topic.read(next, true, false).0 {
            Found::Run(run) => Some(run),
            // Each subscriber's own task deals with dropped events, and with the end.
            Found::Evicted => None,
            Found::Nothing if ends => None,
            Found::Nothing => return next,
        };
        in_turns(row, |row, seats| row.serve_some(seats, next, run.as_ref())).await;
        ends &= run.is_some();
        next = run.map_or_else(|| next.max(topic.oldest().0), |run| run.next);
    }
}

/// Calls `work` with all subscribers of a row, some at a time, while it returns that there are
/// more.
async fn in_turns(row: &Weak<Row>, mut work: impl FnMut(&Row, Range<usize>) -> bool) {
    let mut first = 0;
    while row.upgrade().is_some_and(|row| work(&row, first..first + AT_ONCE)) {
        first += AT_ONCE;
        tokio::task::yield_now().await;
    }
}
