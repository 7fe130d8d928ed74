//! The engine's threads: one tokio current-thread runtime each, so that a connection never moves to
//! another thread.

mod inbox;
mod outbox;
mod pulse;
#[cfg(all(test, not(loom), not(miri)))]
mod tests;

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::{Builder, RuntimeMetrics};
use tokio::sync::{mpsc, oneshot};

pub(crate) use self::inbox::from_afar;
pub use self::outbox::signal_soon;

use self::inbox::Inbox;
use self::pulse::Pulse;
use crate::error::{Code, Result};
use crate::sync::{Arc, Mutex, lock};
use crate::work::{self, Spent, Work};

/// A fixed set of running threads. Dropping it stops them without waiting.
#[derive(Debug)]
pub struct Threads {
    running: Vec<Thread>,
    next: AtomicUsize,
}

/// The state of one thread. The thread reports it twenty times a second, busy or idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity {
    /// The time since its last report: a thread that hangs reports nothing.
    pub silent: Duration,
    /// The time for which it has been busy so far.
    pub busy: Duration,
    /// Tasks that have not ended.
    pub tasks: usize,
}

/// What a thread has spent while profiles ran.
#[derive(Debug, Clone, Copy)]
pub struct ThreadSpent<'a> {
    /// The name that it was started with.
    pub name: &'a str,
    /// Its number in `/proc`, once it has begun.
    pub number: Option<&'a str>,
    /// The time for which it had been busy at its last report.
    pub busy: Duration,
    /// By kind of work, in the order of [`Work::ALL`].
    pub times: [Duration; Work::ALL.len()],
}

#[derive(Debug)]
struct Thread {
    name: String,
    pulse: Arc<Pulse>,
    spent: Arc<Spent>,
    inbox: Arc<Inbox>,
    stop: Mutex<Option<oneshot::Sender<()>>>,
    body: Mutex<Option<JoinHandle<()>>>,
}

impl Threads {
    /// Starts `count` threads of an engine.
    pub fn start(count: usize) -> Result<Self> {
        Self::start_named("penstock-engine", count)
    }

    /// Starts `count` threads that the operating system knows by `name` and a number.
    pub fn start_named(name: &str, count: usize) -> Result<Self> {
        let running =
            (0..count).map(|number| Thread::start(format!("{name}-{number}"))).collect::<Result<_>>()?;
        Ok(Self { running, next: AtomicUsize::new(0) })
    }

    /// The state of each thread. Any thread may call it; it never waits.
    pub fn activity(&self) -> Vec<Activity> {
        self.running.iter().map(|thread| thread.pulse.activity()).collect()
    }

    /// By how much the latest of the threads has come late to a timer since the last call, or is late now.
    pub fn lateness(&self) -> Duration {
        self.running.iter().map(|thread| thread.pulse.take_lateness()).max().unwrap_or_default()
    }

    /// Has each thread report now. Ready when all have, which a thread that hangs does not.
    pub async fn report(&self) {
        let (reported, mut all) = mpsc::channel::<()>(1);
        for thread in &self.running {
            let (pulse, reported) = (Arc::clone(&thread.pulse), reported.clone());
            thread.inbox.put(Box::new(move || {
                pulse.beat();
                drop(reported);
            }));
        }
        drop(reported);
        // Nothing is sent: it ends with the last sender.
        all.recv().await;
    }

    /// What each thread has spent while profiles ran.
    pub fn spent(&self) -> impl Iterator<Item = ThreadSpent<'_>> {
        self.running.iter().map(|thread| ThreadSpent {
            name: &thread.name,
            number: thread.spent.number(),
            busy: thread.pulse.activity().busy,
            times: thread.spent.times(),
        })
    }

    /// The number of threads.
    pub fn count(&self) -> usize {
        self.running.len()
    }

    /// The number of the next thread in turn.
    pub fn pick(&self) -> usize {
        // Relaxed: only fair turns are needed.
        self.next.fetch_add(1, Ordering::Relaxed) % self.running.len()
    }

    /// Calls `start` on thread `number` and runs its task there: one thread then allocates and frees the memory of
    /// the task. After [`Threads::stop`] it is dropped and does not run.
    pub fn spawn<F>(&self, number: usize, start: impl FnOnce() -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.running[number].inbox.put(Box::new(|| drop(tokio::spawn(start()))));
    }

    /// As [`Self::spawn`], but thread `number` is not woken for it: call [`Self::tell`] soon.
    pub fn spawn_untold<F>(&self, number: usize, start: impl FnOnce() -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.running[number].inbox.put_untold(Box::new(|| drop(tokio::spawn(start()))));
    }

    /// Wakes thread `number` if it was not told of all that waits for it.
    pub fn tell(&self, number: usize) {
        self.running[number].inbox.tell_waiting();
    }

    /// Tells all threads to drop their tasks and end. Idempotent, does not wait.
    pub fn stop(&self) {
        for thread in &self.running {
            // Dropping the sender is the signal.
            drop(lock(&thread.stop).take());
        }
    }

    /// Waits until the threads have ended. Call [`Threads::stop`] first.
    pub fn join(&self) {
        for thread in &self.running {
            if let Some(body) = lock(&thread.body).take() {
                // The thread itself has printed its panic; there is nothing to add here.
                let _ = body.join();
            }
        }
    }
}

impl Thread {
    fn start(name: String) -> Result<Self> {
        let failed =
            |error: std::io::Error| Code::Internal.error(format!("cannot start an engine thread: {error}"));
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (inbox, pulse, spent) = (Arc::new(Inbox::default()), Arc::new(Pulse::new()), Arc::default());
        let (tasks, beat, counted) = (Arc::clone(&inbox), Arc::clone(&pulse), Arc::clone(&spent));
        let (stop, stopped) = oneshot::channel::<()>();
        let body = std::thread::Builder::new()
            .name(name.clone())
            .spawn(move || {
                work::count_in(counted);
                inbox::open(&tasks);
                outbox::open();
                METRICS.set(Some(runtime.metrics()));
                runtime.block_on(async {
                    tokio::spawn(outbox::deliver());
                    tokio::select! {
                        // An error is the dropped sender, which is the signal.
                        _ = stopped => {}
                        () = tasks.serve() => {}
                        () = beat.tick() => {}
                    }
                });
                tasks.close();
                // A resolver call on the blocking pool may hang for long; it holds no resource of
                // the engine.
                runtime.shutdown_background();
                // The signals of tasks that were dropped.
                outbox::close();
            })
            .map_err(failed)?;
        Ok(Self { name, pulse, spent, inbox, stop: Mutex::new(Some(stop)), body: Mutex::new(Some(body)) })
    }
}

thread_local! {
    /// What the runtime of an engine thread counts.
    static METRICS: RefCell<Option<RuntimeMetrics>> = const { RefCell::new(None) };
}

/// How often this engine thread has waited for events; 0 on any other thread. Between two numbers it has heard from the
/// kernel what had happened to its connections.
pub(crate) fn turn() -> u64 {
    METRICS.with_borrow(|metrics| metrics.as_ref().map_or(0, |metrics| metrics.worker_park_count(0)))
}

/// From now on [`turn`] is that of `metrics`: of a simulation, which runs on a runtime of its own.
#[cfg(test)]
pub(crate) fn turn_by(metrics: RuntimeMetrics) {
    METRICS.set(Some(metrics));
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop();
    }
}
