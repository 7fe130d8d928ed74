//! An in-flight fill: many requests wait for it, and its leader settles it when the origin's head has come.
//!
//! The leader is the first request. All waiters get one outcome at once; if the leader is dropped without one, they get
//! none and look the entry up again.

use std::fmt;
use std::task::{Context, Poll, Waker};

use crate::sync::{Arc, Mutex, lock};
use penstock_memory::waiters::Waiters;

/// The fill that is waited for. The index holds it until it is settled. `T` is its outcome.
pub struct InFlight<T> {
    state: Mutex<State<T>>,
}

struct State<T> {
    outcome: Poll<Option<T>>,
    joined: Waiters,
}

/// The leader, which settles the fill.
#[derive(Debug)]
pub struct Leader<T: Clone> {
    fill: Arc<InFlight<T>>,
}

/// Waits for the outcome.
#[derive(Debug)]
pub struct Waiter<T: Clone> {
    fill: Arc<InFlight<T>>,
    number: usize,
}

impl<T: Clone> InFlight<T> {
    /// A new fill.
    pub fn new() -> (Arc<Self>, Leader<T>) {
        let fill = Arc::new(Self {
            state: Mutex::new(State { outcome: Poll::Pending, joined: Waiters::default() }),
        });
        (Arc::clone(&fill), Leader { fill })
    }

    /// Adds a waiter.
    pub fn join(fill: &Arc<Self>) -> Waiter<T> {
        Waiter { fill: Arc::clone(fill), number: lock(&fill.state).joined.join() }
    }

    fn settle(&self, outcome: Option<T>) {
        let waiting = {
            let mut state = lock(&self.state);
            if state.outcome.is_pending() {
                state.outcome = Poll::Ready(outcome);
            }
            state.joined.wakers()
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl<T: Clone> Leader<T> {
    /// Settles the fill, for present and later waiters.
    pub fn settle(self, outcome: T) {
        self.fill.settle(Some(outcome));
    }

    /// The fill of this leader.
    pub fn fill(&self) -> &Arc<InFlight<T>> {
        &self.fill
    }
}

impl<T: Clone> Drop for Leader<T> {
    fn drop(&mut self) {
        self.fill.settle(None);
    }
}

impl<T: Clone> Waiter<T> {
    /// The outcome; `None` if the leader was dropped without one.
    pub fn poll(&self, context: &Context<'_>) -> Poll<Option<T>> {
        let mut state = lock(&self.fill.state);
        if state.outcome.is_pending() {
            state.joined.wait(self.number, context);
        }
        state.outcome.clone()
    }
}

impl<T: Clone> Drop for Waiter<T> {
    fn drop(&mut self) {
        lock(&self.fill.state).joined.leave(self.number);
    }
}

impl<T> fmt::Debug for InFlight<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlight").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn look(waiter: &Waiter<u8>) -> Poll<Option<u8>> {
        waiter.poll(&Context::from_waker(Waker::noop()))
    }

    #[test]
    fn all_waiters_get_the_outcome_also_late_ones() {
        let (fill, leader) = InFlight::new();
        let early = InFlight::join(&fill);
        assert!(look(&early).is_pending());
        leader.settle(7);
        for waiter in [early, InFlight::join(&fill)] {
            assert_eq!(look(&waiter), Poll::Ready(Some(7)));
        }
    }

    #[test]
    fn a_dropped_leader_releases_its_waiters() {
        let (fill, leader) = InFlight::new();
        let waiter = InFlight::join(&fill);
        drop(leader);
        assert_eq!(look(&waiter), Poll::Ready(None));
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use std::future::poll_fn;

    use loom::future::block_on;
    use loom::thread;

    use super::*;
    use crate::pool::testing::model;

    #[test]
    fn every_waiter_gets_the_outcome_in_every_order() {
        model(3, || {
            let (fill, leader) = InFlight::new();
            let late = Arc::clone(&fill);
            let waiter = InFlight::join(&fill);
            let leading = thread::spawn(move || leader.settle(7));
            let joining = thread::spawn(move || {
                let waiter = InFlight::join(&late);
                block_on(poll_fn(|context| waiter.poll(context)))
            });
            assert_eq!(block_on(poll_fn(|context| waiter.poll(context))), Some(7));
            assert_eq!(joining.join().unwrap(), Some(7));
            leading.join().unwrap();
        });
    }
}
