//! Tasks that wait for one event, which wakes all of them. It is inside the lock of the value for which they
//! wait.

use std::task::{Context, Waker};

use slab::Slab;

/// The waiters: a number for each task that may wait, and its waker while it waits.
#[derive(Debug, Default)]
pub struct Waiters(Slab<Option<Waker>>);

impl Waiters {
    /// Returns the number of a new waiter, until [`Waiters::leave`].
    pub fn join(&mut self) -> usize {
        self.0.insert(None)
    }

    /// Removes a waiter.
    pub fn leave(&mut self, number: usize) {
        self.0.remove(number);
    }

    /// The number of waiters.
    pub fn taken(&self) -> usize {
        self.0.len()
    }

    /// Registers the task of `context` for the next [`Waiters::wakers`].
    pub fn wait(&mut self, number: usize, context: &Context<'_>) {
        match &mut self.0[number] {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
    }

    /// Takes the wakers of all tasks that wait. The caller wakes them after it has released the
    /// lock.
    pub fn wakers(&mut self) -> Vec<Waker> {
        self.0.iter_mut().filter_map(|(_, waker)| waker.take()).collect()
    }
}
