//! Events of a page: each viewer gets the newest one, whenever it has taken the one before.
//!
//! The invariant: a viewer that does not read holds one event, and misses the others that come meanwhile.

use std::fmt::Debug;
use std::sync::Arc as Plain;
use std::task::{Context, Poll, ready};

use penstock_memory::waiters::Waiters;

use crate::error::Result;
use crate::net::{Payload, Source};
use crate::sync::{Mutex, lock};

/// The newest event, and the viewers that wait for the next one.
#[derive(Debug, Default)]
pub struct Newest {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    event: Plain<str>,
    /// Counts events: 0 before the first.
    number: u64,
    waiters: Waiters,
}

impl Newest {
    /// Gives all viewers `event`, as it stands on the wire.
    pub fn publish(&self, event: String) {
        let waiting = {
            let mut state = lock(&self.state);
            state.event = event.into();
            state.number += 1;
            state.waiters.wakers()
        };
        waiting.into_iter().for_each(std::task::Waker::wake);
    }

    /// What was published last is not for viewers that come later.
    pub fn forget(&self) {
        let mut state = lock(&self.state);
        state.event = Plain::default();
    }
}

/// The events for one viewer.
#[derive(Debug)]
pub struct PageEvents {
    newest: Plain<Newest>,
    /// Its number among the viewers that wait.
    number: usize,
    seen: u64,
    first: Option<String>,
    /// Counts the viewer, until this is dropped.
    _viewer: Box<dyn Viewer>,
}

/// Something that is held for as long as a viewer is there.
pub trait Viewer: Send {}

/// Its name alone: decision 063.
impl Debug for dyn Viewer + '_ {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Viewer")
    }
}

impl PageEvents {
    /// Those of `newest`, after `first`.
    pub fn new(newest: &Plain<Newest>, first: String, viewer: Box<dyn Viewer>) -> Self {
        let number = lock(&newest.state).waiters.join();
        Self { newest: Plain::clone(newest), number, seen: 0, first: Some(first), _viewer: viewer }
    }

    fn poll_event(&mut self, context: &Context<'_>, held: usize) -> Poll<Vec<u8>> {
        let mut state = lock(&self.newest.state);
        // Always, because what is held may be sent before the next event without another look.
        state.waiters.wait(self.number, context);
        if held > 0 {
            return Poll::Pending;
        }
        if let Some(first) = self.first.take() {
            return Poll::Ready(first.into_bytes());
        }
        if state.number == self.seen || state.event.is_empty() {
            return Poll::Pending;
        }
        self.seen = state.number;
        Poll::Ready(state.event.as_bytes().to_vec())
    }
}

impl Source for PageEvents {
    fn poll_next(&mut self, context: &mut Context<'_>, held: usize) -> Poll<Option<Result<Payload>>> {
        let event = ready!(self.poll_event(context, held));
        Poll::Ready(Some(Ok(Payload::Text(event))))
    }
}

impl Drop for PageEvents {
    fn drop(&mut self) {
        lock(&self.newest.state).waiters.leave(self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[derive(Debug)]
    struct Nothing;

    impl Viewer for Nothing {}

    fn poll(events: &mut PageEvents, held: usize) -> Option<String> {
        match events.poll_next(&mut Context::from_waker(Waker::noop()), held) {
            Poll::Ready(Some(Ok(payload))) => Some(String::from_utf8(payload.to_vec()).unwrap()),
            Poll::Pending => None,
            other @ Poll::Ready(_) => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_viewer_gets_the_newest_event_once_it_has_taken_the_one_before() {
        let newest = Plain::new(Newest::default());
        let mut events = PageEvents::new(&newest, "first".to_owned(), Box::new(Nothing));
        assert_eq!(poll(&mut events, 0).as_deref(), Some("first"));
        assert_eq!(poll(&mut events, 0), None);
        for event in ["a", "b"] {
            newest.publish(event.to_owned());
            assert_eq!(poll(&mut events, 5), None, "it has not taken the first");
        }
        assert_eq!(poll(&mut events, 0).as_deref(), Some("b"));
        assert_eq!(poll(&mut events, 0), None);
        newest.publish("c".to_owned());
        newest.forget();
        assert_eq!(poll(&mut events, 0), None);
        drop(events);
        assert_eq!(lock(&newest.state).waiters.taken(), 0);
    }
}
