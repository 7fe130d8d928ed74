//! In simulations there are no sockets: a simulation is the origin of all that its thread fetches.

use std::cell::RefCell;

use super::request::Request;
use crate::stream::Feed;

thread_local! {
    static ASKED: RefCell<Option<Vec<Exchange>>> = const { RefCell::new(None) };
}

/// A request, and where the response goes.
pub(crate) struct Exchange {
    pub(crate) request: Box<Request>,
    pub(crate) feed: Feed,
}

/// From now on the caller answers what its thread fetches, until this is dropped.
pub(crate) struct Origin {
    _private: (),
}

impl Origin {
    pub(crate) fn new() -> Self {
        ASKED.set(Some(Vec::new()));
        Self { _private: () }
    }

    /// The requests since the last call.
    #[expect(clippy::unused_self, reason = "there is one of the thread as long as this lives")]
    pub(crate) fn asked(&self) -> Vec<Exchange> {
        ASKED.with_borrow_mut(|asked| asked.as_mut().map(std::mem::take)).unwrap_or_default()
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        drop(ASKED.take());
    }
}

/// Gives the exchange to the simulation of this thread, if there is one.
pub(super) fn offer(request: Box<Request>, feed: Feed) -> Option<(Box<Request>, Feed)> {
    ASKED.with_borrow_mut(|asked| match asked {
        None => Some((request, feed)),
        Some(asked) => {
            asked.push(Exchange { request, feed });
            None
        }
    })
}
