//! What a worker process asks of the edge besides requests: the renewal of leases, and connections for tasks that belong
//! to no request.
//!
//! Only the edge opens connections. A worker calls for one, and its tasks wait until the connection is there.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc as Plain, Weak};
use std::time::Duration;

use super::edge::{Edge, Errands};
use super::message::Message;
use super::wire::Wire;
use crate::hub::Lease;
use crate::sync::{Arc, Mutex, lock};

/// The lines from this worker process to the edge, which may not have connected yet.
#[derive(Debug, Default)]
pub struct Lines {
    /// The next number of a lease or a call.
    next: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The control connection.
    control: Weak<Wire>,
    /// Tasks that wait for a connection, by the number of the call.
    called: HashMap<u64, Errands>,
    is_closed: bool,
}

impl Lines {
    /// The edge, for tasks that belong to no request. The connection lasts until the returned value is dropped and its
    /// tasks are done.
    pub fn edge(&self) -> Arc<Edge> {
        let (edge, errands) = Edge::without_request();
        let number = self.number();
        let control = {
            let mut state = lock(&self.state);
            if state.is_closed {
                return edge;
            }
            state.called.insert(number, errands);
            state.control.upgrade()
        };
        if let Some(control) = control {
            control.send(&Message::Call(number));
        }
        edge
    }

    /// The edge has opened the control connection.
    pub(super) fn open(&self, control: &Plain<Wire>) {
        let mut state = lock(&self.state);
        state.control = Plain::downgrade(control);
        for number in state.called.keys() {
            control.send(&Message::Call(*number));
        }
    }

    /// The tasks for the connection that was called for by `number`.
    pub(super) fn answer(&self, number: u64) -> Option<Errands> {
        lock(&self.state).called.remove(&number)
    }

    /// Drops the tasks that wait, and takes no more.
    pub(super) fn close(&self) {
        let called = {
            let mut state = lock(&self.state);
            state.is_closed = true;
            std::mem::take(&mut state.called)
        };
        drop(called);
    }

    /// Tells the edge of each renewal of `lease` from now on. Returns the number of the lease, and the time that is left.
    /// Must be called on an engine thread.
    pub(super) fn pass_on(self: &Arc<Self>, lease: &Lease) -> (u64, Option<Duration>) {
        let number = self.number();
        let (left, mut renewals) = lease.renewals();
        let lines = Arc::clone(self);
        tokio::spawn(async move {
            while let Some(left) = renewals.next().await {
                let control = lock(&lines.state).control.upgrade();
                // Without the edge there is no subscription to renew.
                if let Some(control) = control {
                    control.send(&Message::Renew(number, left));
                }
            }
        });
        (number, left)
    }

    fn number(&self) -> u64 {
        // Relaxed: the number alone counts.
        self.next.fetch_add(1, Ordering::Relaxed)
    }
}
