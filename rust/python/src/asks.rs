//! When an engine thread is told of requests to origins: at once, or at the loop's next turn.
//!
//! To tell a thread that sleeps wakes it. On a core that both share it then takes the core from the loop in the middle of
//! a turn, sends that one request, sleeps again, and is woken for the next one. So the requests of a busy loop are told at
//! the end of its turn, all at once. A loop that asks now and then tells of its request at once: it would otherwise
//! turn once more for it.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use penstock_engine::runtime::Threads;

use crate::lock;

/// A loop that has asked so shortly before is busy. Arbitrary: more than a handler takes, less than a turn of a loop
/// that has time.
const SHORTLY: Duration = Duration::from_micros(500);

/// The requests of a loop that the engine's threads have not been told of.
#[derive(Default)]
pub(crate) struct Asks(Mutex<State>);

#[derive(Default)]
struct State {
    last: Option<Instant>,
    untold: Vec<(Arc<Threads>, usize)>,
}

/// What there is to do for a request.
pub(crate) enum Telling {
    /// Tell the thread now.
    Now,
    /// It is told with the others.
    Later,
    /// As `Later`, and it is the first: have [`Asks::tell`] called at the loop's next turn.
    First,
}

impl Asks {
    /// Notes a request at `now` for thread `number`, to which it has not been given yet.
    pub(crate) fn note(&self, now: Instant, threads: &Arc<Threads>, number: usize) -> Telling {
        let mut state = lock(&self.0);
        let last = state.last.replace(now);
        if last.is_none_or(|last| now.duration_since(last) >= SHORTLY) {
            return Telling::Now;
        }
        let is_first = state.untold.is_empty();
        let is_known = |(known, at): &(Arc<Threads>, usize)| *at == number && Arc::ptr_eq(known, threads);
        if !state.untold.iter().any(is_known) {
            state.untold.push((Arc::clone(threads), number));
        }
        if is_first { Telling::First } else { Telling::Later }
    }

    /// Tells the threads.
    pub(crate) fn tell(&self) {
        let untold = std::mem::take(&mut lock(&self.0).untold);
        for (threads, number) in untold {
            threads.tell(number);
        }
    }
}
