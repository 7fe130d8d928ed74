//! One worker process, as the edge sees it: whether it is connected, its requests, and what it is
//! told.

use std::collections::HashMap;
use std::io::ErrorKind::{ConnectionRefused, NotFound};
use std::path::PathBuf;
use std::sync::Arc as Plain;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::time::sleep;

use super::message::Message;
use super::notice::{Notice, Notices, Orphan};
use super::wire::Wire;
use crate::app::{Outcome, Sign};
use crate::hub::Lease;
use crate::inspect::Report;
use crate::stream::Stream;
use crate::sync::{Arc, Mutex, lock};

/// After this silence of its event loop, other workers are preferred. Arbitrary: longer than most handlers
/// block their loop.
const SLOW: Duration = Duration::from_millis(100);

/// The pause before a worker that could not be connected to is tried again. Arbitrary: long enough for it to accept some
/// connections that wait.
pub(super) const PAUSE: Duration = Duration::from_millis(50);

/// One worker process.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) number: u32,
    pub(super) generation: u32,
    pub(super) path: PathBuf,
    pub(super) busy: AtomicUsize,
    pub(super) retired: AtomicBool,
    pub(super) control: Mutex<Control>,
    /// Leases that it renews, by its own numbers.
    leases: Mutex<HashMap<u64, Lease>>,
    notices: Arc<Notices>,
}

/// The control connection of a worker.
#[derive(Debug, Default)]
pub(super) struct Control {
    /// `None` before the worker has been connected to, and after it is gone.
    pub(super) wire: Option<Plain<Wire>>,
    pub(super) is_gone: bool,
    /// The signs of its event loop.
    pub(super) sign: Sign,
    /// Ends that it was told of and has not confirmed.
    untold: HashMap<u64, Orphan>,
}

/// A lease that its worker may renew, until this is dropped. It expires by itself if the worker is gone.
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
    /// The worker of that number, which listens at `path`. It is not connected to yet.
    pub(super) fn new(number: u32, generation: u32, path: PathBuf, notices: &Arc<Notices>) -> Self {
        Self {
            number,
            generation,
            path,
            busy: AtomicUsize::new(0),
            retired: AtomicBool::new(false),
            control: Mutex::default(),
            leases: Mutex::default(),
            notices: Arc::clone(notices),
        }
    }

    /// Counts a request that it has, until the guard is dropped.
    pub(super) fn busy(self: &Arc<Self>) -> Busy {
        // Relaxed: a figure.
        self.busy.fetch_add(1, Ordering::Relaxed);
        Busy(Arc::clone(self))
    }

    /// Tells the worker that what it attached has ended. `known` is the stream of it.
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
        let mut control = lock(&self.control);
        if let Some(wire) = control.wire.clone() {
            control.untold.extend(orphan.map(|orphan| (ticket, orphan)));
            wire.send(&Message::Over(ticket, outcome, body));
        } else if let Some(orphan) = orphan {
            drop(control);
            self.notices.put(Notice::Orphan(Box::new(orphan)));
        }
    }

    /// Tells the worker what an inspection saw. If the worker is gone, nothing is told.
    pub(super) fn seen(&self, ticket: u64, report: Option<Report>) {
        if let Some(wire) = &lock(&self.control).wire {
            wire.send(&Message::Seen(ticket, report));
        }
    }

    /// Opens a connection; `None` if the worker is gone.
    pub(super) async fn connect(&self) -> Option<UnixStream> {
        loop {
            match UnixStream::connect(&self.path).await {
                Ok(socket) => return Some(socket),
                Err(error) if matches!(error.kind(), ConnectionRefused | NotFound) => return None,
                // The worker's backlog is full, or this process has too many descriptors.
                Err(_) if lock(&self.control).is_gone => return None,
                Err(_) => sleep(PAUSE).await,
            }
        }
    }

    /// A lease for `time`, which the worker renews by `number`.
    pub(super) fn lend(self: &Arc<Self>, number: u64, time: Option<Duration>) -> Leased {
        let lease = Lease::new(time);
        let previous = lock(&self.leases).insert(number, lease.clone());
        drop(previous);
        Leased { member: Arc::clone(self), number, lease }
    }

    pub(super) fn renew(&self, number: u64, time: Option<Duration>) {
        // A lease that is not there has ended.
        if let Some(lease) = lock(&self.leases).get(&number) {
            lease.renew(time);
        }
    }

    pub(super) fn heard(&self, ticket: u64) {
        let orphan = lock(&self.control).untold.remove(&ticket);
        drop(orphan);
    }

    /// It is gone: ends that it has not confirmed are told to the supervisor.
    pub(super) fn leave(&self) {
        let (wire, untold) = {
            let mut control = lock(&self.control);
            control.is_gone = true;
            (control.wire.take(), std::mem::take(&mut control.untold))
        };
        drop(wire);
        for (_, orphan) in untold {
            self.notices.put(Notice::Orphan(Box::new(orphan)));
        }
    }

    /// The order in which workers are chosen: slow ones last, then by the number of requests.
    pub(super) fn load(&self) -> (bool, usize) {
        let is_slow = lock(&self.control).sign.owed() > SLOW;
        // Relaxed: a figure.
        (is_slow, self.busy.load(Ordering::Relaxed))
    }

    pub(super) fn is_there(&self) -> bool {
        // Relaxed: the supervisor waits until a retired worker has no requests.
        !self.retired.load(Ordering::Relaxed) && lock(&self.control).wire.is_some()
    }
}
