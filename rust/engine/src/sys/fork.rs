//! How a pool knows that it is looking at its parent's memory: a counter that every fork raises in the child.
//!
//! Asking `getpid` at each allocation would cost a system call; this is one load.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

static GENERATION: AtomicU32 = AtomicU32::new(0);

extern "C" fn in_child() {
    // Relaxed: the child has one thread at this point, and later threads of it are ordered by their creation.
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// The number of forks between this process and the one that first asked.
pub(crate) fn generation() -> u32 {
    // Relaxed: see `in_child`.
    GENERATION.load(Ordering::Relaxed)
}

/// Begins to count. Called once by whoever owns memory that must not be used after a fork.
pub(crate) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        #[cfg(not(any(miri, loom)))]
        // SAFETY: the handler is a plain function that only raises an atomic, which is async-signal-safe.
        unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
        }
        #[cfg(any(miri, loom))]
        let _ = in_child as extern "C" fn();
    });
}
