//! Lines that end in LF or CRLF.

use memchr::memchr;

use super::{Cut, Framer, too_large};
use penstock_error::Result;

#[derive(Debug)]
pub(super) struct Lines {
    max: usize,
    /// Bytes of the current line that have been seen.
    length: usize,
    /// Whether the last of them is a CR, which an LF would make part of the line's end.
    ends_in_cr: bool,
}

impl Lines {
    pub(super) fn new(max: usize) -> Self {
        Self { max, length: 0, ends_in_cr: false }
    }
}

impl Framer for Lines {
    fn scan(&mut self, bytes: &[u8]) -> Result<Option<Cut>> {
        let found = memchr(b'\n', bytes);
        let line = &bytes[..found.unwrap_or(bytes.len())];
        self.length += line.len();
        self.ends_in_cr = line.last().map_or(self.ends_in_cr, |&byte| byte == b'\r');
        if self.length - usize::from(self.ends_in_cr) > self.max {
            return Err(too_large(self.max));
        }
        let Some(at) = found else { return Ok(None) };
        let cut = Cut::at(at + 1).trimming(1 + usize::from(self.ends_in_cr));
        self.length = 0;
        self.ends_in_cr = false;
        Ok(Some(cut))
    }

    fn wants(&self) -> Option<usize> {
        None
    }

    fn finish(&mut self, pending: usize) -> Result<Option<Cut>> {
        // A CR without an LF after it is content.
        if self.length > self.max {
            return Err(too_large(self.max));
        }
        Ok((pending > 0).then(|| Cut::at(0)))
    }
}
