//! What the edge's files about workers share: the plans, the notices, and the choice of the next worker.

use std::cmp::Ordering as Order;
use std::io::ErrorKind::{ConnectionRefused, NotFound};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::counts::{Counts, WorkersStats};
use super::member::{Busy, Member, PAUSE};
use super::notice::{Notice, Notices};
use super::plan::{Plan, Plans};
use crate::app::{Far, Queue};
use crate::edge::Supplies;
use crate::error::Result;
use crate::runtime::Threads;
use crate::sync::{Arc, Mutex, lock};

/// The shared state.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) supplies: Supplies,
    plans: Plans,
    pub(super) notices: Arc<Notices>,
    pub(super) counts: Counts,
    pub(super) queue: Queue,
    pub(super) threads: Arc<Threads>,
    pub(super) members: Mutex<Vec<Arc<Member>>>,
    pub(super) generation: AtomicU32,
    pub(super) is_closed: AtomicBool,
    /// Rises when a worker comes, goes or is preferred.
    pub(super) changes: watch::Sender<u64>,
}

impl Shared {
    /// The state of workers that answer the requests of `queue`. There is no worker yet.
    pub(super) fn new(supplies: Supplies, queue: Queue, threads: Arc<Threads>) -> Self {
        Self {
            supplies,
            plans: Plans::default(),
            notices: Arc::default(),
            counts: Counts::default(),
            queue,
            threads,
            members: Mutex::default(),
            generation: AtomicU32::new(0),
            is_closed: AtomicBool::new(false),
            changes: watch::Sender::new(0),
        }
    }

    /// The plan of `description`. The supervisor makes a new one.
    ///
    /// # Errors
    /// As [`Plans::get`].
    pub(super) async fn plan(&self, description: Vec<u8>) -> Result<Plan> {
        let order = |description, planned| self.notices.put(Notice::Plan(description, planned));
        self.plans.get(description, order).await
    }

    pub(super) fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// A snapshot.
    pub(super) fn stats(&self) -> WorkersStats {
        // Relaxed: a figure.
        let generation = self.generation.load(Ordering::Relaxed);
        let mut stats = WorkersStats { generation, counted: self.counts.read(), ..WorkersStats::default() };
        (stats.owed, stats.lag) = (Duration::MAX, Duration::MAX);
        for member in lock(&self.members).iter() {
            // Relaxed: figures.
            stats.busy += member.busy.load(Ordering::Relaxed);
            let is_retired = member.retired.load(Ordering::Relaxed);
            let control = lock(&member.control);
            if control.wire.is_none() {
                continue;
            }
            stats.silent = stats.silent.max(control.sign.owed());
            match member.generation.cmp(&generation) {
                Order::Greater => stats.coming += 1,
                Order::Equal if !is_retired => {
                    stats.current += 1;
                    stats.owed = stats.owed.min(control.sign.owed());
                    stats.lag = stats.lag.min(control.sign.lag());
                }
                Order::Equal | Order::Less => stats.retired += 1,
            }
        }
        if stats.current == 0 {
            (stats.owed, stats.lag) = (Duration::ZERO, Duration::ZERO);
        }
        stats
    }

    /// The next worker to ask, except the numbers in `tried`.
    pub(super) fn pick(&self, tried: &[u32]) -> Option<Arc<Member>> {
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

    /// Whether a worker is connected that is not in `tried`.
    pub(super) fn has_other(&self, tried: &[u32]) -> bool {
        self.pick(tried).is_some()
    }

    /// Connects to the next worker, except the numbers in `tried`, and waits until one is there; `None` if that takes
    /// too long, or `far` is lost.
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
                    // This is noticed here before the control connection ends.
                    Err(error) if matches!(error.kind(), ConnectionRefused | NotFound) => {
                        busy.member().leave();
                        self.changed();
                    }
                    // The worker's backlog is full, or this process has too many descriptors.
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
}
