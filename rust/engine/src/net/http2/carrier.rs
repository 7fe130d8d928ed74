//! A connection of HTTP/2, and what its streams share: the session, the bodies that wait, and what is being written.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use penstock_http2::{ErrorCode, Failure, Frame, Session};
use tokio::io::ReadBuf;

use super::meter::{Excess, Meter};
use crate::net::{Connection, Lease, Untaken};
use crate::runtime;
use crate::sync::{Mutex, MutexGuard, lock};

/// Bytes of one frame of a body: with its head of 9 bytes it is one record of TLS (RFC 8446, section 5.1).
const FRAME: usize = (16 << 10) - 9;
/// At the end of a body, where that saves a frame: a frame takes longer than the part of a record that is left over.
const LAST_FRAME: usize = 16 << 10;
/// Bytes that are put in order ahead of the socket: more than one write of TLS, so that a connection that takes all is never
/// without. What is needed more urgently goes after them. Arbitrary.
const AHEAD: usize = 96 << 10;
/// A frame with fewer bytes, of more that wait, is one that the other side had us make: each costs as much as a whole one.
/// Arbitrary.
const STARVED: usize = 256;
/// Bytes that are read at a time: a record of TLS.
const READ: usize = 16 << 10;
/// Reads after which the other tasks of the thread have their turn. Arbitrary.
const READS: usize = 16;
/// Parts of one write. Arbitrary: 96 KiB are six frames, with their heads.
const PARTS: usize = 32;
const FEW_PARTS: usize = 4;
/// Bytes of memory for frames that is kept while there is no frame: room for the heads of some events. Arbitrary.
const KEPT: usize = 64;
/// Bytes of frames that are written, from which on the others move to their place. Arbitrary.
const PASSED: usize = 4096;
/// Parts of a body for which memory is kept while none waits. Arbitrary.
const KEPT_PARTS: usize = 8;

/// A connection.
#[derive(Debug)]
pub(super) struct Carrier {
    pub(super) connection: Arc<Connection>,
    shared: Mutex<Shared>,
}

/// What the streams share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) session: Session,
    meter: Meter,
    /// Of streams that have something to send.
    bodies: Vec<(u32, VecDeque<Unsent>)>,
    /// The memory of a body that is sent, for the next one.
    spare: VecDeque<Unsent>,
    /// In the order in which it is written.
    outgoing: VecDeque<Outgoing>,
    /// Frames of which `outgoing` has the places: all but bodies.
    frames: Vec<u8>,
    ahead: usize,
    /// Wakes the task that reads and writes.
    task: Option<Waker>,
    /// It serves streams now, and looks at what is due afterwards.
    is_attended: bool,
    is_due: bool,
    /// Of streams that wait until the other side takes one more.
    waiting: Vec<Waker>,
    /// The stream that had something to send last, and the turn of the thread.
    flushed: (u32, u64),
    /// A turn of the thread, and how many bytes the other side had taken then: each event that waits asks, and the kernel was asked
    /// as often.
    taken: (u64, usize),
    /// What was wrong with what the other side sent.
    pub(super) failure: Option<Failure>,
    /// Nothing comes and goes any more.
    pub(super) is_lost: bool,
}

/// A part of a lease that no frame has yet.
#[derive(Debug)]
pub(super) struct Unsent {
    pub(super) lease: Arc<Lease>,
    pub(super) part: usize,
    pub(super) range: Range<usize>,
}

impl Unsent {
    /// The first `count` bytes.
    fn take(&mut self, count: usize) -> Self {
        let middle = self.range.start + count;
        let range = self.range.start..middle;
        self.range.start = middle;
        Self { lease: Arc::clone(&self.lease), part: self.part, range }
    }
}

/// What is to be written next.
#[derive(Debug)]
enum Outgoing {
    /// A place in the frames.
    Frames(Range<usize>),
    Body(Unsent),
}

impl Outgoing {
    fn bytes<'a>(&'a self, frames: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Frames(range) => &frames[range.clone()],
            Self::Body(unsent) => &unsent.lease.parts()[unsent.part][unsent.range.clone()],
        }
    }

    fn advance(&mut self, count: usize) {
        match self {
            Self::Frames(range) => range.start += count,
            Self::Body(unsent) => unsent.range.start += count,
        }
    }
}

impl Carrier {
    pub(super) fn new(connection: Arc<Connection>, session: Session, meter: Meter) -> Self {
        let shared = Shared {
            session,
            meter,
            bodies: Vec::new(),
            spare: VecDeque::new(),
            outgoing: VecDeque::new(),
            frames: Vec::new(),
            ahead: 0,
            task: None,
            is_attended: false,
            is_due: false,
            waiting: Vec::new(),
            flushed: (0, 0),
            taken: (0, 0),
            failure: None,
            is_lost: false,
        };
        Self { connection, shared: Mutex::new(shared) }
    }

    pub(super) fn shared(&self) -> MutexGuard<'_, Shared> {
        lock(&self.shared)
    }

    /// What the other side did too often, if anything.
    pub(super) fn excess(&self) -> Option<Excess> {
        self.shared().meter.excess()
    }

    /// What the other side has not taken of what a stream sends.
    pub(super) fn untaken(&self, stream: u32) -> Option<Untaken> {
        let mut shared = self.shared();
        let unframed = shared.session.unsent(stream);
        if shared.session.is_held(stream) {
            return Some(Untaken { unframed, written: None });
        }
        let turn = runtime::turn();
        if shared.taken.0 != turn || turn == 0 {
            let written = usize::try_from(shared.meter.written()).unwrap_or(usize::MAX);
            let waiting = self.connection.untaken()?.written?;
            shared.taken = (turn, written.saturating_sub(waiting));
        }
        Some(Untaken { unframed, written: Some(usize::MAX - shared.taken.1) })
    }

    /// Reads and writes what there is. Ready at the end of the connection; what was wrong is told by the fields of [`Shared`].
    pub(super) fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut shared = self.shared();
        if !shared.task.as_ref().is_some_and(|task| task.will_wake(context.waker())) {
            shared.task = Some(context.waker().clone());
        }
        let read = shared.poll_read(&self.connection, context);
        let written = shared.poll_write(&self.connection, context);
        shared.wake_waiting();
        let is_lost = matches!(written, Poll::Ready(Err(_)));
        if read.is_ready() || is_lost {
            // What was wrong is still to be said, after the frame that is being written.
            let is_due = !is_lost && (shared.failure.is_some() || shared.meter.excess().is_some());
            shared.lose(is_due);
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

impl Shared {
    /// Has the task of the connection write.
    pub(super) fn kick(&mut self) {
        if self.is_attended {
            self.is_due = true;
        } else if let Some(task) = &self.task {
            task.wake_by_ref();
        }
    }

    /// The task of the connection serves streams, and writes afterwards.
    pub(super) fn attend(&mut self) {
        self.is_attended = true;
    }

    /// Writes what has become due while streams were served; whether there was something.
    pub(super) fn settle(&mut self, connection: &Connection, context: &mut Context<'_>) -> bool {
        self.is_attended = false;
        if !std::mem::take(&mut self.is_due) {
            return false;
        }
        let written = self.poll_write(connection, context);
        if matches!(written, Poll::Ready(Err(_))) || self.session.is_over() {
            // The task meets the error as well, or the end.
            self.kick();
        }
        true
    }

    /// Wakes the streams that wait for room, if there is some, or will never be.
    fn wake_waiting(&mut self) {
        if !self.waiting.is_empty() && (self.session.room() > 0 || self.session.is_refused()) {
            self.waiting.drain(..).for_each(Waker::wake);
        }
    }

    /// Writes what there is, if streams have something one at a time; what several have goes together, by the task of the
    /// connection.
    pub(super) fn flush(&mut self, stream: u32, connection: &Connection) {
        if self.outgoing.is_empty() && !self.session.has_output() {
            return;
        }
        let turn = runtime::turn();
        let (last, before) = std::mem::replace(&mut self.flushed, (stream, turn));
        if last != stream {
            self.session.note_pace(before == turn);
        }
        let Some(task) = self.task.clone().filter(|_| self.session.is_sparse() && !self.is_lost) else {
            return self.kick();
        };
        if let Poll::Ready(Err(_)) = self.poll_write(connection, &mut Context::from_waker(&task)) {
            // It meets the error as well.
            self.kick();
        }
    }

    /// Has the task of the connection write, if there is something besides bodies.
    pub(super) fn kick_if_due(&mut self) {
        if !self.session.control().is_empty() {
            self.kick();
        }
    }

    /// `waker` is woken when the other side may take one more stream.
    pub(super) fn wait(&mut self, waker: &Waker) {
        if !self.waiting.iter().any(|waiting| waiting.will_wake(waker)) {
            self.waiting.push(waker.clone());
        }
    }

    /// No stream gets anything any more.
    fn lose(&mut self, is_due: bool) {
        self.is_lost = true;
        self.session.lose();
        self.bodies.clear();
        if !is_due {
            self.outgoing.clear();
        }
        self.waiting.drain(..).for_each(Waker::wake);
    }

    /// A part of a stream's body is there.
    pub(super) fn offer(&mut self, stream: u32, unsent: Unsent) {
        if unsent.range.is_empty() {
            return;
        }
        self.session.offer(stream, unsent.range.len());
        if let Some((_, body)) = self.bodies.iter_mut().find(|(known, _)| *known == stream) {
            body.push_back(unsent);
        } else {
            let mut body = std::mem::take(&mut self.spare);
            body.push_back(unsent);
            self.bodies.push((stream, body));
        }
    }

    /// Nothing of a stream is sent any more.
    pub(super) fn reset(&mut self, stream: u32, code: ErrorCode) {
        self.session.reset(stream, code);
        self.bodies.retain(|(known, _)| *known != stream);
    }

    /// Its owner needs a stream no more.
    pub(super) fn close(&mut self, stream: u32) {
        self.session.close(stream);
        if self.session.unsent(stream) == 0 {
            self.bodies.retain(|(known, _)| *known != stream);
        }
        let may_end = self.session.is_over() || self.session.is_refused();
        if may_end || !self.session.control().is_empty() || !self.waiting.is_empty() {
            self.kick();
        }
    }

    /// Whether all is written that was to be.
    pub(super) fn is_written(&self) -> bool {
        self.outgoing.is_empty()
    }

    /// Writes what is to be said last, as far as it goes.
    pub(super) fn say_last(&mut self, connection: &Connection, context: &mut Context<'_>) {
        let _ = self.poll_write(connection, context);
        self.outgoing.clear();
    }

    /// Ready at the end of what comes.
    fn poll_read(&mut self, connection: &Connection, context: &mut Context<'_>) -> Poll<()> {
        for _ in 0..READS {
            if self.failure.is_some() || self.meter.excess().is_some() {
                return Poll::Ready(());
            }
            // The socket knows in a tenth of the time that TLS takes to find nothing.
            if ready!(connection.poll_readable(context)).is_err() {
                return Poll::Ready(());
            }
            let mut memory = [MaybeUninit::uninit(); READ];
            let mut buffer = ReadBuf::uninit(&mut memory);
            let read = ready!(connection.poll_read_buffer(context, &mut buffer));
            let bytes = buffer.filled();
            if read.is_err() || bytes.is_empty() {
                return Poll::Ready(());
            }
            self.meter.receive(bytes);
            if self.meter.excess().is_none() {
                if let Err(failure) = self.session.receive(bytes) {
                    self.session.fail(failure.code);
                    self.failure = Some(failure);
                }
            }
            // What was lent to a stream that has been reset goes back at once.
            let Self { session, bodies, .. } = self;
            bodies.retain(|(stream, _)| session.reset_of(*stream).is_none());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Ready when all is written.
    fn poll_write(&mut self, connection: &Connection, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if self.session.has_output() {
                self.line_up();
            }
            if self.outgoing.is_empty() {
                return connection.poll_flush(context);
            }
            // An event is its frame's head and its bytes, and needs no long list.
            let written = if self.outgoing.len() <= FEW_PARTS {
                self.poll_gather::<FEW_PARTS>(connection, context)
            } else {
                self.poll_gather::<PARTS>(connection, context)
            };
            let written = ready!(written)?;
            self.pass(written);
        }
    }

    /// Hands on what is first, of as many parts as there is room for; how many bytes were taken.
    fn poll_gather<const MOST: usize>(
        &self,
        connection: &Connection,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let mut parts = [IoSlice::new(&[]); MOST];
        let count = self.outgoing.len().min(MOST);
        let places = self.outgoing.iter().map(|next| next.bytes(&self.frames));
        parts.iter_mut().zip(places).for_each(|(part, bytes)| *part = IoSlice::new(bytes));
        connection.poll_gather(context, &parts[..count])
    }

    /// `count` bytes are written.
    fn pass(&mut self, mut count: usize) {
        self.ahead -= count;
        while let Some(first) = self.outgoing.front_mut() {
            let bytes = first.bytes(&self.frames);
            let done = count.min(bytes.len());
            self.meter.send(&bytes[..done]);
            count -= done;
            if done < bytes.len() {
                first.advance(done);
                break;
            }
            self.outgoing.pop_front();
        }
        let places = self.outgoing.iter_mut().filter_map(|next| match next {
            Outgoing::Frames(range) => Some(range),
            Outgoing::Body(_) => None,
        });
        let mut places = places.peekable();
        match places.peek().map(|range| range.start) {
            None if self.frames.capacity() > KEPT => self.frames = Vec::new(),
            None => self.frames.clear(),
            Some(passed) if passed > PASSED => {
                self.frames.drain(..passed);
                places.for_each(|range| *range = range.start - passed..range.end - passed);
            }
            Some(_) => {}
        }
    }

    /// Puts frames in order, as many as are ahead.
    fn line_up(&mut self) {
        while self.ahead < AHEAD {
            let start = self.frames.len();
            if start == 0 {
                std::mem::swap(&mut self.frames, self.session.control());
            } else {
                self.frames.append(self.session.control());
            }
            let frame = self.session.frame(FRAME, LAST_FRAME, &mut self.frames);
            self.push_frames(start);
            let Some(Frame { stream, bytes }) = frame else { return };
            if bytes > 0 && bytes < STARVED && self.session.unsent(stream) > 0 {
                self.meter.starve();
            }
            self.push_body(stream, bytes);
        }
    }

    /// Those from `start` on.
    fn push_frames(&mut self, start: usize) {
        let end = self.frames.len();
        self.ahead += end - start;
        match self.outgoing.back_mut() {
            _ if start == end => {}
            Some(Outgoing::Frames(range)) => range.end = end,
            _ => self.outgoing.push_back(Outgoing::Frames(start..end)),
        }
    }

    fn push_body(&mut self, stream: u32, mut bytes: usize) {
        let is_any = cfg!(all(test, planted_bug = "bodies-of-streams-crossed"));
        let Some(place) = self.bodies.iter().position(|(known, _)| is_any || *known == stream) else {
            return;
        };
        while bytes > 0 {
            let Some(first) = self.bodies[place].1.front_mut() else { break };
            let taken = first.take(bytes.min(first.range.len()));
            bytes -= taken.range.len();
            if first.range.is_empty() {
                self.bodies[place].1.pop_front();
            }
            self.ahead += taken.range.len();
            self.outgoing.push_back(Outgoing::Body(taken));
        }
        if self.bodies[place].1.is_empty() {
            let (_, body) = self.bodies.swap_remove(place);
            self.spare = if body.capacity() > KEPT_PARTS { VecDeque::new() } else { body };
        }
    }
}
