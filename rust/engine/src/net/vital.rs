//! Signs of life of what is being sent, so that under pressure the client that has taken nothing for longest is found.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Waker};

use crate::sync::{Arc, Mutex, lock};

/// Of one message on its way to a client. The task that sends is the one who writes here; one that looks for whom to
/// cut reads.
#[derive(Debug, Default)]
pub(crate) struct Vital {
    /// The turn of the [`Clock`] since which the client takes nothing of what waits for it; 0 while it does.
    waiting_since: AtomicU64,
    cut: AtomicBool,
    stopped: AtomicBool,
    /// The client comes back for the rest: it need not be waited for.
    resumes: AtomicBool,
    /// Whom it is to be told that it was cut, and that it was stopped: not the same future, though the same task.
    writer: Mutex<Option<Waker>>,
    owner: Mutex<Option<Waker>>,
}

/// A [`Vital`] that its clock knows until this is dropped.
#[derive(Debug)]
pub(crate) struct Life {
    clock: Arc<Clock>,
    vital: Arc<Vital>,
}

impl Life {
    pub(crate) fn new(clock: &Arc<Clock>) -> Self {
        Self { clock: Arc::clone(clock), vital: clock.enter() }
    }

    /// For whoever writes the message.
    pub(crate) fn share(&self) -> (Arc<Clock>, Arc<Vital>) {
        (Arc::clone(&self.clock), Arc::clone(&self.vital))
    }

    /// The client of this message comes back for the rest. Whoever calls this looks then whether it is to end already.
    pub(crate) fn note_resumable(&self) {
        // Under the lock that `stop_resumable` holds while it looks: that sees the flag, or what was set before it is seen
        // by whoever calls this.
        let _all = lock(&self.clock.all);
        self.vital.resumes.store(true, Ordering::Relaxed);
    }

    /// Has this message alone end.
    pub(crate) fn stop(&self) {
        self.vital.stop();
    }

    /// Whether everything is to end; the task of `context` is woken when that changes.
    pub(crate) fn is_stopped(&self, context: &Context<'_>) -> bool {
        watch(&self.vital.owner, context);
        self.vital.stopped.load(Ordering::Relaxed)
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.clock.leave(&self.vital);
    }
}

/// Time in turns, and who lives by it.
#[derive(Debug)]
pub(crate) struct Clock {
    turn: AtomicU64,
    all: Mutex<Vec<Arc<Vital>>>,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { turn: AtomicU64::new(1), all: Mutex::default() }
    }

    fn enter(&self) -> Arc<Vital> {
        let vital = Arc::new(Vital::default());
        lock(&self.all).push(Arc::clone(&vital));
        vital
    }

    fn leave(&self, vital: &Arc<Vital>) {
        let mut all = lock(&self.all);
        if let Some(at) = all.iter().position(|other| Arc::ptr_eq(other, vital)) {
            all.swap_remove(at);
        }
    }

    // Relaxed throughout: turns are a second long, and whoever is cut or stopped is woken, under the lock of its waker,
    // which it takes before it looks.

    /// Another turn has passed.
    pub(crate) fn advance(&self) {
        self.turn.fetch_add(1, Ordering::Relaxed);
    }

    /// Cuts the one that has waited for its client for longest, if that is at least so many turns. Whether there was one.
    pub(crate) fn cut_longest(&self, turns: u64) -> bool {
        let now = self.turn.load(Ordering::Relaxed);
        let longest = lock(&self.all)
            .iter()
            .filter(|vital| !vital.cut.load(Ordering::Relaxed))
            .map(|vital| (vital.waiting_since.load(Ordering::Relaxed), vital))
            .filter(|(since, _)| *since > 0 && now.saturating_sub(*since) >= turns)
            .min_by_key(|(since, _)| *since)
            .map(|(_, vital)| Arc::clone(vital));
        let Some(vital) = longest else { return false };
        vital.cut.store(true, Ordering::Relaxed);
        wake(&vital.writer);
        true
    }

    /// Everything that lives now is to end.
    pub(crate) fn stop(&self) {
        let all = lock(&self.all).clone();
        for vital in &all {
            vital.stop();
        }
    }

    /// What clients come back for is to end.
    pub(crate) fn stop_resumable(&self) {
        let all = lock(&self.all);
        let resumable = all.iter().filter(|vital| vital.resumes.load(Ordering::Relaxed));
        let resumable: Vec<_> = resumable.map(Arc::clone).collect();
        drop(all);
        for vital in &resumable {
            vital.stop();
        }
    }

    fn now(&self) -> u64 {
        self.turn.load(Ordering::Relaxed)
    }
}

impl Vital {
    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        wake(&self.owner);
    }

    /// The client took something.
    pub(crate) fn rest(&self) {
        self.waiting_since.store(0, Ordering::Relaxed);
    }

    /// The client takes nothing now. Whether the message has been cut.
    pub(crate) fn wait(&self, context: &Context<'_>, clock: &Clock) -> bool {
        if self.waiting_since.load(Ordering::Relaxed) == 0 {
            self.waiting_since.store(clock.now(), Ordering::Relaxed);
        }
        watch(&self.writer, context);
        self.cut.load(Ordering::Relaxed)
    }

    /// It was cut, but the client had taken something meanwhile: it begins to wait now.
    pub(crate) fn spare(&self, clock: &Clock) {
        self.waiting_since.store(clock.now(), Ordering::Relaxed);
        self.cut.store(false, Ordering::Relaxed);
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
mod tests {
    use super::*;

    #[test]
    fn the_one_that_has_waited_longest_is_cut_once_and_others_stay() {
        let clock = Clock::new();
        let context = Context::from_waker(Waker::noop());
        let [idle, old, young] = [(); 3].map(|()| clock.enter());
        assert!(!old.wait(&context, &clock));
        clock.advance();
        assert!(!young.wait(&context, &clock));
        clock.advance();
        assert!(!clock.cut_longest(3), "nobody has waited for so long");
        assert!(clock.cut_longest(1));
        assert!(old.wait(&context, &clock) && !young.wait(&context, &clock) && !idle.wait(&context, &clock));
        assert!(clock.cut_longest(1), "the next one");
        assert!(young.wait(&context, &clock));
        assert!(!clock.cut_longest(1), "the last has just begun to wait");
    }

    #[test]
    fn whoever_makes_progress_or_has_left_is_not_waiting() {
        let clock = Clock::new();
        let context = Context::from_waker(Waker::noop());
        let [moving, gone] = [(); 2].map(|()| clock.enter());
        for vital in [&moving, &gone] {
            vital.wait(&context, &clock);
        }
        clock.advance();
        moving.rest();
        clock.leave(&gone);
        assert!(!clock.cut_longest(1));
    }

    #[test]
    fn whoever_is_spared_begins_to_wait_anew() {
        let clock = Clock::new();
        let context = Context::from_waker(Waker::noop());
        let slow = clock.enter();
        slow.wait(&context, &clock);
        clock.advance();
        assert!(clock.cut_longest(1));
        slow.spare(&clock);
        assert!(!slow.wait(&context, &clock));
        assert!(!clock.cut_longest(1), "it waits since now");
        clock.advance();
        assert!(clock.cut_longest(1));
        assert!(slow.wait(&context, &clock));
    }

    #[test]
    fn whoever_writes_is_told_of_the_cut_and_whoever_owns_of_the_end() {
        struct Count(AtomicU64);
        impl std::task::Wake for Count {
            fn wake(self: std::sync::Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let clock = Arc::new(Clock::new());
        let life = Life::new(&clock);
        let counts = [(); 2].map(|()| std::sync::Arc::new(Count(AtomicU64::new(0))));
        let [owner, writer] = counts.clone().map(Waker::from);
        assert!(!life.is_stopped(&Context::from_waker(&owner)));
        life.share().1.wait(&Context::from_waker(&writer), &clock);
        let woken = || counts.each_ref().map(|count| count.0.load(Ordering::Relaxed));
        assert!(clock.cut_longest(0));
        assert_eq!(woken(), [0, 1]);
        clock.stop();
        assert_eq!(woken(), [1, 1]);
        assert!(life.is_stopped(&Context::from_waker(&owner)));
    }
}
