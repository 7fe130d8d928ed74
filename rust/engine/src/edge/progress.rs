//! What the parts of one exchange tell each other. One task polls them all, so the order of these flags is the order
//! of the program; they are atomics because a task may be made on another thread.

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};

/// How far an exchange has come.
#[derive(Debug, Default)]
pub(super) struct Progress {
    status: AtomicU16,
    payload: AtomicU64,
    left: AtomicBool,
    stopped: AtomicBool,
    close: AtomicBool,
    torn: AtomicBool,
    visible: AtomicBool,
}

impl Progress {
    /// The status of the response whose head was begun to be sent.
    pub(super) fn status(&self) -> Option<u16> {
        Some(self.status.load(Ordering::Relaxed)).filter(|status| *status != 0)
    }

    pub(super) fn begin(&self, status: u16) {
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
