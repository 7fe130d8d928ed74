//! What answers the requests of a queue: the application in this process, or worker processes.

use std::fmt;
use std::task::Waker;
use std::time::Duration;

/// Has the requests of a [`Queue`](super::Queue) answered. A request stays in the queue, within its bound and its time
/// limit, until the dispatcher takes it: it is withdrawn in the same way wherever it would have been answered.
pub trait Dispatcher: Send + Sync {
    /// Has waiting requests taken, by [`Queue::take`](super::Queue::take), until none waits. Called when the first of them
    /// waits, and when a sign is asked for, on the thread of a client: does not block.
    fn dispatch(&self);

    /// The worker processes that answer; `None` if the application in this process does.
    fn processes(&self) -> Option<Processes>;

    /// Whether the application in this process answers.
    fn is_in_process(&self) -> bool;
}

/// Its name alone: decision 063.
impl fmt::Debug for dyn Dispatcher + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dispatcher")
    }
}

/// How worker processes are doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Processes {
    /// How many take requests.
    pub current: usize,
    /// For how long each of them has owed a sign; zero without processes.
    pub owed: Duration,
    /// How long the last sign of the fastest took, or the sign that it owes.
    pub lag: Duration,
}

/// The application in this process: its event loop is woken, and takes the requests.
#[derive(Debug)]
pub(super) struct InProcess(pub(super) Waker);

impl Dispatcher for InProcess {
    fn dispatch(&self) {
        self.0.wake_by_ref();
    }

    fn processes(&self) -> Option<Processes> {
        None
    }

    fn is_in_process(&self) -> bool {
        true
    }
}
