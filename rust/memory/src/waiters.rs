//! Tasks that wait for one event, which wakes all of them. It is inside the lock of the value for which they
//! wait.

use std::mem::replace;
use std::task::{Context, Waker};

/// The waiters: a numbered place for each task that may wait.
#[derive(Debug, Default)]
pub struct Waiters {
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
    /// Takes a place until [`Waiters::leave`]; returns its number.
    pub fn join(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::Quiet);
            self.places.len() - 1
        })
    }

    /// Gives a place up.
    pub fn leave(&mut self, number: usize) {
        self.places[number] = Place::Quiet;
        self.free.push(number);
    }

    /// The number of places that are taken.
    pub fn taken(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Registers the task of `context` for the next [`Waiters::wakers`].
    pub fn wait(&mut self, number: usize, context: &Context<'_>) {
        let place = &mut self.places[number];
        if !matches!(place, Place::Waiting(waker) if waker.will_wake(context.waker())) {
            *place = Place::Waiting(context.waker().clone());
        }
    }

    /// Takes the wakers of all tasks that wait. The caller wakes them after it has released the
    /// lock.
    pub fn wakers(&mut self) -> Vec<Waker> {
        let waiting = self.places.iter_mut().filter_map(|place| match replace(place, Place::Quiet) {
            Place::Waiting(waker) => Some(waker),
            Place::Quiet => None,
        });
        waiting.collect()
    }
}
