//! Decides which stream of a connection may queue bytes next.
//!
//! What is queued leaves in the order in which it was queued, so little is: a stream whose response the client needs more then
//! waits for little. The order is that of RFC 9218, section 10: by urgency; of one urgency a response that is of use only as a
//! whole goes on to its end, the one that was asked for first, and those of use in parts take turns with it.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::priority::Priority;
use crate::sync::{Mutex, lock};

/// Bytes that may be queued: more than one write of TLS, so that a connection that takes all is never without. Arbitrary.
const BUDGET: usize = 96 << 10;

/// Priorities of streams that are not here yet, by frames that may come before their requests (RFC 9218, section 7.1). Arbitrary.
const MOST_EARLY: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Gate(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    queued: usize,
    streams: Vec<Entry>,
    early: Vec<(u32, Priority)>,
    turn: u64,
    /// Whether one of use in parts was let through last.
    was_incremental: bool,
}

#[derive(Debug)]
struct Entry {
    stream: u32,
    /// What the client has asked for, if anything.
    asked: Option<Priority>,
    priority: Priority,
    /// When it was let through last.
    turn: u64,
    waiting: Option<Waker>,
}

/// Room for bytes that are queued. Dropped when they are sent.
#[derive(Debug)]
pub(super) struct Grant {
    gate: Arc<Gate>,
    bytes: usize,
}

impl Gate {
    /// A stream begins, whose request `asked` for a priority.
    pub(super) fn enter(&self, stream: u32, asked: Option<Priority>) {
        let state = &mut *lock(&self.0);
        let early = state.early.iter().position(|(early, _)| *early == stream);
        let asked = early.map(|at| state.early.swap_remove(at).1).or(asked);
        let priority = asked.unwrap_or(Priority::DEFAULT);
        state.streams.push(Entry { stream, asked, priority, turn: 0, waiting: None });
    }

    /// The client asks for another priority, by a frame of its own.
    pub(super) fn update(&self, stream: u32, asked: Priority) {
        let state = &mut *lock(&self.0);
        if let Some(entry) = state.entry(stream) {
            (entry.asked, entry.priority) = (Some(asked), asked);
        } else {
            state.early.retain(|(early, _)| *early != stream);
            if state.early.len() == MOST_EARLY {
                state.early.remove(0);
            }
            state.early.push((stream, asked));
        }
    }

    /// The response of a stream is of the media type `content_type`.
    pub(super) fn respond(&self, stream: u32, content_type: Option<&[u8]>) {
        if let Some(entry) = lock(&self.0).entry(stream) {
            entry.priority = Priority::of_response(content_type, entry.asked);
        }
    }

    /// A stream has ended.
    pub(super) fn leave(&self, stream: u32) {
        let mut state = lock(&self.0);
        state.streams.retain(|entry| entry.stream != stream);
        let next = state.next();
        drop(state);
        wake(next);
    }

    /// Ready when `stream` may queue `bytes`, at most a frame of them.
    pub(super) fn poll_grant(
        self: &Arc<Self>,
        context: &Context<'_>,
        stream: u32,
        bytes: usize,
    ) -> Poll<Grant> {
        let mut state = lock(&self.0);
        let state = &mut *state;
        let Some(entry) = state.entry(stream) else { return Poll::Pending };
        entry.waiting = Some(context.waker().clone());
        if state.queued >= BUDGET || state.first().is_none_or(|first| state.streams[first].stream != stream) {
            return Poll::Pending;
        }
        state.turn += 1;
        let turn = state.turn;
        let Some(entry) = state.entry(stream) else { return Poll::Pending };
        (entry.waiting, entry.turn) = (None, turn);
        state.was_incremental = entry.priority.incremental;
        state.queued += bytes;
        // There may be room for one more.
        wake(state.next());
        Poll::Ready(Grant { gate: Arc::clone(self), bytes })
    }
}

impl State {
    fn entry(&mut self, stream: u32) -> Option<&mut Entry> {
        self.streams.iter_mut().find(|entry| entry.stream == stream)
    }

    /// The first of the streams that wait.
    fn first(&self) -> Option<usize> {
        let waiting = || self.streams.iter().enumerate().filter(|(_, entry)| entry.waiting.is_some());
        let urgency = waiting().map(|(_, entry)| entry.priority.urgency).min()?;
        let of = |incremental: bool| {
            waiting()
                .filter(move |(_, entry)| {
                    entry.priority.urgency == urgency && entry.priority.incremental == incremental
                })
                .min_by_key(move |(_, entry)| if incremental { entry.turn } else { entry.stream.into() })
        };
        let (whole, part) = (of(false), of(true));
        let first = if self.was_incremental { whole.or(part) } else { part.or(whole) };
        first.map(|(at, _)| at)
    }

    /// Whom to wake, if there is room.
    fn next(&self) -> Option<Waker> {
        if self.queued >= BUDGET {
            return None;
        }
        self.first().and_then(|first| self.streams[first].waiting.clone())
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        let mut state = lock(&self.gate.0);
        let was_full = state.queued >= BUDGET;
        state.queued -= self.bytes;
        let next = if was_full { state.next() } else { None };
        drop(state);
        wake(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: usize = 16 << 10;

    fn ask(gate: &Arc<Gate>, stream: u32) -> Option<Grant> {
        match gate.poll_grant(&Context::from_waker(Waker::noop()), stream, FRAME) {
            Poll::Ready(grant) => Some(grant),
            Poll::Pending => None,
        }
    }

    /// The streams that are let through one after the other, of streams that all wait all the time.
    fn order(gate: &Arc<Gate>, streams: &[u32], count: usize) -> Vec<u32> {
        let any = || streams.iter().find_map(|stream| ask(gate, *stream));
        let mut full: Vec<_> = std::iter::from_fn(any).collect();
        let mut order = Vec::new();
        for stream in streams {
            assert!(ask(gate, *stream).is_none(), "the connection is full");
        }
        while order.len() < count {
            drop(full.pop());
            let (stream, grant) = streams
                .iter()
                .find_map(|stream| ask(gate, *stream).map(|grant| (*stream, grant)))
                .expect("there is room");
            assert!(ask(gate, stream).is_none(), "for one only");
            order.push(stream);
            full.insert(0, grant);
        }
        order
    }

    fn enter(gate: &Gate, stream: u32, urgency: u8, incremental: bool) {
        gate.enter(stream, Some(Priority { urgency, incremental }));
    }

    #[test]
    fn the_most_urgent_go_first_and_whole_responses_in_their_order() {
        let gate = Arc::<Gate>::default();
        for (stream, urgency) in [(1, 3), (3, 1), (5, 1), (7, 5)] {
            enter(&gate, stream, urgency, false);
        }
        assert_eq!(order(&gate, &[1, 3, 5, 7], 3), [3, 3, 3]);
        gate.leave(3);
        assert_eq!(order(&gate, &[1, 5, 7], 2), [5, 5]);
        gate.update(7, Priority { urgency: 0, incremental: false });
        assert_eq!(order(&gate, &[1, 5, 7], 2), [7, 7]);
    }

    #[test]
    fn responses_of_use_in_parts_take_turns_and_starve_nobody() {
        let gate = Arc::<Gate>::default();
        for (stream, incremental) in [(1, true), (3, true), (5, false)] {
            enter(&gate, stream, 3, incremental);
        }
        let order = order(&gate, &[1, 3, 5], 12);
        let count = |stream| order.iter().filter(|one| **one == stream).count();
        assert_eq!((count(1), count(3), count(5)), (3, 3, 6), "{order:?}");
    }

    #[test]
    fn what_is_said_of_a_stream_before_it_begins_holds() {
        let gate = Arc::<Gate>::default();
        for stream in 0..2 * u32::try_from(MOST_EARLY).unwrap() {
            gate.update(2 * stream + 1, Priority { urgency: 0, incremental: false });
        }
        assert_eq!(lock(&gate.0).early.len(), MOST_EARLY);
        let last = 4 * u32::try_from(MOST_EARLY).unwrap() - 1;
        enter(&gate, 1, 3, false);
        enter(&gate, last, 7, false);
        assert_eq!(order(&gate, &[1, last], 2), [last, last]);
    }

    #[test]
    fn a_stream_that_ends_gives_its_turn_to_the_next() {
        struct Count(std::sync::atomic::AtomicUsize);
        impl std::task::Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        }
        let gate = Arc::<Gate>::default();
        enter(&gate, 1, 0, false);
        enter(&gate, 3, 3, false);
        let full: Vec<_> = std::iter::from_fn(|| ask(&gate, 3)).collect();
        let count = Arc::new(Count(0.into()));
        let waker = Waker::from(Arc::clone(&count));
        assert!(ask(&gate, 1).is_none());
        assert!(gate.poll_grant(&Context::from_waker(&waker), 3, FRAME).is_pending());
        drop(full);
        let woken = || count.0.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(woken(), 0, "the more urgent one is asked first");
        gate.leave(1);
        assert_eq!(woken(), 1);
    }
}
