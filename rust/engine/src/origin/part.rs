//! The length of the body of a 206 by its Content-Range, if its framing does not give it.
//!
//! A part that is framed by chunks or by the end of its connection can end early and look whole. Its Content-Range says
//! which bytes it has (RFC 9110, sections 14.4 and 15.3.7.1), and so where it ends. A Content-Length needs no check here:
//! the framing detects an early end.

use crate::error::{Code, Result};
use crate::wire::ContentRange;
use crate::wire::{BodyFraming, Head};

/// Counts the bytes of a single part. A multipart body has no Content-Range in its head, and is not counted.
#[derive(Debug)]
pub(super) struct Part {
    length: u64,
    received: u64,
}

impl Part {
    /// The counter for the body of the response `head`, which is framed as `body`; `None` if its framing gives the length,
    /// or nothing does.
    pub(super) fn of(head: &Head, body: BodyFraming) -> Option<Self> {
        if head.status != 206 || !matches!(body, BodyFraming::Chunked | BodyFraming::UntilClose) {
            return None;
        }
        let mut values = head.get_all("content-range");
        let range = values.next().filter(|_| values.next().is_none()).and_then(ContentRange::parse)?;
        range.span.map(|span| Self { length: span.len(), received: 0 })
    }

    /// Counts bytes of the body.
    ///
    /// # Errors
    /// `BAD_PART` if they are more than Content-Range names.
    pub(super) fn advance(&mut self, bytes: usize) -> Result<()> {
        self.received += bytes as u64;
        if self.received > self.length {
            return Err(Code::BadPart.error(format!(
                "the body has more than the {} bytes that Content-Range names",
                self.length
            )));
        }
        Ok(())
    }

    /// The body has ended by its framing.
    ///
    /// # Errors
    /// `BODY_TRUNCATED` if bytes are missing.
    pub(super) fn end(&self) -> Result<()> {
        if self.received < self.length {
            return Err(Code::BodyTruncated.error(format!(
                "the body ended with {} of the {} bytes missing that Content-Range names",
                self.length - self.received,
                self.length
            )));
        }
        Ok(())
    }
}
