//! Reads on a body whose client has left, so that the origin can finish.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::policy::{Drain, Leave};
use crate::net::{Supply, Watch};
use crate::stream::Meter;

/// A place among the bodies that are read on, with its deadline. The time runs from when the client left.
#[derive(Debug)]
pub(crate) struct Draining {
    drain: Arc<Drain>,
    meter: Arc<Meter>,
    over: Watch,
}

impl Leave {
    /// Takes a place after the client has left; `None` if the request to the origin is cancelled, by the policy or because
    /// too many others are read on.
    pub(crate) fn begin(&self, meter: &Arc<Meter>) -> Option<Box<Draining>> {
        let Self::Drain(drain) = self else { return None };
        if !drain.enter() {
            meter.refused_drain();
            return None;
        }
        meter.began_drain();
        let over = Watch::started(Some(drain.time));
        // Boxed, because few clients leave.
        Some(Box::new(Draining { drain: Arc::clone(drain), meter: Arc::clone(meter), over }))
    }
}

impl Draining {
    /// Ready at the deadline.
    pub(crate) fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.over.poll_expired(context)
    }

    /// Reads `supply` to its end or a limit, or while `drive`, which is called before each poll, is true.
    pub(crate) async fn run(
        mut self: Box<Self>,
        mut supply: Supply,
        mut drive: impl FnMut(&mut Context<'_>) -> bool,
    ) {
        supply.client_left();
        let mut left = self.drain.bytes;
        poll_fn(|context| {
            if !drive(context) || self.poll_over(context).is_ready() {
                return Poll::Ready(());
            }
            while let Poll::Ready(next) = supply.poll_next(context, 0) {
                let Some(Ok(payload)) = next else { return Poll::Ready(()) };
                match left.checked_sub(payload.len() as u64) {
                    Some(rest) => left = rest,
                    None => return Poll::Ready(()),
                }
            }
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Draining {
    fn drop(&mut self) {
        if !cfg!(all(test, planted_bug = "left-stream-keeps-place")) {
            self.drain.leave();
        }
        self.meter.ended_drain();
    }
}
