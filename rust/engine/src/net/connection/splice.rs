//! Bytes that are moved between connections by the kernel, and not read.

use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use super::{Connection, Inner, Transport, end, note_break};
use crate::net::pipe::Piped;
use crate::net::socket::Socket;
use crate::sync::lock;
use crate::work::{Work, doing};

impl Connection {
    /// Whether bytes can be moved from and to it: over TLS and by HTTP/2 they have to be looked at.
    pub(crate) fn can_splice(&self) -> bool {
        !self.tls && matches!(lock(&self.inner).transport, Transport::Plain(Socket::Tcp(_)))
    }

    /// As [`Socket::splice_into`], of a connection that can.
    pub(crate) fn splice_into(&self, piped: &mut Piped, most: usize) -> io::Result<usize> {
        let Inner { transport, broken, .. } = &mut *lock(&self.inner);
        let Transport::Plain(socket) = transport else { return Err(io::ErrorKind::Unsupported.into()) };
        let _doing = doing(Work::Sockets);
        match socket.splice_into(piped, most)? {
            0 => end(*broken).map(|()| 0),
            count => Ok(count),
        }
    }

    /// As [`Connection::poll_write`], of a connection that can splice: more follows at once.
    pub(crate) fn poll_write_more(
        &self,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write_plain(|socket| socket.poll_write_more(context, parts))
    }

    /// As [`Socket::poll_splice_from`], of a connection that can.
    pub(crate) fn poll_splice_from(
        &self,
        context: &mut Context<'_>,
        piped: &mut Piped,
    ) -> Poll<io::Result<usize>> {
        self.write_plain(|socket| socket.poll_splice_from(context, piped))
    }

    /// Writes by `write`, which gives the bytes that the socket has taken.
    fn write_plain(
        &self,
        write: impl FnOnce(&mut Socket) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let Inner { transport, broken, .. } = &mut *lock(&self.inner);
        let Transport::Plain(socket) = transport else {
            return Poll::Ready(Err(io::ErrorKind::Unsupported.into()));
        };
        let _doing = doing(Work::Sockets);
        let written = ready!(write(socket));
        note_break(&written, broken);
        Poll::Ready(written)
    }
}
