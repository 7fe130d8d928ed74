//! What the edge has to tell whoever looks after its workers.

use std::task::Waker;
use std::time::Duration;

use tokio::sync::oneshot;

use super::plan::Planned;
use crate::app::Outcome;
use crate::error::Result;
use crate::inspect::Report;
use crate::stream::{Stream, Timings};
use crate::sync::{Mutex, lock};

/// One thing to be told.
#[derive(Debug)]
pub enum Notice {
    /// The worker of this number was reached, or was not.
    Reached(u32, Result<()>),
    /// A plan is wanted of this description.
    Plan(Vec<u8>, Planned),
    /// A worker has a topic fed.
    Feed(Box<Feeding>),
    /// What a worker has relayed has ended, and the worker is gone.
    Orphan(Box<Orphan>),
    /// The event loop of the worker of this number has given no sign for so long.
    Silent(u32, Duration),
}

/// What a worker has a topic fed by.
#[derive(Debug)]
pub struct Feeding {
    /// What workers call the hub.
    pub hub: u64,
    /// The name of the topic.
    pub topic: String,
    /// The type of the event that tells of a failure.
    pub error_event: String,
    /// What its events come from.
    pub stream: Stream,
    /// Told when the topic is the stream's, or why it is not.
    pub begun: Begun,
}

/// Who has a topic fed answers with how that went.
pub type Begun = oneshot::Sender<Result<()>>;

/// The end of something whose worker is gone.
#[derive(Debug)]
pub struct Orphan {
    /// What the worker has left for this.
    pub account: Vec<u8>,
    /// What became of it.
    pub outcome: Outcome,
    /// How long it took at the origin, the body last, and whether the connection had been used before.
    pub timings: Option<(Timings, Option<Duration>, bool)>,
    /// What was seen of it.
    pub report: Option<Report>,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<Notice>,
    listener: Option<Waker>,
}

/// What waits to be told.
#[derive(Debug, Default)]
pub(super) struct Notices(Mutex<State>);

impl Notices {
    pub(super) fn put(&self, notice: Notice) {
        let waker = {
            let mut state = lock(&self.0);
            state.waiting.push(notice);
            state.listener.clone()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(super) fn listen(&self, waker: Option<Waker>) {
        let previous = std::mem::replace(&mut lock(&self.0).listener, waker);
        drop(previous);
    }

    pub(super) fn take(&self) -> Vec<Notice> {
        std::mem::take(&mut lock(&self.0).waiting)
    }
}
