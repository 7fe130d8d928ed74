//! What is sent: heads, and the order in which the frames of bodies go.

use crate::frame::{FrameHead, HEAD, LONGEST, flag, kind, write};
use crate::hpack::Encoder;
use crate::priority::Priority;
use crate::session::Session;
use crate::stream::{Awaits, Progress, Stream};

/// Bytes that a head takes, mostly. Arbitrary.
const USUAL: usize = 512;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Whose body.
    pub stream: u32,
    /// How many bytes of it.
    pub bytes: usize,
}

impl Session {
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
        let block = &mut self.out;
        // The frame is written in its place, and the memory has room for the head of the body's first frame.
        block.reserve(USUAL);
        let start = block.len();
        block.extend_from_slice(&[0; HEAD]);
        self.encoder.begin(block);
        let is_interim = match first {
            First::Status(status) => {
                Encoder::status(status, block);
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
                    Encoder::field(name, value, block);
                }
                false
            }
        };
        fields.into_iter().for_each(|(name, value)| Encoder::field(name, value, block));
        end_block(stream, start, ends, block);
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

    /// `bytes` more of a body are there to be sent.
    pub fn offer(&mut self, stream: u32, bytes: usize) {
        self.change(stream, |stream| stream.unsent += bytes);
    }

    /// The body ends after the bytes that are there, and with these fields, if there are any.
    pub fn end<'a>(&mut self, stream: u32, trailers: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) {
        let mut block = Vec::new();
        trailers.into_iter().for_each(|(name, value)| Encoder::field(name, value, &mut block));
        self.change(stream, |stream| stream.end = Some(block));
    }

    /// Changes what a stream has to send, and keeps `due` at it.
    fn change(&mut self, stream: u32, change: impl FnOnce(&mut Stream)) {
        let Some(place) = self.place(stream) else { return };
        let stream = &mut self.streams[place];
        let was_due = stream.is_due();
        change(stream);
        if !was_due && stream.is_due() {
            self.due.push(stream.id);
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

    /// Whether a frame may be there to be sent.
    pub fn has_output(&self) -> bool {
        !self.out.is_empty() || !self.due.is_empty()
    }

    /// Appends the next frame of a body to `out`, up to at most `most` bytes of the body, which come after it: of the stream that
    /// the other side needs most (RFC 9218, section 10), as far as the windows go. Frames that lead to the end of the body may
    /// have `last` bytes, if there are fewer then. Neither is 0.
    pub fn frame(&mut self, most: usize, last: usize, out: &mut Vec<u8>) -> Option<Frame> {
        let place = self.first()?;
        self.turn += 1;
        let stream = &mut self.streams[place];
        stream.turn = self.turn;
        self.was_incremental = stream.priority.incremental;
        let room = self.send_window.room().min(stream.send_window.room());
        let saves = stream.end.is_some() && stream.unsent.div_ceil(last) < stream.unsent.div_ceil(most);
        let bytes = stream.unsent.min(if saves { last } else { most }).min(LONGEST).min(room);
        stream.unsent -= bytes;
        stream.send_window.take(bytes);
        self.send_window.take(bytes);
        let id = stream.id;
        let end = if stream.unsent == 0 { stream.end.take() } else { None };
        let flags = match &end {
            Some(trailers) if trailers.is_empty() => flag::END_STREAM,
            _ => 0,
        };
        if bytes > 0 || flags != 0 {
            out.extend_from_slice(&FrameHead { length: bytes, kind: kind::DATA, flags, stream: id }.bytes());
        }
        match end {
            // After the bytes, by a frame of its own.
            Some(trailers) if bytes > 0 && flags == 0 => stream.end = Some(trailers),
            Some(trailers) => {
                stream.sent = Progress::All;
                if flags == 0 {
                    write_block(id, &trailers, true, out);
                }
            }
            None => {}
        }
        if !stream.is_due() {
            self.due.retain(|due| *due != id);
        }
        // An event stream that has room is not woken by each of its events.
        if stream.awaits == Awaits::Room || stream.sent == Progress::All {
            stream.awaits = Awaits::Input;
            stream.wake();
        }
        if stream.sent == Progress::All && stream.is_left {
            self.remove(place);
        }
        Some(Frame { stream: id, bytes })
    }

    /// Of the streams that have something to send the one that is needed most: the most urgent ones, those of use in parts in
    /// turn, and after each of these one of the others, in the order in which they were asked for.
    fn first(&mut self) -> Option<usize> {
        let Self { due, streams, was_incremental, .. } = self;
        let room = self.send_window.room();
        let mut first = None;
        due.retain(|id| {
            let Ok(place) = streams.binary_search_by_key(id, |stream| stream.id) else { return false };
            let stream = &streams[place];
            let candidate = (stream.rank(*was_incremental), place);
            if stream.is_ready(room) && first.is_none_or(|first| candidate < first) {
                first = Some(candidate);
            }
            stream.is_due()
        });
        first.map(|(_, place)| place)
    }
}

/// Ends the frame of a section of fields that begins at `start` of `out`. A section that is too long for one is divided.
fn end_block(stream: u32, start: usize, ends: bool, out: &mut Vec<u8>) {
    let length = out.len() - start - HEAD;
    if length > LONGEST {
        let block = out.split_off(start + HEAD);
        out.truncate(start);
        return write_block(stream, &block, ends, out);
    }
    let flags = flag::END_HEADERS | if ends { flag::END_STREAM } else { 0 };
    let head = FrameHead { length, kind: kind::HEADERS, flags, stream }.bytes();
    out[start..start + HEAD].copy_from_slice(&head);
}

/// Appends the frames of a section of fields (section 4.3).
fn write_block(stream: u32, block: &[u8], ends: bool, out: &mut Vec<u8>) {
    let mut parts = block.chunks(LONGEST).peekable();
    let (mut kind, mut flags) = (kind::HEADERS, if ends { flag::END_STREAM } else { 0 });
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            flags |= flag::END_HEADERS;
        }
        write(kind, flags, stream, part, out);
        (kind, flags) = (kind::CONTINUATION, 0);
    }
}
