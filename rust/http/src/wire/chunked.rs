//! The chunked coding (RFC 9112, section 7.1) as a state machine over plain bytes.
//!
//! It finds the positions of payload and never reads it. Every byte is either payload, skipped by arithmetic, or
//! read once. httparse's parser of chunk sizes is not used: it takes an empty size for 0, the end of the body, and
//! a lone LF within an extension for text (checked against 1.10).

use std::borrow::Cow;
use std::ops::Range;

use super::body::{self, BodyLimits, Kind};
use super::section::{Scanner, bare};
use super::text::{is_one_of, is_text, quoted};
use penstock_error::{Error, Result};

/// Sixteen hexadecimal digits fill a `u64`, so that a size within this bound cannot overflow.
const MAX_DIGITS: u8 = 16;

/// Trailer fields that would delimit or route the message. They are refused (RFC 9110, section 6.5.1).
const FORBIDDEN_TRAILERS: [&str; 9] = [
    "transfer-encoding",
    "content-length",
    "host",
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "content-encoding",
];

/// The part of the coding to which the next byte belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The digits of a size.
    Size { digits: u8, size: u64 },
    /// Between the semicolon and the CR of a size line.
    Extension { size: u64, quote: Quote },
    /// After the CR of a size line.
    SizeLineFeed { size: u64 },
    /// The payload of a chunk.
    Data { remaining: u64 },
    /// After a chunk's payload.
    DataReturn,
    /// After the CR that follows a chunk's payload.
    DataLineFeed,
    /// After the last chunk's size line.
    Trailer,
    /// After the empty line that ends the body.
    End,
}

/// Whether a byte of an extension is within a quoted string. Some parsers take a line end as part of a string that is
/// not closed, and so find the next chunk elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quote {
    Outside,
    Inside,
    /// After a backslash.
    Escaped,
}

impl Quote {
    fn after(self, byte: u8) -> Self {
        match (self, byte) {
            (Self::Outside, b'"') | (Self::Escaped, _) => Self::Inside,
            (Self::Inside, b'\\') => Self::Escaped,
            (Self::Inside, b'"') => Self::Outside,
            _ => self,
        }
    }
}

/// A field of the trailer section: its name and its value.
pub(super) type Trailer = (Vec<u8>, Vec<u8>);

/// The state of one chunked body.
#[derive(Debug)]
pub struct Chunked {
    kind: &'static Kind,
    state: State,
    /// Bytes that chunk extensions may still have.
    extension_room: usize,
    extension_limit: usize,
    trailer_limit: usize,
    section: Vec<u8>,
    scanner: Scanner,
    trailers: Vec<Trailer>,
}

impl Chunked {
    /// For the body of a response, to find only where it ends.
    pub fn of_response(limits: BodyLimits) -> Self {
        Self::new(body::RESPONSE, limits)
    }

    pub(super) fn new(kind: &'static Kind, limits: BodyLimits) -> Self {
        // The empty line does not count towards the limit.
        let trailer_limit = limits.trailer_bytes.saturating_add(2);
        Self {
            kind,
            state: State::Size { digits: 0, size: 0 },
            extension_room: limits.chunk_extension_bytes,
            extension_limit: limits.chunk_extension_bytes,
            trailer_limit,
            section: Vec::new(),
            scanner: Scanner::new(kind.trailer, trailer_limit, usize::MAX),
            trailers: Vec::new(),
        }
    }

    /// Whether the body and its trailers have ended.
    pub fn is_done(&self) -> bool {
        self.state == State::End
    }

    /// Whether the next byte begins a chunk, or the last one.
    pub fn is_between_chunks(&self) -> bool {
        self.state == State::Size { digits: 0, size: 0 }
    }

    /// The fields after the body, once it has ended.
    pub fn trailers(&self) -> &[(Vec<u8>, Vec<u8>)] {
        &self.trailers
    }

    /// Continues at `*at` in `bytes` and returns the next range of payload; `None` if all bytes are used or the body
    /// has ended, and then `*at` is after its last byte.
    pub fn next(&mut self, bytes: &[u8], at: &mut usize) -> Result<Option<Range<usize>>> {
        while *at < bytes.len() {
            match self.state {
                State::Data { remaining } => {
                    let left = bytes.len() - *at;
                    let count = usize::try_from(remaining).map_or(left, |remaining| remaining.min(left));
                    let remaining = remaining - count as u64;
                    self.state = if remaining == 0 { State::DataReturn } else { State::Data { remaining } };
                    let start = *at;
                    *at += count;
                    return Ok(Some(start..*at));
                }
                State::Trailer => *at += self.trailer(&bytes[*at..])?,
                State::End => break,
                state => {
                    let (next, count) = match plain(state, &bytes[*at..]) {
                        Some(whole) => whole,
                        None => (self.step(state, bytes[*at])?, 1),
                    };
                    self.state = next;
                    *at += count;
                }
            }
        }
        Ok(None)
    }

    /// The state after one byte of a size line, or of the line end after a chunk.
    fn step(&mut self, state: State, byte: u8) -> Result<State> {
        match (state, byte) {
            (State::Size { digits, size }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                if digits == MAX_DIGITS {
                    return Err(self.bad(format!("a chunk size of more than {MAX_DIGITS} digits")));
                }
                let digit = char::from(byte).to_digit(16).map_or(0, u64::from);
                Ok(State::Size { digits: digits + 1, size: (size << 4) | digit })
            }
            (State::Size { digits: 0, .. }, _) => {
                Err(self.bad(format!("a chunk size that begins with {}", quoted(&[byte]))))
            }
            (State::Size { size, .. } | State::Extension { size, quote: Quote::Outside }, b'\r') => {
                Ok(State::SizeLineFeed { size })
            }
            (State::Extension { .. }, b'\r') => {
                Err(self.bad("a chunk extension whose quoted string is not closed".to_owned()))
            }
            (State::Size { .. } | State::Extension { .. }, b'\n') => {
                Err(bare(byte, self.kind.bare, CHUNK_LINE))
            }
            (State::Size { size, .. }, b';') => self.extension(size, Quote::Outside),
            (State::Size { .. }, _) => Err(self.bad(format!("{} in a chunk size", quoted(&[byte])))),
            (State::Extension { size, quote }, _) if is_text(byte) => self.extension(size, quote.after(byte)),
            (State::Extension { .. }, _) => {
                Err(self.bad(format!("a control character {} in a chunk extension", quoted(&[byte]))))
            }
            (State::SizeLineFeed { size: 0 }, b'\n') => Ok(State::Trailer),
            (State::SizeLineFeed { size }, b'\n') => Ok(State::Data { remaining: size }),
            (State::SizeLineFeed { .. }, _) => Err(bare(b'\r', self.kind.bare, CHUNK_LINE)),
            (State::DataReturn, b'\r') => Ok(State::DataLineFeed),
            (State::DataLineFeed, b'\n') => Ok(State::Size { digits: 0, size: 0 }),
            (State::DataReturn | State::DataLineFeed, _) => {
                Err(self.bad(format!("{} where a chunk of the announced size ends", quoted(&[byte]))))
            }
            (State::Data { .. } | State::Trailer | State::End, _) => Ok(state),
        }
    }

    /// Counts one byte of an extension. Extensions are ignored.
    fn extension(&mut self, size: u64, quote: Quote) -> Result<State> {
        match self.extension_room.checked_sub(1) {
            Some(room) => self.extension_room = room,
            None => {
                return Err(self
                    .kind
                    .extension
                    .error(format!("chunk extensions exceed {} bytes", self.extension_limit)));
            }
        }
        Ok(State::Extension { size, quote })
    }

    /// Collects the trailer section; returns the number of `bytes` that belong to it.
    fn trailer(&mut self, bytes: &[u8]) -> Result<usize> {
        let before = self.section.len();
        let count = bytes.len().min(self.trailer_limit - before);
        self.section.extend_from_slice(&bytes[..count]);
        let Some(end) = self.scanner.scan(&self.section)? else { return Ok(count) };
        self.section.truncate(end);
        for field in self.scanner.take_fields(&self.section)? {
            let (name, value) = (field.name(&self.section), field.value(&self.section));
            if is_one_of(name, &FORBIDDEN_TRAILERS) {
                return Err(self.kind.trailer.malformed(format!("the field {}", quoted(name))));
            }
            self.trailers.push((name.to_vec(), value.to_vec()));
        }
        self.state = State::End;
        Ok(end - before)
    }

    /// The missing part, for the error of a connection that ends here.
    pub fn missing(&self) -> Cow<'static, str> {
        match self.state {
            State::Data { remaining } => format!("{remaining} bytes of a chunk are missing").into(),
            State::DataReturn | State::DataLineFeed => "the line end of a chunk is missing".into(),
            State::Trailer => "the end of the trailer section is missing".into(),
            State::Size { .. } | State::Extension { .. } | State::SizeLineFeed { .. } => {
                "the last chunk is missing".into()
            }
            State::End => "nothing is missing".into(),
        }
    }

    fn bad(&self, what: String) -> Error {
        self.kind.chunk.error(what)
    }
}

/// The most digits of a size that the fast path reads. Arbitrary; chunks of 4 GiB are rare.
const PLAIN_DIGITS: usize = 8;

/// The fast path between two payloads: a line end, and a size line without extensions. Returns the state after them and
/// their length. `None` if they are incomplete or have an extension; they are then read byte by byte.
fn plain(state: State, bytes: &[u8]) -> Option<(State, usize)> {
    match state {
        State::DataReturn if bytes.starts_with(b"\r\n") => Some((State::Size { digits: 0, size: 0 }, 2)),
        State::Size { digits: 0, .. } => {
            let mut size = 0;
            for (at, byte) in bytes.iter().enumerate().take(PLAIN_DIGITS + 1) {
                let digit = match byte {
                    b'0'..=b'9' => byte - b'0',
                    b'a'..=b'f' => byte - b'a' + 10,
                    b'A'..=b'F' => byte - b'A' + 10,
                    b'\r' if at > 0 && bytes.get(at + 1) == Some(&b'\n') => {
                        let next = if size == 0 { State::Trailer } else { State::Data { remaining: size } };
                        return Some((next, at + 2));
                    }
                    _ => return None,
                };
                size = (size << 4) | u64::from(digit);
            }
            None
        }
        _ => None,
    }
}

const CHUNK_LINE: &str = "line of a chunk size";
