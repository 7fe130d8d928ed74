//! Waits for a connection's bytes and reads them into the pool.
//!
//! The order is what bounds memory: first the socket must be readable, then a slab is taken, then there is exactly
//! one read into it; into two, the head's and the body's, if a long body is expected to follow the head. A stream that
//! waits holds no slab, unless its consumer still holds a part of it. The limit on waiting runs only here, so that
//! neither a slow consumer nor a full pool is taken for a slow origin.

use std::future::poll_fn;
use std::io::{self, IoSliceMut};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Instant;

use super::Peer;
use super::connection::Connection;
use super::watch::Watch;
use crate::clock;
use crate::error::{Code, Result};
use crate::pool::{CLASSES, CopyReason, Pool, PoolState, Purpose, Slice, Writer};
use crate::stream::Feed;
use crate::stream::reading::{self, worth_filling};

/// A slab whose slices are still held when the wait begins is looked at again after this long: short against the
/// life of an idle stream, long against the gap between two events. Arbitrary.
const LINGER: Duration = Duration::from_secs(1);

/// What a read brought.
#[derive(Debug)]
pub(crate) enum Read {
    Bytes {
        slice: Slice,
        /// How many there was room for.
        offered: usize,
    },
    /// The end of the connection; over TLS it is clean only if the other side said so.
    End { clean: bool },
    /// The socket had promised more than it had.
    Nothing,
}

/// Reads messages from one connection, which each call is given: the caller may own both.
#[derive(Debug)]
pub(crate) struct Reader {
    peer: Peer,
    pool: Pool,
    writer: Option<Writer>,
    /// Bytes that frames still need in the memory that was taken for them alone.
    reserved: usize,
    /// The memory of the body, which the first read of the head was offered as well; and what it has brought of the body.
    next: Option<Writer>,
    ahead: Option<Slice>,
    limit: Watch,
    linger: Watch,
    wait: Wait,
}

/// How far a wait for bytes has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// No wait.
    Over,
    /// Its limit does not run yet.
    Begun,
    Limited,
}

impl Reader {
    /// `limit` is the timer of an earlier reader of the connection.
    pub(crate) fn new(peer: Peer, pool: &Pool, limit: Watch) -> Self {
        Self {
            peer,
            pool: pool.clone(),
            writer: None,
            reserved: 0,
            next: None,
            ahead: None,
            limit,
            linger: Watch::default(),
            wait: Wait::Over,
        }
    }

    /// Waits until a read is worth a slab, from when `runs` says so for at most `limit`.
    ///
    /// # Errors
    /// `code` after that time.
    pub(crate) async fn readable(
        &mut self,
        connection: &Connection,
        limit: Option<Duration>,
        code: Code,
        runs: impl Fn() -> bool,
    ) -> Result<()> {
        self.wait = Wait::Over;
        poll_fn(|context| self.poll_readable(context, connection, limit, code, &runs)).await
    }

    /// As [`Reader::readable`]. Once begun, a wait is polled to its end, or begun anew by that.
    pub(crate) fn poll_readable(
        &mut self,
        context: &mut Context<'_>,
        connection: &Connection,
        limit: Option<Duration>,
        code: Code,
        runs: impl Fn() -> bool,
    ) -> Poll<Result<()>> {
        if let Poll::Ready(ready) = connection.poll_readable(context) {
            self.wait = Wait::Over;
            return Poll::Ready(ready.map_err(|error| self.peer.broken(&error)));
        }
        // One look at the clock a wait, for both timers.
        let begun = (self.wait == Wait::Over).then(clock::now);
        if begun.is_some() {
            self.wait = Wait::Begun;
            self.free_unused();
        }
        let expired = match self.wait {
            Wait::Limited => self.limit.poll_expired(context),
            _ if runs() => {
                self.wait = Wait::Limited;
                self.limit.poll_start(context, begun.unwrap_or_else(clock::now), limit)
            }
            _ => Poll::Pending,
        };
        if expired.is_ready() {
            return Poll::Ready(Err(self.peer.silent(code, limit.unwrap_or_default())));
        }
        // Timers, too, are memory that an idle stream has no use for. An armed one wakes it once, and is dropped then.
        if limit.is_none() {
            self.limit.drop_fired();
        }
        // Most event streams have neither here: to ask first takes 40 instructions less for each event.
        if self.writer.is_some() || self.linger.is_running() {
            self.linger(context, begun);
        }
        Poll::Pending
    }

    /// What is waited for may take `limit` from now on.
    pub(crate) fn wait_anew(&mut self, limit: Option<Duration>) {
        if self.wait == Wait::Limited {
            self.limit.start(limit);
        }
    }

    /// Gives a slab back that is not needed while nothing comes; looks at it from `begin`, if the wait begins now.
    fn linger(&mut self, context: &mut Context<'_>, mut begin: Option<Instant>) {
        while self.writer.is_some() {
            let expired = match begin.take() {
                Some(now) => self.linger.poll_start(context, now, Some(LINGER)),
                None => self.linger.poll_expired(context),
            };
            if expired.is_pending() {
                return;
            }
            self.free_unused();
            self.linger.start(Some(LINGER));
        }
        self.linger = Watch::default();
    }

    /// The head has been read, and `remaining` bytes of body follow it, if that is known. What is left of the head's
    /// slab serves only a body that fits into it: to fill it first would cost every other body a short read.
    pub(crate) fn end_head(&mut self, remaining: Option<u64>) {
        match self.next.take() {
            Some(next) => self.writer = Some(next),
            None => {
                self.writer.take_if(|writer| remaining.is_none_or(|bytes| bytes > writer.remaining() as u64));
            }
        }
    }

    /// Whether something has come that no head and no body has been given.
    pub(crate) fn is_ahead(&self) -> bool {
        self.ahead.is_some()
    }

    /// What came after the memory of the head, in the same read.
    pub(crate) fn take_ahead(&mut self) -> Option<Slice> {
        self.ahead.take()
    }

    /// Bytes of the memory that the next read may continue.
    pub(crate) fn capacity(&self) -> usize {
        self.writer.as_ref().map_or(0, Writer::capacity)
    }

    /// The timer, for the next reader of the connection.
    pub(crate) fn take_limit(&mut self) -> Watch {
        std::mem::take(&mut self.limit)
    }

    /// The next message begins, and its reads need not continue the slab of the last one's.
    pub(crate) fn restart(&mut self) {
        (self.writer, self.next, self.ahead) = (None, None, None);
        self.reserved = 0;
    }

    /// What the memory of heads is taken for.
    fn purpose(&self) -> Purpose {
        match self.peer {
            Peer::Client => Purpose::Head,
            Peer::Origin => Purpose::Control,
        }
    }

    fn free_unused(&mut self) {
        if self.reserved == 0 && self.writer.as_mut().is_some_and(Writer::reclaim) {
            self.writer = None;
        }
        if self.ahead.is_none() {
            self.next = None;
        }
    }

    /// Sees to it that more can be read behind `held`, the beginning of a head. One that outgrows its slab moves to a
    /// larger one, and one that follows the body of another message to one of its own, so that a few bytes do not
    /// keep a large one. No payload is in it yet.
    pub(crate) async fn make_room(&mut self, held: &mut Option<Slice>) -> Result<()> {
        if self.writer.as_ref().is_none_or(|writer| writer.remaining() == 0) {
            let size = held.as_ref().map_or(CLASSES[0], |held| held.len() * 2);
            let purpose = self.purpose();
            let mut writer = poll_fn(|context| self.pool.poll_room(context, size, purpose)).await?;
            if let Some(held) = held {
                writer.spare()[..held.len()].copy_from_slice(held);
                *held = writer.commit(held.len());
            }
            self.writer = Some(writer);
        }
        Ok(())
    }

    /// Reads once behind `held`, the beginning of a head, and makes it one with what was read: at most `most` bytes. What
    /// follows these goes into memory for `beyond` bytes, unless that is 0, there is too little memory or the connection is
    /// not plain: see [`Reader::take_ahead`].
    pub(crate) async fn read_on(
        &mut self,
        connection: &Connection,
        held: &mut Option<Slice>,
        most: usize,
        beyond: usize,
    ) -> Result<Read> {
        self.make_room(held).await?;
        if beyond > 0 && !connection.is_tls() && self.pool.state() == PoolState::Open {
            self.next = self.pool.writer(beyond, Purpose::Bulk).ok();
        }
        let purpose = self.purpose();
        let read = match self.pull() {
            Some(read) => read,
            None => poll_fn(|context| self.poll_read(context, connection, 0, most, purpose)).await?,
        };
        if let Read::Bytes { slice, .. } = &read {
            match held {
                Some(held) => held.join(slice.clone()).expect("a read continues the slab of the one before"),
                None => *held = Some(slice.clone()),
            }
        }
        Ok(read)
    }

    /// What came ahead belongs to the head: it is longer than it was expected to be.
    fn pull(&mut self) -> Option<Read> {
        let (ahead, writer) = (self.ahead.as_mut()?, self.writer.as_mut().expect("there is room"));
        let offered = writer.remaining();
        let pulled = ahead.split_to(ahead.len().min(offered));
        self.ahead.take_if(|ahead| ahead.is_empty());
        writer.spare()[..pulled.len()].copy_from_slice(&pulled);
        Some(Read::Bytes { slice: writer.commit(pulled.len()), offered })
    }

    /// Reads once into a slab for about `size` bytes, and no more than `most` unless memory was reserved.
    pub(crate) async fn read(&mut self, connection: &Connection, size: usize, most: usize) -> Result<Read> {
        poll_fn(|context| self.poll_body(context, connection, size, most)).await
    }

    /// As [`Reader::read`].
    pub(crate) fn poll_body(
        &mut self,
        context: &mut Context<'_>,
        connection: &Connection,
        size: usize,
        most: usize,
    ) -> Poll<Result<Read>> {
        let size = size.min(most);
        self.prepare(size);
        self.poll_read(context, connection, size, most, Purpose::Bulk)
    }

    /// From now on, what the current frame of `feed` lacks goes into one piece of memory with its beginning, if the
    /// frame is worth that. `remaining` bytes are left of the body.
    pub(crate) fn poll_reserve(
        &mut self,
        context: &mut Context<'_>,
        feed: &Feed,
        remaining: usize,
    ) -> Poll<Result<()>> {
        if self.reserved == 0 {
            let reserve = reading::poll_reserve(context, &self.pool, feed, &mut self.writer, remaining);
            self.reserved = ready!(reserve)?;
        }
        Poll::Ready(Ok(()))
    }

    /// The slab of the last read, if it still pays; `None` asks for another.
    fn prepare(&mut self, size: usize) {
        if self.reserved > 0 {
            return;
        }
        let Some(writer) = &mut self.writer else { return };
        let fits = if writer.reclaim() {
            writer.capacity() == slab_for(size)
        } else {
            worth_filling(writer.remaining(), writer.capacity())
        };
        if !fits {
            self.writer = None;
        }
    }

    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        connection: &Connection,
        size: usize,
        most: usize,
        purpose: Purpose,
    ) -> Poll<Result<Read>> {
        if self.writer.is_none() {
            self.writer = Some(ready!(self.pool.poll_some(context, size, purpose))?);
        }
        let writer = self.writer.as_mut().expect("taken above");
        let offered = if self.reserved > 0 { self.reserved } else { writer.remaining().min(most) };
        let memory = &mut writer.spare()[..offered];
        let read = match &mut self.next {
            None => connection.poll_read(context, memory),
            Some(next) => {
                let parts = &mut [IoSliceMut::new(memory), IoSliceMut::new(next.spare())];
                match connection.read_vectored(parts) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
                    read => Poll::Ready(read),
                }
            }
        };
        let count = match read {
            Poll::Ready(Ok(0)) => return Poll::Ready(Ok(Read::End { clean: true })),
            Poll::Ready(Ok(count)) => count,
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Poll::Ready(Ok(Read::End { clean: false }));
            }
            Poll::Ready(Err(error)) => return Poll::Ready(Err(self.peer.broken(&error))),
            Poll::Pending => return Poll::Ready(Ok(Read::Nothing)),
        };
        if connection.is_tls() {
            self.pool.count_copy(CopyReason::Tls, count);
        }
        let slice = writer.commit(count.min(offered));
        if let Some(next) = self.next.as_mut().filter(|_| count > offered) {
            self.ahead = Some(next.commit(count - offered));
        }
        if self.reserved > 0 {
            self.reserved -= count;
            if self.reserved == 0 {
                self.writer = None;
            }
        }
        Poll::Ready(Ok(Read::Bytes { slice, offered }))
    }
}

fn slab_for(size: usize) -> usize {
    CLASSES.into_iter().find(|class| *class >= size).unwrap_or(size)
}
