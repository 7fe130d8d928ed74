//! A question to the hook. Many requests may wait for it. It is settled once.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use super::decision::Decision;
use super::table::Key;
use penstock_error::Error;
use penstock_memory::sync::{Arc, Mutex, lock};
use penstock_memory::waiters::Waiters;

/// The outcome of a question.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// An answer, and the number of revocations before it.
    Decided(Arc<Decision>, u64),
    /// There was no answer: the waiting requests are refused.
    Failed(Error),
    /// Its answer no longer counts: the waiting requests ask again.
    Void,
}

/// The clients whose questions wait in one line: an IPv4 address, an IPv6 network of one site, or all Unix sockets (`None`).
pub(super) type Network = Option<IpAddr>;

/// A question about requests of one key.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) key: Key,
    /// Its deadline.
    pub(super) until: Instant,
    /// Its place in the inbox: the line, and its number there.
    place: OnceLock<(Network, u64)>,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Open(Waiters),
    Settled(Outcome),
}

impl Question {
    pub(super) fn new(key: Key, until: Instant) -> Self {
        Self { key, until, place: OnceLock::new(), state: Mutex::new(State::Open(Waiters::default())) }
    }

    /// Sets its place in the inbox, once.
    pub(super) fn wait_at(&self, network: Network, number: u64) {
        let _ = self.place.set((network, number));
    }

    pub(super) fn place(&self) -> Option<(Network, u64)> {
        self.place.get().copied()
    }

    /// Sets the outcome, unless there is one.
    pub(super) fn settle(&self, outcome: Outcome) {
        let wakers = {
            let mut state = lock(&self.state);
            match &mut *state {
                State::Settled(_) => return,
                State::Open(waiters) => {
                    let wakers = waiters.wakers();
                    *state = State::Settled(outcome);
                    wakers
                }
            }
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(super) fn is_settled(&self) -> bool {
        matches!(&*lock(&self.state), State::Settled(_))
    }

    fn poll(&self, place: &mut Option<usize>, context: &Context<'_>) -> Poll<Outcome> {
        match &mut *lock(&self.state) {
            State::Settled(outcome) => Poll::Ready(outcome.clone()),
            State::Open(waiters) => {
                let place = *place.get_or_insert_with(|| waiters.join());
                waiters.wait(place, context);
                Poll::Pending
            }
        }
    }

    fn leave(&self, place: usize) {
        if let State::Open(waiters) = &mut *lock(&self.state) {
            waiters.leave(place);
        }
    }
}

/// A request that waits for a question. Ready when the question is settled.
#[derive(Debug)]
pub struct Waiting {
    pub(super) question: Arc<Question>,
    place: Option<usize>,
}

impl Waiting {
    pub(super) fn new(question: &Arc<Question>) -> Self {
        Self { question: Arc::clone(question), place: None }
    }

    /// The deadline of the question.
    pub fn until(&self) -> Instant {
        self.question.until
    }
}

impl Future for Waiting {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let this = &mut *self;
        this.question.poll(&mut this.place, context)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.question.leave(place);
        }
    }
}
