//! Counts of worker processes, and of the requests that they were given.

use std::time::Duration;

/// Why a worker was started in the place of another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// The process had ended by itself.
    Ended,
    /// Its event loop hung.
    Hung,
    /// Its code was replaced.
    Reloaded,
}

penstock_memory::counts! {
    /// What has been counted so far.
    pub struct Counted from Counts {
        /// Requests that were given to a worker, once for each.
        exchanges,
        /// Of `exchanges`, requests that another worker had been given before.
        repeats,
        /// Requests that were answered with `WORKER_GONE`.
        refused,
        /// Responses that were cut off, because their worker had gone.
        cut_off,
        /// Workers started in the place of others that had ended by themselves.
        ended,
        /// Workers started in the place of others whose event loops hung.
        hung,
        /// Workers started in the place of others because the code was replaced.
        reloaded,
    }
}

/// What the workers of a site are doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkersStats {
    /// The generation whose workers take requests; 0 before there is one.
    pub generation: u32,
    /// Workers that take requests.
    pub current: usize,
    /// Workers of a generation that does not serve yet.
    pub coming: usize,
    /// Workers that take no more requests, and finish what they have.
    pub retired: usize,
    /// Requests that workers have.
    pub busy: usize,
    /// The longest time for which a worker has owed a sign of its event loop.
    pub silent: Duration,
    /// The shortest such time of the workers that take requests; zero if there is no such worker.
    pub owed: Duration,
    /// The time that the last sign took, or for which it is owed: of the fastest of the workers that take requests.
    pub lag: Duration,
    /// The counts so far.
    pub counted: Counted,
}

impl Counts {
    pub(super) fn exchange(&self, is_repeated: bool) {
        self.exchanges.add(1);
        self.repeats.add(u64::from(is_repeated));
    }

    pub(super) fn restarts(&self, restart: Restart, count: u64) {
        let counter = match restart {
            Restart::Ended => &self.ended,
            Restart::Hung => &self.hung,
            Restart::Reloaded => &self.reloaded,
        };
        counter.add(count);
    }
}
