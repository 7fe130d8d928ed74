//! Notices of the edge to the supervisor of its workers.

use std::task::Waker;
use std::time::Duration;

use tokio::sync::oneshot;

use super::plan::Planned;
use crate::app::Outcome;
use crate::error::Result;
use crate::inspect::Report;
use crate::stream::{Stream, Timings};
use crate::sync::{Mutex, lock};

/// One notice.
#[derive(Debug)]
pub enum Notice {
    /// The worker of this number was connected to, or could not be.
    Reached(u32, Result<()>),
    /// A plan of this description has to be made.
    Plan(Vec<u8>, Planned),
    /// A topic has to be fed for a worker.
    Feed(Box<Feeding>),
    /// A relay of a worker has ended after the worker was gone.
    Orphan(Box<Orphan>),
    /// The event loop of the worker of this number has owed a sign for this time.
    Silent(u32, Duration),
}

/// The feeding of a topic for a worker.
#[derive(Debug)]
pub struct Feeding {
    /// The number that workers have for the hub.
    pub hub: u64,
    /// The name of the topic.
    pub topic: String,
    /// The type of the event that tells of a failure.
    pub error_event: String,
    /// The source of its events.
    pub stream: Stream,
    /// Told when the feeding has begun, or why it has not.
    pub begun: Begun,
}

/// The supervisor's answer to [`Feeding`].
pub type Begun = oneshot::Sender<Result<()>>;

/// The end of a relay or subscription whose worker is gone.
#[derive(Debug)]
pub struct Orphan {
    /// What the worker left for this case.
    pub account: Vec<u8>,
    /// Its outcome.
    pub outcome: Outcome,
    /// Its timings at the origin, the time of the body, and whether the connection was reused.
    pub timings: Option<(Timings, Option<Duration>, bool)>,
    /// What its inspection saw.
    pub report: Option<Report>,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<Notice>,
    listener: Option<Waker>,
}

/// Notices that wait to be taken.
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
