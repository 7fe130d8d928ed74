//! Request collapsing: a request that wants what another is fetching waits for that fill; otherwise it leads a fill
//! that later requests may join.

use std::task::{Context, Poll};

use tokio::sync::mpsc;

use super::access::Access;
use super::entry::{Entry, FillOutcome};
use super::fill::{CollapsedWaiters, FillTask, Filled, LeaderMessage};
use super::in_flight::Waiter;
use super::lookup::{FetchPlan, Lookup};
use crate::cache::Why;
use crate::error::{Code, Error, Result};
use crate::sync::Arc;
use crate::wire::{Head, Span};
use crate::work::{Work, worked};

/// How a request gets a response that is not stored.
pub(super) enum Wait {
    /// It leads: the origin is asked.
    Lead(Lead),
    /// It waits for another request's fill.
    Join(Waiter<FillOutcome>),
}

/// A request's place in another request's fill. It holds what the fill stores until it is dropped.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(super) waiter: Waiter<FillOutcome>,
    /// The fills whose answers were refused to the request before this one.
    pub(super) refused: u32,
}

impl Joined {
    /// Ready when the fill is settled: whether something is stored, or growing, that may answer the request.
    pub(crate) fn poll_stored(&self, context: &Context<'_>) -> Poll<bool> {
        let is_stored =
            |outcome| matches!(outcome, Some(FillOutcome::LookAgain(_) | FillOutcome::Replaced(..)));
        self.waiter.poll(context).map(is_stored)
    }
}

/// A fetch that has not begun, and the messages for its request.
pub(super) struct Lead {
    filling: Box<FillTask>,
    messages: mpsc::UnboundedReceiver<LeaderMessage>,
}

impl Lead {
    /// Begins the fetch and waits for what its request gets. `interim` takes the interim responses before that.
    ///
    /// # Cancellation
    /// The fetch goes on, or not, as the policy says.
    pub(super) async fn fetch(mut self, mut interim: impl FnMut(Head)) -> Result<Filled> {
        tokio::spawn(worked(Work::Cache, self.filling.run()));
        loop {
            match self.messages.recv().await {
                Some(LeaderMessage::Interim(head)) => interim(head),
                Some(LeaderMessage::Final(filled)) => return filled,
                None => return Err(closed()),
            }
        }
    }
}

impl Access {
    /// Joins an in-flight fill, or leads one. Called under the lock of the entry.
    pub(super) fn ask(
        &self,
        entry: &mut Entry,
        lookup: &Arc<Lookup>,
        plan: FetchPlan,
        is_hit_for_miss: bool,
    ) -> Wait {
        // A client that wants a new response does not get one that was requested before.
        let alone = is_hit_for_miss || plan.status.forwarded == Some(Why::Request) || lookup.method == "HEAD";
        let waiters = match plan.awaited().filter(|_| !alone) {
            None => None,
            Some(span) => match entry.join(span).filter(|_| !cfg!(all(test, planted_bug = "second-fill"))) {
                Some(waiter) => return Wait::Join(waiter),
                None => self.lead(entry, lookup, span),
            },
        };
        let (sender, messages) = mpsc::unbounded_channel();
        Wait::Lead(Lead { filling: Box::new(self.filling(lookup, waiters, Some(sender), plan)), messages })
    }

    pub(super) fn lead(
        &self,
        entry: &mut Entry,
        lookup: &Arc<Lookup>,
        span: Span,
    ) -> Option<CollapsedWaiters> {
        entry.lead(span).map(|leader| CollapsedWaiters::new(&self.cache, lookup, leader))
    }

    pub(super) fn filling(
        &self,
        lookup: &Arc<Lookup>,
        waiters: Option<CollapsedWaiters>,
        own: Option<mpsc::UnboundedSender<LeaderMessage>>,
        plan: FetchPlan,
    ) -> FillTask {
        FillTask {
            access: self.clone(),
            lookup: Arc::clone(lookup),
            waiters,
            own,
            plan,
            since: self.cache.since(),
            is_again: false,
        }
    }
}

/// The error of a fetch whose task ended without an answer.
pub(super) fn closed() -> Error {
    Code::EngineClosed.error("the shared fetch was cancelled before the response arrived")
}
