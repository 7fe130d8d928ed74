//! An eventfd: how an engine thread tells an event loop that something is ready, in one system call per burst.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// A non-blocking, close-on-exec eventfd.
#[derive(Debug)]
pub struct EventFd(OwnedFd);

impl EventFd {
    /// Opens one with a count of zero.
    pub fn new() -> io::Result<Self> {
        // SAFETY: eventfd takes no pointers; the result is checked before it is used.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just returned this descriptor to us, and no other code knows it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Makes the descriptor readable. A count that is already at its limit is readable anyway.
    pub fn signal(&self) {
        let one = 1_u64.to_ne_bytes();
        // SAFETY: the pointer and length are those of a live local array.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Whether the descriptor is readable now.
    #[cfg(any(test, feature = "testing"))]
    pub fn is_readable(&self) -> bool {
        let mut poll = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one live pollfd is passed with a count of one.
        unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
    }

    /// Makes the descriptor unreadable again.
    pub fn clear(&self) {
        let mut count = [0_u8; 8];
        // SAFETY: the pointer and length are those of a live local array.
        unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }
}

impl AsRawFd for EventFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn two_signals_are_one_wake_up() {
        let event = EventFd::new().unwrap();
        assert!(!event.is_readable());
        event.signal();
        event.signal();
        assert!(event.is_readable());
        event.clear();
        assert!(!event.is_readable());
    }
}
