//! The synchronisation primitives of the code that loom checks: the standard library's, or loom's under
//! `cfg(loom)`.

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
#[cfg(loom)]
pub use loom::sync::{Arc, Mutex, MutexGuard};
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
#[cfg(not(loom))]
pub use std::sync::{Arc, Mutex, MutexGuard};

/// Locks the mutex and ignores poisoning. Each critical section of this crate leaves its data whole at every
/// step that can panic, and a stream that panics must not end the pool of all others.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
