//! The pulse of an engine thread: it tells other threads that it makes progress, how late it is, and how busy.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use super::Activity;

/// How often an idle thread wakes: as often as it is asked how late it is.
pub(super) const TICK: Duration = Duration::from_millis(50);

/// The report of a thread, written at each turn. It is not the handle of its runtime, which would keep descriptors open
/// after the thread's end.
#[derive(Debug)]
pub(super) struct Pulse {
    began: Instant,
    /// The last turn, in milliseconds since `began`.
    turned: AtomicU64,
    /// When it has to turn next, likewise.
    due: AtomicU64,
    /// By how many milliseconds it has been late at most, since that was taken.
    late: AtomicU64,
    /// In nanoseconds.
    busy: AtomicU64,
    tasks: AtomicUsize,
}

impl Pulse {
    pub(super) fn new() -> Self {
        let count = || AtomicU64::new(0);
        let (turned, due, late, busy) = (count(), AtomicU64::new(u64::MAX), count(), count());
        Self { began: Instant::now(), turned, due, late, busy, tasks: AtomicUsize::new(0) }
    }

    /// Called on the thread before it sleeps until `wait` has passed.
    fn expect(&self, wait: Duration) {
        self.due.store(whole((self.began.elapsed() + wait).as_millis()), Ordering::Relaxed);
    }

    /// Called on the thread when it has slept.
    fn arrive(&self) {
        self.late.fetch_max(self.overdue(), Ordering::Relaxed);
        self.due.store(u64::MAX, Ordering::Relaxed);
    }

    /// By how many milliseconds it is late.
    fn overdue(&self) -> u64 {
        whole(self.began.elapsed().as_millis()).saturating_sub(self.due.load(Ordering::Relaxed))
    }

    pub(super) fn take_lateness(&self) -> Duration {
        Duration::from_millis(self.late.swap(0, Ordering::Relaxed).max(self.overdue()))
    }

    /// Called on the thread.
    pub(super) fn beat(&self) {
        let metrics = Handle::current().metrics();
        // Relaxed, as in `activity`: figures, which order nothing.
        self.busy.store(whole(metrics.worker_total_busy_duration(0).as_nanos()), Ordering::Relaxed);
        self.tasks.store(metrics.num_alive_tasks(), Ordering::Relaxed);
        self.turned.store(whole(self.began.elapsed().as_millis()), Ordering::Relaxed);
    }

    pub(super) fn activity(&self) -> Activity {
        let turned = Duration::from_millis(self.turned.load(Ordering::Relaxed));
        Activity {
            silent: self.began.elapsed().saturating_sub(turned),
            busy: Duration::from_nanos(self.busy.load(Ordering::Relaxed)),
            tasks: self.tasks.load(Ordering::Relaxed),
        }
    }

    /// Reports at each turn. Never ends. A timer that is due before all others makes tokio wake the thread it was set on, by
    /// an eventfd: two system calls and a turn of the loop for each request, whose limits are mostly longer than this one.
    pub(super) async fn tick(&self) {
        loop {
            self.beat();
            self.expect(TICK);
            tokio::time::sleep(TICK).await;
            self.arrive();
        }
    }
}

fn whole(count: u128) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
