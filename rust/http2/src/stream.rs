//! One stream, as far as a connection knows it.

use std::collections::VecDeque;
use std::task::Waker;

use bytes::BytesMut;

use crate::frame::ErrorCode;
use crate::priority::Priority;
use crate::window::Window;

/// Payloads are put together up to so many bytes, so that what waits to be read takes the memory of its bytes. Arbitrary.
const SMALL: usize = 4096;

/// What has come on a stream, in its order.
#[derive(Debug, PartialEq, Eq)]
pub enum Item {
    /// A head as over HTTP/1.1, without the empty line after it.
    Head(Vec<u8>),
    /// A part of the body. Its bytes count for the window until they are [released](crate::Session::release).
    Data(BytesMut),
    /// The fields after the body, as over HTTP/1.1, without the empty line after them.
    Trailers(Vec<u8>),
}

/// How a stream has ended before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reset {
    /// The other side has reset it.
    Received(ErrorCode),
    /// This side has, as the other one has broken the rules.
    Sent(ErrorCode),
    /// The other side has not looked at it: it may be sent again on another connection.
    Refused,
    /// The connection has ended.
    Lost,
}

/// How much of a message has come, or gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// At most interim heads.
    Nothing,
    Head,
    All,
}

/// What the owner of a stream waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaits {
    /// What comes, and the end.
    Input,
    /// That less is unsent, as well.
    Room,
}

/// What waits to be read. Mostly that is one item, which takes no memory of its own.
#[derive(Debug, Default)]
pub(crate) struct Inbound {
    first: Option<Item>,
    rest: VecDeque<Item>,
}

impl Inbound {
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none() && self.rest.is_empty()
    }

    pub(crate) fn push(&mut self, item: Item) {
        if self.is_empty() {
            self.first = Some(item);
        } else {
            self.rest.push_back(item);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Item> {
        self.first.take().or_else(|| self.rest.pop_front())
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.iter().count()
    }

    fn last(&mut self) -> Option<&mut Item> {
        self.rest.back_mut().or(self.first.as_mut())
    }

    fn iter(&self) -> impl Iterator<Item = &Item> {
        self.first.iter().chain(&self.rest)
    }
}

/// A stream that has not ended on both sides, or that has something to be read.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) id: u32,
    pub(crate) received: Progress,
    pub(crate) sent: Progress,
    pub(crate) reset: Option<Reset>,
    pub(crate) inbound: Inbound,
    /// Bytes of the body that are to come, if the head says how many.
    pub(crate) length: Option<u64>,
    /// Bytes that the other side may send.
    pub(crate) receive_window: Window,
    /// Bytes that were released, and that it has not been told of.
    pub(crate) released: usize,
    /// Bytes that this side may send.
    pub(crate) send_window: Window,
    /// Bytes that are to be sent.
    pub(crate) unsent: usize,
    /// After them this ends, with these fields, encoded, if there are any.
    pub(crate) end: Option<Vec<u8>>,
    pub(crate) asked: Option<Priority>,
    pub(crate) priority: Priority,
    /// When a frame of it was sent last, in frames of the connection.
    pub(crate) turn: u64,
    /// A response without a body, whatever its head says.
    pub(crate) is_bodiless: bool,
    /// Nothing takes it before its end has come.
    pub(crate) is_withheld: bool,
    /// Its owner has left it: it ends when all is sent.
    pub(crate) is_left: bool,
    pub(crate) waker: Option<Waker>,
    pub(crate) awaits: Awaits,
}

impl Stream {
    pub(crate) fn new(id: u32, receive_window: u32, send_window: u32, asked: Option<Priority>) -> Self {
        Self {
            id,
            received: Progress::Nothing,
            sent: Progress::Nothing,
            reset: None,
            inbound: Inbound::default(),
            length: None,
            receive_window: Window::new(receive_window),
            released: 0,
            send_window: Window::new(send_window),
            unsent: 0,
            end: None,
            asked,
            priority: asked.unwrap_or(Priority::DEFAULT),
            turn: 0,
            is_bodiless: false,
            is_withheld: false,
            is_left: false,
            waker: None,
            awaits: Awaits::Input,
        }
    }

    pub(crate) fn watch(&mut self, waker: &Waker) {
        if !self.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            self.waker = Some(waker.clone());
        }
    }

    pub(crate) fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }

    /// Counts a part of the body that has come: `counted` bytes with the padding, `length` without.
    ///
    /// # Errors
    /// Which rule the other side has broken.
    pub(crate) fn admit(&mut self, counted: usize, length: usize, ends: bool) -> Result<(), ErrorCode> {
        if !self.receive_window.take(counted) {
            return Err(ErrorCode::FLOW_CONTROL_ERROR);
        }
        let left = self.length.map(|left| left.checked_sub(length as u64));
        if left == Some(None) || (ends && left.is_some_and(|left| left != Some(0))) {
            // Section 8.1.1.
            return Err(ErrorCode::PROTOCOL_ERROR);
        }
        self.length = left.flatten();
        Ok(())
    }

    /// Whether something of it is to be sent after its head.
    pub(crate) fn is_due(&self) -> bool {
        self.reset.is_none() && (self.unsent > 0 || self.end.is_some())
    }

    /// Its place in the order of what is sent: the lowest is first. See `Session::first`.
    pub(crate) fn rank(&self, was_incremental: bool) -> (u8, bool, u64, u32) {
        let Priority { urgency, incremental } = self.priority;
        (urgency, incremental == was_incremental, if incremental { self.turn } else { 0 }, self.id)
    }

    /// Whether a frame of it can be sent while the connection's window has `room`.
    pub(crate) fn is_ready(&self, room: usize) -> bool {
        let has_room = self.unsent == 0 || (room > 0 && self.send_window.room() > 0);
        self.is_due() && self.sent == Progress::Head && has_room
    }

    /// Keeps a payload until it is read.
    pub(crate) fn keep(&mut self, payload: &[u8]) {
        match self.inbound.last() {
            Some(Item::Data(last)) if last.len() < SMALL => last.extend_from_slice(payload),
            _ if !payload.is_empty() => self.inbound.push(Item::Data(BytesMut::from(payload))),
            _ => {}
        }
    }

    /// Bytes that wait to be read.
    pub(crate) fn unread(&self) -> usize {
        self.inbound.iter().map(|item| if let Item::Data(data) = item { data.len() } else { 0 }).sum()
    }

    /// Both sides have sent all, or one of them has reset it.
    pub(crate) fn has_ended(&self) -> bool {
        self.reset.is_some() || (self.received == Progress::All && self.sent == Progress::All)
    }
}
