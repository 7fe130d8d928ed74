//! Runs a plan on threads of its own.

use std::cell::{Cell, OnceCell, RefCell};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{JoinSet, LocalSet};

use crate::catalogue::Catalogue;
use crate::connection::SCRATCH;
use crate::context::{Context, resolve};
use crate::events::Subscribed;
use crate::hls::Playing;
use crate::plan::{Plan, Sessions};
use crate::random::{Purpose, Random};
use crate::record::{Live, Recorder, Records, Second, count, read};
use crate::requests::serve;
use crate::session::{Session, unless};
use crate::shared::Playlists;
use crate::tokens::Completing;
use crate::url::Url;

/// How often the thread looks how late its timers are.
const PROBE: Duration = Duration::from_millis(10);

/// Counts of a run while it lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Sessions that began.
    pub started: u64,
    /// Sessions that ended.
    pub ended: u64,
    /// Arrivals for which there was no place.
    pub dropped: u64,
    /// Responses.
    pub requests: u64,
    /// Bytes of bodies.
    pub bytes: u64,
    /// Requests that failed.
    pub errors: u64,
}

/// A run.
#[derive(Debug)]
pub struct Run {
    live: Arc<Live>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<Records, String>>>,
}

impl Run {
    /// Starts the threads of a plan.
    ///
    /// # Errors
    /// A thread cannot be started, in words.
    pub fn start(plan: Plan) -> Result<Self, String> {
        let (live, stop) = (Arc::new(Live::default()), Arc::new(AtomicBool::new(false)));
        let plan = Arc::new(plan);
        let start = Instant::now();
        let mut threads = Vec::new();
        for thread in 0..plan.threads {
            let (plan, live, stop) = (Arc::clone(&plan), Arc::clone(&live), Arc::clone(&stop));
            let work = move || thread_main(thread, plan, live, &stop, start);
            let started = std::thread::Builder::new().name(format!("load-{thread}")).spawn(work);
            threads.push(started.map_err(|error| format!("a thread cannot be started: {error}"))?);
        }
        Ok(Self { live, stop, threads })
    }

    /// Counts so far.
    pub fn progress(&self) -> Progress {
        Progress {
            started: read(&self.live.started),
            ended: read(&self.live.ended),
            dropped: read(&self.live.dropped),
            requests: read(&self.live.requests),
            bytes: read(&self.live.bytes),
            errors: read(&self.live.errors),
        }
    }

    /// Whether all threads have ended.
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Has the run end within a tenth of a second. What was recorded is kept.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Waits for the end. One set of records for each thread.
    ///
    /// # Errors
    /// The target has no address, or a thread failed; in words.
    pub fn join(self) -> Result<Vec<Records>, String> {
        let found = self.threads.into_iter().map(JoinHandle::join);
        found
            .map(|records| records.unwrap_or_else(|_| Err("a thread of the generator panicked".into())))
            .collect()
    }
}

fn thread_main(
    thread: usize,
    plan: Arc<Plan>,
    live: Arc<Live>,
    stop: &AtomicBool,
    start: Instant,
) -> Result<Records, String> {
    // Sockets and timers are looked at after each turn of the set of sessions, which is up to 61 of them, and not after 61 turns:
    // with 19,500 sessions timers were 8 to 28 ms late at the 99th percentile by that.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().event_interval(1).build();
    let runtime = runtime.map_err(|error| format!("a thread of the generator cannot begin: {error}"))?;
    let target = Url::absolute(&plan.target)
        .ok_or_else(|| format!("{}: must be http://host:port or https://host:port", plan.target))?;
    let target_address = runtime.block_on(resolve(&target)).map_err(|failure| failure.to_string())?;
    let titles = plan.workloads.iter().map(|workload| workload.sessions.titles());
    let catalogues = titles.map(|(titles, alpha)| Catalogue::new(titles, alpha)).collect();
    let recorder = RefCell::new(Recorder::new(start));
    let context = Rc::new(Context {
        plan,
        start,
        target,
        target_address,
        live,
        recorder,
        catalogues,
        scratch: RefCell::new(vec![0; SCRATCH].into_boxed_slice()),
        playlists: Playlists::default(),
        tls: OnceCell::new(),
        is_over: Cell::new(false),
    });
    if context.target.is_secured {
        // A run that can verify no certificate does not begin.
        context.tls().map_err(|failure| failure.to_string())?;
    }
    let local = LocalSet::new();
    let dropped = local.block_on(&runtime, drive(Rc::clone(&context), thread, stop));
    drop(local);
    let cpu = clock_gettime(ClockId::ThreadCPUTime);
    #[expect(clippy::cast_precision_loss, reason = "seconds of a run")]
    let cpu = cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9;
    let wall = start.elapsed().as_secs_f64();
    let context = Rc::into_inner(context).ok_or("a session outlived its run")?;
    Ok(context.recorder.into_inner().finish(cpu, wall, dropped))
}

/// Sessions of this thread in the order of their arrivals: time, workload and index.
fn arrivals(plan: &Plan, thread: usize) -> Vec<(f64, usize, u64)> {
    let mut found = Vec::new();
    let threads = plan.threads as u64;
    for (at, workload) in plan.workloads.iter().enumerate() {
        let mut random = Random::new(plan.seed, at, Purpose::Arrivals);
        let times = workload.arrivals.times(plan.duration, &mut random);
        // Sessions are dealt to the processes, and those of a process to its threads.
        let is_here =
            |index: u64| index % plan.parts == plan.part && index / plan.parts % threads == thread as u64;
        let numbered = (0u64..).zip(times).filter(|(index, _)| is_here(*index));
        found.extend(numbered.map(|(index, time)| (time, at, index)));
    }
    found.sort_by(|left, right| left.0.total_cmp(&right.0));
    found
}

/// What a thread needs to start sessions.
struct Driver {
    context: Rc<Context>,
    /// Sessions that have begun and not ended.
    active: Rc<RefCell<u64>>,
    /// Told when a session has ended.
    ended: Rc<Notify>,
    /// True at the end of the run.
    over: watch::Receiver<bool>,
    /// Sessions of one request that have not ended.
    queued: Rc<RefCell<u64>>,
    /// The connections of those.
    workers: JoinSet<()>,
    /// Of each workload of requests, where its sessions wait.
    queues: Vec<Option<mpsc::UnboundedSender<Session>>>,
}

/// Starts the sessions of a thread at their times, and waits for their ends. Returns how many it had no place for.
async fn drive(context: Rc<Context>, thread: usize, stop: &AtomicBool) -> u64 {
    let (end, over) = watch::channel(false);
    let (active, ended) = (Rc::new(RefCell::new(0)), Rc::new(Notify::new()));
    let mut driver = Driver {
        context: Rc::clone(&context),
        active,
        queued: Rc::default(),
        ended,
        over,
        workers: JoinSet::new(),
        queues: Vec::new(),
    };
    driver.queues = (0..context.plan.workloads.len()).map(|at| driver.queue(at, thread)).collect();
    let most = (context.plan.max_sessions / context.plan.threads).max(1) as u64;
    let mut dropped = 0;
    let finish = context.start + Duration::from_secs_f64(context.plan.duration);
    let mut coming = arrivals(&context.plan, thread).into_iter().peekable();
    let (mut probe, mut second) = (context.start, 1);
    while !stop.load(Ordering::Relaxed) {
        let arrival = coming.peek().map(|(time, ..)| context.start + Duration::from_secs_f64(*time));
        let next = arrival.map_or(probe, |arrival| arrival.min(probe)).min(finish);
        tokio::time::sleep_until(next.into()).await;
        let now = Instant::now();
        context.recorder.borrow_mut().late(now.saturating_duration_since(next));
        if now >= context.start + Duration::from_secs(second) {
            second = 1 + (now - context.start).as_secs();
            driver.tick(now);
        }
        if now >= probe {
            probe = now + PROBE;
        }
        let is_done = coming.peek().is_none() && driver.sessions() == 0;
        if now >= finish || is_done {
            break;
        }
        while let Some((time, workload, index)) =
            coming.next_if(|(time, ..)| context.start + Duration::from_secs_f64(*time) <= now)
        {
            if driver.sessions() >= most {
                dropped += 1;
                count(&context.live.dropped, 1);
            } else {
                driver.begin(Session::new(&context, workload, index, time));
            }
        }
    }
    driver.tick(Instant::now());
    context.is_over.set(true);
    let _no_session_left = end.send(true);
    // Requests that wait or are under way are cut.
    driver.workers.shutdown().await;
    while *driver.active.borrow() > 0 {
        driver.ended.notified().await;
    }
    dropped
}

impl Driver {
    /// Starts the connections of a workload of requests.
    fn queue(&mut self, workload: usize, thread: usize) -> Option<mpsc::UnboundedSender<Session>> {
        let plan = &self.context.plan;
        let Sessions::Requests(requests) = &plan.workloads[workload].sessions else { return None };
        let (sender, receiver) = mpsc::unbounded_channel();
        let waiting = Rc::new(tokio::sync::Mutex::new(receiver));
        let extra = usize::from(thread < requests.connections % plan.threads);
        for _ in 0..(requests.connections / plan.threads + extra).max(1) {
            let work = serve(
                Rc::clone(&self.context),
                requests.clone(),
                Rc::clone(&waiting),
                Rc::clone(&self.queued),
            );
            self.workers.spawn_local(work);
        }
        Some(sender)
    }

    /// Starts a session.
    fn begin(&self, session: Session) {
        count(&self.context.live.started, 1);
        if let Some(queue) = &self.queues[session.workload] {
            *self.queued.borrow_mut() += 1;
            // The receiver lives as long as the queue.
            let _taken = queue.send(session);
            return;
        }
        *self.active.borrow_mut() += 1;
        let (context, mut over) = (Rc::clone(&self.context), self.over.clone());
        let (active, ended) = (Rc::clone(&self.active), Rc::clone(&self.ended));
        let mut session = session;
        tokio::task::spawn_local(async move {
            play(&context, &mut session, &mut over).await;
            session.record.lasted = session.seconds(Instant::now());
            context.recorder.borrow_mut().sessions.push(session.record);
            count(&context.live.ended, 1);
            drop(context);
            *active.borrow_mut() -= 1;
            ended.notify_one();
        });
    }

    /// Sessions that have begun and not ended.
    fn sessions(&self) -> u64 {
        *self.active.borrow() + *self.queued.borrow()
    }

    fn tick(&self, now: Instant) {
        let live = &self.context.live;
        let counts = Second {
            at: 0,
            active: self.sessions(),
            started: read(&live.started),
            requests: read(&live.requests),
            bytes: read(&live.bytes),
            errors: read(&live.errors),
        };
        self.context.recorder.borrow_mut().tick(now, counts);
    }
}

/// What a session does, until it ends or the run does. Futures are pinned where they are made: one that is handed on has
/// its place in each function that it passes, and sessions are many.
async fn play(context: &Rc<Context>, session: &mut Session, over: &mut watch::Receiver<bool>) {
    // A session that is cut has a record that says so from its beginning.
    match &context.plan.workloads[session.workload].sessions {
        Sessions::Hls(settings) => {
            let mut playing = Playing::new(context, settings, session);
            unless_over(context, over, pin!(playing.run(context))).await;
            playing.finish();
        }
        Sessions::Events(settings) => {
            let mut subscribed = Subscribed::new(context, settings, session);
            unless_over(context, over, pin!(subscribed.run(context))).await;
            subscribed.finish();
        }
        Sessions::Tokens(settings) => {
            let mut completing = Completing::new(context, settings, session);
            unless_over(context, over, pin!(completing.run(context))).await;
            completing.finish();
        }
        // They wait in a queue of their own.
        Sessions::Requests(_) => {}
    }
}

/// Does `work` until it ends, or the run does.
async fn unless_over(
    context: &Context,
    over: &mut watch::Receiver<bool>,
    work: Pin<&mut impl Future<Output = ()>>,
) {
    unless(work, pin!(over.wait_for(|over| *over)), || context.is_over.get()).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size<F>(
        _: impl FnOnce(&'static Rc<Context>, &'static mut Session, &'static mut watch::Receiver<bool>) -> F,
    ) -> usize {
        size_of::<F>()
    }

    #[test]
    fn the_task_of_a_session_is_small() {
        let (task, session) = (size(play), size_of::<Session>());
        // Of the 4 KiB that a session may take; the rest is its connection and what the allocator adds.
        assert!(task + session < 2850, "{task} + {session}");
    }
}
