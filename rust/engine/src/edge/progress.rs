//! What the parts of one exchange tell each other. One task polls them all, so the order of these flags is the order
//! of the program; they are atomics because a task may be made on another thread.

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::tally::{End, Tally};
use crate::error::Error;
use crate::sync::Arc;

/// How far an exchange has come.
#[derive(Debug)]
pub(super) struct Progress {
    tally: Arc<Tally>,
    began: Instant,
    status: AtomicU16,
    /// From then to the head, in nanoseconds.
    first_byte: AtomicU64,
    payload: AtomicU64,
    left: AtomicBool,
    stopped: AtomicBool,
    close: AtomicBool,
    torn: AtomicBool,
    visible: AtomicBool,
}

impl Progress {
    /// Of one that begins now.
    pub(super) fn new(tally: Arc<Tally>) -> Self {
        tally.begin();
        Self {
            tally,
            began: Instant::now(),
            status: AtomicU16::new(0),
            first_byte: AtomicU64::new(0),
            payload: AtomicU64::new(0),
            left: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            close: AtomicBool::new(false),
            torn: AtomicBool::new(false),
            visible: AtomicBool::new(false),
        }
    }

    /// How long it has taken so far.
    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// It is over after `duration`, with what the client got.
    pub(super) fn end(&self, status: u16, error: Option<&Error>, received: u64, duration: Duration) {
        let first_byte = self.status().map(|_| Duration::from_nanos(self.first_byte.load(Ordering::Relaxed)));
        self.tally.end(&End { status, error, received, first_byte, duration });
    }

    /// The kernel took so many bytes of the response.
    pub(super) fn sent(&self, bytes: usize) {
        if bytes > 0 {
            self.tally.sent(bytes);
        }
    }

    /// The status of the response whose head was begun to be sent.
    pub(super) fn status(&self) -> Option<u16> {
        Some(self.status.load(Ordering::Relaxed)).filter(|status| *status != 0)
    }

    /// The head of a response of this status is about to be sent; 0 if it is not after all.
    pub(super) fn begin(&self, status: u16) {
        if self.status().is_none() {
            let elapsed = u64::try_from(self.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.first_byte.store(elapsed, Ordering::Relaxed);
        }
        self.status.store(status, Ordering::Relaxed);
    }

    /// Bytes of its body that were taken to be sent.
    pub(super) fn payload(&self) -> u64 {
        self.payload.load(Ordering::Relaxed)
    }

    pub(super) fn set_payload(&self, bytes: u64) {
        self.payload.store(bytes, Ordering::Relaxed);
    }

    /// Whether the client has left, or what it sends can be read no further.
    pub(super) fn has_left(&self) -> bool {
        self.left.load(Ordering::Relaxed)
    }

    pub(super) fn leave(&self) {
        self.left.store(true, Ordering::Relaxed);
    }

    /// Whether everything is to end at once.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether the client may have half of something, such as an interim response: what is sent behind it would be read as
    /// the other half.
    pub(super) fn is_torn(&self) -> bool {
        self.torn.load(Ordering::Relaxed)
    }

    pub(super) fn tear(&self, torn: bool) {
        self.torn.store(torn, Ordering::Relaxed);
    }

    /// Whether the client sees by the framing that what it has of a response that failed is not the whole, and the connection
    /// need not be reset: that could overtake what was sent before, such as the last events of a stream.
    pub(super) fn ends_visibly(&self) -> bool {
        self.visible.load(Ordering::Relaxed)
    }

    pub(super) fn end_visibly(&self) {
        self.visible.store(true, Ordering::Relaxed);
    }

    /// Whether the connection ends with this response, which says so.
    pub(super) fn closes(&self) -> bool {
        self.close.load(Ordering::Relaxed)
    }

    pub(super) fn close(&self, close: bool) {
        self.close.store(close, Ordering::Relaxed);
    }
}
