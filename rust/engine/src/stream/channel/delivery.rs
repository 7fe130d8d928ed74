//! A frame that a consumer has taken, and the credit that it holds.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc as Plain;
#[cfg(not(loom))]
use std::sync::atomic::Ordering;
use std::task::Waker;

use super::super::window::charge;
use super::{Channel, Queue, wake};
use crate::pool::{Pool, Slice};
use crate::sync::{Arc, lock};

impl Channel {
    /// A delivery is dropped; `was_lent`: with the last loan of it.
    fn give_back(&self, charge: usize, was_lent: bool) {
        let (producer, consumer) = {
            let mut queue = lock(&self.queue);
            queue.window.hand_back(charge);
            if was_lent {
                queue.loans -= 1;
            }
            let producer = self.producer_to_wake(&mut queue);
            let is_stuck = was_lent && producer.is_none();
            (producer, if is_stuck { self.consumer_to_tell(&mut queue) } else { None })
        };
        wake(producer);
        wake(consumer);
    }

    /// The engine sends a delivery, which it drops without the consumer.
    fn lend(&self) {
        lock(&self.queue).loans += 1;
    }

    /// The engine has sent a delivery that the consumer still holds.
    fn end_loan(&self) {
        let consumer = {
            let mut queue = lock(&self.queue);
            queue.loans -= 1;
            self.consumer_to_tell(&mut queue)
        };
        wake(consumer);
    }

    /// A consumer that waits for what the engine sends, once the engine has sent all of it and there is no room yet: it holds
    /// the window itself, and is to be told.
    fn consumer_to_tell(&self, queue: &mut Queue) -> Option<Waker> {
        let waits = queue.loans == 0 && queue.frames.is_empty() && queue.producer.is_some();
        if waits && !self.has_room(queue) { queue.consumer_to_wake() } else { None }
    }
}

/// One frame on its way to a consumer. Dropping it gives its credit back.
pub struct Delivery {
    slice: Slice,
    channel: Arc<Channel>,
    /// The last that holds it is a loan.
    is_lent: bool,
}

impl Delivery {
    pub(super) fn new(slice: Slice, channel: Arc<Channel>) -> Self {
        Self { slice, channel, is_lent: false }
    }

    /// A share for the engine, which drops it without the consumer: when the kernel has taken the bytes. While there is
    /// one, a consumer that holds its whole window waits, and gets no `WINDOW_HELD`.
    pub fn lend(self: &Plain<Self>) -> Loan {
        self.channel.lend();
        Loan(Some(Plain::clone(self)))
    }

    /// The bytes.
    pub fn slice(&self) -> &Slice {
        &self.slice
    }

    /// The pool that holds them.
    pub fn pool(&self) -> &Pool {
        &self.channel.pool
    }

    /// The line in which requests wait for the connection that its stream is fed over; 0 for none.
    #[cfg(not(loom))]
    pub fn line(&self) -> usize {
        // Relaxed: as in `Stream::line`.
        self.channel.line.load(Ordering::Relaxed)
    }
}

impl Deref for Delivery {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.slice
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        // In a forked child the parent's threads may have left the queue's lock closed.
        if !self.channel.pool.dead() {
            self.channel.give_back(charge(self.slice.len()), self.is_lent);
        }
    }
}

/// The engine's share of a delivery.
pub struct Loan(Option<Plain<Delivery>>);

impl Drop for Loan {
    fn drop(&mut self) {
        let Some(delivery) = self.0.take() else { return };
        if delivery.channel.pool.dead() {
            return;
        }
        let channel = Arc::clone(&delivery.channel);
        // Exactly one of the last two holders gets it, so that the credit comes back in the step that ends the loan: a
        // consumer that looked in between would be told that it holds what it has dropped.
        match Plain::into_inner(delivery) {
            Some(mut delivery) => delivery.is_lent = true,
            None => channel.end_loan(),
        }
    }
}

impl fmt::Debug for Loan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loan").finish_non_exhaustive()
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery").field("slice", &self.slice).finish_non_exhaustive()
    }
}
