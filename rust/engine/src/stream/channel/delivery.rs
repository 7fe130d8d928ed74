//! A frame that a consumer has taken, and the credit that it holds.

use std::fmt;
use std::ops::Deref;
#[cfg(not(loom))]
use std::sync::atomic::Ordering;

use super::super::window::charge;
use super::Channel;
use crate::pool::{Pool, Slice};
use crate::sync::Arc;

/// One frame on its way to a consumer. Dropping it gives its credit back.
pub struct Delivery {
    pub(super) slice: Slice,
    pub(super) channel: Arc<Channel>,
}

impl Delivery {
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
            self.channel.give_back(charge(self.slice.len()));
        }
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery").field("slice", &self.slice).finish_non_exhaustive()
    }
}
