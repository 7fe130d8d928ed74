//! Bytes that the kernel moves from one socket to another by way of a pipe (splice(2)): it passes pages on, and copies nothing.
//!
//! The copies into a slab and out of it are a fifth of what a relay of 512 KiB or 2 MiB costs (decision 077). A pipe is in use from a
//! read to the write of the same bytes; that is long only where the socket of the client is full.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, splice};

use crate::sync::{Arc, Mutex, lock};

/// Bytes that one call moves at most: what one TCP segment carries over loopback. A kernel that paces (BBR) sends one segment at
/// once, and each further one when a timer expires. With calls of 256 KiB a body of 2 MiB took 560 us, and 16 clients got 1100 a
/// second; with this 400, and 1450.
const MOST_BYTES: usize = 65_483;

/// Pipes at a time: 4 MiB of the kernel's memory, and 128 descriptors. Arbitrary: where there is no other, bytes are copied.
const MOST: usize = 64;

/// The pipes of one engine thread.
#[derive(Debug, Default)]
pub(crate) struct Pipes {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The last one that was used is first: the processor's caches may have it.
    free: Vec<Pipe>,
    in_use: usize,
    /// The kernel moves nothing, or a sandbox does not let it.
    is_off: bool,
}

#[derive(Debug)]
struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

/// Bytes in a pipe. One that is dropped before all are moved on is closed, and they are lost.
#[derive(Debug)]
pub(crate) struct Piped {
    pipe: Option<Pipe>,
    length: usize,
    left: usize,
    home: Arc<Pipes>,
}

impl Pipe {
    fn new() -> io::Result<Self> {
        // It has room for 16 pages, which are 64 KiB (pipe(7)).
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        Ok(Self { read, write })
    }
}

impl Pipes {
    /// An empty pipe. `None`: all are in use, or there can be none.
    pub(crate) fn take(pipes: &Arc<Self>) -> Option<Piped> {
        let mut state = lock(&pipes.state);
        if state.is_off || state.in_use >= MOST {
            return None;
        }
        let pipe = state.free.pop().or_else(|| Pipe::new().ok())?;
        state.in_use += 1;
        Some(Piped { pipe: Some(pipe), length: 0, left: 0, home: Arc::clone(pipes) })
    }
}

impl Piped {
    /// How many bytes were moved into it.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Moves what has come on `socket` into it, once, and `most` bytes at most: 0 is the end. `WouldBlock` if there is nothing.
    /// If the kernel cannot do so, nothing is moved this way from now on.
    pub(super) fn fill(&mut self, socket: &impl AsFd, most: usize) -> io::Result<usize> {
        let Some(pipe) = &self.pipe else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        match splice(socket, None, &pipe.write, None, most.min(MOST_BYTES), flags) {
            Ok(count) => {
                self.length += count;
                self.left += count;
                Ok(count)
            }
            // Of these none tells of the connection.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => {
                lock(&self.home.state).is_off = true;
                Err(io::ErrorKind::Unsupported.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Moves what `socket` takes out of it. `WouldBlock` if that is nothing.
    pub(super) fn drain(&mut self, socket: &impl AsFd) -> io::Result<usize> {
        let Some(pipe) = &self.pipe else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        let count = splice(&pipe.read, None, socket, None, self.left, flags)?;
        self.left -= count;
        Ok(count)
    }
}

impl Drop for Piped {
    fn drop(&mut self) {
        let mut state = lock(&self.home.state);
        state.in_use -= 1;
        if self.left == 0 {
            state.free.extend(self.pipe.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn what_was_moved_comes_out_whole_and_the_pipe_serves_again() {
        let pipes = Arc::new(Pipes::default());
        for _ in 0..3 {
            let ((mut near, from), (to, mut far)) =
                (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
            near.write_all(b"0123456789").unwrap();
            let mut moved = Pipes::take(&pipes).unwrap();
            assert_eq!(moved.fill(&from, 4).unwrap(), 4);
            assert_eq!(moved.drain(&to).unwrap(), 4);
            assert_eq!((moved.len(), moved.left), (4, 0));
            drop(moved);
            let mut come = [0; 4];
            far.read_exact(&mut come).unwrap();
            assert_eq!(&come, b"0123");
            let state = lock(&pipes.state);
            assert_eq!((state.free.len(), state.in_use), (1, 0));
        }
    }

    /// It would give another client's bytes.
    #[test]
    fn a_pipe_that_holds_something_does_not_serve_again() {
        let pipes = Arc::new(Pipes::default());
        let (mut near, from) = UnixStream::pair().unwrap();
        near.write_all(b"of another").unwrap();
        let mut moved = Pipes::take(&pipes).unwrap();
        moved.fill(&from, 7).unwrap();
        drop(moved);
        let state = lock(&pipes.state);
        assert_eq!((state.free.len(), state.in_use), (0, 0));
    }

    #[test]
    fn there_are_so_many_at_most() {
        let pipes = Arc::new(Pipes::default());
        let taken: Vec<_> = std::iter::from_fn(|| Pipes::take(&pipes)).take(MOST + 1).collect();
        assert_eq!(taken.len(), MOST);
        drop(taken);
        assert!(Pipes::take(&pipes).is_some());
    }

    #[test]
    fn where_the_kernel_cannot_no_more_is_tried() {
        let pipes = Arc::new(Pipes::default());
        let mut moved = Pipes::take(&pipes).unwrap();
        // Of a directory it cannot.
        let directory = std::fs::File::open("/").unwrap();
        assert_eq!(moved.fill(&directory, 8).unwrap_err().kind(), io::ErrorKind::Unsupported);
        drop(moved);
        assert!(Pipes::take(&pipes).is_none());
    }
}
