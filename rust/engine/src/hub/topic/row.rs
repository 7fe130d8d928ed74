//! The subscribers of one topic on one engine thread, and the one task that follows the topic for all of them.
//!
//! A publisher wakes the task once, and the task writes the event to each subscriber that has had all before: a system
//! call each, and no task of a connection is woken. One whose socket does not take all of it is left to its connection's
//! task, with the rest. The task has the one timer, too. Made with the first subscriber, ended with the last. Everything here
//! happens on one engine thread, so that between two waits no other task writes to these connections; the lock is for the
//! compiler.

use std::future::poll_fn;
use std::ops::Range;
use std::sync::Weak;
use std::task::{Context, Poll};
use std::thread::ThreadId;

use tokio::time::Instant;

use super::super::log::{Found, Run};
use super::seats::{Seats, Times, Turn};
use super::{Mark, Topic};
use crate::net::{Connection, Watch};
use crate::runtime::from_afar;
use crate::sync::{Arc, Mutex, lock};

/// Seats that are served before the thread turns to its other tasks: some 0.4 ms, and a row may have ten thousand.
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

/// What there is to be done.
enum Task {
    /// The topic has changed.
    Follow(Mark),
    /// The time has come for something.
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
        tokio::spawn(serve(Arc::clone(topic), Arc::downgrade(&row), follower, seen));
        row
    }

    /// Gives some of the seats `run`, which begins at the event `from`; none if they are to look themselves. False: there are
    /// no more seats.
    fn serve_some(&self, seats: Range<usize>, from: u64, run: Option<&Run>) -> bool {
        let mut served = 0;
        let now = Instant::now();
        let is_last = lock(&self.seats).each(seats, |place| served += u64::from(place.serve(from, run, now)));
        if let Some(run) = run {
            self.topic.counts.delivered.add(served * run.events);
        }
        !is_last
    }

    /// Does what is due for some of the seats. False: there are no more.
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
    /// Has the task woken when there is more than what had been read by now.
    pub(in crate::hub) fn wait(&self, context: &Context<'_>) {
        lock(&self.row.seats).place(self.number).wait(context.waker());
    }

    /// All up to the event `next` is with the kernel, and there is no more: the row may write what comes.
    pub(in crate::hub) fn rest(&self, next: u64) {
        lock(&self.row.seats).rest(self.number, next);
    }

    /// The task goes on itself.
    pub(in crate::hub) fn take_over(&self) -> Turn {
        lock(&self.row.seats).place(self.number).take_over()
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

/// Follows `topic` for a row, as long as that has seats.
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

/// Gives the row what there is from the event `next` on, and returns the number of the one behind. `ends`: the topic has
/// come to another phase.
async fn follow(topic: &Topic, row: &Weak<Row>, mut next: u64, mut ends: bool) -> u64 {
    loop {
        let run = match topic.read(next, true, false).0 {
            Found::Run(run) => Some(run),
            // What has left before it came here each subscriber deals with itself, and so it does with the end.
            Found::Evicted => None,
            Found::Nothing if ends => None,
            Found::Nothing => return next,
        };
        in_turns(row, |row, seats| row.serve_some(seats, next, run.as_ref())).await;
        ends &= run.is_some();
        next = run.map_or_else(|| next.max(topic.oldest().0), |run| run.next);
    }
}

/// Has `work` done with all seats of a row, some at a time; it says whether there are more.
async fn in_turns(row: &Weak<Row>, mut work: impl FnMut(&Row, Range<usize>) -> bool) {
    let mut first = 0;
    while row.upgrade().is_some_and(|row| work(&row, first..first + AT_ONCE)) {
        first += AT_ONCE;
        tokio::task::yield_now().await;
    }
}
