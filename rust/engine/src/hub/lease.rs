//! How long a subscription may go on, as its authoriser says, again and again.

use std::fmt;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::sync::Arc;

/// How long a subscription may go on. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Lease(Arc<watch::Sender<Option<Instant>>>);

impl Lease {
    /// For `time` from now on; `None`: for ever.
    pub fn new(time: Option<Duration>) -> Self {
        Self(Arc::new(watch::Sender::new(end(time))))
    }

    /// For `time` from now on, in place of what was said before.
    pub fn renew(&self, time: Option<Duration>) {
        self.0.send_replace(end(time));
    }

    /// How long it may still go on, and then what is said of that, for as long as it may be said.
    pub(crate) fn renewals(&self) -> (Option<Duration>, Renewals) {
        let mut until = self.0.subscribe();
        let left = left(*until.borrow_and_update());
        (left, Renewals(until))
    }

    /// Ready when it has run out.
    pub(super) async fn over(self) {
        let mut until = self.0.subscribe();
        loop {
            let end = *until.borrow_and_update();
            let out = async {
                match end {
                    Some(end) => sleep_until(end).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                // An error would mean that the sender is gone, which is ours.
                _ = until.changed() => {}
                () = out => return,
            }
        }
    }
}

/// When what goes on for `time` from now on ends. What is beyond the clock is for ever.
fn end(time: Option<Duration>) -> Option<Instant> {
    time.and_then(|time| Instant::now().checked_add(time))
}

fn left(end: Option<Instant>) -> Option<Duration> {
    end.map(|end| end.saturating_duration_since(Instant::now()))
}

/// What is said of a lease, which it does not keep.
#[derive(Debug)]
pub(crate) struct Renewals(watch::Receiver<Option<Instant>>);

impl Renewals {
    /// For how long it may go on from now on; `None` once that cannot be said any more.
    pub(crate) async fn next(&mut self) -> Option<Option<Duration>> {
        self.0.changed().await.ok()?;
        Some(left(*self.0.borrow_and_update()))
    }
}

/// A lease that a task watches beside its other work.
pub(super) struct Watched(Pin<Box<dyn Future<Output = ()> + Send>>);

impl Watched {
    pub(super) fn new(lease: Lease) -> Self {
        Self(Box::pin(lease.over()))
    }

    /// Whether it has run out; not to be asked again then. The task of `context` is woken when it has.
    pub(super) fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        self.0.as_mut().poll(context).is_ready()
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").finish_non_exhaustive()
    }
}
