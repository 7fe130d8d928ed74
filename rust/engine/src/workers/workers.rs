//! The worker processes of a site, as the edge sees them.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc as Plain, Weak};
use std::task::Waker;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::counts::{Restart, WorkersStats};
use super::exchange;
use super::member::Member;
use super::message::Message;
use super::notice::Notice;
use super::shared::Shared;
use super::wire::Wire;
use crate::app::{Dispatcher, Processes, Queue};
use crate::codec::malformed;
use crate::edge::Supplies;
use crate::error::Code;
use crate::runtime::Threads;
use crate::sync::{Arc, lock};
use crate::work::{Work, worked};

/// How often a worker is asked for a sign of life. Arbitrary: a worker that hangs gets too many requests for half a
/// second, and two wake-ups a second cost nothing.
const ASK: Duration = Duration::from_millis(500);

/// Has worker processes answer the requests of a queue.
#[derive(Debug)]
struct ProcessDispatcher {
    bell: Notify,
    /// Weak, because the queue keeps the dispatcher, and `Shared` the queue.
    shared: Weak<Shared>,
}

impl Dispatcher for ProcessDispatcher {
    fn dispatch(&self) {
        self.bell.notify_one();
    }

    fn processes(&self) -> Option<Processes> {
        let stats = self.shared.upgrade().map(|shared| shared.stats()).unwrap_or_default();
        Some(Processes { current: stats.current, owed: stats.owed, lag: stats.lag })
    }

    fn is_in_process(&self) -> bool {
        false
    }
}

/// Sends requests to workers, on the threads of their clients, while a worker is connected.
async fn hand_on(shared: Arc<Shared>, dispatcher: Plain<ProcessDispatcher>) {
    let mut changes = shared.changes.subscribe();
    // Relaxed: told by `changes`.
    while !shared.is_closed.load(Ordering::Relaxed) {
        while shared.has_other(&[]) {
            let Some(request) = shared.queue.take() else { break };
            let called = Arc::clone(&shared);
            shared
                .threads
                .spawn(request.thread, move || worked(Work::Application, exchange::run(called, request)));
        }
        tokio::select! {
            () = dispatcher.bell.notified() => {}
            told = changes.changed() => if told.is_err() { return },
        }
    }
}

/// The worker processes of one site.
#[derive(Debug)]
pub struct Workers {
    shared: Arc<Shared>,
}

impl Workers {
    /// The workers that answer the requests of `queue`. There is no worker yet.
    pub fn new(supplies: Supplies, queue: &Queue, threads: &Arc<Threads>) -> Self {
        let shared = Arc::new(Shared::new(supplies, queue.clone(), Arc::clone(threads)));
        let dispatcher = ProcessDispatcher { bell: Notify::new(), shared: Arc::downgrade(&shared) };
        let dispatcher = Plain::new(dispatcher);
        queue.dispatch_by(Plain::<ProcessDispatcher>::clone(&dispatcher));
        let called = Arc::clone(&shared);
        threads.spawn(0, move || hand_on(called, dispatcher));
        Self { shared }
    }

    /// Connects to a worker that listens at `path`; the result is a notice. It gets requests while its generation serves.
    pub fn add(&self, number: u32, generation: u32, path: PathBuf) {
        let member = Arc::new(Member::new(number, generation, path, &self.shared.notices));
        lock(&self.shared.members).push(Arc::clone(&member));
        let shared = Arc::clone(&self.shared);
        self.shared.threads.spawn(0, move || serve_control(shared, member));
    }

    /// Sends requests to the workers of this generation from now on.
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

    /// Removes a worker that is gone.
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

    /// The number of requests that a worker has.
    pub fn busy(&self, number: u32) -> usize {
        let members = lock(&self.shared.members);
        // Relaxed: a figure.
        members
            .iter()
            .filter(|member| member.number == number)
            .map(|member| member.busy.load(Ordering::Relaxed))
            .sum()
    }

    /// Counts workers that were started in the place of others.
    pub fn restarted(&self, restart: Restart, count: u64) {
        self.shared.counts.restarts(restart, count);
    }

    /// A snapshot.
    pub fn stats(&self) -> WorkersStats {
        self.shared.stats()
    }

    /// Sets the waker that is woken when there are notices; `None` removes it.
    pub fn listen(&self, waker: Option<Waker>) {
        self.shared.notices.listen(waker);
    }

    /// Takes the notices.
    pub fn take_notices(&self) -> Vec<Notice> {
        self.shared.notices.take()
    }

    /// Drops all workers and notices.
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

/// Runs the control connection of a worker, until the worker is removed.
async fn serve_control(shared: Arc<Shared>, member: Arc<Member>) {
    let Some(wire) = reach(&shared, &member).await else { return };
    let read = wire.read(
        |message| {
            match message {
                Message::Pong => drop(lock(&member.control).sign.give()),
                Message::Heard(ticket) => member.heard(ticket),
                Message::Renew(number, time) => member.renew(number, time),
                Message::Call(number) => {
                    let thread = shared.threads.pick();
                    let (called, member) = (Arc::clone(&shared), Arc::clone(&member));
                    shared
                        .threads
                        .spawn(thread, move || exchange::serve_line(called, member, number, thread));
                }
                _ => return Err(malformed()),
            }
            Ok(None::<()>)
        },
        || {},
    );
    tokio::select! {
        biased;
        _ = read => {}
        never = wire.write_on() => never,
        () = ping(&shared, &member, &wire) => {}
    }
    member.leave();
    shared.changed();
    // The supervisor removes a worker whose process has ended. If the process lives, the worker hangs.
    let since = Instant::now();
    loop {
        sleep(ASK).await;
        if !lock(&shared.members).iter().any(|other| Arc::ptr_eq(other, &member)) {
            return;
        }
        shared.notices.put(Notice::Silent(member.number, since.elapsed()));
    }
}

/// Connects to a worker; `None` if that fails, or if the worker was removed meanwhile.
async fn reach(shared: &Shared, member: &Member) -> Option<Plain<Wire>> {
    let reached = UnixStream::connect(&member.path).await.map_err(|error| {
        Code::WorkerGone.error(format!("worker {} cannot be reached: {error}", member.number))
    });
    let socket = match reached {
        Ok(socket) => socket,
        Err(error) => {
            shared.notices.put(Notice::Reached(member.number, Err(error)));
            return None;
        }
    };
    let wire = Plain::new(Wire::new(socket));
    wire.send(&Message::Control);
    {
        let mut control = lock(&member.control);
        if control.is_gone {
            return None;
        }
        control.wire = Some(Plain::clone(&wire));
    }
    shared.changed();
    shared.notices.put(Notice::Reached(member.number, Ok(())));
    Some(wire)
}

/// Asks a worker for signs of life, and tells the supervisor when it owes one.
async fn ping(shared: &Shared, member: &Member, wire: &Wire) {
    loop {
        let owed = {
            let mut control = lock(&member.control);
            if control.sign.ask() {
                wire.send(&Message::Ping);
            }
            control.sign.owed()
        };
        if owed >= ASK {
            shared.notices.put(Notice::Silent(member.number, owed));
        }
        sleep(ASK).await;
    }
}
