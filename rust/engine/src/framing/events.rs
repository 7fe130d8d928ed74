//! Blocks of server-sent events: the lines of one event with the blank line that ends it (HTML Living Standard
//! 9.2.5 and 9.2.6).
//!
//! A line ends in LF, CRLF or CR. Whether a CR is half of a CRLF is known one byte later, so a block that ends in
//! CR would be late by one byte. A stream whose lines end in bare CRs is not made to wait: its blank line cuts at
//! once, and an LF that follows after all is no line of its own but lies at the front of the next block. The rule
//! depends on the bytes alone, so every chunking gives the same blocks.

use memchr::memchr2;

use super::{Cut, Framer, too_large};
use crate::error::Result;

/// U+FEFF in UTF-8; skipped at the start of a stream, content everywhere else.
const MARK: [u8; 3] = [0xEF, 0xBB, 0xBF];

/// A line that begins with this, or is this without its colon, appends to the event's data. An event with data is
/// dispatched, even if the data is the empty string.
const DATA: &[u8] = b"data:";

#[derive(Debug)]
pub(super) struct Events {
    max: usize,
    blocks: bool,
    place: Place,
    block: Block,
    /// How much of [`DATA`] the current line has matched; `None` once it is something else.
    name: Option<usize>,
}

/// What is known of the current block.
#[derive(Debug, Default)]
struct Block {
    /// Bytes of it that were looked at in earlier scans.
    length: usize,
    /// Whether it has a line that is not blank.
    filled: bool,
    /// Whether the line before ended in a CR that no LF followed.
    bare: bool,
    /// Whether it has a data line.
    dispatches: bool,
}

/// What the next byte is looked at as.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// Within the byte order mark, this many bytes of which have been seen.
    Mark(usize),
    /// The first byte of a line.
    Start,
    /// Within a line.
    Within,
    /// After the CR of a line: an LF would belong to it.
    AfterReturn,
    /// After a CR that makes a blank line: an LF would belong to it.
    AfterBlank,
    /// After a CR that has been cut at: an LF would be no line.
    AfterCut,
}

impl Events {
    pub(super) fn new(max: usize, blocks: bool) -> Self {
        Self { max, blocks, place: Place::Mark(0), block: Block::default(), name: None }
    }

    /// Bytes that are no part of a block: dropped unless every byte is wanted.
    fn aside(&mut self, end: usize) -> Cut {
        self.block.length = 0;
        Cut::at(end).delivered(self.blocks)
    }

    fn end_block(&mut self, end: usize) -> Result<Cut> {
        let block = std::mem::take(&mut self.block);
        if block.length + end > self.max {
            return Err(too_large(self.max));
        }
        Ok(Cut::at(end).delivered(self.blocks || block.dispatches))
    }

    /// A blank line is over: it ends a block, or comes before one.
    fn blank(&mut self, end: usize) -> Result<Option<Cut>> {
        self.place = Place::Start;
        if self.block.filled {
            return self.end_block(end).map(Some);
        }
        Ok((!self.blocks).then(|| self.aside(end)))
    }

    fn begin_line(&mut self) {
        self.place = Place::Within;
        self.block.filled = true;
        self.name = (!self.block.dispatches).then_some(0);
    }

    /// Goes on matching the name of the line's field. `bytes` follow the ones that have matched.
    fn match_name(&mut self, bytes: &[u8]) {
        let Some(matched) = self.name else { return };
        let expected = &DATA[matched..];
        let common = expected.iter().zip(bytes).take_while(|(expected, byte)| expected == byte).count();
        let decided = common == expected.len();
        let line_ends_next = bytes.get(common).is_none_or(|byte| matches!(byte, b'\n' | b'\r'));
        self.block.dispatches |= decided;
        self.name = (!decided && line_ends_next).then_some(matched + common);
    }

    fn end_line(&mut self) {
        // The whole line is the name of the field, without a colon.
        self.block.dispatches |= self.name == Some(DATA.len() - 1);
    }
}

impl Framer for Events {
    fn scan(&mut self, bytes: &[u8]) -> Result<Option<Cut>> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            match self.place {
                Place::Mark(seen) if byte == MARK[seen] => {
                    at += 1;
                    self.place = Place::Mark(seen + 1);
                    if seen + 1 == MARK.len() {
                        self.place = Place::Start;
                        return Ok(Some(self.aside(at)));
                    }
                }
                Place::Mark(0) => self.place = Place::Start,
                Place::Mark(_) => {
                    self.begin_line();
                    self.name = None;
                }
                Place::Start => match byte {
                    b'\n' => {
                        at += 1;
                        if let Some(cut) = self.blank(at)? {
                            return Ok(Some(cut));
                        }
                    }
                    b'\r' if self.block.bare => {
                        self.place = Place::AfterCut;
                        return self.end_block(at + 1).map(Some);
                    }
                    b'\r' => {
                        at += 1;
                        self.place = Place::AfterBlank;
                    }
                    _ => self.begin_line(),
                },
                Place::Within => {
                    let rest = &bytes[at..];
                    self.match_name(rest);
                    let Some(end) = memchr2(b'\n', b'\r', rest) else { break };
                    self.end_line();
                    self.block.bare = false;
                    self.place = if rest[end] == b'\n' { Place::Start } else { Place::AfterReturn };
                    at += end + 1;
                }
                Place::AfterReturn => {
                    self.block.bare = byte != b'\n';
                    at += usize::from(!self.block.bare);
                    self.place = Place::Start;
                }
                Place::AfterBlank => {
                    at += usize::from(byte == b'\n');
                    if let Some(cut) = self.blank(at)? {
                        return Ok(Some(cut));
                    }
                }
                Place::AfterCut => {
                    self.place = Place::Start;
                    if byte == b'\n' {
                        at += 1;
                        if !self.blocks {
                            return Ok(Some(self.aside(at)));
                        }
                    }
                }
            }
        }
        self.block.length += bytes.len();
        // What may yet become a byte order mark has no maximum.
        if self.block.length > self.max && !matches!(self.place, Place::Mark(_)) {
            return Err(too_large(self.max));
        }
        Ok(None)
    }

    fn wants(&self) -> Option<usize> {
        None
    }

    fn finish(&mut self, pending: usize) -> Result<Option<Cut>> {
        if self.block.length > self.max {
            return Err(too_large(self.max));
        }
        if pending == 0 {
            return Ok(None);
        }
        let dispatched = self.block.dispatches && matches!(self.place, Place::AfterBlank);
        Ok(Some(Cut::at(0).delivered(self.blocks || dispatched)))
    }
}
