//! The producer's side of a stream.

use std::fmt;
use std::future::poll_fn;
#[cfg(not(loom))]
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use super::super::window::round;
use super::super::{Ending, ResponseHead};
use super::{Channel, register, wake};
use crate::error::{Code, Error, Result};
use crate::framing::Cutter;
use crate::pool::{Slice, Writer};
use crate::sync::{Arc, lock};
use crate::wire::Head;

/// Where a source puts what it has read. Dropping it without [`Feed::finish`] or [`Feed::fail`] ends the stream with
/// `ENGINE_CLOSED`, so that a task that is torn down never leaves a body that looks whole.
pub struct Feed {
    channel: Arc<Channel>,
}

/// A frame whose length is known before all of it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Bytes of it that have come.
    pub begun: usize,
    /// Bytes that are missing.
    pub missing: usize,
    /// All frames have its size.
    pub repeats: bool,
}

impl Feed {
    pub(super) fn new(channel: Arc<Channel>) -> Self {
        Self { channel }
    }

    /// Ready when the source may be read.
    ///
    /// # Errors
    /// `STREAM_CLOSED`: the consumer left, or the stream has ended in an error.
    pub fn poll_room(&self, context: &mut Context<'_>) -> Poll<Result<()>> {
        let consumer = {
            let mut queue = lock(&self.channel.queue);
            if queue.closed || queue.end.is_some() {
                return Poll::Ready(Err(gone()));
            }
            if !queue.backlog && self.channel.has_room(&queue) {
                return Poll::Ready(Ok(()));
            }
            queue.window.note_stopped();
            register(&mut queue.producer, context);
            // A consumer that waits with nothing queued holds the window itself: it must look again and be told.
            if queue.frames.is_empty() { queue.consumer_to_wake() } else { None }
        };
        wake(consumer);
        Poll::Pending
    }

    /// Waits until the source may be read; see [`Feed::poll_room`].
    pub async fn room(&self) -> Result<()> {
        poll_fn(|context| self.poll_room(context)).await
    }

    /// The engine alone takes what comes, and sends it or keeps it: it holds no more than what is left of the pool.
    #[cfg(not(loom))]
    pub(crate) fn send_on(&self) {
        lock(&self.channel.queue).window.send_on();
    }

    /// Resolves when the consumer has waited for a frame, or has left.
    pub async fn wanted(&self) {
        poll_fn(|context| {
            let mut queue = lock(&self.channel.queue);
            if queue.wanted || queue.closed {
                return Poll::Ready(());
            }
            register(&mut queue.producer, context);
            Poll::Pending
        })
        .await;
    }

    /// How many bytes the next read should bring at most: the credit that is left, rounded to slabs.
    pub fn credit(&self) -> usize {
        let (credit, squeezed) = self.channel.credit(&lock(&self.channel.queue));
        round(credit, squeezed)
    }

    /// Bytes that wait for the consumer, or that it holds.
    #[cfg(not(loom))]
    pub(crate) fn held(&self) -> usize {
        self.channel.usage(&lock(&self.channel.queue)).0
    }

    /// What comes from now on comes over a connection for which requests wait in `line`; 0 for none.
    #[cfg(not(loom))]
    pub(crate) fn feed_on(&self, line: usize) {
        self.channel.line.store(line, Ordering::Relaxed);
    }

    /// Resolves when the consumer has left.
    pub async fn closed(&self) {
        poll_fn(|context| {
            let mut queue = lock(&self.channel.queue);
            if queue.closed {
                return Poll::Ready(());
            }
            register(&mut queue.watcher, context);
            Poll::Pending
        })
        .await;
    }

    /// Passes an interim response on.
    pub fn push_interim(&self, head: Head) {
        let consumer = {
            let mut queue = lock(&self.channel.queue);
            if queue.closed {
                return;
            }
            queue.interim.push(head);
            queue.consumer_to_wake()
        };
        wake(consumer);
    }

    /// Publishes the response head.
    ///
    /// # Panics
    /// If there was one already.
    pub fn set_head(&self, head: ResponseHead) {
        self.channel.head.set(head).expect("a response has one head");
        let consumer = lock(&self.channel.queue).consumer_to_wake();
        wake(consumer);
    }

    /// Appends payload. Waits only for room in the pool, if a frame has to be joined.
    ///
    /// # Errors
    /// What the framing makes of the bytes; the stream has then ended with it. `STREAM_CLOSED` as in
    /// [`Feed::poll_room`].
    pub async fn push(&self, slice: Slice) -> Result<()> {
        let mut pieces = vec![slice];
        poll_fn(|context| self.poll_push(context, &mut pieces)).await
    }

    /// As [`Feed::push`], for all of `pieces`, which it empties. While it is pending, it is called again.
    pub fn poll_push(&self, context: &mut Context<'_>, pieces: &mut Vec<Slice>) -> Poll<Result<()>> {
        let result = {
            let mut cutter = lock(&self.channel.cutter);
            if !pieces.is_empty() {
                self.accept(&mut cutter, pieces.drain(..))?;
            }
            self.channel.poll_cut(&mut cutter, context)
        };
        self.tell_consumer();
        if result.is_pending() {
            let mut queue = lock(&self.channel.queue);
            if queue.closed {
                return Poll::Ready(Err(gone()));
            }
            register(&mut queue.pusher, context);
        }
        result
    }

    /// As [`Feed::push`] for a raw stream fed from outside an engine thread, where nothing is ever joined.
    pub fn push_raw(&self, slice: Slice) -> Result<()> {
        self.accept(&mut lock(&self.channel.cutter), [slice])?;
        self.cut()
    }

    fn accept(&self, cutter: &mut Cutter, slices: impl IntoIterator<Item = Slice>) -> Result<()> {
        let queue = lock(&self.channel.queue);
        if queue.closed || queue.end.is_some() {
            return Err(gone());
        }
        drop(queue);
        let mut bytes = 0;
        for slice in slices {
            bytes += slice.len();
            cutter.push(slice);
        }
        self.channel.meter.received(bytes);
        Ok(())
    }

    fn cut(&self) -> Result<()> {
        let result = self.channel.cut(&mut lock(&self.channel.cutter));
        self.tell_consumer();
        result
    }

    /// Wakes the consumer if there is something for it.
    fn tell_consumer(&self) {
        let consumer = {
            let mut queue = lock(&self.channel.queue);
            let something = !queue.frames.is_empty() || queue.end.is_some() || queue.backlog;
            if something { queue.consumer_to_wake() } else { None }
        };
        wake(consumer);
    }

    /// The current frame, if its length is known.
    pub fn wants(&self) -> Option<Wanted> {
        let cutter = lock(&self.channel.cutter);
        let missing = cutter.wants()?;
        Some(Wanted { begun: cutter.pending(), missing, repeats: cutter.repeats() })
    }

    /// Moves the beginning of the current frame to the front of `writer`, so that the rest is read right after it. If
    /// it does not fit, because the framing was changed meanwhile, nothing is moved.
    pub fn carry(&self, writer: &mut Writer) {
        let mut cutter = lock(&self.channel.cutter);
        if cutter.wants().is_some() && cutter.pending() <= writer.remaining() {
            cutter.carry(&self.channel.pool, writer);
        }
    }

    /// Ends the body well, behind what has been pushed.
    pub fn finish(self, ending: Ending) {
        {
            let mut queue = lock(&self.channel.queue);
            if queue.end.is_none() {
                queue.exhausted = Some(ending);
            }
        }
        // A refused join leaves the rest to the consumer, which waits for the room itself.
        if self.cut().is_err() {
            let consumer = {
                let mut queue = lock(&self.channel.queue);
                queue.backlog = queue.end.is_none();
                queue.consumer_to_wake()
            };
            wake(consumer);
        }
    }

    /// Ends the body with an error, behind what has been pushed.
    pub fn fail(self, error: Error) {
        self.end(error);
    }

    fn end(&self, error: Error) {
        let consumer = {
            let mut queue = lock(&self.channel.queue);
            if queue.end.is_some() || queue.exhausted.is_some() {
                return;
            }
            queue.end = Some(Err(error));
            queue.consumer_to_wake()
        };
        wake(consumer);
    }
}

fn gone() -> Error {
    Code::StreamClosed.error("the reader of this stream has gone")
}

impl Drop for Feed {
    fn drop(&mut self) {
        if !self.channel.pool.dead() {
            self.end(Code::EngineClosed.error("the engine was closed before the end of the body"));
        }
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").finish_non_exhaustive()
    }
}
