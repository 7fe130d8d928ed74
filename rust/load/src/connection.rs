//! A connection to a server, and a response that is read from it.
//!
//! Bytes are read into one buffer that all sessions of a thread share, and the kernel throws away what a session does not look
//! at: a session that waits has no buffer.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Poll, ready};
use std::time::Instant;

use rustix::net::{RecvFlags, recv};
use tokio::io::Interest;
use tokio::net::{TcpSocket, TcpStream};

use crate::context::Context;
use crate::failure::Failure;
use crate::record::count;
use crate::secured::Secured;
use crate::url::Url;
use crate::wire::{Head, head};

/// Bytes of the buffer that the sessions of a thread share.
pub(crate) const SCRATCH: usize = 256 * 1024;
/// Read at once of a head. What comes with it of the body is copied.
const HEAD_READ: usize = 2048;
/// Bytes of a head at most.
const LARGEST_HEAD: usize = 64 * 1024;

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    authority: Rc<str>,
    stream: TcpStream,
    /// What waits for it is boxed: few runs have it, and each session has the place of all that it may wait for.
    secured: Option<Secured>,
}

impl Connection {
    /// Opens a connection, with a buffer of so many bytes in which the kernel receives; `None`: as large as it finds useful.
    pub(crate) async fn open(context: &Context, url: &Url, buffer: Option<u32>) -> Result<Self, Failure> {
        let address = context.address(url).await?;
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
        let socket = socket.map_err(Failure::Connect)?;
        if let Some(buffer) = buffer {
            socket.set_recv_buffer_size(buffer).map_err(Failure::Connect)?;
        }
        let stream = socket.connect(address).await.map_err(Failure::Connect)?;
        stream.set_nodelay(true).map_err(Failure::Connect)?;
        let secured = if url.is_secured {
            let (host, _) = url.host_and_port().ok_or_else(|| Failure::Address(url.to_string()))?;
            Some(Box::pin(Secured::open(context.tls()?, host, &stream)).await?)
        } else {
            None
        };
        Ok(Self { authority: Rc::clone(&url.authority), stream, secured })
    }

    /// Whether it leads to the server of this place, in the same way.
    pub(crate) fn is_to(&self, url: &Url) -> bool {
        *self.authority == *url.authority && self.secured.is_some() == url.is_secured
    }

    /// Sends a request, and reads the head of its response.
    pub(crate) async fn ask(
        mut self,
        context: &Context,
        request: &[u8],
        sent: Instant,
    ) -> Result<Opened, Failure> {
        let mut left = request;
        if let Some(secured) = &mut self.secured {
            Box::pin(secured.send(&self.stream, left)).await.map_err(|_| Failure::NoHead)?;
            left = &[];
        }
        while !left.is_empty() {
            match self.stream.try_write(left) {
                Ok(count) => left = &left[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.stream.writable().await.map_err(|_| Failure::NoHead)?;
                }
                Err(_) => return Err(Failure::NoHead),
            }
        }
        let mut seen = Vec::new();
        loop {
            let read = self.read(context, HEAD_READ, |bytes| seen.extend_from_slice(bytes)).await;
            match read {
                Ok(0) => return Err(if seen.is_empty() { Failure::NoHead } else { Failure::CutOff }),
                Ok(_) => {}
                Err(_) if seen.is_empty() => return Err(Failure::NoHead),
                Err(error) => return Err(Failure::Broken(error)),
            }
            if let Some((head, length)) = head(&seen)? {
                seen.drain(..length);
                return Ok(Opened { connection: self, head, ahead: seen, closed: false, sent });
            }
            if seen.len() > LARGEST_HEAD {
                return Err(Failure::NotHttp("a head is larger than 64 KiB".into()));
            }
        }
    }

    /// Reads once, up to `most` bytes, which `take` is given. 0: the connection has ended.
    async fn read(&mut self, context: &Context, most: usize, take: impl FnOnce(&[u8])) -> io::Result<usize> {
        if let Some(secured) = &mut self.secured {
            return Box::pin(read_secured(secured, &self.stream, context, most, take)).await;
        }
        self.receive(context, most, RecvFlags::empty(), take).await
    }

    /// Throws away up to `most` bytes. The kernel copies none of them (tcp(7), `MSG_TRUNC`).
    async fn discard(&mut self, context: &Context, most: usize) -> io::Result<usize> {
        if let Some(secured) = &mut self.secured {
            // It has to be decrypted.
            return Box::pin(read_secured(secured, &self.stream, context, most, |_| ())).await;
        }
        self.receive(context, most, RecvFlags::TRUNC, |_| ()).await
    }

    /// Reads once without TLS. What fills less than was asked for has emptied the socket: it is not asked again before more has
    /// come, which epoll(7) says once. A server that is always faster than this thread does not keep it from all other sessions:
    /// waiting for a socket takes from the budget of a task.
    async fn receive(
        &self,
        context: &Context,
        most: usize,
        flags: RecvFlags,
        take: impl FnOnce(&[u8]),
    ) -> io::Result<usize> {
        let mut take = Some(take);
        poll_fn(|polled| {
            loop {
                ready!(self.stream.poll_read_ready(polled))?;
                let mut scratch = context.scratch.borrow_mut();
                let most = most.min(scratch.len());
                let mut received = None;
                let tried = self.stream.try_io(Interest::READABLE, || {
                    let (_, count) = recv(&self.stream, &mut scratch[..most], flags)?;
                    received = Some(count);
                    // The end is there to be read again.
                    if count == 0 || count == most { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
                });
                match (received, tried) {
                    (Some(count), _) => {
                        if let Some(take) = take.take() {
                            take(&scratch[..count]);
                        }
                        return Poll::Ready(Ok(count));
                    }
                    (None, Err(error)) if error.kind() != io::ErrorKind::WouldBlock => {
                        return Poll::Ready(Err(error));
                    }
                    (None, _) => {}
                }
            }
        })
        .await
    }
}

/// Reads once from a connection with TLS, as [`Connection::read`].
async fn read_secured(
    secured: &mut Secured,
    stream: &TcpStream,
    context: &Context,
    most: usize,
    take: impl FnOnce(&[u8]),
) -> io::Result<usize> {
    loop {
        tokio::task::coop::consume_budget().await;
        {
            let mut scratch = context.scratch.borrow_mut();
            let most = most.min(scratch.len());
            if let Some(count) = secured.take(&mut scratch[..most])? {
                take(&scratch[..count]);
                return Ok(count);
            }
        }
        secured.receive(stream).await?;
    }
}

/// A response whose head has arrived.
#[derive(Debug)]
pub(crate) struct Opened {
    connection: Connection,
    pub(crate) head: Head,
    /// What came with the head and has not been taken.
    ahead: Vec<u8>,
    /// The connection has ended.
    closed: bool,
    /// When it was asked for.
    pub(crate) sent: Instant,
}

impl Opened {
    /// Whether nothing more is to come.
    pub(crate) fn is_done(&self) -> bool {
        self.ahead.is_empty() && (self.closed || self.head.body.is_done())
    }

    /// Reads more of the body, up to `most` bytes, and gives what is data to `take`. Returns how many bytes those were, which
    /// are counted.
    pub(crate) async fn more(
        &mut self,
        context: &Context,
        most: usize,
        mut take: impl FnMut(&[u8]),
    ) -> Result<usize, Failure> {
        let (body, mut data) = (&mut self.head.body, 0);
        let mut take = |bytes: &[u8]| {
            data += bytes.len();
            take(bytes);
        };
        if self.ahead.is_empty() {
            let mut fed = Ok(());
            let read = self.connection.read(context, most, |bytes| fed = body.feed(bytes, &mut take)).await;
            let read = read.map_err(Failure::Broken)?;
            fed?;
            self.note(read)?;
        } else {
            let ahead = std::mem::take(&mut self.ahead);
            body.feed(&ahead, &mut take)?;
        }
        count(&context.live.bytes, data as u64);
        Ok(data)
    }

    /// Throws away more of the body, up to `most` bytes, as [`Opened::more`] reads it.
    pub(crate) async fn skip(&mut self, context: &Context, most: usize) -> Result<usize, Failure> {
        let Some(plain) = self.head.body.plain().filter(|_| self.ahead.is_empty()) else {
            return self.more(context, most, |_| ()).await;
        };
        // One byte more than there is: a read that does not get it has emptied the socket.
        let most = usize::try_from(plain).map_or(most, |plain| plain.saturating_add(1).min(most));
        let read = self.connection.discard(context, most).await.map_err(Failure::Broken)?;
        self.head.body.skipped(read as u64)?;
        self.note(read)?;
        count(&context.live.bytes, read as u64);
        Ok(read)
    }

    /// So many bytes have been read; none at the end of the connection.
    fn note(&mut self, read: usize) -> Result<(), Failure> {
        if read == 0 {
            self.head.body.ended()?;
            self.closed = true;
        }
        Ok(())
    }

    /// The connection, after the end of the body, if another request may follow on it.
    pub(crate) fn into_connection(self) -> Option<Connection> {
        (self.head.stays_open && !self.closed).then_some(self.connection)
    }
}
