//! Who waits for something that is told to all at once. Lives within the lock of what is waited for.

use std::mem::replace;
use std::task::{Context, Waker};

/// One for each who may wait, by a number.
#[derive(Default)]
pub(super) struct Seats {
    seats: Vec<Seat>,
    free: Vec<usize>,
}

enum Seat {
    /// Nobody's, or of somebody who is not waiting.
    Quiet,
    Waiting(Waker),
}

impl Seats {
    /// A seat, until [`Seats::leave`].
    pub(super) fn take(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.seats.push(Seat::Quiet);
            self.seats.len() - 1
        })
    }

    pub(super) fn leave(&mut self, number: usize) {
        self.seats[number] = Seat::Quiet;
        self.free.push(number);
    }

    /// How many are taken.
    pub(super) fn taken(&self) -> usize {
        self.seats.len() - self.free.len()
    }

    pub(super) fn wait(&mut self, number: usize, context: &Context<'_>) {
        let seat = &mut self.seats[number];
        if !matches!(seat, Seat::Waiting(waker) if waker.will_wake(context.waker())) {
            *seat = Seat::Waiting(context.waker().clone());
        }
    }

    /// All who wait, to be woken once the lock is free.
    pub(super) fn waiting(&mut self) -> Vec<Waker> {
        let waiting = self.seats.iter_mut().filter_map(|seat| match replace(seat, Seat::Quiet) {
            Seat::Waiting(waker) => Some(waker),
            Seat::Quiet => None,
        });
        waiting.collect()
    }
}
