//! One session, from its arrival on.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::context::Context;
use crate::failure::Failure;
use crate::network::Link;
use crate::plan::{Share, Watch};
use crate::random::{Purpose, Random};
use crate::record::SessionRecord;
use crate::viewer::{Habits, Viewer};

/// One session.
pub(crate) struct Session {
    pub(crate) workload: usize,
    pub(crate) index: u64,
    /// When it was to arrive; its own time counts from here.
    pub(crate) due: Instant,
    pub(crate) title: usize,
    pub(crate) random: Random,
    pub(crate) record: SessionRecord,
}

impl Session {
    pub(crate) fn new(context: &Rc<Context>, workload: usize, index: u64, arrived: f64) -> Self {
        let mut random = Random::new(context.plan.seed, workload, Purpose::Session(index));
        let title = context.catalogues[workload].pick(&mut random);
        let record = SessionRecord {
            workload,
            index,
            title,
            arrived,
            lasted: 0.0,
            ended: "cut",
            cause: None,
            network: None,
            qoe: None,
            events: None,
            ribbon: Vec::new(),
        };
        let due = context.start + Duration::from_secs_f64(arrived);
        Self { workload, index, due, title, random, record }
    }

    /// When the viewer leaves, by a log-normal time after the arrival.
    pub(crate) fn leaves(&mut self, watch: Watch) -> Instant {
        let watched = watch.median * (watch.sigma * self.random.normal()).exp();
        // Beyond a year nothing runs.
        self.due + Duration::from_secs_f64(watched.min(365.0 * 86400.0))
    }

    /// The link of this session, if it has one of the networks.
    pub(crate) fn link(&mut self, seed: u64, networks: &[Share]) -> Option<Link> {
        if networks.is_empty() {
            return None;
        }
        let mut random = Random::new(seed, self.workload, Purpose::Network(self.index));
        let mut place = random.uniform();
        let at = networks.iter().position(|each| {
            place -= each.share;
            place < 0.0
        })?;
        self.record.network = Some(at);
        Some(Link::new(&networks[at].network, random))
    }

    /// The viewer of this session, if it does anything but watch.
    pub(crate) fn viewer(&self, seed: u64, habits: &Habits) -> Option<Box<Viewer>> {
        Viewer::new(habits, Random::new(seed, self.workload, Purpose::Viewer(self.index))).map(Box::new)
    }

    /// It has ended, as [`watched`] says.
    pub(crate) fn note_end(&mut self, ended: (&'static str, Option<String>)) {
        (self.record.ended, self.record.cause) = ended;
    }

    /// Seconds since the arrival.
    pub(crate) fn seconds(&self, at: Instant) -> f64 {
        at.saturating_duration_since(self.due).as_secs_f64()
    }
}

/// Does `work` until it ends, or the viewer leaves. How it has ended, and why it has failed if it has.
pub(crate) async fn watched(
    leaves: Instant,
    work: Pin<&mut impl Future<Output = Result<(), Failure>>>,
) -> (&'static str, Option<String>) {
    let timer = pin!(tokio::time::sleep_until(leaves.into()));
    match unless(work, timer, || Instant::now() >= leaves).await {
        Some(Ok(())) => ("completed", None),
        Some(Err(failure)) => ("failed", Some(failure.to_string())),
        None => ("left", None),
    }
}

/// Does `work` until it ends, or `end` does; `is_over` says whether that has come. To wait for the end is begun once, and not again
/// with all that comes: a task has the same waker as long as it lives.
pub(crate) fn unless<T, E>(
    mut work: Pin<&mut impl Future<Output = T>>,
    mut end: Pin<&mut impl Future<Output = E>>,
    is_over: impl Fn() -> bool,
) -> impl Future<Output = Option<T>> {
    let mut is_waiting = false;
    poll_fn(move |polled| {
        if let Poll::Ready(done) = work.as_mut().poll(polled) {
            return Poll::Ready(Some(done));
        }
        if is_waiting && !is_over() {
            return Poll::Pending;
        }
        is_waiting = true;
        end.as_mut().poll(polled).map(|_| None)
    })
}
