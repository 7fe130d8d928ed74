//! Signs of life of what is being sent, so that where others need memory or connections, the clients that have taken nothing
//! for longest are found.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use super::InFlight;
use super::watch::chance;
use crate::sync::{Arc, Mutex, lock};

/// The state of one message on its way to a client. The sending task writes it; the task that chooses which client
/// is cut reads it.
#[derive(Debug)]
pub(crate) struct Stall {
    /// When the client began to take nothing of what waits for it, or when the beginning of its request began to wait for the
    /// rest, by the [`StallClock`]; 0 while it is not the client that is waited for.
    waiting_since: AtomicU64,
    /// Bytes that are held meanwhile.
    held: AtomicUsize,
    /// The line for connections that it holds one of; 0 for none.
    line: AtomicUsize,
    /// What for; [`UNCUT`] if it is not.
    cut: AtomicU8,
    /// What is asked of it: [`GO_ON`], [`MOVE`] or [`END`].
    wish: AtomicU8,
    /// Another process could go on with it, and it was not asked to move.
    may_move: AtomicBool,
    /// Where it stands among all.
    place: AtomicUsize,
    /// Whether and when it ends because no more is begun: [`LAST`], [`AT_ONCE`] or [`IN_TURN`].
    end: AtomicU8,
    /// When the request came.
    begun: Instant,
    /// The response has been said to have begun.
    has_head: AtomicBool,
    /// Whether there is a question, so that a task that is woken for something else takes no lock.
    is_asked: AtomicBool,
    question: Mutex<Option<Question>>,
    /// Whom it is to be told that it was cut, and that it was stopped: not the same future, though the same task.
    writer: Mutex<Option<Waker>>,
    owner: Mutex<Option<Waker>>,
}

/// It ends by itself, or when everything does.
const LAST: u8 = 0;
/// The client comes back for the rest, which is there: it need not be waited for.
const AT_ONCE: u8 = 1;
/// The client comes back, as others do: one after the other.
const IN_TURN: u8 = 2;

/// It goes on to its end.
const GO_ON: u8 = 0;
/// It goes to the next process when it is at rest.
const MOVE: u8 = 1;
/// It ends now.
const END: u8 = 2;

/// What is asked of an exchange from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Nothing.
    GoOn,
    /// To go to the next process when it is at rest.
    Move,
    /// To end now.
    End,
}

/// Where the answers go to the question what is being answered.
pub(crate) type Question = UnboundedSender<InFlight>;

/// A [`Stall`] that its clock knows until this is dropped.
#[derive(Debug)]
pub(crate) struct Life {
    clock: Arc<StallClock>,
    stall: Arc<Stall>,
}

impl Life {
    /// Of the message for a request that came at `begun`.
    pub(crate) fn new(clock: &Arc<StallClock>, begun: Instant) -> Self {
        Self { clock: Arc::clone(clock), stall: clock.enter(begun) }
    }

    /// For the writer of the message.
    pub(crate) fn share(&self) -> (Arc<StallClock>, Arc<Stall>) {
        (Arc::clone(&self.clock), Arc::clone(&self.stall))
    }

    /// The client of this message comes back for the rest. The caller looks then whether it is to end already.
    pub(crate) fn note_resumable(&self) {
        // Under the lock that `stop_resumable` holds while it looks: that sees the flag, or what was set before it is seen
        // by the caller of this.
        let _all = lock(&self.clock.all);
        self.stall.end.store(AT_ONCE, Ordering::Relaxed);
    }

    /// Answers by `tell` the question that there may be, which has woken the task of [`Life::is_stopped`].
    #[inline]
    pub(crate) fn answer(&self, tell: impl FnOnce() -> InFlight) {
        if self.stall.is_asked.load(Ordering::Relaxed) {
            self.stall.answer(tell());
        }
    }

    /// Whether the client takes nothing of what waits for it.
    pub(crate) fn waits_for_client(&self) -> bool {
        self.stall.waiting_since.load(Ordering::Relaxed) > 0
    }

    /// Has this message alone end.
    pub(crate) fn stop(&self) {
        self.stall.stop();
    }

    /// What is asked of it; the task of `context` is woken when that changes.
    pub(crate) fn wish(&self, context: &Context<'_>) -> Wish {
        watch(&self.stall.owner, context);
        match self.stall.wish.load(Ordering::Relaxed) {
            GO_ON => Wish::GoOn,
            MOVE => Wish::Move,
            _ => Wish::End,
        }
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.clock.leave(&self.stall);
    }
}

/// The body of a request on its way from its client, which is cut as one that takes nothing is: if others need what is held of
/// it while more is waited for.
#[derive(Debug)]
pub(crate) struct Receipt {
    clock: Arc<StallClock>,
    stall: Arc<Stall>,
    /// Since when something is held, by the clock; 0 while nothing is. That a few bytes more have come does not matter, or
    /// clients that send a byte at a time would never be cut.
    since: u64,
}

impl Receipt {
    /// Of the request whose message lives by `life`.
    pub(crate) fn new(life: &Life) -> Self {
        let (clock, stall) = life.share();
        Self { clock, stall, since: 0 }
    }

    /// More is waited for from now on, while so many bytes are `held`.
    pub(crate) fn wait(&mut self, held: usize) {
        self.since = match (held, self.since) {
            (0, _) => 0,
            (_, 0) => self.clock.now(),
            (_, since) => since,
        };
        // Not while the response waits for its client, which may go on with the request.
        if self.since > 0 && self.stall.waiting_since.load(Ordering::Relaxed) == 0 {
            self.stall.held.store(held, Ordering::Relaxed);
            self.stall.waiting_since.store(self.since, Ordering::Relaxed);
        }
    }

    /// Ready when it is cut.
    pub(crate) fn poll_cut(&self, context: &Context<'_>) -> Poll<()> {
        if self.since > 0 && self.stall.is_cut(context) {
            self.stall.note_cut(&self.clock);
            return Poll::Ready(());
        }
        Poll::Pending
    }

    /// More has come.
    pub(crate) fn rest(&self) {
        if self.since > 0 && self.stall.waiting_since.load(Ordering::Relaxed) == self.since {
            self.stall.rest();
        }
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        self.rest();
    }
}

/// What others wait for.
#[derive(Debug, Default)]
pub(crate) struct Demand {
    /// Bytes of the pool.
    pub(crate) bytes: usize,
    /// How many connections, by the line for them.
    pub(crate) connections: HashMap<usize, usize>,
}

impl Demand {
    /// Whether no request waits for anything.
    pub(crate) fn is_met(&self) -> bool {
        self.bytes == 0 && self.connections.is_empty()
    }

    /// What `stall` holds is free, or about to be.
    fn meet(&mut self, stall: &Stall) {
        self.bytes = self.bytes.saturating_sub(stall.held());
        if let Some(waiting) = self.connections.get_mut(&stall.line.load(Ordering::Relaxed)) {
            *waiting = waiting.saturating_sub(1);
        }
    }
}

/// How many clients were cut, and for what.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) for_memory: u64,
    pub(crate) for_connections: u64,
}

const UNCUT: u8 = 0;
const FOR_MEMORY: u8 = 1;
const FOR_CONNECTION: u8 = 2;

/// What a client holds at least, of memory that is not known here: that of what is being read for it. Arbitrary.
const LEAST_HELD: usize = 4096;

/// For memory, a client may be cut after this part of the grace: a request waits for it, and not many requests can wait for
/// long. Who has held the most for longest goes first: an honest client has taken nothing for longer, or holds more, than all
/// that are left.
const SOONER: u64 = 4;

/// Requests that are asked at a time whether their response has begun. 200 wake-ups take an engine thread 1 to 2 ms.
const HEADLESS: usize = 200;

/// Knows the time, and who lives by it.
#[derive(Debug)]
pub(crate) struct StallClock {
    begun: Instant,
    all: Mutex<Vec<Arc<Stall>>>,
    /// Messages that ended because of it.
    for_memory: AtomicU64,
    for_connections: AtomicU64,
}

impl StallClock {
    pub(crate) fn new() -> Self {
        Self {
            begun: Instant::now(),
            all: Mutex::default(),
            for_memory: AtomicU64::new(0),
            for_connections: AtomicU64::new(0),
        }
    }

    fn enter(&self, begun: Instant) -> Arc<Stall> {
        let stall = Arc::new(Stall::new(begun));
        let mut all = lock(&self.all);
        stall.place.store(all.len(), Ordering::Relaxed);
        all.push(Arc::clone(&stall));
        stall
    }

    fn leave(&self, stall: &Arc<Stall>) {
        let mut all = lock(&self.all);
        // Known, and not searched: there may be as many as there are clients. Written under the lock only.
        let place = stall.place.load(Ordering::Relaxed);
        all.swap_remove(place);
        if let Some(moved) = all.get(place) {
            moved.place.store(place, Ordering::Relaxed);
        }
    }

    // Relaxed throughout: a look more or less does not matter, and a message that is cut or stopped is woken, under the lock of its
    // waker, which it takes before it looks.

    /// Cuts as many as it takes to meet `demand`. For memory, messages that have waited for their clients for a [`SOONER`]th of
    /// `grace`, the one first that has held the most for longest; for connections, messages that have waited for `grace`, the
    /// longest first. What was cut and has not ended yet counts.
    pub(crate) fn cut(&self, grace: Duration, mut demand: Demand) -> Cut {
        let now = self.now();
        let grace = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        let mut stalled = Vec::new();
        for stall in lock(&self.all).iter() {
            let since = stall.waiting_since.load(Ordering::Relaxed);
            let waited = now.saturating_sub(since);
            if stall.cut.load(Ordering::Relaxed) != UNCUT {
                demand.meet(stall);
            } else if since > 0 && waited >= grace / SOONER {
                stalled.push((waited, Arc::clone(stall)));
            }
        }
        let mut cut = Cut::default();
        if demand.bytes > 0 {
            stalled
                .sort_unstable_by_key(|(waited, stall)| Reverse(u128::from(*waited) * stall.held() as u128));
            for (_, stall) in &stalled {
                if demand.bytes == 0 {
                    break;
                }
                demand.meet(stall);
                cut.for_memory += 1;
                stall.cut_for(FOR_MEMORY);
            }
        }
        stalled.retain(|(waited, stall)| *waited >= grace && stall.cut.load(Ordering::Relaxed) == UNCUT);
        stalled.sort_unstable_by_key(|(waited, _)| Reverse(*waited));
        for (_, stall) in &stalled {
            let line = stall.line.load(Ordering::Relaxed);
            if demand.connections.get(&line).is_some_and(|waiting| *waiting > 0) {
                demand.meet(stall);
                cut.for_connections += 1;
                stall.cut_for(FOR_CONNECTION);
            }
        }
        cut
    }

    /// How many have ended because they were cut.
    pub(crate) fn cuts(&self) -> Cut {
        Cut {
            for_memory: self.for_memory.load(Ordering::Relaxed),
            for_connections: self.for_connections.load(Ordering::Relaxed),
        }
    }

    /// Everything that lives now is to end.
    pub(crate) fn stop(&self) {
        let all = lock(&self.all).clone();
        for stall in &all {
            stall.stop();
        }
    }

    /// What clients come back for is to end.
    pub(crate) fn stop_resumable(&self) {
        self.stop_those(AT_ONCE, || true);
    }

    /// One in `turns` of the messages that end in turn is to end. Called with each number of turns that are left, each of them has an
    /// equal chance to end in any.
    pub(crate) fn stop_in_turn(&self, turns: u32) {
        let most = if cfg!(all(test, planted_bug = "drain-forgets-events")) { 0.5 } else { 1.0 };
        self.stop_those(IN_TURN, || chance() * f64::from(turns) <= most);
    }

    /// Asks `most` of the messages that another process could go on with to move. How many were asked, now or before, and have not
    /// come to rest.
    pub(crate) fn ask_to_move(&self, most: usize) -> usize {
        let (waiting, asked) = {
            let all = lock(&self.all);
            let waiting = all.iter().filter(|stall| stall.wish.load(Ordering::Relaxed) == MOVE).count();
            let may_move = |stall: &&Arc<Stall>| stall.may_move.load(Ordering::Relaxed);
            (waiting, all.iter().filter(may_move).take(most).map(Arc::clone).collect::<Vec<_>>())
        };
        for stall in &asked {
            stall.may_move.store(false, Ordering::Relaxed);
            // What is to end does so.
            if stall.wish.compare_exchange(GO_ON, MOVE, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                wake(&stall.owner);
            }
        }
        waiting + asked.len()
    }

    fn stop_those(&self, end: u8, is_chosen: impl Fn() -> bool) {
        let chosen: Vec<_> = {
            let all = lock(&self.all);
            let those = all.iter().filter(|stall| stall.end.load(Ordering::Relaxed) == end && is_chosen());
            those.map(Arc::clone).collect()
        };
        for stall in &chosen {
            stall.stop();
        }
    }

    /// Asks the tasks of requests what they are doing: `most` whose responses have gone on for longest, and the oldest
    /// [`HEADLESS`] whose responses are not known to have begun. How many there are, and how many were asked.
    pub(crate) fn ask(&self, most: usize, question: &Question) -> (usize, usize) {
        let (count, asked) = {
            let all = lock(&self.all);
            let has_head = |stall: &Stall| stall.has_head.load(Ordering::Relaxed);
            let mut asked = oldest(&all, HEADLESS, |stall| !has_head(stall));
            asked.extend(oldest(&all, most, has_head));
            (all.len(), asked)
        };
        for stall in &asked {
            stall.ask(question.clone());
        }
        (count, asked.len())
    }

    /// Milliseconds, from 1 on.
    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }
}

/// Those of `all` that are `wanted` and whose requests came first, `most` of them, in no order.
fn oldest(all: &[Arc<Stall>], most: usize, wanted: impl Fn(&Stall) -> bool) -> Vec<Arc<Stall>> {
    // The top is the last of the chosen to have come.
    let mut chosen = BinaryHeap::with_capacity(most + 1);
    for (place, stall) in all.iter().enumerate().filter(|(_, stall)| wanted(stall)) {
        let entry = (stall.begun, place);
        if chosen.len() < most || chosen.peek().is_some_and(|last| entry < *last) {
            chosen.push(entry);
            if chosen.len() > most {
                chosen.pop();
            }
        }
    }
    chosen.into_iter().map(|(_, place)| Arc::clone(&all[place])).collect()
}

impl Stall {
    fn new(begun: Instant) -> Self {
        Self {
            waiting_since: AtomicU64::new(0),
            held: AtomicUsize::new(0),
            line: AtomicUsize::new(0),
            cut: AtomicU8::new(UNCUT),
            wish: AtomicU8::new(GO_ON),
            may_move: AtomicBool::new(false),
            place: AtomicUsize::new(0),
            end: AtomicU8::new(LAST),
            begun,
            has_head: AtomicBool::new(false),
            is_asked: AtomicBool::new(false),
            question: Mutex::default(),
            writer: Mutex::default(),
            owner: Mutex::default(),
        }
    }

    fn ask(&self, question: Question) {
        *lock(&self.question) = Some(question);
        self.is_asked.store(true, Ordering::Relaxed);
        wake(&self.owner);
    }

    #[cold]
    fn answer(&self, told: InFlight) {
        self.is_asked.store(false, Ordering::Relaxed);
        if told.status.is_some() {
            self.has_head.store(true, Ordering::Relaxed);
        }
        if let Some(question) = lock(&self.question).take() {
            // An error means that it is too late.
            let _ = question.send(told);
        }
    }

    /// Bytes that its end gives back.
    fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed).max(LEAST_HELD)
    }

    fn cut_for(&self, what: u8) {
        self.cut.store(what, Ordering::Relaxed);
        wake(&self.writer);
    }

    fn stop(&self) {
        self.wish.store(END, Ordering::Relaxed);
        wake(&self.owner);
    }

    /// Another process could go on with it.
    pub(crate) fn let_move(&self) {
        self.may_move.store(true, Ordering::Relaxed);
    }

    /// It is at rest, as it was asked to be.
    pub(crate) fn note_rest(&self) {
        // What is to end meanwhile does so, if it stays here.
        let _ = self.wish.compare_exchange(MOVE, GO_ON, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The client took something.
    pub(crate) fn rest(&self) {
        self.waiting_since.store(0, Ordering::Relaxed);
        // If it was to be cut, it holds what it has taken no longer, and is not to be counted on.
        self.cut.store(UNCUT, Ordering::Relaxed);
    }

    /// The client takes nothing now of `held` bytes. Whether the message has been cut.
    pub(crate) fn wait(&self, context: &Context<'_>, clock: &StallClock, held: usize) -> bool {
        if self.waiting_since.load(Ordering::Relaxed) == 0 {
            self.held.store(held, Ordering::Relaxed);
            self.waiting_since.store(clock.now(), Ordering::Relaxed);
        }
        self.is_cut(context)
    }

    /// Whether it is to be cut; if not, the task of `context` is woken when it is.
    fn is_cut(&self, context: &Context<'_>) -> bool {
        watch(&self.writer, context);
        self.cut.load(Ordering::Relaxed) != UNCUT
    }

    /// It was cut, and ends with that.
    pub(crate) fn note_cut(&self, clock: &StallClock) {
        let is_for_memory = self.cut.load(Ordering::Relaxed) == FOR_MEMORY;
        let count = if is_for_memory { &clock.for_memory } else { &clock.for_connections };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// It was cut, but the client had taken something meanwhile: it begins to wait now.
    pub(crate) fn spare(&self, clock: &StallClock) {
        self.waiting_since.store(clock.now(), Ordering::Relaxed);
        self.cut.store(UNCUT, Ordering::Relaxed);
    }

    /// The client comes back when this ends, as others do.
    pub(crate) fn end_in_turn(&self) {
        self.end.store(IN_TURN, Ordering::Relaxed);
    }

    /// What is sent comes over a connection for which others wait in `line`.
    pub(crate) fn feed_on(&self, line: usize) {
        self.line.store(line, Ordering::Relaxed);
    }
}

fn watch(place: &Mutex<Option<Waker>>, context: &Context<'_>) {
    let mut task = lock(place);
    if !task.as_ref().is_some_and(|task| task.will_wake(context.waker())) {
        *task = Some(context.waker().clone());
    }
}

fn wake(place: &Mutex<Option<Waker>>) {
    let task = lock(place).take();
    if let Some(task) = task {
        task.wake();
    }
}

#[cfg(test)]
mod tests;
