//! How long whoever waits for a reading of the disk waits, and whether a disk that has kept one waiting for longer is asked
//! at all.
//!
//! A disk that hangs keeps its threads, and would keep everybody who asks for what is on it. It counts as hanging from when
//! a reading has waited that long for a thread, all of which are kept, until any reading ends; meanwhile it is as if nothing
//! were on it, but for one request at a time, now and then, which finds out whether it answers. One file that keeps one
//! thread is that file's fault alone: the others are read on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::sync::{Mutex, lock};

/// How long a disk that hangs is left alone before one request asks it again. Arbitrary.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// The deadline of each reading, and what came of it.
#[derive(Debug)]
pub(crate) struct Deadline {
    limit: Duration,
    /// From when on one may ask again, while it hangs.
    retry: Mutex<Option<Instant>>,
    timeouts: AtomicU64,
}

impl Deadline {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, retry: Mutex::new(None), timeouts: AtomicU64::new(0) }
    }

    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// Whether something may be read. While it hangs that is for one to find out, who is to ask at once.
    pub(crate) fn may_read(&self) -> bool {
        let mut retry = lock(&self.retry);
        match *retry {
            None => true,
            Some(from) if Instant::now() < from => false,
            Some(_) => {
                *retry = Some(Instant::now() + self.limit + RETRY_PAUSE);
                true
            }
        }
    }

    /// A reading has ended.
    pub(crate) fn record_answer(&self) {
        *lock(&self.retry) = None;
    }

    /// Somebody has waited for as long as may be, and the disk hangs or only a file does.
    pub(crate) fn record_timeout(&self, is_hanging: bool) {
        // Relaxed: a count, which orders nothing.
        self.timeouts.fetch_add(1, Ordering::Relaxed);
        if is_hanging {
            *lock(&self.retry) = Some(Instant::now() + RETRY_PAUSE);
        }
    }

    /// How often.
    pub(crate) fn timeouts(&self) -> u64 {
        self.timeouts.load(Ordering::Relaxed)
    }

    pub(crate) fn is_hanging(&self) -> bool {
        lock(&self.retry).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_hangs_is_asked_by_one_now_and_then_and_by_all_once_it_answers() {
        let deadline = Deadline::new(Duration::from_secs(3600));
        assert!(deadline.may_read() && !deadline.is_hanging());
        deadline.record_timeout(false);
        assert!(!deadline.is_hanging() && deadline.may_read(), "a file");
        deadline.record_timeout(true);
        assert!(deadline.is_hanging() && !deadline.may_read());
        *lock(&deadline.retry) = Some(Instant::now());
        assert!(deadline.may_read(), "one");
        assert!(!deadline.may_read(), "and nobody else");
        deadline.record_answer();
        assert!(deadline.may_read() && deadline.may_read() && !deadline.is_hanging());
        assert_eq!(deadline.timeouts(), 2);
    }
}
