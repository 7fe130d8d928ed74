//! What a fork changes in the child. First, it raises a counter, from which a pool knows that it is in a child. `getpid` at
//! each allocation would be a system call; this is one load. Second, it closes the descriptors that only the parent may
//! have: a lock on a file lasts while any process has this opening of the file, so a child that outlives its parent would
//! keep the lock.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Descriptors that a child does not keep, each with the descriptor that replaces it: the child's copy of the owner closes
/// the number once more. -1 marks a free entry. The length is arbitrary, and more than a process needs.
static OWN: [(AtomicI32, AtomicI32); 64] = [const { (AtomicI32::new(-1), AtomicI32::new(-1)) }; 64];

extern "C" fn in_child() {
    // Relaxed: the child has one thread at this point, and later threads of it are ordered by their creation.
    GENERATION.fetch_add(1, Ordering::Relaxed);
    for (own, nothing) in &OWN {
        // Acquire: with the Release of `Own::new`. Another thread of the parent may have written the entry at the
        // moment of the fork.
        let number = own.swap(-1, Ordering::Acquire);
        if number >= 0 {
            // SAFETY: both are open: an `Own` that was not dropped holds the second, and its owner the first. The call is
            // async-signal-safe.
            unsafe { libc::dup3(nothing.load(Ordering::Relaxed), number, libc::O_CLOEXEC) };
        }
    }
}

/// Keeps a file from being open in children of this process. To be dropped before the file is.
#[derive(Debug)]
pub struct Own {
    place: &'static (AtomicI32, AtomicI32),
    _nothing: File,
}

impl Own {
    /// # Errors
    /// All entries are in use, or the process has no free descriptor.
    pub fn new(file: &File) -> io::Result<Self> {
        watch();
        let nothing = File::open("/dev/null")?;
        let number = nothing.as_raw_fd();
        let take = |(_, place): &&(AtomicI32, AtomicI32)| {
            // Acquire: with the Release of the drop.
            place.compare_exchange(-1, number, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        let place = OWN.iter().find(take);
        let place = place.ok_or_else(|| io::Error::other("too many files of this process alone"))?;
        // Release: with the Acquire of `in_child`.
        place.0.store(file.as_raw_fd(), Ordering::Release);
        Ok(Self { place, _nothing: nothing })
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.place.0.store(-1, Ordering::Relaxed);
        // Release: with the compare_exchange of `Own::new`: no thread takes the entry before the store
        // above.
        self.place.1.store(-1, Ordering::Release);
    }
}

/// The number of forks between this process and the one that first asked.
pub fn generation() -> u32 {
    // Relaxed: see `in_child`.
    GENERATION.load(Ordering::Relaxed)
}

/// Begins to count forks. The owner of memory that must not be used after a fork calls it.
pub fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        #[cfg(not(any(miri, loom)))]
        // SAFETY: the handler is a plain function that does only what is async-signal-safe.
        unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
        }
        #[cfg(any(miri, loom))]
        let _ = in_child as extern "C" fn();
    });
}
