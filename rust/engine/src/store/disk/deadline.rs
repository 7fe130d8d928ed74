//! The deadline of a read, and whether a disk that has missed it is read at all.
//!
//! A disk that hangs blocks its threads, and all requests for responses on it. It counts as hanging from the time when
//! a read has waited for a free thread for the timeout, until any read ends. Meanwhile all responses on it are treated
//! as missing, except for one request now and then, which finds out whether it answers. If one file blocks one thread,
//! only that file is affected: the others are read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::sync::{Mutex, lock};

/// How long a disk that hangs is left alone before one request tries it. Arbitrary.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// The deadline of each read, and the state of the disk.
#[derive(Debug)]
pub(crate) struct Deadline {
    limit: Duration,
    /// While it hangs: from when on the next request may try it.
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

    /// Whether the caller may read now. While it hangs this is true for one caller, which must read at once.
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

    /// A read has ended.
    pub(crate) fn record_answer(&self) {
        *lock(&self.retry) = None;
    }

    /// A read has not ended in time; `is_hanging`: because of the disk, and not of one file.
    pub(crate) fn record_timeout(&self, is_hanging: bool) {
        // Relaxed: a count, which orders nothing.
        self.timeouts.fetch_add(1, Ordering::Relaxed);
        if is_hanging {
            *lock(&self.retry) = Some(Instant::now() + RETRY_PAUSE);
        }
    }

    /// The number of timeouts.
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
        assert!(!deadline.may_read(), "and no other request");
        deadline.record_answer();
        assert!(deadline.may_read() && deadline.may_read() && !deadline.is_hanging());
        assert_eq!(deadline.timeouts(), 2);
    }
}
