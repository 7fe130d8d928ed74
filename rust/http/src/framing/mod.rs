//! Cutting a body into frames: the same bytes give the same frames, however the wire split them.
//!
//! A [`Framing`] is chosen once per stream. Its [`Framer`] sees every byte exactly once and finds the ends of
//! frames; the [`Cutter`] holds the slices meanwhile and makes each frame one contiguous slice. A format is added
//! by implementing [`Framer`]; nothing else in the engine knows one format from another.

mod cutter;
pub mod event;
mod events;
mod fixed;
mod length;
mod lines;

use std::fmt;

pub use cutter::Cutter;

use penstock_error::{Code, Error, Result};

/// How a body is cut. Python declares and validates it; there are no defaults here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Framing {
    /// Slices as they were read, untouched.
    Raw,
    /// Frames of one size, such as raw video. A remainder at the end is `FRAME_TRUNCATED`.
    Fixed {
        /// Bytes of each frame, at least one.
        size: usize,
    },
    /// Each frame follows an unsigned integer that counts its bytes. The prefix is not delivered; a prefix of zero
    /// delivers an empty frame, because protocols that count their messages send empty ones on purpose.
    LengthPrefixed {
        /// Bytes of the prefix: 1, 2, 4 or 8.
        width: u8,
        /// Whether the prefix has its least significant byte first.
        little_endian: bool,
        /// Bytes that a frame without its prefix may have, at least one.
        max_frame: usize,
    },
    /// Lines that end in LF or CRLF, delivered without that end. An empty line delivers an empty frame, a CR
    /// elsewhere is content, and a last line without an end is delivered.
    Lines {
        /// Bytes that a line without its end may have, at least one.
        max_frame: usize,
    },
    /// Server-sent events (HTML Living Standard 9.2): one block of lines with the blank line that ends it.
    Events {
        /// Bytes that a block with its blank line may have, at least one.
        max_frame: usize,
        /// `false`: only blocks that dispatch an event, without the blank lines and the byte order mark before them;
        /// an unfinished block at the end is dropped. `true`: every byte of the stream, for relays, as early as
        /// possible: the byte order mark, and each blank or comment line before the first field of a block, as a
        /// frame of its own; blocks without data; an unfinished block at the end unchanged.
        blocks: bool,
    },
}

impl Framing {
    /// A framer at the start of a stream; `None` for [`Framing::Raw`], which needs none.
    ///
    /// # Errors
    /// `BAD_CONFIGURATION` for a size or maximum of zero and for a width that no integer has.
    pub fn framer(&self) -> Result<Option<Box<dyn Framer>>> {
        Ok(Some(match *self {
            Self::Raw => return Ok(None),
            Self::Fixed { size } => Box::new(fixed::Fixed::new(at_least_one("size", size)?)),
            Self::LengthPrefixed { width, little_endian, max_frame } => {
                if !matches!(width, 1 | 2 | 4 | 8) {
                    return Err(Code::BadConfiguration
                        .error(format!("a length prefix has 1, 2, 4 or 8 bytes, not {width}")));
                }
                let max_frame = at_least_one("maximum", max_frame)?;
                Box::new(length::LengthPrefixed::new(width.into(), little_endian, max_frame))
            }
            Self::Lines { max_frame } => Box::new(lines::Lines::new(at_least_one("maximum", max_frame)?)),
            Self::Events { max_frame, blocks } => {
                Box::new(events::Events::new(at_least_one("maximum", max_frame)?, blocks))
            }
        }))
    }
}

fn at_least_one(what: &str, bytes: usize) -> Result<usize> {
    if bytes == 0 {
        return Err(Code::BadConfiguration.error(format!("the {what} of a frame must be at least 1 byte")));
    }
    Ok(bytes)
}

fn too_large(max: usize) -> Error {
    Code::FrameTooLarge.error(format!("a frame exceeds the maximum of {max} bytes"))
}

/// Finds the ends of frames. It gets every byte of the stream once and in order, and keeps only the state that
/// it needs; it never holds bytes itself.
pub trait Framer: Send {
    /// Scans `bytes`, which follow the bytes of the call before and are not empty. `None`: no frame ends in them,
    /// and all of them have been scanned. A [`Cut`]: the current frame has ended; the bytes from [`Cut::end`] on
    /// have not been scanned and are given again.
    ///
    /// # Errors
    /// `FRAME_TOO_LARGE` as soon as the bytes show that the current frame exceeds its maximum. The stream cannot
    /// be cut any further.
    fn scan(&mut self, bytes: &[u8]) -> Result<Option<Cut>>;

    /// How many more bytes end the current frame, if that is known: a reader that takes one slab for all of them
    /// saves the copy that joins a frame.
    fn wants(&self) -> Option<usize>;

    /// Whether all frames have the size of this one: a reader may then take one slab for several.
    fn repeats(&self) -> bool {
        false
    }

    /// The stream has ended cleanly with `pending` bytes that belong to no frame yet. A [`Cut`] (at 0) makes them
    /// the last frame.
    ///
    /// # Errors
    /// `FRAME_TRUNCATED` if a frame was not over.
    fn finish(&mut self, pending: usize) -> Result<Option<Cut>>;
}

/// Its name alone: decision 063.
impl fmt::Debug for dyn Framer + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Framer")
    }
}

/// The end of a frame, relative to the bytes given to [`Framer::scan`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    end: usize,
    held: usize,
    trimmed: usize,
    delivered: bool,
}

impl Cut {
    /// The frame ends `end` bytes into the given bytes. 0 is allowed: it ended with the bytes of the call
    /// before. A frame has at least one byte of the stream, so that every cut makes progress.
    #[must_use]
    pub fn at(end: usize) -> Self {
        Self { end, held: 0, trimmed: 0, delivered: true }
    }

    /// The last `count` of the scanned bytes already belong to the next frame: for formats whose frames end
    /// where the header of the next one begins. They are not given again.
    #[must_use]
    pub fn holding(mut self, count: usize) -> Self {
        self.held = count;
        self
    }

    /// The last `count` bytes of the frame are not delivered.
    #[must_use]
    pub fn trimming(mut self, count: usize) -> Self {
        self.trimmed = count;
        self
    }

    /// Whether the frame is delivered.
    #[must_use]
    pub fn delivered(mut self, delivered: bool) -> Self {
        self.delivered = delivered;
        self
    }

    /// The position of the first byte that has not been scanned.
    pub fn end(&self) -> usize {
        self.end
    }
}

#[cfg(all(test, not(loom)))]
pub(crate) mod tests;
