//! Responses in progress and their decisions, so that a revocation can cut them even if the decision was
//! evicted since.

use std::task::{Context, Poll, Waker};

use super::super::decision::Decision;
use super::super::table::Key;
use super::Decisions;
use penstock_memory::sync::{Arc, Mutex, lock};

/// A response in progress.
#[derive(Debug)]
pub(super) struct Holder {
    pub(super) key: Key,
    pub(super) decision: Arc<Decision>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    is_cut: bool,
    waker: Option<Waker>,
}

impl Holder {
    pub(super) fn new(key: Key, decision: Arc<Decision>) -> Self {
        Self { key, decision, state: Mutex::new(State::default()) }
    }

    /// Ends the response.
    pub(super) fn cut(&self) {
        let waker = {
            let mut state = lock(&self.state);
            state.is_cut = true;
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Registers a response in progress until it is dropped.
#[derive(Debug)]
pub struct Permit {
    pub(super) decisions: Arc<Decisions>,
    pub(super) holder: Arc<Holder>,
    pub(super) number: u64,
}

impl Permit {
    /// The decision that let it in.
    pub fn decision(&self) -> &Arc<Decision> {
        &self.holder.decision
    }

    /// Ready when the response must end because its decision was revoked.
    pub fn poll_cut(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = lock(&self.holder.state);
        if state.is_cut {
            return Poll::Ready(());
        }
        match &mut state.waker {
            Some(known) => known.clone_from(context.waker()),
            empty => *empty = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.decisions.let_go(&self.holder.key, self.number);
    }
}
