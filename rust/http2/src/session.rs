//! A connection of HTTP/2 without its socket (RFC 9113): bytes that have come go in, frames that are to be sent come out.
//!
//! It is a server's or a client's. Streams have numbers. What is done for one is refused without harm once it has ended: its
//! owner learns that from [`Session::read`].

use std::collections::VecDeque;
use std::task::Waker;

use crate::frame::{ErrorCode, FrameHead, HEAD, LONGEST, PREFACE, flag, kind, write};
use crate::hpack::{Decoder, Encoder};
use crate::priority::Priority;
use crate::section::Section;
use crate::stream::{Inbound, Item, Progress, Reset, Stream};
use crate::window::{MOST, Window};

/// The window of a connection, and of a stream of which nothing else is said (section 6.9.2).
pub(crate) const WINDOW: u32 = 65_535;
/// Streams that have ended lately, of which is known how. Arbitrary.
const RECENT: usize = 100;
/// Streams one at a time after several at once, until they are taken to come so. Arbitrary.
const CROWD: u8 = 16;
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
    /// Bytes of all bodies, as well. At least 65,535.
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

/// The first line of a head.
#[derive(Debug, Clone, Copy)]
pub enum First<'a> {
    /// Of a response.
    Status(&'a [u8]),
    /// Of a request.
    Request {
        /// Its method.
        method: &'a [u8],
        /// `http` or `https`.
        scheme: &'a [u8],
        /// The host, and the port if it is not the scheme's.
        authority: &'a [u8],
        /// Path and query.
        path: &'a [u8],
    },
}

/// A frame of a body that is to be sent now.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame {
    /// Whose body.
    pub stream: u32,
    /// How many bytes of it.
    pub bytes: usize,
    /// What goes before them. Without bytes, what ends the body.
    pub head: Vec<u8>,
}

/// What the other side lets this one do.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) window: u32,
    pub(crate) streams: u32,
    pub(crate) frame: usize,
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
    /// The highest number of a stream that the other side has begun.
    pub(crate) last_received: u32,
    /// The number of the next stream that this side begins.
    pub(crate) next: u32,
    /// Streams that have ended lately; whether this side has reset them, so that frames may be on their way.
    pub(crate) recent: VecDeque<(u32, bool)>,
    pub(crate) early: VecDeque<(u32, Priority)>,
    /// Requests that nothing has taken.
    pub(crate) arrived: VecDeque<u32>,
    pub(crate) receive_window: Window,
    pub(crate) released: usize,
    pub(crate) send_window: Window,
    /// Frames that are to be sent, but for DATA.
    pub(crate) out: Vec<u8>,
    pub(crate) turn: u64,
    /// How many streams have still to come one at a time before they are taken to.
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
        Self {
            role,
            limits,
            peer: Peer { window: WINDOW, streams: u32::MAX, frame: LONGEST },
            preface,
            partial: Vec::new(),
            has_settings: false,
            decoder: Decoder::new(),
            encoder: Encoder::default(),
            block: None,
            streams: Vec::new(),
            last_received: 0,
            next: 1,
            recent: VecDeque::new(),
            early: VecDeque::new(),
            arrived: VecDeque::new(),
            receive_window: Window::new(limits.connection_window.max(WINDOW)),
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
        if let Some(more @ 1..) = connection_window.checked_sub(WINDOW) {
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
        let has_room = self.streams.len() < usize::try_from(self.peer.streams).unwrap_or(usize::MAX);
        if self.is_refused || !has_room || id > MOST {
            return None;
        }
        self.next += 2;
        self.push(Stream::new(id, self.limits.window, self.peer.window, None));
        Some(id)
    }

    /// Streams that the other side has open at a time.
    pub fn most_streams(&self) -> u32 {
        self.peer.streams
    }

    /// Whether there is one stream at most, and lately was.
    pub fn is_alone(&self) -> bool {
        self.streams.len() <= 1 && self.crowd == 0
    }

    pub(crate) fn push(&mut self, stream: Stream) {
        self.crowd = if self.streams.is_empty() { self.crowd.saturating_sub(1) } else { CROWD };
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

    /// `waker` is woken when something has changed for a stream.
    pub fn watch(&mut self, stream: u32, waker: &Waker) {
        if let Some(stream) = self.stream(stream) {
            if !stream.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
                stream.waker = Some(waker.clone());
            }
        }
    }

    /// The next of what has come on a stream.
    pub fn read(&mut self, stream: u32) -> Option<Item> {
        Some(match self.stream(stream)?.inbound.pop_front()? {
            Inbound::Head(text) => Item::Head(text),
            Inbound::Data(bytes) => Item::Data(bytes.freeze()),
            Inbound::Trailers(text) => Item::Trailers(text),
        })
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
        if is_short || self.released >= half(self.limits.connection_window.max(WINDOW)) {
            let more = self.receive_window.reopen(std::mem::take(&mut self.released));
            write(kind::WINDOW_UPDATE, 0, 0, &more.to_be_bytes(), &mut self.out);
        }
    }

    /// Sends a head. An interim one is not the last.
    pub fn send_head<'a>(
        &mut self,
        stream: u32,
        first: First<'a>,
        fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
        ends: bool,
    ) {
        let Some(place) = self.place(stream).filter(|place| !self.streams[*place].has_ended()) else {
            return;
        };
        let mut block = Vec::with_capacity(256);
        self.encoder.begin(&mut block);
        let is_interim = match first {
            First::Status(status) => {
                Encoder::status(status, &mut block);
                status.first() == Some(&b'1')
            }
            First::Request { method, scheme, authority, path } => {
                let pseudo: [(&[u8], &[u8]); 4] = [
                    (b":method", method),
                    (b":scheme", scheme),
                    (b":authority", authority),
                    (b":path", path),
                ];
                for (name, value) in pseudo {
                    Encoder::field(name, value, &mut block);
                }
                false
            }
        };
        fields.into_iter().for_each(|(name, value)| Encoder::field(name, value, &mut block));
        write_block(self.peer.frame, stream, &block, ends, &mut self.out);
        let stream = &mut self.streams[place];
        if ends {
            stream.sent = Progress::All;
        } else if !is_interim {
            stream.sent = Progress::Head;
        }
    }

    /// The response of a stream is of the media type `content_type`, by which its priority may change.
    pub fn prioritise(&mut self, stream: u32, content_type: Option<&[u8]>) {
        if let Some(stream) = self.stream(stream) {
            stream.priority = Priority::of_response(content_type, stream.asked);
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

    /// `bytes` more of a body are there to be sent.
    pub fn offer(&mut self, stream: u32, bytes: usize) {
        if let Some(stream) = self.stream(stream) {
            stream.unsent += bytes;
        }
    }

    /// The body ends after the bytes that are there, and with these fields, if there are any.
    pub fn end<'a>(&mut self, stream: u32, trailers: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) {
        let mut block = Vec::new();
        trailers.into_iter().for_each(|(name, value)| Encoder::field(name, value, &mut block));
        if let Some(stream) = self.stream(stream) {
            stream.end = Some(block);
        }
    }

    /// Bytes of a body that are there and that no frame has yet.
    pub fn unsent(&self, stream: u32) -> usize {
        self.place(stream).map_or(0, |place| self.streams[place].unsent)
    }

    /// Whether the other side has no room for more of a stream's body.
    pub fn is_held(&self, stream: u32) -> bool {
        self.place(stream).is_some_and(|place| {
            let stream = &self.streams[place];
            stream.unsent > 0 && (stream.send_window.room() == 0 || self.send_window.room() == 0)
        })
    }

    /// Whether all of a message was handed on. One whose stream is gone was.
    pub fn has_sent_all(&self, stream: u32) -> bool {
        self.place(stream).is_none_or(|place| self.streams[place].sent == Progress::All)
    }

    /// Frames that are to be sent first: all but DATA. Taken by its reader.
    pub fn control(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// The next frame of a body, of at most `most` bytes of it: of the stream that the other side needs most (RFC 9218, section
    /// 10), as far as the windows go.
    pub fn frame(&mut self, most: usize) -> Option<Frame> {
        let place = self.first()?;
        self.turn += 1;
        let room = self.send_window.room();
        let most = most.min(self.peer.frame);
        let stream = &mut self.streams[place];
        stream.turn = self.turn;
        self.was_incremental = stream.priority.incremental;
        let bytes = stream.unsent.min(most).min(room).min(stream.send_window.room());
        stream.unsent -= bytes;
        stream.send_window.take(bytes);
        self.send_window.take(bytes);
        // There is room for more.
        stream.wake();
        let (id, mut head) = (stream.id, Vec::with_capacity(HEAD));
        let end = if stream.unsent == 0 { stream.end.take() } else { None };
        let flags = match &end {
            Some(trailers) if trailers.is_empty() => flag::END_STREAM,
            _ => 0,
        };
        if bytes > 0 || flags != 0 {
            head.extend_from_slice(&FrameHead { length: bytes, kind: kind::DATA, flags, stream: id }.bytes());
        }
        match end {
            // After the bytes, by a frame of its own.
            Some(trailers) if bytes > 0 && flags == 0 => stream.end = Some(trailers),
            Some(trailers) => {
                stream.sent = Progress::All;
                if flags == 0 {
                    write_block(self.peer.frame, id, &trailers, true, &mut head);
                }
                if self.streams[place].is_left {
                    self.remove(place);
                }
            }
            None => {}
        }
        Some(Frame { stream: id, bytes, head })
    }

    /// Of the streams that have something to send the one that is needed most: the most urgent ones, those of use in parts in
    /// turn, and after each of these one of the others, in the order in which they were asked for.
    fn first(&self) -> Option<usize> {
        let room = self.send_window.room();
        let ready = || self.streams.iter().enumerate().filter(|(_, stream)| stream.is_ready(room));
        let urgency = ready().map(|(_, stream)| stream.priority.urgency).min()?;
        let of = |incremental: bool| {
            ready()
                .filter(move |(_, stream)| {
                    stream.priority.urgency == urgency && stream.priority.incremental == incremental
                })
                .min_by_key(move |(_, stream)| if incremental { stream.turn } else { stream.id.into() })
        };
        let (whole, part) = (of(false), of(true));
        let first = if self.was_incremental { whole.or(part) } else { part.or(whole) };
        first.map(|(place, _)| place)
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

    fn remove(&mut self, place: usize) {
        let Stream { id, sent, .. } = self.streams[place];
        // After a whole response the rest of a request is of no use (section 8.1).
        self.reset(
            id,
            if sent == Progress::All && self.is_server() { ErrorCode::NO_ERROR } else { ErrorCode::CANCEL },
        );
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

/// Appends the frames of a section of fields (section 4.3).
fn write_block(most: usize, stream: u32, block: &[u8], ends: bool, out: &mut Vec<u8>) {
    let mut parts = block.chunks(most).peekable();
    let (mut kind, mut flags) = (kind::HEADERS, if ends { flag::END_STREAM } else { 0 });
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            flags |= flag::END_HEADERS;
        }
        write(kind, flags, stream, part, out);
        (kind, flags) = (kind::CONTINUATION, 0);
    }
}

fn half(window: u32) -> usize {
    usize::try_from(window / 2).unwrap_or(usize::MAX).max(1)
}
