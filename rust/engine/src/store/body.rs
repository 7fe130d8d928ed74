//! The one copy of a body: it grows after a [`Filler`] while any number of [`Follower`]s read it, each at its own
//! speed, from its own start to its own end.
//!
//! The invariants: appended bytes never change while the body lives, and are not released before all followers have
//! read them; a body ends once, complete or in an error, and a filler that is dropped early ends it in an error; a
//! waiting follower is woken by the next piece and by the end, and the filler when the last follower leaves; the cost
//! of the pieces counts against the budget until the body is dropped.

use std::collections::VecDeque;
use std::fmt;
use std::mem::take;
use std::ops::Range;
use std::sync::Arc as Plain;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use crate::error::{Code, Error, Result};
use crate::pool::{Slice, StoredBytes};
use crate::stream::Ending;
use crate::sync::{Arc, Mutex, lock};
use penstock_memory::waiters::Waiters;

/// The bytes that are kept before the slowest reader of a body that is too large to be stored. Arbitrary: some pieces.
/// The loom models use less.
#[cfg(not(loom))]
pub(super) const PASS_THROUGH_WINDOW: u64 = 1 << 20;

/// A body in memory, complete or growing. Held by the index, its filler and its followers.
#[derive(Debug)]
pub struct Body {
    state: Mutex<State>,
    budget: Plain<CacheBudget>,
}

#[derive(Default)]
struct State {
    /// Each with the offset of its first byte.
    pieces: VecDeque<(u64, Slice)>,
    /// The number of pieces that were released, before these.
    gone: usize,
    length: u64,
    /// If set, pieces are released once all followers have read them, and the filler waits while this many bytes are
    /// unread.
    thin: Option<u64>,
    /// The cost of the pieces in the budget.
    cost: usize,
    end: Option<Result<Ending>>,
    followers: Waiters,
    /// The index of the piece that each follower reads next, by its waiter number.
    places: Vec<usize>,
    filler: Option<Waker>,
}

/// Appends to a body. Dropping it without [`Filler::finish`] or [`Filler::fail`] ends the body in an error.
#[derive(Debug)]
pub struct Filler {
    body: Arc<Body>,
}

/// Reads a range of a body, in order.
#[derive(Debug)]
pub struct Follower {
    body: Arc<Body>,
    /// Its number among the waiters. `None` if the body had ended before: then nothing waits, and the reader touches no
    /// more memory than it must.
    seat: Option<usize>,
    /// The index of the piece that it reads next, if it has no number.
    piece: usize,
    place: u64,
    end: u64,
}

impl Body {
    /// An empty body whose cost is taken from `budget`, and its filler.
    pub fn new(budget: &Plain<CacheBudget>) -> (Arc<Self>, Filler) {
        let body = Arc::new(Self { state: Mutex::new(State::default()), budget: Plain::clone(budget) });
        (Arc::clone(&body), Filler { body })
    }

    /// The number of bytes so far.
    pub fn length(&self) -> u64 {
        lock(&self.state).length
    }

    /// Its cost in the budget, in bytes.
    pub fn cost(&self) -> usize {
        lock(&self.state).cost
    }

    /// The trailers and the end of a complete body.
    pub fn ending(&self) -> Option<Ending> {
        match &lock(&self.state).end {
            Some(Ok(ending)) => Some(ending.clone()),
            _ => None,
        }
    }

    /// Whether the body has not ended.
    pub fn is_growing(&self) -> bool {
        lock(&self.state).end.is_none()
    }

    /// Whether the body has ended in an error.
    pub(super) fn has_failed(&self) -> bool {
        matches!(lock(&self.state).end, Some(Err(_)))
    }

    /// Reads `range` from its first byte; its end may be after the end of the body.
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
    /// The index of the piece with the byte at `place`, or one after the last.
    fn piece_at(&self, place: u64) -> usize {
        let before = self.pieces.partition_point(|(first, _)| *first <= place);
        self.gone + before.saturating_sub(usize::from(place < self.length))
    }

    /// Takes the pieces that all followers have read, and gives them with their cost.
    fn let_go(&mut self) -> (Vec<Slice>, usize) {
        let next = self.places.iter().copied().min().unwrap_or(usize::MAX);
        let count = next.saturating_sub(self.gone).min(self.pieces.len());
        let mut cost = 0;
        let mut slices: Vec<Slice> = Vec::with_capacity(count);
        for _ in 0..count {
            let Some((_, slice)) = self.pieces.pop_front() else { break };
            let (slab, bytes) = slice.slab();
            // The last piece of a slab gives its cost back.
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
    /// Appends a piece. Empty pieces are ignored.
    pub fn push(&self, slice: Slice) {
        if slice.is_empty() {
            return;
        }
        let waiting = {
            let mut state = lock(&self.body.state);
            let place = state.length;
            let (slab, bytes) = slice.slab();
            // Consecutive pieces of one slab pay for it once.
            let paid = state.pieces.back().is_some_and(|(_, last)| last.slab().0 == slab);
            let cost = PIECE + if paid { 0 } else { bytes };
            let counted =
                if cfg!(all(test, planted_bug = "bytes-counted-twice")) && paid { 2 * cost } else { cost };
            self.body.budget.take(counted);
            state.cost += cost;
            state.length += slice.len() as u64;
            state.pieces.push_back((place, slice));
            state.followers.wakers()
        };
        let woken = if cfg!(all(test, planted_bug = "lost-wake-of-follower")) { 1 } else { usize::MAX };
        waiting.into_iter().take(woken).for_each(Waker::wake);
    }

    /// Ends the body as complete.
    pub fn finish(self, ending: Ending) {
        self.body.end(Ok(ending));
    }

    /// Ends the body in an error.
    pub fn fail(self, error: Error) {
        self.body.end(Err(error));
    }

    /// From now on a piece is released when all followers have read it: for a body that is not stored after all. A
    /// follower that comes later does not find its beginning.
    pub fn stop_retaining(&self, window: u64) {
        lock(&self.body.state).thin = Some(window);
    }

    /// Ready if a piece may be appended: always, unless the body is no longer retained and its followers have a window
    /// of unread bytes.
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

    /// Ready if there is no follower.
    pub fn poll_abandoned(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = lock(&self.body.state);
        if state.followers.taken() == 0 {
            return Poll::Ready(());
        }
        state.filler = Some(context.waker().clone());
        Poll::Pending
    }

    /// The next piece of the body's source, as `poll` gives it, when there is room for it. `None` if the body has no
    /// follower and the fill does not go on without one (`goes_on`).
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

    /// The body that this fills.
    pub fn body(&self) -> &Arc<Body> {
        &self.body
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        self.body
            .end(Err(Code::EngineClosed.error("the shared fetch of this body was cancelled before its end")));
    }
}

impl Follower {
    /// The next bytes, of one piece. `None` at the end of the range, or of a complete body that is shorter.
    ///
    /// # Errors
    /// The error in which the body has ended, after its last byte.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Slice>>> {
        if self.place >= self.end {
            return Poll::Ready(None);
        }
        let mut locked = lock(&self.body.state);
        let state = &mut *locked;
        let front = state.pieces.front().map_or(state.length, |(first, _)| *first);
        if self.place < front {
            // It was released between the lookup and the first read.
            return Poll::Ready(Some(Err(
                Code::PoolFull.error("the body has turned out too large to be kept from its beginning")
            )));
        }
        let piece = match self.seat {
            Some(number) => &mut state.places[number],
            None => &mut self.piece,
        };
        // The range may begin after the bytes that had come when the follower was made.
        let has_passed = |(first, slice): &(u64, Slice)| first + slice.len() as u64 <= self.place;
        while state.pieces.get(*piece - state.gone).is_some_and(has_passed) {
            *piece += 1;
        }
        if let Some((first, slice)) = state.pieces.get(*piece - state.gone) {
            // Both are offsets in one slice, so that they fit.
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
        if cfg!(all(test, planted_bug = "slab-leak-on-cancel")) && self.place < lock(&self.body.state).length
        {
            std::mem::forget(Arc::clone(&self.body));
        }
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

/// The cost of a piece besides its slab, so that a body of a million chunks does not seem small.
const PIECE: usize = 64;

/// The memory of a cache: the true cost of its bodies, which is whole slabs. An evicted body counts until its last
/// reader has left.
#[derive(Debug)]
pub struct CacheBudget {
    limit: usize,
    used: AtomicUsize,
    stored: StoredBytes,
}

impl CacheBudget {
    /// An empty budget of `limit` bytes, which are counted in `stored` too while they are taken.
    pub fn new(limit: usize, stored: &StoredBytes) -> Self {
        Self { limit, used: AtomicUsize::new(0), stored: stored.clone() }
    }

    /// The limit, in bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// The bytes in use.
    pub fn used(&self) -> usize {
        // Relaxed, here and below: a sum that orders nothing.
        self.used.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
        self.stored.add(bytes);
    }

    fn give(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        self.stored.remove(bytes);
    }
}

#[cfg(all(test, loom))]
mod loom_models;
#[cfg(all(test, not(loom)))]
mod tests;
