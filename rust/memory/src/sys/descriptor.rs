//! Operations on descriptors for which the standard library has no call.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use tokio::io::unix::{AsyncFd, AsyncFdRegisterError};

/// Duplicates `descriptor`, a number from outside. The number stays with its owner.
///
/// # Errors
/// The number is not an open descriptor, or the process has no free descriptor.
pub fn duplicate(descriptor: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the call takes no pointers, does nothing to the original, and refuses a number that is not open.
    let copy = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 0) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor to us, and no other code knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Makes reads of `descriptor` return at once. The flag belongs to the open file, so a process that shares the
/// file sees it too.
pub fn set_nonblocking(descriptor: &impl AsFd) -> io::Result<()> {
    let fd = descriptor.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open (it is borrowed), and the call takes no pointers.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    // SAFETY: as above.
    if flags < 0 || unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The capacity that is asked of a pipe: a raw picture of 1920×1080 (6.2 MB) then takes 6 reads instead of 95.
/// In bytes.
const PIPE: libc::c_int = 1024 * 1024;

/// Asks for a larger pipe. Does nothing to other descriptors, or if the kernel's limit for this user is reached:
/// reads are then smaller and still correct.
pub fn enlarge_pipe(descriptor: &impl AsFd) {
    // SAFETY: the descriptor is open (it is borrowed), and the call takes no pointers.
    unsafe { libc::fcntl(descriptor.as_fd().as_raw_fd(), libc::F_SETPIPE_SZ, PIPE) };
}

/// Takes the lock of the file (`flock`), which ends with this opening of it. `WouldBlock` if another opening has
/// it.
pub fn lock_file(file: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open (it is borrowed), and the call takes no pointers.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Bytes that were written to a socket and that the peer has not acknowledged.
pub fn untaken(socket: &impl AsFd) -> io::Result<usize> {
    let mut count: libc::c_int = 0;
    // SAFETY: the descriptor is open (it is borrowed), and the kernel writes one int to where `count` lives.
    if unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut count) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(usize::try_from(count).unwrap_or(0))
}

/// Makes `file` a descriptor on which a task can wait; returns it with `PermissionDenied` if the kernel cannot wait
/// for it.
pub fn watch(file: File) -> Result<AsyncFd<File>, (File, io::Error)> {
    // SAFETY: a File owns its descriptor, returns the same one for as long as it lives, and is moved in whole.
    unsafe { AsyncFd::register(file) }.map_err(AsyncFdRegisterError::into_parts)
}

/// Sends up to `count` bytes of `file` from `offset` on to `socket`, which must be non-blocking. 0 means the end of
/// the file.
pub fn send_file(socket: &impl AsFd, file: &impl AsFd, offset: u64, count: usize) -> io::Result<usize> {
    let mut position = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    let (socket, file) = (socket.as_fd().as_raw_fd(), file.as_fd().as_raw_fd());
    // SAFETY: both descriptors are open (they are borrowed), and the pointer is that of a live local.
    let sent = unsafe { libc::sendfile(socket, file, &raw mut position, count) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Sets a numeric option of a socket.
pub fn set_option(socket: &impl AsFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    let socket = socket.as_fd().as_raw_fd();
    // Of an i32.
    let size: libc::socklen_t = 4;
    // SAFETY: the descriptor is open (it is borrowed); pointer and size are those of a live local.
    let result = unsafe { libc::setsockopt(socket, level, name, (&raw const value).cast(), size) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// An option in which the kernel writes received data to an address within the option's value.
const ZEROCOPY_RECEIVE: libc::c_int = 35;

/// Reads an option of a socket into `value`, as much as fits. Returns the number of bytes.
pub fn get_option(socket: &impl AsFd, level: i32, name: i32, value: &mut [u8]) -> io::Result<usize> {
    let socket = socket.as_fd().as_raw_fd();
    let mut size = libc::socklen_t::try_from(value.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    if (level, name) == (libc::IPPROTO_TCP, ZEROCOPY_RECEIVE) {
        return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
    }
    // SAFETY: the descriptor is open (it is borrowed); pointer and size are those of a live slice of initialised bytes, and
    // the kernel writes no more than the size. The one option by which the kernel writes elsewhere was refused above.
    let result = unsafe { libc::getsockopt(socket, level, name, value.as_mut_ptr().cast(), &raw mut size) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(value.len().min(usize::try_from(size).unwrap_or(0)))
}

/// Asks the kernel whether a write would return at once, with success or an error.
pub fn is_writable(socket: &impl AsFd) -> bool {
    let mut poll = libc::pollfd { fd: socket.as_fd().as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: one live pollfd is passed with a count of one; the descriptor is open (it is borrowed).
    unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
}

/// Asks the kernel whether both directions of a socket have ended, as after a reset, even if there are bytes to read.
pub fn has_hung_up(socket: &impl AsFd) -> bool {
    // The kernel reports errors and hang-ups without a request.
    let mut poll = libc::pollfd { fd: socket.as_fd().as_raw_fd(), events: 0, revents: 0 };
    // SAFETY: one live pollfd is passed with a count of one; the descriptor is open (it is borrowed).
    unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
}
