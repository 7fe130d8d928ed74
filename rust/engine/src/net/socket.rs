//! What bytes travel on: TCP or a Unix socket, with one face.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendFlags};
use socket2::{Domain, SockRef};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use super::pipe::Piped;
#[cfg(test)]
use super::simulated;
use crate::sys::descriptor::{self, is_writable};

#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// Of a simulation, which is the network.
    #[cfg(test)]
    Simulated(simulated::End),
}

/// A socket on its way to another thread.
#[derive(Debug)]
pub(crate) enum DetachedSocket {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

impl From<OwnedFd> for DetachedSocket {
    /// A connection of TCP or of a Unix socket, which does not block.
    fn from(descriptor: OwnedFd) -> Self {
        let is_unix = SockRef::from(&descriptor).domain().is_ok_and(|domain| domain == Domain::UNIX);
        if is_unix { Self::Unix(descriptor.into()) } else { Self::Tcp(descriptor.into()) }
    }
}

impl DetachedSocket {
    /// Registers it with the runtime of the calling thread.
    pub(crate) fn attach(self) -> io::Result<Socket> {
        Ok(match self {
            Self::Tcp(stream) => Socket::Tcp(TcpStream::from_std(stream)?),
            Self::Unix(stream) => Socket::Unix(UnixStream::from_std(stream)?),
        })
    }
}

impl Socket {
    /// Takes it from the runtime of the calling thread.
    pub(crate) fn detach(self) -> io::Result<DetachedSocket> {
        Ok(match self {
            Self::Tcp(stream) => DetachedSocket::Tcp(stream.into_std()?),
            Self::Unix(stream) => DetachedSocket::Unix(stream.into_std()?),
            #[cfg(test)]
            Self::Simulated(_) => return Err(no_kernel()),
        })
    }

    /// Writes what the kernel takes at once of `bytes`; that nothing is taken is `WouldBlock`.
    ///
    /// The system call itself: that of glibc is a point where a thread may be cancelled (pthreads(7)), which takes 50
    /// instructions of the 720 that an event of a hub takes for a subscriber.
    pub(crate) fn send_now(&self, bytes: &[u8]) -> io::Result<usize> {
        let socket = match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
            #[cfg(test)]
            Self::Simulated(end) => return end.send(bytes),
        };
        Ok(rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)?)
    }

    /// Waits for the first byte, and leaves it there; none if the client has closed. A Unix socket is not looked at.
    pub(crate) async fn first_byte(&self) -> io::Result<Option<u8>> {
        let Self::Tcp(stream) = self else { return Ok(None) };
        let mut byte = [0];
        Ok((stream.peek(&mut byte).await? > 0).then_some(byte[0]))
    }

    pub(crate) fn poll_read_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_read_ready(context),
            Self::Unix(stream) => stream.poll_read_ready(context),
            #[cfg(test)]
            Self::Simulated(end) => end.poll_read_ready(context),
        }
    }

    /// Reads into `parts`, one after the other, by one system call: 0 is the end. As a poll that has been ready it finds
    /// nothing now and then, which is `WouldBlock`; then the runtime waits until the kernel announces more.
    pub(crate) fn read_vectored(&self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let room: usize = parts.iter().map(|part| part.len()).sum();
        let mut read = Err(io::ErrorKind::WouldBlock.into());
        let mut call = |socket: BorrowedFd<'_>| {
            read = rustix::io::readv(socket, parts).map_err(io::Error::from);
            // What has left room has left nothing in the socket, and the runtime is told so as by a read that found nothing:
            // it does so by itself only after a read into one part.
            match &read {
                Ok(count @ 1..) if *count < room => Err(io::ErrorKind::WouldBlock.into()),
                Err(error) => Err(error.kind().into()),
                Ok(_) => Ok(()),
            }
        };
        // What it returns stands in `read`.
        let _ = match self {
            Self::Tcp(stream) => stream.try_io(Interest::READABLE, || call(stream.as_fd())),
            Self::Unix(stream) => stream.try_io(Interest::READABLE, || call(stream.as_fd())),
            #[cfg(test)]
            Self::Simulated(end) => return end.receive_vectored(parts),
        };
        read
    }

    /// Has the kernel move what has come into `piped`, once, and `most` bytes at most: 0 is the end. As a poll that has been ready it
    /// finds nothing now and then, which is `WouldBlock`. Of TCP alone.
    pub(super) fn splice_into(&self, piped: &mut Piped, most: usize) -> io::Result<usize> {
        let Self::Tcp(stream) = self else { return Err(io::ErrorKind::Unsupported.into()) };
        stream.try_io(Interest::READABLE, || piped.fill(stream, most))
    }

    /// Has the kernel move what the socket takes of `piped`. Of TCP alone.
    pub(super) fn poll_splice_from(
        &self,
        context: &mut Context<'_>,
        piped: &mut Piped,
    ) -> Poll<io::Result<usize>> {
        self.poll_tcp(context, |stream| piped.drain(stream))
    }

    /// Writes what the socket takes of `parts`. The kernel sends the last segment when it is full, or with what is written next
    /// (`MSG_MORE`). Of TCP alone.
    pub(super) fn poll_write_more(
        &self,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let flags = SendFlags::MORE | SendFlags::NOSIGNAL;
        self.poll_tcp(context, |stream| {
            Ok(rustix::net::sendmsg(stream, parts, &mut SendAncillaryBuffer::default(), flags)?)
        })
    }

    /// Calls `write` once the socket has room for what it writes.
    fn poll_tcp(
        &self,
        context: &mut Context<'_>,
        mut write: impl FnMut(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let Self::Tcp(stream) = self else { return Poll::Ready(Err(io::ErrorKind::Unsupported.into())) };
        loop {
            ready!(stream.poll_write_ready(context))?;
            match stream.try_io(Interest::WRITABLE, || write(stream)) {
                // The runtime waits now.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    pub(crate) fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_write_ready(context),
            Self::Unix(stream) => stream.poll_write_ready(context),
            #[cfg(test)]
            Self::Simulated(end) => end.poll_write_ready(context),
        }
    }

    /// Another writer was told that the socket takes nothing: whether it still does not, and the runtime waits for it.
    ///
    /// The runtime's view is cleared first and the kernel asked then. It may have announced room meanwhile, once, and
    /// what was cleared was that: to wait then would be for ever.
    pub(crate) fn is_full(&self) -> bool {
        self.note_full();
        match self {
            Self::Tcp(stream) => !is_writable(stream),
            Self::Unix(stream) => !is_writable(stream),
            #[cfg(test)]
            Self::Simulated(end) => end.is_full(),
        }
    }

    /// A write has found the socket full: the runtime waits until the kernel announces room, and a write before that is no
    /// system call. For the thread that reads the kernel's announcements, or before the kernel is asked.
    fn note_full(&self) {
        let full = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
        let _ = match self {
            Self::Tcp(stream) => stream.try_io(Interest::WRITABLE, full),
            Self::Unix(stream) => stream.try_io(Interest::WRITABLE, full),
            #[cfg(test)]
            Self::Simulated(_) => Ok(()),
        };
    }

    /// The same socket under another descriptor.
    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        match self {
            Self::Tcp(stream) => stream.as_fd().try_clone_to_owned(),
            Self::Unix(stream) => stream.as_fd().try_clone_to_owned(),
            #[cfg(test)]
            Self::Simulated(_) => Err(no_kernel()),
        }
    }

    /// Calls `work` with the socket itself, for what the runtime has no name for.
    pub(crate) fn option<T>(&self, work: impl FnOnce(SockRef<'_>) -> io::Result<T>) -> io::Result<T> {
        match self {
            Self::Tcp(stream) => work(SockRef::from(stream)),
            Self::Unix(stream) => work(SockRef::from(stream)),
            #[cfg(test)]
            Self::Simulated(_) => Err(no_kernel()),
        }
    }

    /// Nothing more is sent. An error means that the connection has ended already.
    pub(crate) fn end_writing(&self) -> io::Result<()> {
        #[cfg(test)]
        if let Self::Simulated(end) = self {
            end.end_writing();
            return Ok(());
        }
        self.option(|socket| socket.shutdown(Shutdown::Write))
    }

    /// Its close is a reset. An error means that the connection has ended already.
    pub(crate) fn reset_on_close(&self) -> io::Result<()> {
        #[cfg(test)]
        if let Self::Simulated(end) = self {
            end.reset_on_close();
            return Ok(());
        }
        self.option(|socket| socket.set_linger(Some(Duration::ZERO)))
    }

    /// Bytes that were written and that the other side has not taken.
    pub(crate) fn untaken(&self) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => descriptor::untaken(stream),
            Self::Unix(stream) => descriptor::untaken(stream),
            #[cfg(test)]
            Self::Simulated(end) => Ok(end.untaken()),
        }
    }

    /// Whether both directions have ended, as after a reset, whatever waits to be read.
    pub(crate) fn has_hung_up(&self) -> bool {
        match self {
            Self::Tcp(stream) => descriptor::has_hung_up(stream),
            Self::Unix(stream) => descriptor::has_hung_up(stream),
            #[cfg(test)]
            Self::Simulated(end) => end.has_hung_up(),
        }
    }

    /// Asks the kernel whether there is a byte: 1, the end: 0, or neither: `WouldBlock`. Takes nothing.
    pub(crate) fn peek(&self) -> io::Result<usize> {
        #[cfg(test)]
        if let Self::Simulated(end) = self {
            return end.peek();
        }
        let mut byte = [MaybeUninit::uninit()];
        self.option(|socket| socket.peek(&mut byte))
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
            #[cfg(test)]
            Self::Simulated(end) => end.poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
            #[cfg(test)]
            Self::Simulated(end) => end.poll_write(context, &[IoSlice::new(bytes)]),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let socket = self.get_mut();
        let written = match socket {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(context, parts),
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(context, parts),
            #[cfg(test)]
            Self::Simulated(end) => end.poll_write(context, parts),
        };
        // The runtime does so itself after a write of one part only.
        if matches!(written, Poll::Ready(Ok(taken @ 1..)) if taken < parts.iter().map(|part| part.len()).sum())
        {
            socket.note_full();
        }
        written
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(context),
            #[cfg(test)]
            Self::Simulated(end) => {
                end.end_writing();
                Poll::Ready(Ok(()))
            }
        }
    }
}

/// For what only a descriptor has.
#[cfg(test)]
fn no_kernel() -> io::Error {
    io::ErrorKind::Unsupported.into()
}
