//! Spans that wait for a collector. There is a bound to their bytes, those on their way included; what comes above it is
//! dropped and counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Spans, as they are written in a request to a collector.
#[derive(Debug, Default)]
pub struct Batch {
    /// Their bytes, for [`crate::request`].
    pub spans: Vec<u8>,
    /// How many there are.
    pub count: u64,
}

#[derive(Debug)]
pub(crate) struct Buffer {
    most: usize,
    held: Mutex<Held>,
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Held {
    batch: Batch,
    /// Bytes of the batch that was taken last.
    taken: usize,
}

impl Buffer {
    /// One of at most so many bytes.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, held: Mutex::default(), dropped: AtomicU64::new(0) }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // What is behind the lock is whole between any two statements.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends the bytes of `count` spans, or drops them.
    pub(crate) fn put(&self, spans: &[u8], count: u64) {
        {
            let mut held = self.held();
            if held.batch.spans.len() + held.taken + spans.len() <= self.most {
                held.batch.spans.extend_from_slice(spans);
                held.batch.count += count;
                return;
            }
        }
        self.drop(count);
    }

    /// So many spans are lost.
    pub(crate) fn drop(&self, count: u64) {
        // Relaxed: a count.
        self.dropped.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn dropped(&self) -> u64 {
        // Relaxed: a count.
        self.dropped.load(Ordering::Relaxed)
    }

    /// All that is there. Its bytes go on counting until the next call.
    pub(crate) fn take(&self) -> Batch {
        let mut held = self.held();
        let batch = std::mem::take(&mut held.batch);
        held.taken = batch.spans.len();
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_is_dropped_and_counted() {
        let buffer = Buffer::new(10);
        buffer.put(&[1; 6], 2);
        buffer.put(&[2; 5], 3);
        buffer.put(&[3; 4], 1);
        assert_eq!(buffer.dropped(), 3);
        let batch = buffer.take();
        assert_eq!((batch.spans, batch.count), (vec![1, 1, 1, 1, 1, 1, 3, 3, 3, 3], 3));
        buffer.put(&[4], 1);
        assert_eq!(buffer.dropped(), 4, "what is on its way counts");
        assert_eq!(buffer.take().count, 0);
        buffer.put(&[5; 10], 1);
        assert_eq!((buffer.take().count, buffer.dropped()), (1, 4));
    }
}
