//! A connection of HTTP/2 without its socket (RFC 9113): bytes that have come go in, frames that are to be sent come out.
//!
//! It is a server's or a client's. Streams have numbers. What is done for one is refused without harm once it has ended: its
//! owner learns that from [`Session::read`].

use std::collections::VecDeque;
use std::task::Waker;

use crate::frame::{ErrorCode, PREFACE, kind, write};
use crate::hpack::{Decoder, Encoder};
use crate::priority::Priority;
use crate::section::Section;
use crate::stream::{Awaits, Item, Progress, Reset, Stream};
use crate::window::{MOST, Window};

/// The window of a connection, and of a stream of which nothing else is said (section 6.9.2).
pub(crate) const WINDOW: u32 = 65_535;
/// Streams that have ended lately, of which is known how. Arbitrary.
const RECENT: usize = 100;
/// Streams, or writes, one at a time after several at once, until they are taken to come so. Arbitrary.
const CROWD: u8 = 4;
/// What was said of the priority of streams before they began. The same in each implementation that says so is some dozens.
const EARLY: usize = 32;
/// The payload of the PING that comes back when the other side has read that no more streams are taken.
pub(crate) const DRAINED: [u8; 8] = *b"drained\0";

/// What this side lets the other one do.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Streams that are open at a time.
    pub streams: u32,
    /// Bytes of a body that are sent before they are read.
    pub window: u32,
    /// Bytes of all bodies, as well: 65,535 to 2,147,483,647, and the nearest of these if it is another number.
    pub connection_window: u32,
    /// Bytes of a section of fields, as section 6.5.2 counts them.
    pub head_bytes: u32,
}

/// Why a connection cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// What the other side is told.
    pub code: ErrorCode,
    /// What was wrong, for people.
    pub why: &'static str,
}

/// What the other side lets this one do.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) window: u32,
    pub(crate) streams: u32,
}

/// Fields whose frames have not all come.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) stream: u32,
    pub(crate) bytes: Vec<u8>,
    pub(crate) ends_stream: bool,
    pub(crate) depends_on_itself: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Server,
    Client,
}

/// Whether this side takes streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Drain {
    No,
    /// The other side was told that it will not; streams may be on their way.
    Said,
    /// None of a higher number.
    After(u32),
}

/// See the module.
#[derive(Debug)]
pub struct Session {
    pub(crate) role: Role,
    pub(crate) limits: Limits,
    pub(crate) peer: Peer,
    /// What is left of the preface; of a client's connection nothing.
    pub(crate) preface: &'static [u8],
    /// The part of a frame that has come.
    pub(crate) partial: Vec<u8>,
    /// The other side's settings have come.
    pub(crate) has_settings: bool,
    pub(crate) decoder: Decoder,
    pub(crate) encoder: Encoder,
    pub(crate) block: Option<Block>,
    /// In the order of their numbers.
    pub(crate) streams: Vec<Stream>,
    /// The streams that have something to send, in any order. Of a hundred event streams few have: to look through all of them cost
    /// 6,000 instructions an event.
    pub(crate) due: Vec<u32>,
    /// The highest number of a stream that the other side has begun.
    pub(crate) last_received: u32,
    /// The number of the next stream that this side begins.
    pub(crate) next: u32,
    /// Streams that have ended lately; whether this side has reset them, so that frames may be on their way.
    pub(crate) recent: VecDeque<(u32, bool)>,
    pub(crate) early: VecDeque<(u32, Priority)>,
    /// Requests that nothing has taken.
    pub(crate) arrived: VecDeque<u32>,
    /// The window of a stream, as far as the other side knows.
    pub(crate) known_window: u32,
    pub(crate) receive_window: Window,
    pub(crate) released: usize,
    pub(crate) send_window: Window,
    /// Frames that are to be sent, but for DATA.
    pub(crate) out: Vec<u8>,
    pub(crate) turn: u64,
    /// How many streams, or writes, have still to come one at a time before they are taken to.
    pub(crate) crowd: u8,
    pub(crate) was_incremental: bool,
    pub(crate) drain: Drain,
    /// The other side takes no more streams.
    pub(crate) is_refused: bool,
}

impl Session {
    /// A server's side of a connection on which nothing has come or gone.
    pub fn server(limits: Limits) -> Self {
        let mut session = Self::new(Role::Server, limits, PREFACE);
        session.say_settings();
        session
    }

    /// A client's.
    pub fn client(limits: Limits) -> Self {
        let mut session = Self::new(Role::Client, limits, &[]);
        session.out.extend_from_slice(PREFACE);
        session.say_settings();
        session
    }

    fn new(role: Role, limits: Limits, preface: &'static [u8]) -> Self {
        let connection_window = limits.connection_window.clamp(WINDOW, MOST);
        let limits = Limits { connection_window, ..limits };
        Self {
            role,
            limits,
            peer: Peer { window: WINDOW, streams: u32::MAX },
            preface,
            partial: Vec::new(),
            has_settings: false,
            decoder: Decoder::new(),
            encoder: Encoder::default(),
            block: None,
            streams: Vec::new(),
            due: Vec::new(),
            last_received: 0,
            next: 1,
            recent: VecDeque::new(),
            early: VecDeque::new(),
            arrived: VecDeque::new(),
            known_window: limits.window.max(WINDOW),
            receive_window: Window::new(connection_window),
            released: 0,
            send_window: Window::new(WINDOW),
            out: Vec::new(),
            turn: 0,
            crowd: 0,
            was_incremental: false,
            drain: Drain::No,
            is_refused: false,
        }
    }

    /// Settings (section 6.5.2), and the window of the connection.
    fn say_settings(&mut self) {
        let Limits { streams, window, connection_window, head_bytes } = self.limits;
        let own = if self.is_server() { (3, streams) } else { (2, 0) };
        let mut payload = Vec::new();
        for (setting, value) in [own, (4, window), (6, head_bytes)] {
            payload.extend_from_slice(&u16::to_be_bytes(setting));
            payload.extend_from_slice(&u32::to_be_bytes(value));
        }
        write(kind::SETTINGS, 0, 0, &payload, &mut self.out);
        if connection_window > WINDOW {
            let more = connection_window - WINDOW;
            write(kind::WINDOW_UPDATE, 0, 0, &more.to_be_bytes(), &mut self.out);
        }
    }

    pub(crate) fn is_server(&self) -> bool {
        self.role == Role::Server
    }

    /// Whether the other side's settings have come.
    pub fn is_open(&self) -> bool {
        self.has_settings
    }

    pub(crate) fn place(&self, stream: u32) -> Option<usize> {
        self.streams.binary_search_by_key(&stream, |stream| stream.id).ok()
    }

    pub(crate) fn stream(&mut self, stream: u32) -> Option<&mut Stream> {
        self.place(stream).map(|place| &mut self.streams[place])
    }

    /// A stream whose request has come, and that nothing has taken. Its owner has to [close](Self::close) it.
    pub fn accept(&mut self) -> Option<u32> {
        self.arrived.pop_front()
    }

    /// Begins a stream, if the other side takes one more. Its owner has to [close](Self::close) it.
    pub fn open(&mut self) -> Option<u32> {
        let id = self.next;
        if self.room() == 0 || id > MOST {
            return None;
        }
        self.next += 2;
        self.push(Stream::new(id, self.known_window, self.peer.window, None));
        Some(id)
    }

    /// Streams that the other side has open at a time.
    pub fn most_streams(&self) -> u32 {
        self.peer.streams
    }

    /// Whether streams have lately had something to send one at a time, so that what one has need not wait for the others.
    pub fn is_sparse(&self) -> bool {
        self.crowd == 0
    }

    /// A stream has something to send, together with another one or not.
    pub fn note_pace(&mut self, is_together: bool) {
        self.crowd = if is_together { CROWD } else { self.crowd.saturating_sub(1) };
    }

    pub(crate) fn push(&mut self, stream: Stream) {
        self.note_pace(!self.streams.is_empty());
        self.streams.push(stream);
    }

    /// Whether there is no stream.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Whether nothing waits to be read on a stream.
    pub fn is_read(&self, stream: u32) -> bool {
        self.place(stream).is_none_or(|place| self.streams[place].inbound.is_empty())
    }

    /// How many streams the other side takes besides the ones that are open.
    pub fn room(&self) -> usize {
        let most = usize::try_from(self.peer.streams).unwrap_or(usize::MAX);
        if self.is_refused { 0 } else { most.saturating_sub(self.streams.len()) }
    }

    /// `waker` is woken when something has come on a stream, or it has ended.
    pub fn watch(&mut self, stream: u32, waker: &Waker) {
        if let Some(stream) = self.stream(stream) {
            stream.watch(waker);
        }
    }

    /// As [`Session::watch`], and when less of its body is unsent.
    pub fn watch_room(&mut self, stream: u32, waker: &Waker) {
        if let Some(stream) = self.stream(stream) {
            stream.watch(waker);
            stream.awaits = Awaits::Room;
        }
    }

    /// The next of what has come on a stream.
    pub fn read(&mut self, stream: u32) -> Option<Item> {
        self.stream(stream)?.inbound.pop()
    }

    /// Whether all has come that is to come on a stream. What has come may still be to be read.
    pub fn has_received_all(&self, stream: u32) -> bool {
        self.place(stream).is_none_or(|place| self.streams[place].received == Progress::All)
    }

    /// How a stream has ended before its time, if it has.
    pub fn reset_of(&self, stream: u32) -> Option<Reset> {
        self.place(stream).and_then(|place| self.streams[place].reset)
    }

    /// The other side may send as many bytes more.
    pub fn release(&mut self, stream: u32, bytes: usize) {
        let window = self.limits.window;
        self.release_of_connection(bytes);
        let Some(place) = self.place(stream) else { return };
        let stream = &mut self.streams[place];
        stream.released += bytes;
        if stream.released >= half(window) && stream.received != Progress::All && stream.reset.is_none() {
            let more = stream.receive_window.reopen(std::mem::take(&mut stream.released));
            write(kind::WINDOW_UPDATE, 0, stream.id, &more.to_be_bytes(), &mut self.out);
        }
    }

    pub(crate) fn release_of_connection(&mut self, bytes: usize) {
        self.released += bytes;
        // Streams that are not read may hold most of it: what is left goes round then.
        let is_short = self.released >= self.receive_window.room();
        if is_short || self.released >= half(self.limits.connection_window) {
            let more = self.receive_window.reopen(std::mem::take(&mut self.released));
            write(kind::WINDOW_UPDATE, 0, 0, &more.to_be_bytes(), &mut self.out);
        }
    }

    /// Whether the head of a stream that has come says how long the body is.
    pub fn has_length(&self, stream: u32) -> bool {
        self.place(stream).is_some_and(|place| self.streams[place].length.is_some())
    }

    /// No body follows the head of the response to the request of a stream, whatever it says.
    pub fn expect_no_body(&mut self, stream: u32) {
        if let Some(stream) = self.stream(stream) {
            stream.is_bodiless = true;
        }
    }

    /// Ends a stream before its time. Nothing happens if it has ended.
    pub fn reset(&mut self, stream: u32, code: ErrorCode) {
        let Some(place) = self.place(stream) else { return };
        if !self.streams[place].has_ended() {
            self.say_reset(stream, code);
            let stream = &mut self.streams[place];
            stream.reset = Some(Reset::Sent(code));
            (stream.unsent, stream.end) = (0, None);
            stream.wake();
        }
    }

    pub(crate) fn say_reset(&mut self, stream: u32, code: ErrorCode) {
        write(kind::RST_STREAM, 0, stream, &code.0.to_be_bytes(), &mut self.out);
        self.note_end(stream, true);
    }

    fn note_end(&mut self, stream: u32, is_ours: bool) {
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back((stream, is_ours));
    }

    /// Its owner needs a stream no more. What has come and was not read is given up. A message that was ended is sent to its
    /// end; any other is broken off.
    pub fn close(&mut self, stream: u32) {
        let Some(place) = self.place(stream) else { return };
        let stream = &mut self.streams[place];
        let unread = stream.unread();
        stream.inbound.clear();
        (stream.is_left, stream.waker) = (true, None);
        if stream.sent == Progress::All || stream.end.is_none() || stream.reset.is_some() {
            self.remove(place);
        }
        self.release_of_connection(unread);
    }

    pub(crate) fn remove(&mut self, place: usize) {
        let Stream { id, sent, .. } = self.streams[place];
        // After a whole response the rest of a request is of no use (section 8.1).
        let is_answered = sent == Progress::All && self.is_server();
        self.reset(id, if is_answered { ErrorCode::NO_ERROR } else { ErrorCode::CANCEL });
        if !matches!(self.streams.remove(place).reset, Some(Reset::Sent(_))) {
            self.note_end(id, false);
        }
    }

    /// What is said of the priority of a stream that has not begun.
    pub(crate) fn early(&mut self, stream: u32) -> Option<Priority> {
        let place = self.early.iter().position(|(early, _)| *early == stream)?;
        self.early.remove(place).map(|(_, priority)| priority)
    }

    pub(crate) fn keep_early(&mut self, stream: u32, priority: Priority) {
        self.early.retain(|(early, _)| *early != stream);
        if self.early.len() == EARLY {
            self.early.pop_front();
        }
        self.early.push_back((stream, priority));
    }

    /// Takes no more streams, and lets the other side end the ones that it has begun (section 6.8).
    pub fn drain(&mut self) {
        if self.drain == Drain::No {
            self.drain = Drain::Said;
            self.say_goaway(MOST, ErrorCode::NO_ERROR);
            write(kind::PING, 0, 0, &DRAINED, &mut self.out);
        }
    }

    /// Whether this side takes no more streams, the other side knows, and all have ended.
    pub fn is_over(&self) -> bool {
        matches!(self.drain, Drain::After(_)) && self.streams.is_empty()
    }

    /// Whether the other side takes no more streams.
    pub fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Says why the connection ends at once.
    pub fn fail(&mut self, code: ErrorCode) {
        self.say_goaway(self.last_received, code);
        self.drain = Drain::After(self.last_received);
    }

    pub(crate) fn say_goaway(&mut self, last: u32, code: ErrorCode) {
        let payload = [last.to_be_bytes(), code.0.to_be_bytes()].concat();
        write(kind::GOAWAY, 0, 0, &payload, &mut self.out);
    }

    /// The connection has ended: no stream gets anything more.
    pub fn lose(&mut self) {
        for stream in &mut self.streams {
            if !stream.has_ended() {
                stream.reset = Some(Reset::Lost);
            }
            stream.wake();
        }
    }

    pub(crate) fn section(&self, kind: crate::section::Kind) -> Section {
        Section::new(kind, usize::try_from(self.limits.head_bytes).unwrap_or(usize::MAX))
    }
}

fn half(window: u32) -> usize {
    usize::try_from(window / 2).unwrap_or(usize::MAX).max(1)
}
