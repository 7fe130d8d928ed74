//! The engine's threads: one tokio current-thread runtime each, so that a connection never moves to
//! another thread.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Wake, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle, RuntimeMetrics};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::error::{Code, Result};
use crate::sync::{Arc, Mutex, MutexGuard, lock};
use crate::sys::EventFd;
use crate::work::{self, Spent, Work};

/// A fixed set of running threads. Dropping it stops them without waiting.
#[derive(Debug)]
pub struct Threads {
    running: Vec<Thread>,
    next: AtomicUsize,
}

/// The state of one thread. The thread reports it once a second, busy or idle.
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
                INBOX.set(Some(Arc::clone(&tasks)));
                OUTBOX.set(Some(Outbox::default()));
                METRICS.set(Some(runtime.metrics()));
                runtime.block_on(async {
                    tokio::spawn(deliver());
                    tokio::select! {
                        // An error is the dropped sender, which is the signal.
                        _ = stopped => {}
                        () = tasks.serve() => {}
                        () = tick(&beat) => {}
                    }
                });
                tasks.close();
                // A resolver call on the blocking pool may hang for long; it holds no resource of
                // the engine.
                runtime.shutdown_background();
                // The signals of tasks that were dropped; no signal is put off from now on.
                if let Some(outbox) = OUTBOX.take() {
                    outbox.send();
                }
            })
            .map_err(failed)?;
        Ok(Self { name, pulse, spent, inbox, stop: Mutex::new(Some(stop)), body: Mutex::new(Some(body)) })
    }
}

/// The report of a thread, written at each turn. It is not the handle of its runtime, which would keep descriptors open
/// after the thread's end.
#[derive(Debug)]
struct Pulse {
    began: Instant,
    /// The last turn, in milliseconds since `began`.
    turned: AtomicU64,
    /// In nanoseconds.
    busy: AtomicU64,
    tasks: AtomicUsize,
}

impl Pulse {
    fn new() -> Self {
        let (turned, busy, tasks) = (AtomicU64::new(0), AtomicU64::new(0), AtomicUsize::new(0));
        Self { began: Instant::now(), turned, busy, tasks }
    }

    /// Called on the thread.
    fn beat(&self) {
        let metrics = Handle::current().metrics();
        let whole = |count: u128| u64::try_from(count).unwrap_or(u64::MAX);
        // Relaxed, as in `activity`: figures, which order nothing.
        self.busy.store(whole(metrics.worker_total_busy_duration(0).as_nanos()), Ordering::Relaxed);
        self.tasks.store(metrics.num_alive_tasks(), Ordering::Relaxed);
        self.turned.store(whole(self.began.elapsed().as_millis()), Ordering::Relaxed);
    }

    fn activity(&self) -> Activity {
        let turned = Duration::from_millis(self.turned.load(Ordering::Relaxed));
        Activity {
            silent: self.began.elapsed().saturating_sub(turned),
            busy: Duration::from_nanos(self.busy.load(Ordering::Relaxed)),
            tasks: self.tasks.load(Ordering::Relaxed),
        }
    }
}

/// Starts a task, on the thread that will run it.
type Start = Box<dyn FnOnce() + Send>;

/// The inbox of a thread: tasks that other threads have given to it, and its tasks that they have woken. Tokio's own
/// queue makes a system call for each task; here it is one for all tasks that come before the thread looks.
#[derive(Debug, Default)]
struct Inbox {
    tasks: Mutex<Tasks>,
    filled: Notify,
}

#[derive(Default)]
struct Tasks {
    waiting: Vec<Start>,
    woken: Vec<Waker>,
    /// The thread has been woken and has not looked yet.
    told: bool,
    closed: bool,
}

impl std::fmt::Debug for Tasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tasks")
            .field("waiting", &self.waiting.len())
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}

impl Inbox {
    fn put(&self, start: Start) {
        let mut tasks = lock(&self.tasks);
        if tasks.closed {
            return;
        }
        tasks.waiting.push(start);
        self.tell(tasks);
    }

    fn wake(&self, waker: Waker) {
        let mut tasks = lock(&self.tasks);
        if tasks.closed {
            drop(tasks);
            drop(waker);
            return;
        }
        tasks.woken.push(waker);
        self.tell(tasks);
    }

    fn tell(&self, mut tasks: MutexGuard<'_, Tasks>) {
        let told = std::mem::replace(&mut tasks.told, true);
        drop(tasks);
        if !told {
            self.filled.notify_one();
        }
    }

    /// Starts the tasks that are put in. Never ends.
    async fn serve(&self) {
        loop {
            self.filled.notified().await;
            let (waiting, woken) = {
                let mut tasks = lock(&self.tasks);
                tasks.told = false;
                (std::mem::take(&mut tasks.waiting), std::mem::take(&mut tasks.woken))
            };
            for start in waiting {
                start();
            }
            for waker in woken {
                waker.wake();
            }
        }
    }

    /// Drops the tasks in it, and the tasks that will be put in.
    fn close(&self) {
        let dropped = {
            let mut tasks = lock(&self.tasks);
            tasks.closed = true;
            (std::mem::take(&mut tasks.waiting), std::mem::take(&mut tasks.woken))
        };
        drop(dropped);
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

thread_local! {
    /// The inbox of an engine thread.
    static INBOX: RefCell<Option<Arc<Inbox>>> = const { RefCell::new(None) };
}

/// Wakes a task of an engine thread through its inbox.
struct Afar {
    inbox: Arc<Inbox>,
    waker: Waker,
}

impl Wake for Afar {
    fn wake(self: std::sync::Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &std::sync::Arc<Self>) {
        self.inbox.wake(self.waker.clone());
    }
}

/// The waker to give to another thread in place of `waker`, which wakes a task of the calling engine thread: many that
/// are woken before the thread looks cost one system call. Not on an engine thread, it is `waker` itself.
pub(crate) fn from_afar(waker: &Waker) -> Waker {
    match INBOX.with_borrow(Clone::clone) {
        Some(inbox) => Waker::from(std::sync::Arc::new(Afar { inbox, waker: waker.clone() })),
        None => waker.clone(),
    }
}

/// The event loops that an engine thread is about to wake.
#[derive(Default)]
struct Outbox {
    events: RefCell<Vec<Arc<EventFd>>>,
    filled: Arc<Notify>,
    /// Until when the thread keeps its core after it has woken an event loop.
    stays_until: Cell<Option<Instant>>,
}

/// The longest time for which the thread stands back. A burst of small handlers is shorter. If it took longer, another
/// process wants the core too, or a handler is slow, and a switch costs little beside it.
const LONG: Duration = Duration::from_millis(1);

/// How long the thread does not stand back after that, so that such waits are rare. Arbitrary.
const STAY: Duration = Duration::from_millis(100);

impl Outbox {
    fn send(&self) {
        let events = self.events.take();
        if events.is_empty() {
            return;
        }
        for event in events {
            event.signal();
        }
        self.stand_back();
    }

    /// Lets an event loop that was woken onto this core begin, and end its burst. While this thread is ready to run,
    /// neither the answers of the loop nor packets of clients wake it; asleep, each of them would wake it onto the loop's
    /// core.
    fn stand_back(&self) {
        let begun = Instant::now();
        if self.stays_until.get().is_some_and(|until| begun < until) {
            return;
        }
        std::thread::yield_now();
        if begun.elapsed() > LONG {
            self.stays_until.set(Some(begun + STAY));
        }
    }
}

thread_local! {
    /// The outbox of an engine thread.
    static OUTBOX: RefCell<Option<Outbox>> = const { RefCell::new(None) };
}

/// Signals `event`; on an engine thread not before the tasks that are ready have run. All their signals are then one
/// wake-up: an event loop on the same core would otherwise take the core after the first request of a burst, and handle
/// each request alone.
pub fn signal_soon(event: &Arc<EventFd>) {
    let later = OUTBOX.with_borrow(|outbox| {
        let Some(outbox) = outbox else { return false };
        outbox.events.borrow_mut().push(Arc::clone(event));
        outbox.filled.notify_one();
        true
    });
    if !later {
        event.signal();
    }
}

/// Sends the signals that were put off, after the tasks that were ready at the time of the first.
/// Never ends.
async fn deliver() {
    let Some(filled) = OUTBOX.with_borrow(|outbox| outbox.as_ref().map(|outbox| Arc::clone(&outbox.filled)))
    else {
        return;
    };
    loop {
        filled.notified().await;
        OUTBOX.with_borrow(|outbox| {
            if let Some(outbox) = outbox {
                outbox.send();
            }
        });
    }
}

/// How often an idle thread wakes. In seconds.
const TICK: Duration = Duration::from_secs(1);

/// Never ends. A timer that is due before all others makes tokio wake the thread it was set on, by an eventfd: two
/// system calls and a turn of the loop for each request, whose limits are mostly longer than this one.
async fn tick(pulse: &Pulse) {
    loop {
        pulse.beat();
        tokio::time::sleep(TICK).await;
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn tasks_run_on_the_thread_they_were_given_to() {
        let threads = Threads::start(2).unwrap();
        let (sender, receiver) = mpsc::channel();
        for number in 0..2 {
            let sender = sender.clone();
            threads.spawn(number, || async move {
                sender.send(std::thread::current().name().map(str::to_owned)).unwrap();
            });
            assert_eq!(receiver.recv().unwrap(), Some(format!("penstock-engine-{number}")));
        }
        assert_eq!([threads.pick(), threads.pick(), threads.pick()], [0, 1, 0]);
    }

    #[test]
    fn a_thread_that_hangs_is_seen_from_another() {
        let threads = Threads::start(2).unwrap();
        let (hangs, is_hanging) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        threads.spawn(1, || async move {
            hangs.send(()).unwrap();
            let _ = released.recv();
        });
        is_hanging.recv().unwrap();
        let end = Instant::now() + Duration::from_secs(30);
        // Twice the tick: a thread that turns is never silent for so long unless it gets no processor.
        while threads.activity()[1].silent < 2 * TICK {
            assert!(Instant::now() < end, "{:?}", threads.activity());
            std::thread::sleep(Duration::from_millis(20));
        }
        release.send(()).unwrap();
        // A hang counts as work. It began up to a tick after the last report.
        let is_over = |activity: &Activity| activity.silent <= TICK && activity.busy >= TICK;
        while !is_over(&threads.activity()[1]) {
            assert!(Instant::now() < end, "{:?}", threads.activity());
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(threads.activity()[0].tasks, 1, "what delivers signals");
    }

    #[test]
    fn a_task_is_woken_from_another_thread() {
        let threads = Threads::start(1).unwrap();
        let (sender, receiver) = mpsc::channel();
        let (done, is_done) = mpsc::channel();
        threads.spawn(0, move || async move {
            let mut polled = 0;
            std::future::poll_fn(|context| {
                polled += 1;
                sender.send(from_afar(context.waker())).unwrap();
                if polled == 3 { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
            })
            .await;
            done.send(()).unwrap();
        });
        receiver.recv().unwrap().wake_by_ref();
        receiver.recv().unwrap().wake();
        is_done.recv().unwrap();
        threads.stop();
        threads.join();
        // The receivers are gone, and nothing is kept for them.
        receiver.recv().unwrap().wake();
    }

    #[test]
    fn a_signal_waits_for_the_tasks_that_are_ready() {
        let threads = Threads::start(1).unwrap();
        let (sender, receiver) = mpsc::channel();
        threads.spawn(0, || async move {
            let event = Arc::new(EventFd::new().unwrap());
            signal_soon(&event);
            let before = event.is_readable();
            tokio::task::yield_now().await;
            sender.send((before, event.is_readable())).unwrap();
        });
        assert_eq!(receiver.recv().unwrap(), (false, true));
        threads.stop();
        threads.join();
    }

    #[test]
    fn a_signal_is_sent_also_by_a_thread_that_ends_and_by_any_other() {
        struct Signals(Arc<EventFd>);
        impl Drop for Signals {
            fn drop(&mut self) {
                signal_soon(&self.0);
            }
        }
        let threads = Threads::start(1).unwrap();
        let event = Arc::new(EventFd::new().unwrap());
        let (guard, (sender, receiver)) = (Signals(Arc::clone(&event)), mpsc::channel());
        threads.spawn(0, || async move {
            let _guard = guard;
            sender.send(()).unwrap();
            std::future::pending::<()>().await;
        });
        receiver.recv().unwrap();
        assert!(!event.is_readable());
        threads.stop();
        threads.join();
        assert!(event.is_readable());
        event.clear();
        signal_soon(&event);
        assert!(event.is_readable());
    }

    #[test]
    fn stopping_drops_the_tasks_that_run_and_those_that_come() {
        struct Dropped(mpsc::Sender<()>);
        impl Drop for Dropped {
            fn drop(&mut self) {
                self.0.send(()).unwrap();
            }
        }
        let threads = Threads::start(1).unwrap();
        let (sender, receiver) = mpsc::channel();
        for _ in 0..2 {
            let guard = Dropped(sender.clone());
            threads.spawn(0, || async move {
                let _guard = guard;
                std::future::pending::<()>().await;
            });
            threads.stop();
            threads.join();
            receiver.recv().unwrap();
        }
    }
}
