//! What workers are doing, and what has become of them and of the requests that were handed to them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Why a worker was started in the place of another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// That had ended by itself.
    Ended,
    /// Its event loop gave no sign.
    Hung,
    /// Its code was replaced.
    Reloaded,
}

/// What has been counted so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// Requests that were handed to a worker, once for each.
    pub exchanges: u64,
    /// Those of them that another worker had been handed before.
    pub repeats: u64,
    /// Requests that were answered with `WORKER_GONE`.
    pub refused: u64,
    /// Responses that were cut off, because the worker went that was writing them.
    pub cut_off: u64,
    /// Workers started in the place of others, by [`Restart`].
    pub ended: u64,
    /// As above.
    pub hung: u64,
    /// As above.
    pub reloaded: u64,
}

/// What the workers of a site are doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkersStats {
    /// The one whose workers take requests; 0 before there is one.
    pub generation: u32,
    /// Workers that take requests.
    pub current: usize,
    /// Workers of a generation that does not serve yet.
    pub coming: usize,
    /// Workers that take no more requests, and finish what they have.
    pub retired: usize,
    /// Requests that workers have.
    pub busy: usize,
    /// For how long a worker has owed a sign of its event loop: the one that has for longest.
    pub silent: Duration,
    /// As `silent`, of the one of those that take requests that has for shortest; zero if there is none.
    pub owed: Duration,
    /// How long the last sign took, or that which is owed has: of the fastest of those that take requests.
    pub lag: Duration,
    /// So far.
    pub counted: Counted,
}

/// Counters. Relaxed all of them: figures, which nothing is concluded from.
#[derive(Debug, Default)]
pub(super) struct Counts {
    exchanges: AtomicU64,
    repeats: AtomicU64,
    refused: AtomicU64,
    cut_off: AtomicU64,
    ended: AtomicU64,
    hung: AtomicU64,
    reloaded: AtomicU64,
}

impl Counts {
    pub(super) fn exchange(&self, is_repeated: bool) {
        add(&self.exchanges, 1);
        add(&self.repeats, u64::from(is_repeated));
    }

    pub(super) fn refused(&self) {
        add(&self.refused, 1);
    }

    pub(super) fn cut_off(&self) {
        add(&self.cut_off, 1);
    }

    pub(super) fn restarts(&self, restart: Restart, count: u64) {
        let counter = match restart {
            Restart::Ended => &self.ended,
            Restart::Hung => &self.hung,
            Restart::Reloaded => &self.reloaded,
        };
        add(counter, count);
    }

    pub(super) fn read(&self) -> Counted {
        Counted {
            exchanges: read(&self.exchanges),
            repeats: read(&self.repeats),
            refused: read(&self.refused),
            cut_off: read(&self.cut_off),
            ended: read(&self.ended),
            hung: read(&self.hung),
            reloaded: read(&self.reloaded),
        }
    }
}

fn add(counter: &AtomicU64, count: u64) {
    // Relaxed: a figure.
    counter.fetch_add(count, Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> u64 {
    // Relaxed: a figure.
    counter.load(Ordering::Relaxed)
}
