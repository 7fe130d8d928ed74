//! Tasks that wait for one event, which all are told of at once. It lives within the lock of what is waited for.

use std::mem::replace;
use std::task::{Context, Waker};

/// A numbered place for each task that may wait.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    places: Vec<Place>,
    free: Vec<usize>,
}

#[derive(Debug)]
enum Place {
    /// Free, or taken by a task that does not wait now.
    Quiet,
    Waiting(Waker),
}

impl Waiters {
    /// The number of a place that the caller has until [`Waiters::leave`].
    pub(crate) fn join(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::Quiet);
            self.places.len() - 1
        })
    }

    pub(crate) fn leave(&mut self, number: usize) {
        self.places[number] = Place::Quiet;
        self.free.push(number);
    }

    /// How many places are taken.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Has the task of `context` woken with the wakers that [`Waiters::wakers`] gives next.
    pub(crate) fn wait(&mut self, number: usize, context: &Context<'_>) {
        let place = &mut self.places[number];
        if !matches!(place, Place::Waiting(waker) if waker.will_wake(context.waker())) {
            *place = Place::Waiting(context.waker().clone());
        }
    }

    /// Takes the wakers of all tasks that wait, to be woken after the lock is released.
    pub(crate) fn wakers(&mut self) -> Vec<Waker> {
        let waiting = self.places.iter_mut().filter_map(|place| match replace(place, Place::Quiet) {
            Place::Waiting(waker) => Some(waker),
            Place::Quiet => None,
        });
        waiting.collect()
    }
}
