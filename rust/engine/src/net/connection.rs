//! One connection: the socket, TLS if there is any, and how bytes get from it into memory that its reader owns.
//!
//! Everything is polled through `&self`, so that a request body can be sent while its response is being read; the
//! lock inside is hardly contended: both halves are polled by one task, and others only ask for an option of the socket. Plain HTTP reads with one `recv`
//! straight into the caller's memory; TLS decrypts into it.

use std::io::{self, IoSlice, IoSliceMut, Write};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;
use tokio_rustls::TlsStream;

use super::channel::{Channel, Untaken};
use super::piece::Lease;
use super::records::Records;
use super::socket::Socket;
use super::watch::Watch;
use crate::clock;
use crate::sync::{Mutex, lock};
use crate::work::{Work, doing};

#[derive(Debug)]
pub(crate) enum Transport {
    Plain(Socket),
    Tls(Box<TlsStream<Records>>),
    /// A share of another connection.
    Channel(Box<dyn Channel>),
}

/// A connection, in use or idle.
#[derive(Debug)]
pub(crate) struct Connection {
    inner: Mutex<Inner>,
    tls: bool,
    is_channel: bool,
    /// The address that it was opened to, where that was one of several that a name may have.
    pub(crate) peer: Option<SocketAddr>,
    /// When it was opened.
    pub(crate) opened: Instant,
    /// Requests that were sent on it.
    pub(crate) requests: u64,
    /// The turn of its thread in which it became idle.
    pub(crate) idle_since: Option<u64>,
    /// The timer of its last reader.
    pub(crate) limit: Watch,
    /// See [`Connection::note_head`].
    head: AtomicUsize,
    body: AtomicUsize,
    /// See [`Connection::note_pipelined`].
    pipelined: AtomicBool,
}

#[derive(Debug)]
struct Inner {
    transport: Transport,
    /// TLS may hold plaintext that the socket will not announce again.
    plaintext: bool,
    /// An error that was met after bytes; told at the next read.
    failure: Option<io::Error>,
    /// A write has met that the connection is broken. The kernel tells of a reset once: a read after that finds an orderly end,
    /// and what has come would look whole.
    broken: Option<io::ErrorKind>,
    /// See [`Connection::reset_on_close`].
    resets: bool,
    /// Bytes of plaintext that TLS may hold encrypted; see [`Inner::write_records`].
    batch: usize,
}

/// Plaintext that TLS encrypts for one write: a client that stalls has one batch waiting, outside the pool, so a batch is
/// large only where the last one was taken whole. The first is a response of 64 KiB in one system call.
const BATCH: usize = 64 << 10;
const LEAST_BATCH: usize = 16 << 10;
const MOST_BATCH: usize = 256 << 10;

/// What an idle connection did instead of keeping quiet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unrest {
    /// It ended, well or not.
    Closed,
    /// It brought bytes that no request asked for.
    Bytes,
}

impl Connection {
    pub(crate) fn new(transport: Transport) -> Self {
        // What is read from a channel has been copied as well.
        let tls = !matches!(transport, Transport::Plain(_));
        let is_channel = matches!(transport, Transport::Channel(_));
        // The first bytes of a client may have come with the end of its handshake.
        let plaintext =
            matches!(&transport, Transport::Tls(stream) if matches!(**stream, TlsStream::Server(_)));
        let inner = Mutex::new(Inner {
            transport,
            plaintext,
            failure: None,
            broken: None,
            resets: false,
            batch: BATCH,
        });
        Self {
            inner,
            tls,
            is_channel,
            peer: None,
            opened: clock::now(),
            requests: 0,
            idle_since: None,
            limit: Watch::default(),
            head: AtomicUsize::new(0),
            body: AtomicUsize::new(0),
            pipelined: AtomicBool::new(false),
        }
    }

    /// The last head on it had `length` bytes, and `body` after it, which did not fit into a slab of heads; both are 0 if it did.
    pub(crate) fn note_head(&self, length: usize, body: usize) {
        // Relaxed, here and below: of the one task that reads.
        self.head.store(length, Ordering::Relaxed);
        self.body.store(body, Ordering::Relaxed);
    }

    /// The lengths of the next head and of the body after it, if it is like the last one. One origin's heads mostly have one
    /// length.
    pub(crate) fn next_head(&self) -> Option<(usize, usize)> {
        let length = self.head.load(Ordering::Relaxed);
        (length > 0).then(|| (length, self.body.load(Ordering::Relaxed)))
    }

    /// Something was read that follows the request which is being answered, now or earlier.
    pub(crate) fn note_pipelined(&self) {
        // Relaxed, here and below: of the one task that reads.
        self.pipelined.store(true, Ordering::Relaxed);
    }

    /// Whether [`Connection::note_pipelined`] was called.
    pub(crate) fn has_pipelined(&self) -> bool {
        self.pipelined.load(Ordering::Relaxed)
    }

    /// Whether it is a share of another connection, to which memory is lent.
    pub(crate) fn is_channel(&self) -> bool {
        self.is_channel
    }

    /// Whether what is read has been decrypted, and thereby copied.
    pub(crate) fn is_tls(&self) -> bool {
        self.tls
    }

    /// Ready when a read is worth taking memory for. It may still find nothing.
    pub(crate) fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let inner = &mut *lock(&self.inner);
        if inner.plaintext || inner.failure.is_some() {
            return Poll::Ready(Ok(()));
        }
        match &mut inner.transport {
            Transport::Plain(socket) => socket.poll_read_ready(context),
            Transport::Tls(stream) => stream.get_ref().0.socket().poll_read_ready(context),
            Transport::Channel(channel) => channel.poll_readable(context),
        }
    }

    /// Reads into `memory`: 0 is the end. Over TLS as many records as are there and fit.
    pub(crate) fn poll_read(&self, context: &mut Context<'_>, memory: &mut [u8]) -> Poll<io::Result<usize>> {
        lock(&self.inner).poll_read(context, memory)
    }

    /// As [`Socket::read_vectored`], of a plain connection.
    pub(crate) fn read_vectored(&self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let Inner { transport, broken, .. } = &mut *lock(&self.inner);
        let Transport::Plain(socket) = transport else { return Err(io::ErrorKind::Unsupported.into()) };
        let _doing = doing(Work::Sockets);
        match socket.read_vectored(parts)? {
            0 => end(*broken).map(|()| 0),
            count => Ok(count),
        }
    }

    /// As [`Connection::poll_read`], into memory that may hold nothing yet. Not for a channel.
    pub(crate) fn poll_read_buffer(
        &self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        lock(&self.inner).poll_read_buffer(context, buffer)
    }

    /// Whether the other side has not taken all that was written, where the kernel knows.
    pub(crate) fn has_untaken(&self) -> bool {
        self.untaken().is_some_and(|untaken| untaken != Untaken::of_socket(0))
    }

    /// What the other side has not taken of what was written, where the kernel knows.
    pub(crate) fn untaken(&self) -> Option<Untaken> {
        match &lock(&self.inner).transport {
            Transport::Plain(socket) => socket.untaken().ok().map(Untaken::of_socket),
            Transport::Tls(stream) => stream.get_ref().0.socket().untaken().ok().map(Untaken::of_socket),
            Transport::Channel(channel) => channel.untaken(),
        }
    }

    /// Writes what the socket takes of `parts`. Not for a channel, to which memory is lent.
    pub(crate) fn poll_write(
        &self,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Inner { transport, batch, broken, .. } = &mut *lock(&self.inner);
        match transport {
            Transport::Plain(socket) => poll_write_plain(socket, context, parts, broken),
            Transport::Tls(stream) => poll_write_records(stream, context, parts, batch),
            Transport::Channel(_) => Poll::Ready(Err(io::ErrorKind::Unsupported.into())),
        }
    }

    /// Encrypts what fits of `parts` into a batch, and writes it when that is full, or flushed. What is plain goes out at once.
    pub(crate) fn poll_gather(
        &self,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Inner { transport, batch, broken, .. } = &mut *lock(&self.inner);
        let Transport::Tls(stream) = transport else {
            return match transport {
                Transport::Plain(socket) => poll_write_plain(socket, context, parts, broken),
                _ => Poll::Ready(Err(io::ErrorKind::Unsupported.into())),
            };
        };
        let _doing = doing(Work::Tls);
        set_batch(stream, *batch);
        let gathered = gather(stream, parts)?;
        if gathered > 0 {
            return Poll::Ready(Ok(gathered));
        }
        let flush = Pin::new(&mut **stream).poll_flush(context)?;
        let is_behind = flush.is_pending();
        *batch = if is_behind { LEAST_BATCH } else { (*batch * 2).min(MOST_BATCH) };
        set_batch(stream, *batch);
        match gather(stream, parts)? {
            0 if is_behind => Poll::Pending,
            gathered => Poll::Ready(Ok(gathered)),
        }
    }

    /// As [`Channel::poll_room`]; anything but a channel has room.
    pub(crate) fn poll_room(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut lock(&self.inner).transport {
            Transport::Channel(channel) => channel.poll_room(context),
            Transport::Plain(_) | Transport::Tls(_) => Poll::Ready(Ok(())),
        }
    }

    /// As [`Channel::lend`].
    pub(crate) fn lend(&self, context: &mut Context<'_>, lease: Lease) -> io::Result<usize> {
        match &mut lock(&self.inner).transport {
            Transport::Channel(channel) => {
                let _doing = doing(Work::Http2);
                channel.lend(context, lease)
            }
            Transport::Plain(_) | Transport::Tls(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Whether the kernel, or the connection that carries this one, knows that the other side is lost.
    pub(crate) fn has_hung_up(&self) -> bool {
        match &mut lock(&self.inner).transport {
            Transport::Plain(socket) => socket.has_hung_up(),
            Transport::Tls(stream) => stream.get_ref().0.socket().has_hung_up(),
            Transport::Channel(channel) => channel.has_hung_up(),
        }
    }

    /// As [`Channel::was_refused`]; what is no channel is never refused.
    pub(crate) fn was_refused(&self) -> bool {
        matches!(&lock(&self.inner).transport, Transport::Channel(channel) if channel.was_refused())
    }

    /// The protocol that TLS has settled on (RFC 7301).
    pub(crate) fn is_http2(&self) -> bool {
        let inner = lock(&self.inner);
        let Transport::Tls(stream) = &inner.transport else { return false };
        stream.get_ref().1.alpn_protocol() == Some(b"h2")
    }

    /// Writes what the socket takes at once of `bytes`, past the task that waits for it; that nothing is taken is `WouldBlock`. Not
    /// over TLS.
    pub(crate) fn write_now(&self, bytes: &[u8]) -> io::Result<usize> {
        let Inner { transport, broken, .. } = &mut *lock(&self.inner);
        match transport {
            Transport::Plain(socket) => {
                let sent = socket.send_now(bytes);
                note_break(&sent, broken);
                sent
            }
            Transport::Tls(_) | Transport::Channel(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Ready when everything that was written is with the kernel.
    pub(crate) fn poll_flush(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut lock(&self.inner).transport {
            Transport::Plain(_) => Poll::Ready(Ok(())),
            Transport::Channel(channel) => {
                let _doing = doing(Work::Http2);
                channel.flush();
                // What was lent comes back when it is sent.
                Poll::Ready(Ok(()))
            }
            // What a socket has taken is with the kernel.
            Transport::Tls(stream) if !wants_write(stream) => Poll::Ready(Ok(())),
            Transport::Tls(stream) => {
                let _doing = doing(Work::Tls);
                Pin::new(stream).poll_flush(context)
            }
        }
    }

    /// Calls `work` with what is underneath.
    pub(crate) fn with_socket<T>(&self, work: impl FnOnce(&Socket) -> T) -> T {
        let mut work = Some(work);
        let mut found = None;
        let mut call = |socket: &Socket| found = work.take().map(|work| work(socket));
        match &lock(&self.inner).transport {
            Transport::Plain(socket) => call(socket),
            Transport::Tls(stream) => call(stream.get_ref().0.socket()),
            Transport::Channel(channel) => channel.with_socket(&mut call),
        }
        found.expect("there is one socket")
    }

    /// Says that nothing more will be sent, over TLS by a `close_notify` as far as the socket takes it now. Whether the
    /// connection has ended already, a read will tell.
    pub(crate) fn end_writing(&self) {
        match &mut lock(&self.inner).transport {
            Transport::Plain(socket) => {
                let _ = socket.end_writing();
            }
            Transport::Tls(stream) => {
                let _ = Pin::new(stream).poll_shutdown(&mut Context::from_waker(Waker::noop()));
            }
            Transport::Channel(channel) => channel.end_writing(),
        }
    }

    /// Has the connection end with a reset instead of an orderly end, so that what was sent cannot be taken for whole.
    pub(crate) fn reset_on_close(&self) {
        let mut inner = lock(&self.inner);
        inner.resets = true;
        match &mut inner.transport {
            Transport::Channel(channel) => channel.reset(),
            Transport::Plain(socket) => reset_socket(socket),
            Transport::Tls(stream) => reset_socket(stream.get_ref().0.socket()),
        }
    }

    /// Watches an idle connection: pending as long as it keeps quiet. Session tickets of TLS are taken in.
    pub(crate) fn poll_unrest(&self, context: &mut Context<'_>) -> Poll<Unrest> {
        lock(&self.inner).poll_unrest(context)
    }

    /// What an idle connection did that is about to be used; none if it keeps quiet. With `believes`, what the runtime last
    /// heard is enough; without, the kernel is asked too, with one system call of some 0.3 us.
    pub(crate) fn unrest(&self, believes: bool) -> Option<Unrest> {
        let mut inner = lock(&self.inner);
        let context = &mut Context::from_waker(Waker::noop());
        if self.tls {
            // Bytes that are decrypted already, and a part of a record that is here, are no longer in the kernel.
            if let Poll::Ready(unrest) = inner.poll_unrest(context) {
                return Some(unrest);
            }
        }
        let socket = match &inner.transport {
            Transport::Plain(socket) => socket,
            Transport::Tls(stream) => stream.get_ref().0.socket(),
            // It never waits for a request.
            Transport::Channel(_) => return Some(Unrest::Closed),
        };
        if believes && socket.poll_read_ready(context).is_pending() {
            return None;
        }
        match socket.peek() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            // Over TLS most likely a close_notify: that is not known before it is decrypted.
            Ok(1..) if !self.tls => Some(Unrest::Bytes),
            _ => Some(Unrest::Closed),
        }
    }
}

impl Transport {
    /// Whether TLS has read a part of a record, whose rest is still to come.
    fn is_within_record(&self) -> bool {
        match self {
            Self::Plain(_) | Self::Channel(_) => false,
            Self::Tls(stream) => stream.get_ref().0.is_within(),
        }
    }
}

fn poll_write_plain(
    socket: &mut Socket,
    context: &mut Context<'_>,
    parts: &[IoSlice<'_>],
    broken: &mut Option<io::ErrorKind>,
) -> Poll<io::Result<usize>> {
    let _doing = doing(Work::Sockets);
    let written = ready!(Pin::new(socket).poll_write_vectored(context, parts));
    note_break(&written, broken);
    Poll::Ready(written)
}

/// See [`Inner::broken`].
fn note_break(written: &io::Result<usize>, broken: &mut Option<io::ErrorKind>) {
    if let Err(error) = written {
        if error.kind() != io::ErrorKind::WouldBlock {
            *broken = Some(error.kind());
        }
    }
}

/// A read has found the end: that of a connection that a write has found broken is an error.
fn end(broken: Option<io::ErrorKind>) -> io::Result<()> {
    match broken.filter(|_| !cfg!(all(test, planted_bug = "reset-taken-for-end"))) {
        Some(kind) => Err(kind.into()),
        None => Ok(()),
    }
}

fn reset_socket(socket: &Socket) {
    // An error means that it has ended already.
    let _ = socket.reset_on_close();
}

impl Inner {
    fn poll_unrest(&mut self, context: &mut Context<'_>) -> Poll<Unrest> {
        match self.poll_read(context, &mut [0]) {
            Poll::Ready(Ok(1..)) => Poll::Ready(Unrest::Bytes),
            Poll::Ready(_) => Poll::Ready(Unrest::Closed),
            // The rest of a record would bring what the next request takes for its response.
            Poll::Pending if self.transport.is_within_record() => Poll::Ready(Unrest::Bytes),
            Poll::Pending => Poll::Pending,
        }
    }

    fn poll_read(&mut self, context: &mut Context<'_>, memory: &mut [u8]) -> Poll<io::Result<usize>> {
        if let Transport::Channel(channel) = &mut self.transport {
            let _doing = doing(Work::Http2);
            return channel.poll_read(context, memory);
        }
        let mut buffer = ReadBuf::new(memory);
        ready!(self.poll_read_buffer(context, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }

    fn poll_read_buffer(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { transport, plaintext, failure, broken, .. } = self;
        match transport {
            // A read that does not fill the buffer tells the runtime that the socket is drained, which saves the
            // `recv` that would only say so.
            Transport::Plain(socket) => {
                let _doing = doing(Work::Sockets);
                let before = buffer.filled().len();
                ready!(Pin::new(socket).poll_read(context, buffer))?;
                let is_end = buffer.filled().len() == before && buffer.remaining() > 0;
                Poll::Ready(if is_end { end(*broken) } else { Ok(()) })
            }
            Transport::Tls(stream) => {
                if let Some(failure) = failure.take() {
                    return Poll::Ready(Err(failure));
                }
                poll_read_records(stream, context, buffer, plaintext, failure)
            }
            Transport::Channel(_) => Poll::Ready(Err(io::ErrorKind::Unsupported.into())),
        }
    }
}

/// TLS gives one record of at most 16 KiB at a time; a slab is worth more than one.
fn poll_read_records(
    stream: &mut TlsStream<Records>,
    context: &mut Context<'_>,
    buffer: &mut ReadBuf<'_>,
    plaintext: &mut bool,
    failure: &mut Option<io::Error>,
) -> Poll<io::Result<()>> {
    let _doing = doing(Work::Tls);
    *plaintext = true;
    loop {
        let before = buffer.filled().len();
        match Pin::new(&mut *stream).poll_read(context, buffer) {
            Poll::Ready(Ok(())) if buffer.filled().len() > before && buffer.remaining() > 0 => {}
            Poll::Ready(Ok(())) => return Poll::Ready(Ok(())),
            Poll::Ready(Err(error)) if before > 0 => {
                *failure = Some(error);
                return Poll::Ready(Ok(()));
            }
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending => {
                *plaintext = false;
                return if before > 0 { Poll::Ready(Ok(())) } else { Poll::Pending };
            }
        }
    }
}

/// Encrypts what fits into a batch, and writes it as far as the socket takes it: all records of a batch are one system call.
fn poll_write_records(
    stream: &mut TlsStream<Records>,
    context: &mut Context<'_>,
    parts: &[IoSlice<'_>],
    batch: &mut usize,
) -> Poll<io::Result<usize>> {
    let _doing = doing(Work::Tls);
    set_batch(stream, *batch);
    let written = Pin::new(&mut *stream).poll_write_vectored(context, parts);
    if let Poll::Ready(Ok(count)) = written {
        if wants_write(stream) {
            *batch = LEAST_BATCH;
        } else if count >= *batch {
            *batch = (*batch * 2).min(MOST_BATCH);
        }
    }
    written
}

/// Takes what the batch has room for.
fn gather(stream: &mut TlsStream<Records>, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    match stream {
        TlsStream::Client(stream) => stream.get_mut().1.writer().write_vectored(parts),
        TlsStream::Server(stream) => stream.get_mut().1.writer().write_vectored(parts),
    }
}

fn set_batch(stream: &mut TlsStream<Records>, batch: usize) {
    match stream {
        TlsStream::Client(stream) => stream.get_mut().1.set_buffer_limit(Some(batch)),
        TlsStream::Server(stream) => stream.get_mut().1.set_buffer_limit(Some(batch)),
    }
}

/// Whether records wait for the socket.
fn wants_write(stream: &TlsStream<Records>) -> bool {
    stream.get_ref().1.wants_write()
}

impl Drop for Inner {
    /// RFC 8446, section 6.1, asks for a `close_notify`; not where what was sent must not be taken for whole. Only what the
    /// socket takes now is sent: no task waits for it.
    fn drop(&mut self) {
        if self.resets {
            return;
        }
        if let Transport::Tls(stream) = &mut self.transport {
            let _ = Pin::new(stream).poll_shutdown(&mut Context::from_waker(Waker::noop()));
        }
    }
}

mod splice;
#[cfg(test)]
mod tests;
