//! Blocks of server-sent events: the lines of one event with the blank line that ends it (HTML Living Standard
//! 9.2.5 and 9.2.6).
//!
//! A line ends in LF, CRLF or CR. Whether a CR is half of a CRLF is known one byte later, so a frame that ends in
//! CR would be late by one byte. A stream whose lines end in bare CRs does not wait: if the line before ended so, a
//! CR that ends a frame cuts at once, and an LF after it counts as a blank line, which has no meaning there. The
//! rule depends on the bytes alone, so every chunking gives the same frames.
//!
//! If every byte is wanted, a blank or comment line before the first field of a block is a frame of its own: it
//! may be a heartbeat, and the block after it may begin much later.

use memchr::memchr2;

use super::{Cut, Framer, too_large};
use penstock_error::Result;

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
    /// Whether the line before ended in a CR that no LF followed.
    bare: bool,
    /// How many bytes of [`DATA`] the current line has matched; `None` after a mismatch.
    name: Option<usize>,
}

/// The state of the current block.
#[derive(Debug, Default)]
struct Block {
    /// Bytes of it that earlier scans have seen.
    length: usize,
    /// Whether it has a line that is not blank.
    filled: bool,
    /// Whether it has a data line.
    dispatches: bool,
}

/// What the next byte may be.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// Within the byte order mark, this many bytes of which have been seen.
    Mark(usize),
    /// The first byte of a line.
    Start,
    /// Within a line.
    Within,
    /// Within a comment line that is a frame.
    Comment,
    /// After the CR of a line: an LF would belong to it.
    AfterReturn,
    /// After the CR of a line that ends a frame: an LF would belong to it.
    AfterLast,
}

impl Events {
    pub(super) fn new(max: usize, blocks: bool) -> Self {
        Self { max, blocks, place: Place::Mark(0), block: Block::default(), bare: false, name: None }
    }

    /// This many bytes of the byte order mark have come; whether it is whole.
    fn pass_mark(&mut self, seen: usize) -> bool {
        let is_whole = seen == MARK.len();
        self.place = if is_whole { Place::Start } else { Place::Mark(seen) };
        if is_whole {
            self.block.length = 0;
        }
        is_whole
    }

    /// The bytes so far, `seen` of which are in the mark, are the beginning of a line.
    fn end_mark(&mut self, seen: usize) {
        if seen == 0 {
            self.place = Place::Start;
        } else {
            self.begin_line();
            self.name = None;
        }
    }

    /// All bytes of a scan belong to the current block.
    fn keep(&mut self, count: usize) -> Result<()> {
        self.block.length += count;
        // A prefix of a byte order mark has no maximum.
        if self.block.length > self.max && !matches!(self.place, Place::Mark(_)) {
            return Err(too_large(self.max));
        }
        Ok(())
    }

    /// The last line of a frame is over: a blank line, or a comment line that is wanted at once.
    fn end_frame(&mut self, end: usize) -> Result<Cut> {
        self.place = Place::Start;
        let block = std::mem::take(&mut self.block);
        // Blank lines count where they are delivered.
        if (block.filled || self.blocks) && block.length + end > self.max {
            return Err(too_large(self.max));
        }
        Ok(Cut::at(end).delivered(self.blocks || block.dispatches))
    }

    /// The last line of a frame has a CR, which is its end unless an LF may follow.
    fn end_frame_in_return(&mut self, end: usize) -> Result<Option<Cut>> {
        if self.bare {
            return self.end_frame(end).map(Some);
        }
        self.place = Place::AfterLast;
        Ok(None)
    }

    fn begin_line(&mut self) {
        self.place = Place::Within;
        self.block.filled = true;
        self.name = (!self.block.dispatches).then_some(0);
    }

    /// Continues to match the name of the line's field. `bytes` follow the bytes that have matched.
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
                    if self.pass_mark(seen + 1) {
                        return Ok(Some(Cut::at(at).delivered(self.blocks)));
                    }
                }
                Place::Mark(seen) => self.end_mark(seen),
                Place::Start => match byte {
                    b'\n' => {
                        self.bare = false;
                        return self.end_frame(at + 1).map(Some);
                    }
                    b'\r' => {
                        at += 1;
                        if let Some(cut) = self.end_frame_in_return(at)? {
                            return Ok(Some(cut));
                        }
                    }
                    b':' if self.blocks && !self.block.filled => self.place = Place::Comment,
                    _ => self.begin_line(),
                },
                Place::Within => {
                    let rest = &bytes[at..];
                    self.match_name(rest);
                    let Some(end) = memchr2(b'\n', b'\r', rest) else { break };
                    self.end_line();
                    self.bare = false;
                    self.place = if rest[end] == b'\n' { Place::Start } else { Place::AfterReturn };
                    at += end + 1;
                }
                Place::Comment => {
                    let Some(end) = memchr2(b'\n', b'\r', &bytes[at..]) else { break };
                    at += end + 1;
                    if bytes[at - 1] == b'\n' {
                        self.bare = false;
                        return self.end_frame(at).map(Some);
                    }
                    if let Some(cut) = self.end_frame_in_return(at)? {
                        return Ok(Some(cut));
                    }
                }
                Place::AfterReturn => {
                    self.bare = byte != b'\n';
                    at += usize::from(!self.bare);
                    self.place = Place::Start;
                }
                Place::AfterLast => {
                    self.bare = byte != b'\n';
                    return self.end_frame(at + usize::from(!self.bare)).map(Some);
                }
            }
        }
        self.keep(bytes.len())?;
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
        let dispatched = self.block.dispatches && matches!(self.place, Place::AfterLast);
        Ok(Some(Cut::at(0).delivered(self.blocks || dispatched)))
    }
}
