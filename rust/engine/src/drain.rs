//! How a server ends: first it takes no new work and what is open ends by itself, then everything ends at once.
//!
//! A site and a worker each have one. It also counts what is open.

use std::task::Waker;

use penstock_memory::active::{Active, ActiveCount};
use tokio::sync::watch;

/// Whether requests are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    /// No new connections; each open connection ends after the response that is under way.
    Draining,
    /// Everything ends at once.
    Closed,
}

/// The phase of a server, and the number of its open requests.
#[derive(Debug)]
pub(crate) struct Drain {
    phase: watch::Sender<Phase>,
    active: ActiveCount,
}

impl Drain {
    /// An open server without requests.
    pub(crate) fn new() -> Self {
        Self { phase: watch::Sender::new(Phase::Open), active: ActiveCount::default() }
    }

    /// Begins to drain, if it is open.
    pub(crate) fn drain(&self) {
        self.phase.send_if_modified(|phase| {
            let is_open = *phase == Phase::Open;
            if is_open {
                *phase = Phase::Draining;
            }
            is_open
        });
    }

    /// Ends everything.
    pub(crate) fn close(&self) {
        self.phase.send_replace(Phase::Closed);
    }

    /// Whether no response may promise another: it drains, or is closed.
    pub(crate) fn is_draining(&self) -> bool {
        *self.phase.borrow() != Phase::Open
    }

    /// Whether no request may begin.
    pub(crate) fn is_closed(&self) -> bool {
        *self.phase.borrow() == Phase::Closed
    }

    /// The phase and its changes.
    pub(crate) fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Ready when it drains or is closed.
    pub(crate) async fn draining(&self) {
        // Never an error: the sender is here.
        let _ = self.phase().wait_for(|phase| *phase != Phase::Open).await;
    }

    /// Ready when it is closed.
    pub(crate) async fn closed(&self) {
        let _ = self.phase().wait_for(|phase| *phase == Phase::Closed).await;
    }

    /// Counts a request, until the guard is dropped.
    pub(crate) fn begin(&self) -> Active<'_> {
        self.active.begin()
    }

    /// The number of open requests.
    pub(crate) fn active(&self) -> usize {
        self.active.get()
    }

    /// Whether no request is open; if some are, `waker` is woken once when the last of them ends.
    pub(crate) fn is_idle(&self, waker: &Waker) -> bool {
        self.active.is_idle(waker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn phases_only_go_forward() {
        let drain = Drain::new();
        assert!(!drain.is_draining());
        drain.drain();
        drain.draining().await;
        assert!(drain.is_draining() && !drain.is_closed());
        drain.close();
        drain.drain();
        drain.closed().await;
        assert!(drain.is_closed());
    }
}
