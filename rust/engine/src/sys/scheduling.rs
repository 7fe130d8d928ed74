//! How the kernel schedules a thread against the others of its core.

use std::io;

/// A scheduling policy (sched(7)); both are open to every user and share the core fairly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// A thread that wakes may take the core from the one that runs.
    Other = libc::SCHED_OTHER as isize,
    /// A thread that wakes waits until the one that runs has paused or used up its slice.
    Batch = libc::SCHED_BATCH as isize,
}

/// Sets the policy of the calling thread, and of the threads and processes that it starts from then on.
pub(crate) fn set_policy(policy: Policy) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: 0 is the calling thread, and the pointer is that of a live local.
    match unsafe { libc::sched_setscheduler(0, policy as libc::c_int, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The policy of the calling thread, as sched(7) numbers it.
pub(crate) fn policy() -> libc::c_int {
    // SAFETY: no pointers are passed.
    unsafe { libc::sched_getscheduler(0) }
}

/// Calls `work` with the policy that threads have by default. If that is refused, with the policy as it is.
pub(crate) fn with_default<T>(work: impl FnOnce() -> T) -> T {
    let changed = policy() == libc::SCHED_BATCH && set_policy(Policy::Other).is_ok();
    let result = work();
    if changed {
        // What was allowed when the thread began is allowed now.
        let _ = set_policy(Policy::Batch);
    }
    result
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn only_the_calling_thread_changes() {
        let before = policy();
        std::thread::spawn(|| {
            set_policy(Policy::Batch).unwrap();
            assert_eq!(policy(), libc::SCHED_BATCH);
            set_policy(Policy::Other).unwrap();
            assert_eq!(policy(), libc::SCHED_OTHER);
            set_policy(Policy::Batch).unwrap();
        })
        .join()
        .unwrap();
        assert_eq!(policy(), before);
    }
}
