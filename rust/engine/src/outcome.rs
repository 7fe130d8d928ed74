//! The outcome for a stream that is frozen: one thread decides, and the task of the stream waits for it.

use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use crate::sync::{AtomicU8, Mutex, lock};

const OPEN: u8 = 0;
const GIVEN: u8 = 1;
const KEPT: u8 = 2;

/// Whether the next process has a frozen stream.
#[derive(Debug)]
pub(crate) struct Outcome {
    decided: AtomicU8,
    task: Mutex<Waker>,
}

impl Outcome {
    /// Open. `task` waits for it.
    pub(crate) fn new(task: Waker) -> Self {
        Self { decided: AtomicU8::new(OPEN), task: Mutex::new(task) }
    }

    /// Decides, the first time, whether the next process has it.
    pub(crate) fn decide(&self, is_given: bool) {
        let outcome = if is_given { GIVEN } else { KEPT };
        // Relaxed: of this and `poll_given`, what takes the lock of the waker last sees what the other has done before.
        if self.decided.compare_exchange(OPEN, outcome, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            let task = lock(&self.task).clone();
            task.wake();
        }
    }

    /// Ready when it is decided: whether the next process has it.
    pub(crate) fn poll_given(&self, context: &Context<'_>) -> Poll<bool> {
        lock(&self.task).clone_from(context.waker());
        match self.decided.load(Ordering::Relaxed) {
            OPEN => Poll::Pending,
            outcome => Poll::Ready(outcome == GIVEN),
        }
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use std::future::poll_fn;

    use loom::future::block_on;
    use loom::thread;

    use super::*;
    use crate::pool::testing::model;
    use crate::sync::Arc;

    #[test]
    fn a_task_hears_the_first_decision_however_late_it_asks() {
        model(2, || {
            let outcome = Arc::new(Outcome::new(Waker::noop().clone()));
            let deciding = {
                let outcome = Arc::clone(&outcome);
                thread::spawn(move || {
                    outcome.decide(true);
                    outcome.decide(false);
                })
            };
            assert!(block_on(poll_fn(|context| outcome.poll_given(context))));
            deciding.join().unwrap();
        });
    }
}
