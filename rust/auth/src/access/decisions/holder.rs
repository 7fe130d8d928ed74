//! What runs by a decision, so that it can be cut when that is revoked: also where it has been forgotten since.

use std::task::{Context, Poll, Waker};

use super::super::decision::Decision;
use super::super::table::Key;
use super::Decisions;
use penstock_memory::sync::{Arc, Mutex, lock};

/// A response that runs, as its decisions know it.
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

    /// Has it end.
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

/// That a response runs by a decision, until this is dropped.
#[derive(Debug)]
pub struct Permit {
    pub(super) decisions: Arc<Decisions>,
    pub(super) holder: Arc<Holder>,
    pub(super) number: u64,
}

impl Permit {
    /// What it runs by.
    pub fn decision(&self) -> &Arc<Decision> {
        &self.holder.decision
    }

    /// Ready when it is to end because the decision was revoked.
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
