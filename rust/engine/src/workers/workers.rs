//! The worker processes, as the edge knows them: who is there, who is asked next, and what is told of them.

use std::cmp::Ordering as Order;
use std::collections::HashMap;
use std::io::ErrorKind::{ConnectionRefused, NotFound};
use std::path::PathBuf;
use std::sync::Arc as Plain;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};

use super::codec::malformed;
use super::counts::{Counts, Restart, WorkersStats};
use super::exchange;
use super::message::Message;
use super::notice::{Notice, Notices, Orphan};
use super::plan::Plans;
use super::wire::Wire;
use crate::app::{Far, Outcome, Queue, Sign};
use crate::edge::Supplies;
use crate::error::Code;
use crate::hub::Lease;
use crate::inspect::Report;
use crate::runtime::Threads;
use crate::stream::Stream;
use crate::sync::{Arc, Mutex, lock};

/// How often a worker is asked for a sign of life. Arbitrary: half a second is what a worker that hangs may get more than
/// its share for, and two wake-ups a second are nothing.
const ASK: Duration = Duration::from_millis(500);

/// From how long a silence on others are preferred. Arbitrary: longer than most handlers hold up their loop.
const SLOW: Duration = Duration::from_millis(100);

/// Until one that is there and cannot be reached is tried again. Arbitrary: long enough for it to accept some that wait.
const PAUSE: Duration = Duration::from_millis(50);

/// One worker process.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) number: u32,
    generation: u32,
    path: PathBuf,
    busy: AtomicUsize,
    retired: AtomicBool,
    home: Mutex<Home>,
    /// What it says how long it may go on of, by its own numbers.
    leases: Mutex<HashMap<u64, Lease>>,
    notices: Arc<Notices>,
}

/// What goes to a worker besides requests.
#[derive(Debug, Default)]
struct Home {
    /// None before the worker has been reached, and when it is gone.
    wire: Option<Plain<Wire>>,
    is_gone: bool,
    /// Of its event loop.
    sign: Sign,
    /// Ends that it has been told of, and has not said to have heard.
    untold: HashMap<u64, Orphan>,
}

/// A lease that its worker may renew, until this is dropped. It runs out by itself where the worker is gone.
#[derive(Debug)]
pub(super) struct Leased {
    member: Arc<Member>,
    number: u64,
    pub(super) lease: Lease,
}

impl Drop for Leased {
    fn drop(&mut self) {
        let lease = lock(&self.member.leases).remove(&self.number);
        drop(lease);
    }
}

/// A request that a worker has.
#[derive(Debug)]
pub(super) struct Busy(Arc<Member>);

impl Busy {
    pub(super) fn member(&self) -> &Arc<Member> {
        &self.0
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // Relaxed: a figure.
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Member {
    /// It has one request more, until what is returned is dropped.
    fn busy(self: &Arc<Self>) -> Busy {
        // Relaxed: a figure.
        self.busy.fetch_add(1, Ordering::Relaxed);
        Busy(Arc::clone(self))
    }

    /// What was attached for the worker has ended. `known` is a handle of what was fetched.
    pub(super) fn over(
        &self,
        ticket: u64,
        account: Option<Vec<u8>>,
        outcome: Outcome,
        known: Option<&Stream>,
        report: Option<Report>,
    ) {
        let body = known.and_then(Stream::ending).map(|ending| ending.body);
        let timings = known.and_then(Stream::head).map(|head| (head.timings, body, head.reused));
        let orphan = account.map(|account| Orphan { account, outcome: outcome.clone(), timings, report });
        let mut home = lock(&self.home);
        if let Some(wire) = home.wire.clone() {
            home.untold.extend(orphan.map(|orphan| (ticket, orphan)));
            wire.send(&Message::Over(ticket, outcome, body));
        } else if let Some(orphan) = orphan {
            drop(home);
            self.notices.put(Notice::Orphan(Box::new(orphan)));
        }
    }

    /// What was seen of something that the worker has had fetched. Nobody else is told where the worker is gone.
    pub(super) fn seen(&self, ticket: u64, report: Option<Report>) {
        if let Some(wire) = &lock(&self.home).wire {
            wire.send(&Message::Seen(ticket, report));
        }
    }

    /// A connection more; none where it is gone.
    pub(super) async fn connect(&self) -> Option<UnixStream> {
        loop {
            match UnixStream::connect(&self.path).await {
                Ok(socket) => return Some(socket),
                Err(error) if matches!(error.kind(), ConnectionRefused | NotFound) => return None,
                // As many as may wait there already do, or this process has too many descriptors.
                Err(_) if lock(&self.home).is_gone => return None,
                Err(_) => sleep(PAUSE).await,
            }
        }
    }

    /// Something may go on for `time`, and for as long as the worker says by `number`.
    pub(super) fn lend(self: &Arc<Self>, number: u64, time: Option<Duration>) -> Leased {
        let lease = Lease::new(time);
        let previous = lock(&self.leases).insert(number, lease.clone());
        drop(previous);
        Leased { member: Arc::clone(self), number, lease }
    }

    fn renew(&self, number: u64, time: Option<Duration>) {
        // What is not there any more is over.
        if let Some(lease) = lock(&self.leases).get(&number) {
            lease.renew(time);
        }
    }

    fn heard(&self, ticket: u64) {
        let orphan = lock(&self.home).untold.remove(&ticket);
        drop(orphan);
    }

    /// It is gone: what it has not heard of is for others.
    fn leave(&self) {
        let (wire, untold) = {
            let mut home = lock(&self.home);
            home.is_gone = true;
            (home.wire.take(), std::mem::take(&mut home.untold))
        };
        drop(wire);
        for (_, orphan) in untold {
            self.notices.put(Notice::Orphan(Box::new(orphan)));
        }
    }

    /// How it stands when somebody is to be chosen: slow ones last, then by how much they have.
    fn load(&self) -> (bool, usize) {
        let is_slow = lock(&self.home).sign.owed() > SLOW;
        // Relaxed: a figure.
        (is_slow, self.busy.load(Ordering::Relaxed))
    }

    fn is_there(&self) -> bool {
        // Relaxed: whoever retires a worker waits for what it has.
        !self.retired.load(Ordering::Relaxed) && lock(&self.home).wire.is_some()
    }
}

/// What the parts of the edge that serve workers share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) supplies: Supplies,
    pub(super) plans: Plans,
    pub(super) notices: Arc<Notices>,
    pub(super) counts: Counts,
    queue: Queue,
    threads: Arc<Threads>,
    members: Mutex<Vec<Arc<Member>>>,
    generation: AtomicU32,
    is_closed: AtomicBool,
    /// Counts changes of who is there.
    changes: watch::Sender<u64>,
}

impl Shared {
    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Who is asked next, but for those of the numbers `tried`.
    fn pick(&self, tried: &[u32]) -> Option<Arc<Member>> {
        // Relaxed: a switch is told by `changes`.
        let generation = self.generation.load(Ordering::Relaxed);
        let members = lock(&self.members);
        members
            .iter()
            .filter(|member| member.generation == generation && member.is_there())
            .filter(|member| !tried.contains(&member.number))
            .min_by_key(|member| member.load())
            .cloned()
    }

    /// Whether somebody is there who is none of `tried`.
    pub(super) fn has_other(&self, tried: &[u32]) -> bool {
        self.pick(tried).is_some()
    }

    /// A connection to who is asked next, as soon as somebody is there who is none of `tried`; none when it has taken too
    /// long, or `far` is lost.
    pub(super) async fn reach(&self, far: &Far, tried: &[u32]) -> Option<(Busy, UnixStream)> {
        let mut changes = self.changes.subscribe();
        let reach = async {
            while !far.is_lost() {
                let Some(busy) = self.pick(tried).map(|member| member.busy()) else {
                    changes.changed().await.ok()?;
                    continue;
                };
                match UnixStream::connect(&busy.member().path).await {
                    Ok(socket) => return Some((busy, socket)),
                    // Known here before it is where signs of life are asked for.
                    Err(error) if matches!(error.kind(), ConnectionRefused | NotFound) => {
                        busy.member().leave();
                        self.changed();
                    }
                    // As many as may wait there already do, or this process has too many descriptors.
                    Err(_) => sleep(PAUSE).await,
                }
            }
            None
        };
        match self.queue.limit() {
            None => reach.await,
            Some(limit) => timeout(limit, reach).await.ok().flatten(),
        }
    }

    /// Hands requests on, on the threads of their clients, as long as a worker is there.
    async fn dispatch(self: Arc<Self>, bell: Plain<Bell>) {
        let mut changes = self.changes.subscribe();
        // Relaxed: told by `changes`.
        while !self.is_closed.load(Ordering::Relaxed) {
            while self.has_other(&[]) {
                let Some(request) = self.queue.take() else { break };
                let shared = Arc::clone(&self);
                self.threads.spawn(request.thread, move || exchange::run(shared, request));
            }
            tokio::select! {
                () = bell.0.notified() => {}
                told = changes.changed() => if told.is_err() { return },
            }
        }
    }
}

/// Rings when requests wait.
#[derive(Debug, Default)]
struct Bell(Notify);

impl Wake for Bell {
    fn wake(self: Plain<Self>) {
        self.0.notify_one();
    }
}

/// The worker processes of one site.
#[derive(Debug)]
pub struct Workers {
    shared: Arc<Shared>,
}

impl Workers {
    /// Workers that answer the requests of `queue`. There are none yet.
    pub fn new(supplies: Supplies, queue: &Queue, threads: &Arc<Threads>) -> Self {
        let shared = Arc::new(Shared {
            supplies,
            plans: Plans::default(),
            notices: Arc::default(),
            counts: Counts::default(),
            queue: queue.clone(),
            threads: Arc::clone(threads),
            members: Mutex::default(),
            generation: AtomicU32::new(0),
            is_closed: AtomicBool::new(false),
            changes: watch::Sender::new(0),
        });
        let bell = Plain::new(Bell::default());
        queue.divert(&Waker::from(Plain::clone(&bell)));
        let dispatch = Arc::clone(&shared);
        threads.spawn(0, move || dispatch.dispatch(bell));
        Self { shared }
    }

    /// Reaches a worker that listens at `path`, and tells of it by a notice. It gets requests while its generation is the one that
    /// does.
    pub fn add(&self, number: u32, generation: u32, path: PathBuf) {
        let member = Arc::new(Member {
            number,
            generation,
            path,
            busy: AtomicUsize::new(0),
            retired: AtomicBool::new(false),
            home: Mutex::default(),
            leases: Mutex::default(),
            notices: Arc::clone(&self.shared.notices),
        });
        lock(&self.shared.members).push(Arc::clone(&member));
        let shared = Arc::clone(&self.shared);
        self.shared.threads.spawn(0, move || home(shared, member));
    }

    /// From now on requests go to the workers of this generation.
    pub fn switch(&self, generation: u32) {
        // Relaxed: told by `changes`.
        self.shared.generation.store(generation, Ordering::Relaxed);
        self.shared.changed();
    }

    /// Sends no more requests to a worker.
    pub fn retire(&self, number: u32) {
        for member in lock(&self.shared.members).iter().filter(|member| member.number == number) {
            // Relaxed: as in `is_there`.
            member.retired.store(true, Ordering::Relaxed);
        }
    }

    /// A worker is gone.
    pub fn remove(&self, number: u32) {
        let gone: Vec<_> = {
            let mut members = lock(&self.shared.members);
            let (gone, there) =
                std::mem::take(&mut *members).into_iter().partition(|member| member.number == number);
            *members = there;
            gone
        };
        for member in gone {
            member.leave();
        }
        self.shared.changed();
    }

    /// Requests that a worker has.
    pub fn busy(&self, number: u32) -> usize {
        let members = lock(&self.shared.members);
        // Relaxed: a figure.
        members
            .iter()
            .filter(|member| member.number == number)
            .map(|member| member.busy.load(Ordering::Relaxed))
            .sum()
    }

    /// Takes note that `count` workers were started in the place of others.
    pub fn restarted(&self, restart: Restart, count: u64) {
        self.shared.counts.restarts(restart, count);
    }

    /// Whether they answer the requests of `queue`.
    pub fn answer(&self, queue: &Queue) -> bool {
        self.shared.queue.is_same(queue)
    }

    /// What they are doing.
    pub fn stats(&self) -> WorkersStats {
        // Relaxed: a figure.
        let generation = self.shared.generation.load(Ordering::Relaxed);
        let mut stats =
            WorkersStats { generation, counted: self.shared.counts.read(), ..WorkersStats::default() };
        (stats.owed, stats.lag) = (Duration::MAX, Duration::MAX);
        for member in lock(&self.shared.members).iter() {
            // Relaxed: figures.
            stats.busy += member.busy.load(Ordering::Relaxed);
            let is_retired = member.retired.load(Ordering::Relaxed);
            let home = lock(&member.home);
            if home.wire.is_none() {
                continue;
            }
            stats.silent = stats.silent.max(home.sign.owed());
            match member.generation.cmp(&generation) {
                Order::Greater => stats.coming += 1,
                Order::Equal if !is_retired => {
                    stats.current += 1;
                    stats.owed = stats.owed.min(home.sign.owed());
                    stats.lag = stats.lag.min(home.sign.lag());
                }
                Order::Equal | Order::Less => stats.retired += 1,
            }
        }
        if stats.current == 0 {
            (stats.owed, stats.lag) = (Duration::ZERO, Duration::ZERO);
        }
        stats
    }

    /// Names who is woken when there is something to be told; none to be told no more.
    pub fn listen(&self, waker: Option<Waker>) {
        self.shared.notices.listen(waker);
    }

    /// What there is to be told.
    pub fn take_notices(&self) -> Vec<Notice> {
        self.shared.notices.take()
    }
}

impl Workers {
    /// Lets go of all workers; nothing is told any more.
    pub fn close(&self) {
        self.shared.notices.listen(None);
        // Relaxed: told by `changes`.
        self.shared.is_closed.store(true, Ordering::Relaxed);
        self.shared.changed();
        let members = std::mem::take(&mut *lock(&self.shared.members));
        for member in members {
            member.leave();
        }
        drop(self.shared.notices.take());
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.close();
    }
}

/// Asks a worker for signs of life, and tells it how things have ended, until it is gone.
async fn home(shared: Arc<Shared>, member: Arc<Member>) {
    let wire = match UnixStream::connect(&member.path).await {
        Ok(socket) => Plain::new(Wire::new(socket)),
        Err(error) => {
            let detail = format!("worker {} cannot be reached: {error}", member.number);
            let reached = Notice::Reached(member.number, Err(Code::WorkerGone.error(detail)));
            return shared.notices.put(reached);
        }
    };
    wire.send(&Message::Home);
    {
        let mut home = lock(&member.home);
        if home.is_gone {
            return;
        }
        home.wire = Some(Plain::clone(&wire));
    }
    shared.changed();
    shared.notices.put(Notice::Reached(member.number, Ok(())));
    let read = wire.read(
        |message| {
            match message {
                Message::Pong => drop(lock(&member.home).sign.give()),
                Message::Heard(ticket) => member.heard(ticket),
                Message::Renew(number, time) => member.renew(number, time),
                Message::Call(number) => {
                    let thread = shared.threads.pick();
                    let (called, member) = (Arc::clone(&shared), Arc::clone(&member));
                    shared.threads.spawn(thread, move || exchange::assist(called, member, number, thread));
                }
                _ => return Err(malformed()),
            }
            Ok(None::<()>)
        },
        || {},
    );
    let ask = async {
        loop {
            let owed = {
                let mut home = lock(&member.home);
                if home.sign.ask() {
                    wire.send(&Message::Ping);
                }
                home.sign.owed()
            };
            if owed >= ASK {
                shared.notices.put(Notice::Silent(member.number, owed));
            }
            sleep(ASK).await;
        }
    };
    tokio::select! {
        biased;
        _ = read => {}
        never = wire.write_on() => never,
        () = ask => {}
    }
    member.leave();
    shared.changed();
    // One that has ended is let go of by whoever looks after it. One that lives hangs, as far as anybody can tell.
    let since = Instant::now();
    loop {
        sleep(ASK).await;
        if !lock(&shared.members).iter().any(|other| Arc::ptr_eq(other, &member)) {
            return;
        }
        shared.notices.put(Notice::Silent(member.number, since.elapsed()));
    }
}
