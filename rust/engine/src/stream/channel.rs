//! The shared state of a stream, and its consumer's side.

mod delivery;
mod feed;

use std::collections::VecDeque;
use std::fmt;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc as Plain, OnceLock};
use std::task::{Context, Poll, Waker, ready};

use super::window::{Window, charge, share};
use super::{Ending, FlowConfig, Meter, ResponseHead};
use crate::error::{Code, Error, Result};
use crate::framing::{Cutter, Framing};
use crate::pool::{Pool, Purpose, Slice};
use crate::sync::{Arc, Mutex, lock};
use crate::wire::Head;

pub use delivery::{Delivery, Loan};
pub use feed::{Feed, Wanted};

/// Makes the two sides of a stream whose body is cut by `framing`.
pub fn channel(pool: &Pool, config: FlowConfig, framing: &Framing, meter: &Plain<Meter>) -> (Feed, Stream) {
    meter.opened();
    let channel = Arc::new(Channel {
        pool: pool.clone(),
        meter: Plain::clone(meter),
        head: OnceLock::new(),
        distant: OnceLock::new(),
        #[cfg(not(loom))]
        line: AtomicUsize::new(0),
        cutter: Mutex::new(Cutter::new(framing)),
        queue: Mutex::new(Queue {
            framing: framing.clone(),
            frames: VecDeque::new(),
            loans: 0,
            window: Window::new(config),
            backlog: false,
            exhausted: None,
            interim: Vec::new(),
            end: None,
            closed: false,
            holder: 0,
            producer: None,
            consumer: None,
            watcher: None,
            pusher: None,
            counted: true,
            same_task: false,
            wanted: false,
        }),
    });
    (Feed::new(Arc::clone(&channel)), Stream { channel, holder: 0 })
}

/// What [`Stream::poll_next`] answers.
type NextFrame = Poll<Option<Result<Delivery>>>;

/// Lock order: `cutter` before `queue`; neither is held while the waker of a side runs.
pub(super) struct Channel {
    pub(super) pool: Pool,
    pub(super) meter: Plain<Meter>,
    pub(super) head: OnceLock<ResponseHead>,
    /// The number of what it is fed from, where that is in another process.
    distant: OnceLock<u32>,
    /// The line in which requests wait for the connection that it is fed over; 0 for none.
    #[cfg(not(loom))]
    pub(super) line: AtomicUsize,
    pub(super) cutter: Mutex<Cutter>,
    pub(super) queue: Mutex<Queue>,
}

#[expect(clippy::struct_excessive_bools, reason = "facts that do not depend on one another")]
pub(super) struct Queue {
    /// How the cutter cuts.
    framing: Framing,
    pub(super) frames: VecDeque<Slice>,
    /// Deliveries that the engine sends: it drops them without the consumer.
    loans: usize,
    pub(super) window: Window,
    /// The cutter may hold whole frames that the window had no room for, or the end has not been told.
    pub(super) backlog: bool,
    /// The source has ended well, but not everything it gave has been cut.
    pub(super) exhausted: Option<Ending>,
    /// Interim responses that were not taken.
    pub(super) interim: Vec<Head>,
    /// How the body ended; told to the consumer after the last frame.
    pub(super) end: Option<Result<Ending>>,
    /// The consumer has left.
    pub(super) closed: bool,
    /// Which handle is the consumer's; earlier ones have been handed over.
    holder: u32,
    /// Waits for room.
    pub(super) producer: Option<Waker>,
    /// Waits for the head, a frame or the end.
    pub(super) consumer: Option<Waker>,
    /// Waits for the consumer to leave.
    pub(super) watcher: Option<Waker>,
    /// Waits for room in the pool, unless the consumer leaves.
    pub(super) pusher: Option<Waker>,
    /// The stream is one of the live ones.
    counted: bool,
    /// The task that feeds is the one that consumes, and looks at what has come after it has fed.
    same_task: bool,
    /// The consumer has waited for a frame.
    pub(super) wanted: bool,
}

impl Channel {
    /// Bytes charged, and the window in force: at most a fair share of the pool, and the floor while it is pressed.
    pub(super) fn usage(&self, queue: &Queue) -> (usize, usize) {
        let (share, pressed) = share(&self.pool, &self.meter, queue.is_sent_on());
        (queue.window.used(), queue.window.limit(share, pressed))
    }

    pub(super) fn has_room(&self, queue: &Queue) -> bool {
        // In this order: the window costs more to look at.
        queue.keeps_up() || {
            let (used, limit) = self.usage(queue);
            used < limit
        }
    }

    /// What the next read may bring: what the window has room for. A consumer that keeps up is not held to a window
    /// that has not grown yet, but to the largest that it may get. And whether that is less than what every stream may
    /// hold where memory is not short.
    pub(super) fn credit(&self, queue: &Queue) -> (usize, bool) {
        let (share, pressed) = share(&self.pool, &self.meter, queue.is_sent_on());
        let credit = if queue.keeps_up() {
            queue.window.largest(share, pressed)
        } else {
            queue.window.limit(share, pressed).saturating_sub(queue.window.used())
        };
        (credit, queue.window.is_squeezed(share))
    }

    /// Cuts what the window has room for into the queue, and ends the body behind the last frame.
    ///
    /// # Errors
    /// `POOL_FULL` changes nothing and may be retried; anything else has ended the stream.
    pub(super) fn cut(&self, cutter: &mut Cutter) -> Result<()> {
        let result = self.cut_frames(cutter);
        match &result {
            Err(error) if error.code() != Code::PoolFull => {
                let mut queue = lock(&self.queue);
                queue.backlog = false;
                queue.exhausted = None;
                queue.end.get_or_insert_with(|| Err(error.clone()));
            }
            _ => {}
        }
        result
    }

    /// As [`Channel::cut`], and waits where the pool has no room for a frame that has to be joined.
    ///
    /// The caller has locked `cutter` until this returns, and so until the pool knows the waker. So if the other side,
    /// which waits for the same room, gets the room, it came back later, and the task that waits here was woken too.
    pub(super) fn poll_cut(&self, cutter: &mut Cutter, context: &mut Context<'_>) -> Poll<Result<()>> {
        loop {
            match self.cut(cutter) {
                Err(error) if error.code() == Code::PoolFull => {}
                other => return Poll::Ready(other),
            }
            // What is had is given back at once, for the frame to be joined in. An error of another kind will come
            // of that again.
            drop(ready!(self.pool.poll_room(context, cutter.lacks(), Purpose::Control)));
        }
    }

    fn cut_frames(&self, cutter: &mut Cutter) -> Result<()> {
        let mut queue = lock(&self.queue);
        loop {
            if queue.closed {
                drop(queue);
                // What was pushed after the consumer had emptied the cutter.
                *cutter = Cutter::new(&Framing::Raw);
                return Ok(());
            }
            // One frame is always queued: it may be larger than the window.
            if !queue.frames.is_empty() && !self.has_room(&queue) {
                queue.backlog = cutter.pending() > 0 || queue.exhausted.is_some();
                return Ok(());
            }
            drop(queue);
            let frame = cutter.next(&self.pool)?;
            queue = lock(&self.queue);
            let was_last = frame.is_none();
            queue.admit(frame);
            if !was_last && cutter.pending() > 0 {
                continue;
            }
            // What comes as one frame, as an event mostly does, is over with this.
            if queue.exhausted.is_none() {
                queue.backlog = false;
                return Ok(());
            }
            if was_last {
                drop(queue);
                let last = cutter.finish(&self.pool)?;
                queue = lock(&self.queue);
                queue.backlog = false;
                queue.end = queue.exhausted.take().map(Ok);
                queue.admit(last);
                return Ok(());
            }
        }
    }

    /// Frees what has not been cut.
    fn discard(&self) {
        let pending = std::mem::replace(&mut *lock(&self.cutter), Cutter::new(&Framing::Raw));
        drop(pending);
    }

    /// The consumer has seen the end, or has left.
    fn retire(&self, queue: &mut Queue) {
        if std::mem::take(&mut queue.counted) {
            self.meter.closed();
        }
    }

    /// The waiting producer, once half the window is free (one wake-up for many frames) or the consumer has
    /// nothing left to do but wait for it.
    fn producer_to_wake(&self, queue: &mut Queue) -> Option<Waker> {
        if queue.producer.is_none() || queue.backlog {
            return None;
        }
        let (used, limit) = self.usage(queue);
        let idle = queue.frames.is_empty() && queue.consumer.is_some();
        if used * 2 <= limit || (idle && self.has_room(queue)) { queue.producer.take() } else { None }
    }
}

impl Queue {
    /// Whether the engine sends what comes: nothing is held then by a consumer who may need more to go on.
    fn is_sent_on(&self) -> bool {
        self.same_task || self.loans > 0 || self.window.is_sent_on()
    }

    /// The waiting consumer, unless it looks by itself.
    pub(super) fn consumer_to_wake(&mut self) -> Option<Waker> {
        if self.same_task { None } else { self.consumer.take() }
    }

    /// A consumer that holds only the last frame can always await the next, however large that is and small the
    /// window.
    fn keeps_up(&self) -> bool {
        self.frames.is_empty() && self.window.holds_little()
    }

    fn admit(&mut self, frame: Option<Slice>) {
        if let Some(frame) = frame.filter(|_| !self.closed) {
            self.window.take(charge(frame.len()));
            if self.frames.capacity() == 0 {
                // As the cutter does.
                self.frames.reserve_exact(1);
            }
            self.frames.push_back(frame);
        }
    }
}

/// Makes `place` the waker of `context`, which it mostly is already.
pub(super) fn register(place: &mut Option<Waker>, context: &Context<'_>) {
    match place {
        Some(waker) => waker.clone_from(context.waker()),
        None => *place = Some(context.waker().clone()),
    }
}

pub(super) fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// The consumer's side. Dropping it closes the stream.
pub struct Stream {
    channel: Arc<Channel>,
    holder: u32,
}

impl Stream {
    /// Ready with the response head, or with the error that came instead of it.
    pub fn poll_head(&self, context: &mut Context<'_>) -> Poll<Result<&ResponseHead>> {
        if let Some(head) = self.channel.head.get() {
            return Poll::Ready(Ok(head));
        }
        let mut queue = lock(&self.channel.queue);
        // The feed sets the head before it locks the queue to wake us or to end the body, so this second look misses
        // neither a wake-up nor the head of a body that has ended meanwhile.
        if let Some(head) = self.channel.head.get() {
            return Poll::Ready(Ok(head));
        }
        if self.is_out(&queue) {
            return Poll::Ready(Err(closed()));
        }
        match &queue.end {
            Some(Err(error)) => return Poll::Ready(Err(error.clone())),
            Some(Ok(_)) => return Poll::Ready(Err(Code::Internal.error("a body ended that had no head"))),
            None => {}
        }
        register(&mut queue.consumer, context);
        Poll::Pending
    }

    /// The interim responses (1xx but 100 and 101) that have come since the last call. A new one ends a wait for the
    /// head.
    pub fn take_interim(&self) -> Vec<Head> {
        std::mem::take(&mut lock(&self.channel.queue).interim)
    }

    /// The head, if it has arrived.
    pub fn head(&self) -> Option<&ResponseHead> {
        self.channel.head.get()
    }

    /// The next frame; `None` after the last. Errors of the source repeat; `WINDOW_HELD` does not end the stream.
    /// An error follows the frames before it, except frames that wait for room in the pool to be joined.
    pub fn poll_next(&self, context: &mut Context<'_>) -> NextFrame {
        loop {
            {
                let mut queue = lock(&self.channel.queue);
                if self.is_out(&queue) {
                    return Poll::Ready(Some(Err(closed())));
                }
                if let Some(delivery) = self.take_from(&mut queue, true) {
                    return Poll::Ready(Some(Ok(delivery)));
                }
                if !queue.backlog {
                    let (poll, producer) = self.wait(&mut queue, context);
                    drop(queue);
                    wake(producer);
                    return poll;
                }
            }
            // What the producer left uncut for want of room is cut here, now that the queue is empty.
            let cut = self.channel.poll_cut(&mut lock(&self.channel.cutter), context);
            if cut.is_pending() && self.wait_for_pool(context).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Ready when `least` bytes wait here, or as many as there is room for, or the body has ended: whether it has.
    ///
    /// # Errors
    /// How it ended, if not well.
    #[cfg(not(loom))]
    pub fn poll_gathered(&self, context: &mut Context<'_>, least: usize) -> Poll<Result<bool>> {
        let mut queue = lock(&self.channel.queue);
        if self.is_out(&queue) {
            return Poll::Ready(Err(closed()));
        }
        if let Some(end) = &queue.end {
            return Poll::Ready(end.clone().map(|_| true));
        }
        let (used, limit) = self.channel.usage(&queue);
        if queue.exhausted.is_some() || queue.backlog || used >= least.min(limit) {
            return Poll::Ready(Ok(queue.exhausted.is_some()));
        }
        // The producer may wait for the first wish of a consumer.
        let is_first = !std::mem::replace(&mut queue.wanted, true);
        let producer = if is_first { queue.producer.take() } else { None };
        register(&mut queue.consumer, context);
        drop(queue);
        wake(producer);
        Poll::Pending
    }

    /// What may end a wait for the pool besides room in it: frames that the producer cuts, and a failure. A failure
    /// does not wait for a frame that may never have room: what has not been cut then goes with it.
    fn wait_for_pool(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut queue = lock(&self.channel.queue);
        if !matches!(queue.end, Some(Err(_))) {
            if !queue.frames.is_empty() {
                return Poll::Ready(());
            }
            register(&mut queue.consumer, context);
            return Poll::Pending;
        }
        queue.backlog = false;
        drop(queue);
        self.channel.discard();
        Poll::Ready(())
    }

    /// What to tell a consumer for whom there is no frame, and the producer to wake.
    fn wait(&self, queue: &mut Queue, context: &mut Context<'_>) -> (NextFrame, Option<Waker>) {
        if let Some(end) = &queue.end {
            let last = end.as_ref().err().cloned().map(Err);
            self.channel.retire(queue);
            return (Poll::Ready(last), None);
        }
        queue.wanted = true;
        if queue.producer.is_some() {
            queue.window.ran_dry();
            if !self.channel.has_room(queue) {
                if queue.loans > 0 {
                    register(&mut queue.consumer, context);
                    return (Poll::Pending, None);
                }
                let (used, limit) = self.channel.usage(queue);
                let held = Code::WindowHeld.error(format!(
                    "the consumer holds {used} bytes of a window of {limit} and awaits more; release frames first"
                ));
                return (Poll::Ready(Some(Err(held))), None);
            }
        }
        register(&mut queue.consumer, context);
        (Poll::Pending, queue.producer.take())
    }

    /// Chooses how the rest of a raw body is cut, including what has arrived and was not yet taken. The framing that is
    /// in force already changes nothing.
    ///
    /// # Errors
    /// `ALREADY_FRAMED` if the body is not raw any more. Its framing may have dropped line ends, lengths or whole
    /// blocks of what is queued, so another one would find other frames than the body has. Nothing has changed then.
    pub fn set_framing(&self, framing: &Framing) -> Result<()> {
        let mut cutter = lock(&self.channel.cutter);
        let mut queue = lock(&self.channel.queue);
        if queue.framing == *framing {
            return Ok(());
        }
        if queue.framing != Framing::Raw {
            return Err(Code::AlreadyFramed.error(
                "the body is being cut by another framing; choose the framing once, while it is raw",
            ));
        }
        queue.framing = framing.clone();
        let mut fresh = Cutter::new(framing);
        for slice in std::mem::take(&mut queue.frames) {
            queue.window.give(charge(slice.len()));
            fresh.push(slice);
        }
        for slice in std::mem::replace(&mut *cutter, Cutter::new(&Framing::Raw)).into_pending() {
            fresh.push(slice);
        }
        // A body that had ended well ends again behind the frames of the new framing.
        if let Some(Ok(ending)) = queue.end.take_if(|end| end.is_ok()) {
            queue.exhausted = Some(ending);
        }
        queue.backlog = true;
        *cutter = fresh;
        Ok(())
    }

    /// Promises that the task that feeds this stream also consumes it, and polls the consumer whenever it has polled the
    /// producer, and after it. The consumer is then not woken by what comes: it would be polled a second time, for
    /// nothing, for each chunk.
    pub fn fed_by_own_task(&self) {
        lock(&self.channel.queue).same_task = true;
    }

    /// What it is fed from is in another process, where it has this number.
    #[cfg(not(loom))]
    pub(crate) fn set_distant(&self, number: u32) {
        // Set once, by the maker of the stream.
        let _ = self.channel.distant.set(number);
    }

    /// The flow that it is fed from, if that is in another process and no part of it was requested here.
    #[cfg(not(loom))]
    pub fn distant(&self) -> Option<u32> {
        let number = self.channel.distant.get().copied();
        number.filter(|_| !lock(&self.channel.queue).wanted)
    }

    /// The line in which requests wait for the connection that it is fed over; 0 for none.
    #[cfg(not(loom))]
    pub(crate) fn line(&self) -> usize {
        // Relaxed: a value that is a moment old does no harm.
        self.channel.line.load(Ordering::Relaxed)
    }

    /// What followed the body, once it has ended well.
    pub fn ending(&self) -> Option<Ending> {
        match &lock(&self.channel.queue).end {
            Some(Ok(ending)) => Some(ending.clone()),
            _ => None,
        }
    }

    /// Makes another handle the consumer's. To this one the stream is closed from now on; it still knows the head and,
    /// in time, the ending.
    ///
    /// # Errors
    /// `STREAM_CLOSED`: it was closed or handed over before.
    pub fn hand_over(&self) -> Result<Self> {
        let mut queue = lock(&self.channel.queue);
        if self.is_out(&queue) {
            return Err(closed());
        }
        queue.holder += 1;
        let consumer = queue.consumer.take();
        let holder = queue.holder;
        drop(queue);
        wake(consumer);
        Ok(Self { channel: Arc::clone(&self.channel), holder })
    }

    /// Whether this handle is no consumer, or the consumer has left.
    fn is_out(&self, queue: &Queue) -> bool {
        queue.closed || queue.holder != self.holder
    }

    /// Ends the stream from this side: the source is cancelled, queued frames are freed. Idempotent.
    pub fn close(&self) {
        let (woken, frames) = {
            let mut queue = lock(&self.channel.queue);
            if queue.holder != self.holder {
                return;
            }
            queue.closed = true;
            self.channel.retire(&mut queue);
            queue.consumer = None;
            let frames = std::mem::take(&mut queue.frames);
            for slice in &frames {
                queue.window.give(charge(slice.len()));
            }
            queue.backlog = false;
            ([queue.producer.take(), queue.watcher.take(), queue.pusher.take()], frames)
        };
        drop(frames);
        self.channel.discard();
        woken.into_iter().for_each(wake);
    }

    /// A frame, if one is queued: what a consumer takes along after [`Stream::poll_next`] gave it one.
    pub fn take_ready(&self) -> Option<Delivery> {
        let mut queue = lock(&self.channel.queue);
        if self.is_out(&queue) { None } else { self.take_from(&mut queue, false) }
    }

    fn take_from(&self, queue: &mut Queue, first: bool) -> Option<Delivery> {
        let slice = queue.frames.pop_front()?;
        queue.window.hand_over(first);
        Some(Delivery::new(slice, Arc::clone(&self.channel)))
    }

    /// Whether the body is cut into frames, each of which is whole.
    pub fn is_framed(&self) -> bool {
        lock(&self.channel.queue).framing != Framing::Raw
    }

    /// Whether the body has ended and every frame of it was taken.
    pub fn is_over(&self) -> bool {
        let queue = lock(&self.channel.queue);
        queue.end.is_some() && queue.frames.is_empty() && !queue.backlog
    }

    /// Whether the body has ended well and every frame of it was taken.
    pub fn is_done(&self) -> bool {
        let queue = lock(&self.channel.queue);
        matches!(queue.end, Some(Ok(_))) && queue.frames.is_empty() && !queue.backlog
    }

    /// Whether [`Stream::close`] was called, or [`Stream::hand_over`].
    pub fn is_closed(&self) -> bool {
        self.is_out(&lock(&self.channel.queue))
    }

    /// Bytes queued for or held by this consumer, and the window they are held against.
    pub fn held(&self) -> (usize, usize) {
        self.channel.usage(&lock(&self.channel.queue))
    }

    /// The pool that holds the frames.
    pub fn pool(&self) -> &Pool {
        &self.channel.pool
    }
}

fn closed() -> Error {
    Code::StreamClosed.error("the stream has been closed")
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.channel.pool.dead() {
            self.close();
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").finish_non_exhaustive()
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel").finish_non_exhaustive()
    }
}
