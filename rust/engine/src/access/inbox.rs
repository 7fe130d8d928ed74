//! The questions that wait for whoever answers them, bounded together with those that he has.

use std::collections::VecDeque;
use std::task::Waker;

use super::question::Question;
use crate::error::{Code, Result};
use crate::sync::{Arc, Mutex, lock};
use crate::wire::Fields;

/// A request that is asked about, kept for as long as the question is.
#[derive(Debug, Clone)]
pub struct Request {
    /// What its route is called.
    pub route: String,
    /// A token.
    pub method: String,
    /// Path and query, in origin-form.
    pub target: String,
    /// Host and port that are asked for.
    pub authority: String,
    /// The client's address.
    pub remote: Option<String>,
    /// All fields.
    pub headers: Fields,
    /// The first value of each part of the key.
    pub key: Vec<Option<Vec<u8>>>,
}

/// Questions on their way to whoever answers them.
#[derive(Debug)]
pub(super) struct Inbox {
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<(Arc<Question>, Request)>,
    /// Those that wait, and those that were taken and not given back.
    open: usize,
    taker: Option<Waker>,
}

impl Inbox {
    pub(super) fn new(most: usize) -> Self {
        Self { most, state: Mutex::new(State::default()) }
    }

    /// Questions that are not answered.
    pub(super) fn open(&self) -> usize {
        lock(&self.state).open
    }

    /// Names the waker of whoever takes them; woken at once if some wait.
    pub(super) fn listen(&self, waker: &Waker) {
        let mut state = lock(&self.state);
        state.taker = Some(waker.clone());
        let wake = !state.waiting.is_empty();
        drop(state);
        if wake {
            waker.wake_by_ref();
        }
    }

    /// Puts a question to whoever takes them.
    ///
    /// # Errors
    /// `ACCESS_UNAVAILABLE`: nobody does. `ACCESS_BUSY`: there are too many.
    pub(super) fn put(&self, question: &Arc<Question>, request: Request) -> Result<()> {
        let mut state = lock(&self.state);
        let Some(taker) = state.taker.clone() else {
            return Err(Code::AccessUnavailable.error("nobody is there to be asked"));
        };
        if state.open >= self.most {
            return Err(Code::AccessBusy.error(format!("{} questions are open", self.most)));
        }
        state.open += 1;
        state.waiting.push_back((Arc::clone(question), request));
        // Whoever takes them takes all: it has been told of the first.
        let is_first = state.waiting.len() == 1;
        drop(state);
        if is_first {
            taker.wake();
        }
        Ok(())
    }

    /// The question that has waited for longest.
    pub(super) fn take(&self) -> Option<(Arc<Question>, Request)> {
        lock(&self.state).waiting.pop_front()
    }

    /// One that was taken is over.
    pub(super) fn give_back(&self) {
        lock(&self.state).open -= 1;
    }

    /// Nobody takes them any more. Those that waited.
    pub(super) fn close(&self) -> Vec<Arc<Question>> {
        let mut state = lock(&self.state);
        state.taker = None;
        state.open -= state.waiting.len();
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().map(|(question, _)| question).collect()
    }
}
