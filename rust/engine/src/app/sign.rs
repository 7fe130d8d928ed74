//! Whether requests are still taken: a dispatcher is asked for a sign, and gives one whenever it looks for
//! requests.
//!
//! An empty queue does not show that an event loop lives: the next request would wait.

use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// The sign that is owed, or was given last.
#[derive(Debug, Default)]
pub(crate) struct Sign {
    asked: Option<Instant>,
    last: Duration,
    waiting: Vec<Waker>,
}

impl Sign {
    /// Asks for one; whether none was owed before.
    pub(crate) fn ask(&mut self) -> bool {
        let is_first = self.asked.is_none();
        self.asked.get_or_insert_with(Instant::now);
        is_first
    }

    /// Gives it; who waits for it is to be woken.
    pub(crate) fn give(&mut self) -> Vec<Waker> {
        if let Some(asked) = self.asked.take() {
            self.last = asked.elapsed();
        }
        std::mem::take(&mut self.waiting)
    }

    /// Ready when none is owed.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.asked.is_none() {
            return Poll::Ready(());
        }
        if !self.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            self.waiting.push(context.waker().clone());
        }
        Poll::Pending
    }

    /// For how long one has been owed; zero if none is.
    pub(crate) fn owed(&self) -> Duration {
        self.asked.map_or(Duration::ZERO, |asked| asked.elapsed())
    }

    /// How long the last one took, or that which is owed has, if that is longer.
    pub(crate) fn lag(&self) -> Duration {
        self.last.max(self.owed())
    }
}
