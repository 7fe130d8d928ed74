//! The task that watches an endpoint's idle connections: one per endpoint, not one per connection.
//!
//! It wakes for an event on one of them and at the first deadline, and never because a connection was parked or
//! taken. A connection whose age ends before the armed deadline is therefore closed late, by one idle timeout at
//! most, but it is not used any more. The task ends when a deadline finds nothing idle.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll};

use tokio::time::{Instant, sleep_until};

use super::{Place, State, Sweeper};
use crate::sync::{Arc, lock};

pub(super) async fn run(place: Arc<Place>) {
    let mut timer = pin!(sleep_until(Instant::now()));
    poll_fn(|context| {
        loop {
            let Some(armed) = sweep(&place, context) else { return Poll::Ready(()) };
            if timer.deadline() != armed {
                timer.as_mut().reset(armed);
            }
            if timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
    })
    .await;
}

/// Closes connections with an event or a past deadline. The next deadline, or `None` when there is
/// nothing left to do.
fn sweep(place: &Place, context: &mut Context<'_>) -> Option<Instant> {
    let mut guard = lock(&place.state);
    let State { idle, counts, sweeper, closed, .. } = &mut *guard;
    let now = Instant::now();
    idle.retain_mut(|idle| {
        if idle.deadline <= now {
            counts.expired += 1;
            return false;
        }
        match idle.connection.poll_unrest(context) {
            Poll::Pending => true,
            Poll::Ready(unrest) => {
                place.stirred(counts, unrest, idle.connection.peer);
                false
            }
        }
    });
    sweeper.armed = match idle.iter().map(|idle| idle.deadline).min() {
        // A deadline outlives its connection: others will probably be parked before it.
        None => sweeper.armed.filter(|armed| *armed > now),
        earliest => earliest,
    };
    if sweeper.armed.is_none() || *closed {
        *sweeper = Sweeper::default();
        return None;
    }
    if !sweeper.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
        sweeper.waker = Some(context.waker().clone());
    }
    sweeper.armed
}
