//! The one copy of a body: it grows behind a [`Filler`] while any number of [`Follower`]s read it, each at its own
//! pace, from its own place to its own end.
//!
//! The invariants: what was appended is never changed while the body lives, nor taken away from whoever has still to
//! read it; a body ends once, well or in an error, and a filler that is dropped without saying so ends it in an error; a
//! follower that waits is woken by the next piece and by the end, and the filler by the last follower's leaving; what
//! the pieces cost counts against the budget until the body is gone.

use std::collections::VecDeque;
use std::fmt;
use std::mem::take;
use std::ops::Range;
use std::sync::Arc as Plain;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use crate::error::{Code, Error, Result};
use crate::pool::Slice;
use crate::stream::Ending;
use crate::sync::{Arc, Mutex, lock};
use penstock_memory::waiters::Waiters;

/// Bytes before its slowest reader of a body that turns out too large to be kept. Arbitrary: some pieces. The models thin
/// out to less.
#[cfg(not(loom))]
pub(super) const PASS_THROUGH_WINDOW: u64 = 1 << 20;

/// A body in memory, whole or on its way. Held by the index, by whoever fills it and by whoever reads it.
#[derive(Debug)]
pub struct Body {
    state: Mutex<State>,
    budget: Plain<CacheBudget>,
}

#[derive(Default)]
struct State {
    /// Each with the place in the body of its first byte.
    pieces: VecDeque<(u64, Slice)>,
    /// Pieces that were let go of, in front of those.
    gone: usize,
    length: u64,
    /// Only what somebody has still to read is kept, and the filler waits where that is so many bytes.
    thin: Option<u64>,
    /// What the pieces take of the budget.
    cost: usize,
    end: Option<Result<Ending>>,
    followers: Waiters,
    /// The piece that each follower reads next, by its seat.
    places: Vec<usize>,
    filler: Option<Waker>,
}

/// Appends to a body. Dropping it without [`Filler::finish`] or [`Filler::fail`] ends the body in an error.
#[derive(Debug)]
pub struct Filler {
    body: Arc<Body>,
}

/// Reads a part of a body, in order.
#[derive(Debug)]
pub struct Follower {
    body: Arc<Body>,
    /// Where it waits, and is waited for. None of a body that has ended: nobody does either, and who reads it touches no
    /// more memory than it must.
    seat: Option<usize>,
    /// The piece that it reads next, where it has no seat to note that by.
    piece: usize,
    place: u64,
    end: u64,
}

impl Body {
    /// An empty one that takes what it costs of `budget`, and the right to fill it.
    pub fn new(budget: &Plain<CacheBudget>) -> (Arc<Self>, Filler) {
        let body = Arc::new(Self { state: Mutex::new(State::default()), budget: Plain::clone(budget) });
        (Arc::clone(&body), Filler { body })
    }

    /// Bytes that have come.
    pub fn length(&self) -> u64 {
        lock(&self.state).length
    }

    /// What keeping it costs.
    pub fn cost(&self) -> usize {
        lock(&self.state).cost
    }

    /// What followed the body, once it has ended well.
    pub fn ending(&self) -> Option<Ending> {
        match &lock(&self.state).end {
            Some(Ok(ending)) => Some(ending.clone()),
            _ => None,
        }
    }

    /// Whether more is to come.
    pub fn is_growing(&self) -> bool {
        lock(&self.state).end.is_none()
    }

    /// Reads `range`, from its first byte on; its end may lie behind that of the body, whose end is then its own.
    pub fn follow(body: &Arc<Self>, range: Range<u64>) -> Follower {
        let mut state = lock(&body.state);
        let piece = state.piece_at(range.start);
        let seat = state.end.is_none().then(|| state.followers.join());
        if let Some(number) = seat {
            if state.places.len() <= number {
                state.places.resize(number + 1, usize::MAX);
            }
            state.places[number] = piece;
        }
        drop(state);
        Follower { body: Arc::clone(body), seat, piece, place: range.start, end: range.end }
    }

    fn end(&self, end: Result<Ending>) {
        let waiting = {
            let mut state = lock(&self.state);
            if state.end.is_some() {
                return;
            }
            state.end = Some(end);
            state.filler = None;
            state.followers.wakers()
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        self.budget.give(lock(&self.state).cost);
    }
}

impl State {
    /// The piece with the byte at `place`; one behind the last if that has not come.
    fn piece_at(&self, place: u64) -> usize {
        let before = self.pieces.partition_point(|(first, _)| *first <= place);
        self.gone + before.saturating_sub(usize::from(place < self.length))
    }

    /// Takes out what all followers have read, and says what that gives back.
    fn let_go(&mut self) -> (Vec<Slice>, usize) {
        let next = self.places.iter().copied().min().unwrap_or(usize::MAX);
        let count = next.saturating_sub(self.gone).min(self.pieces.len());
        let mut cost = 0;
        let mut slices: Vec<Slice> = Vec::with_capacity(count);
        for _ in 0..count {
            let Some((_, slice)) = self.pieces.pop_front() else { break };
            let (slab, bytes) = slice.slab();
            // The last piece of a slab gives back what the first has paid.
            let is_last = self.pieces.front().is_none_or(|(_, next)| next.slab().0 != slab);
            cost += PIECE + if is_last { bytes } else { 0 };
            slices.push(slice);
        }
        self.gone += slices.len();
        self.cost -= cost;
        (slices, cost)
    }
}

impl Filler {
    /// Appends. Empty pieces are passed over.
    pub fn push(&self, slice: Slice) {
        if slice.is_empty() {
            return;
        }
        let waiting = {
            let mut state = lock(&self.body.state);
            let place = state.length;
            let (slab, bytes) = slice.slab();
            // Of pieces of one slab, which come one after the other, the first pays.
            let paid = state.pieces.back().is_some_and(|(_, last)| last.slab().0 == slab);
            let cost = PIECE + if paid { 0 } else { bytes };
            self.body.budget.take(cost);
            state.cost += cost;
            state.length += slice.len() as u64;
            state.pieces.push_back((place, slice));
            state.followers.wakers()
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// The body is whole.
    pub fn finish(self, ending: Ending) {
        self.body.end(Ok(ending));
    }

    /// The body will never be whole.
    pub fn fail(self, error: Error) {
        self.body.end(Err(error));
    }

    /// From now on nothing is kept that nobody has still to read. For a body that is not stored after all: whoever comes
    /// to read it from now on does not find its beginning.
    pub fn stop_retaining(&self, window: u64) {
        lock(&self.body.state).thin = Some(window);
    }

    /// Ready when more is to be appended: at once, unless the body is thinned out and its readers have a window of it
    /// before them.
    pub fn poll_room(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = lock(&self.body.state);
        let Some(window) = state.thin else { return Poll::Ready(()) };
        let (slices, cost) = state.let_go();
        self.body.budget.give(cost);
        let kept = state.pieces.front().map_or(0, |(first, _)| state.length - first);
        let poll = if kept < window {
            Poll::Ready(())
        } else {
            state.filler = Some(context.waker().clone());
            Poll::Pending
        };
        drop(state);
        drop(slices);
        poll
    }

    /// Ready when nobody reads the body.
    pub fn poll_abandoned(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = lock(&self.body.state);
        if state.followers.taken() == 0 {
            return Poll::Ready(());
        }
        state.filler = Some(context.waker().clone());
        Poll::Pending
    }

    /// The next piece of the body's source, as `poll` gives it, when there is room for it. `None` if the body is not read
    /// any more and its filling does not go on (`goes_on`).
    pub fn poll_next<T>(
        &self,
        context: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
        goes_on: impl FnOnce() -> bool,
    ) -> Poll<Option<T>> {
        if self.poll_room(context).is_ready() {
            if let Poll::Ready(next) = poll(context) {
                return Poll::Ready(Some(next));
            }
        }
        if self.poll_abandoned(context).is_ready() && !goes_on() {
            return Poll::Ready(None);
        }
        Poll::Pending
    }

    /// What is being filled.
    pub fn body(&self) -> &Arc<Body> {
        &self.body
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        self.body.end(Err(
            Code::EngineClosed.error("whoever fetched this body for all its readers was torn down")
        ));
    }
}

impl Follower {
    /// The next bytes: those that have come of one piece. `None` at the end of the range, or at that of a body that has
    /// ended well before it.
    ///
    /// # Errors
    /// How the body has ended, behind the last byte that came of it.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Slice>>> {
        if self.place >= self.end {
            return Poll::Ready(None);
        }
        let mut locked = lock(&self.body.state);
        let state = &mut *locked;
        let front = state.pieces.front().map_or(state.length, |(first, _)| *first);
        if self.place < front {
            // Between its being found and its being read it was thinned out.
            return Poll::Ready(Some(Err(
                Code::PoolFull.error("the body has turned out too large to be kept from its beginning")
            )));
        }
        let piece = match self.seat {
            Some(number) => &mut state.places[number],
            None => &mut self.piece,
        };
        // The range may begin behind what had come when it was asked for.
        let has_passed = |(first, slice): &(u64, Slice)| first + slice.len() as u64 <= self.place;
        while state.pieces.get(*piece - state.gone).is_some_and(has_passed) {
            *piece += 1;
        }
        if let Some((first, slice)) = state.pieces.get(*piece - state.gone) {
            // Both lie within one slice, which fits into memory.
            let start = usize::try_from(self.place - first).expect("within a slice");
            let length = slice.len().min(usize::try_from(self.end - first).unwrap_or(usize::MAX));
            let part = slice.slice(start..length);
            self.place += part.len() as u64;
            *piece += 1;
            let filler = if state.thin.is_some() { state.filler.take() } else { None };
            drop(locked);
            if let Some(filler) = filler {
                filler.wake();
            }
            return Poll::Ready(Some(Ok(part)));
        }
        if let Some(end) = &state.end {
            return Poll::Ready(end.as_ref().err().cloned().map(Err));
        }
        if let Some(number) = self.seat {
            state.followers.wait(number, context);
        }
        Poll::Pending
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let Some(number) = self.seat else { return };
        let filler = {
            let mut state = lock(&self.body.state);
            state.followers.leave(number);
            state.places[number] = usize::MAX;
            if state.followers.taken() == 0 || state.thin.is_some() { take(&mut state.filler) } else { None }
        };
        if let Some(filler) = filler {
            filler.wake();
        }
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("length", &self.length)
            .field("followers", &self.followers.taken())
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

/// What a piece costs besides its slab, so that a body of a million chunks is not taken to be small.
const PIECE: usize = 64;

/// Bytes that a cache may keep, at their true cost, which is whole slabs. What is evicted counts until its last reader has
/// left.
#[derive(Debug)]
pub struct CacheBudget {
    limit: usize,
    used: AtomicUsize,
}

impl CacheBudget {
    /// One of which nothing is used.
    pub fn new(limit: usize) -> Self {
        Self { limit, used: AtomicUsize::new(0) }
    }

    /// What may be kept.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// What is kept.
    pub fn used(&self) -> usize {
        // Relaxed here and below: a sum, which orders nothing.
        self.used.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    fn give(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[cfg(all(test, loom))]
mod loom_models;
#[cfg(all(test, not(loom)))]
mod tests;
