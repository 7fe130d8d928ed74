//! What a worker process has with the edge besides requests: leases that it renews, and connections of their own for what
//! belongs to no request.
//!
//! The edge alone connects, so a worker calls for a connection, and what is to go over it waits until it is there.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc as Plain, Weak};
use std::time::Duration;

use super::edge::{Edge, Errands};
use super::message::Message;
use super::wire::Wire;
use crate::hub::Lease;
use crate::sync::{Arc, Mutex, lock};

/// From this worker process to the edge, which may not be there yet.
#[derive(Debug, Default)]
pub struct Lines {
    /// What leases and calls are known by.
    next: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Where the edge hears what is of no exchange.
    home: Weak<Wire>,
    /// What waits for a connection.
    called: HashMap<u64, Errands>,
    is_closed: bool,
}

impl Lines {
    /// The edge, for what belongs to no request. The connection lasts until what is returned is gone, and what was asked of it is
    /// over.
    pub fn edge(&self) -> Arc<Edge> {
        let (edge, errands) = Edge::aside();
        let number = self.number();
        let home = {
            let mut state = lock(&self.state);
            if state.is_closed {
                return edge;
            }
            state.called.insert(number, errands);
            state.home.upgrade()
        };
        if let Some(home) = home {
            home.send(&Message::Call(number));
        }
        edge
    }

    /// The edge is there, and hears `home`.
    pub(super) fn open(&self, home: &Plain<Wire>) {
        let mut state = lock(&self.state);
        state.home = Plain::downgrade(home);
        for number in state.called.keys() {
            home.send(&Message::Call(*number));
        }
    }

    /// What the connection is for that was called for by `number`.
    pub(super) fn answer(&self, number: u64) -> Option<Errands> {
        lock(&self.state).called.remove(&number)
    }

    /// No connection comes any more.
    pub(super) fn close(&self) {
        let called = {
            let mut state = lock(&self.state);
            state.is_closed = true;
            std::mem::take(&mut state.called)
        };
        drop(called);
    }

    /// Has the edge told what is said of `lease` from now on: its number there, and for how long it is now. On an engine thread.
    pub(super) fn pass_on(self: &Arc<Self>, lease: &Lease) -> (u64, Option<Duration>) {
        let number = self.number();
        let (left, mut renewals) = lease.renewals();
        let lines = Arc::clone(self);
        tokio::spawn(async move {
            while let Some(left) = renewals.next().await {
                let home = lock(&lines.state).home.upgrade();
                // Without the edge nobody is left to hear it.
                if let Some(home) = home {
                    home.send(&Message::Renew(number, left));
                }
            }
        });
        (number, left)
    }

    fn number(&self) -> u64 {
        // Relaxed: a number that nobody else has.
        self.next.fetch_add(1, Ordering::Relaxed)
    }
}
