//! The subscribers of one topic on one engine thread, and the one task that follows the topic for all of them.
//!
//! Whoever publishes wakes the task, and the task whoever waits: a thread is woken once for an event, however many
//! subscribers it has. Made with the first of them; it ends with the last. Everything here happens on one engine thread.

use std::future::poll_fn;
use std::sync::Weak;
use std::task::{Context, Poll, Waker};
use std::thread::ThreadId;

use super::topic::{Mark, Topic};
use crate::runtime::from_afar;
use crate::sync::{Arc, Mutex, lock};

/// Seats that are looked at before the thread turns to its other tasks: a row may have ten thousand. Arbitrary.
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
    /// Who waits for more, by the numbers of their seats.
    waiting: Vec<Option<Waker>>,
    free: Vec<usize>,
}

/// A subscriber's place in a row. Dropping it gives it back.
#[derive(Debug)]
pub(super) struct Seat {
    row: Arc<Row>,
    number: usize,
}

impl Row {
    /// A seat in the row of `topic` on the calling engine thread.
    pub(super) fn seat(topic: &Arc<Topic>) -> Seat {
        let thread = std::thread::current().id();
        let row = {
            let mut rows = lock(&topic.rows);
            rows.retain(|(_, row)| row.strong_count() > 0);
            let here = rows.iter().find(|(other, _)| *other == thread).and_then(|(_, row)| row.upgrade());
            here.unwrap_or_else(|| {
                let (follower, seen) = topic.follow();
                let seats = Mutex::new(Seats::default());
                let row = Arc::new(Self { topic: Arc::clone(topic), follower, seats });
                rows.push((thread, Arc::downgrade(&row)));
                tokio::spawn(serve(Arc::clone(topic), Arc::downgrade(&row), follower, seen));
                row
            })
        };
        let number = {
            let mut seats = lock(&row.seats);
            seats.free.pop().unwrap_or_else(|| {
                seats.waiting.push(None);
                seats.waiting.len() - 1
            })
        };
        Seat { row, number }
    }

    /// Wakes whoever waits of the seats from `first` on; where to go on, if that is not all.
    fn wake_some(&self, first: usize) -> Option<usize> {
        let last = first + AT_ONCE;
        let woken: Vec<Waker> = {
            let mut seats = lock(&self.seats);
            let end = last.min(seats.waiting.len());
            seats.waiting.get_mut(first..end)?.iter_mut().filter_map(Option::take).collect()
        };
        for waker in woken {
            waker.wake();
        }
        Some(last)
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        self.topic.dismiss(self.follower);
    }
}

impl Seat {
    /// Has the task woken when there is more than what had been read by now.
    pub(super) fn wait(&self, context: &Context<'_>) {
        let mut seats = lock(&self.row.seats);
        let place = &mut seats.waiting[self.number];
        if !place.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            *place = Some(context.waker().clone());
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut seats = lock(&self.row.seats);
        seats.waiting[self.number] = None;
        seats.free.push(self.number);
    }
}

/// Follows `topic` for a row, as long as that has seats.
async fn serve(topic: Arc<Topic>, row: Weak<Row>, follower: u64, mut seen: Mark) {
    let mut waker = None;
    loop {
        let changed = poll_fn(|context| {
            if row.strong_count() == 0 {
                return Poll::Ready(None);
            }
            let waker = waker.get_or_insert_with(|| from_afar(context.waker()));
            topic.changed(follower, seen, waker).map_or(Poll::Pending, |mark| Poll::Ready(Some(mark)))
        });
        let Some(mark) = changed.await else { return };
        seen = mark;
        let mut next = Some(0);
        while let Some(first) = next {
            let Some(row) = row.upgrade() else { return };
            next = row.wake_some(first);
            drop(row);
            tokio::task::yield_now().await;
        }
    }
}
