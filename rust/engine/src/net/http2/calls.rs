//! Who waits for a stream.

use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use crate::sync::{Mutex, lock};

/// One task waits, but for each direction by a waker of its own, and the session remembers one.
#[derive(Debug)]
pub(super) struct Calls {
    waiting: Arc<Waiting>,
    /// Wakes who waits.
    pub(super) waker: Waker,
}

#[derive(Debug, Default)]
struct Waiting(Mutex<[Option<Waker>; 2]>);

/// What is waited for.
#[derive(Debug, Clone, Copy)]
#[repr(usize)]
pub(super) enum Side {
    Read,
    Write,
}

impl Calls {
    pub(super) fn new() -> Self {
        let waiting = Arc::<Waiting>::default();
        Self { waker: Waker::from(Arc::clone(&waiting)), waiting }
    }

    /// The task of `context` waits.
    pub(super) fn note(&self, side: Side, context: &Context<'_>) {
        let waiting = &mut lock(&self.waiting.0)[side as usize];
        if !waiting.as_ref().is_some_and(|waiting| waiting.will_wake(context.waker())) {
            *waiting = Some(context.waker().clone());
        }
    }
}

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        let waiting = lock(&self.0).clone();
        waiting.into_iter().flatten().for_each(Waker::wake);
    }
}
