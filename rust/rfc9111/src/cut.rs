//! Cuts a client's range out of a longer answer that is not stored: from an origin that ignores ranges, or a slice
//! that proved not to be storable.
//!
//! Bytes after the range are not read: the origin sends the bytes up to the end of the range.

use std::ops::Range;

use super::answer::single_range;
use super::answered::content_range;
use super::request::Request;
use super::time::Time;
use super::validate::Validators;
use penstock_http::wire::ContentRange;
use penstock_http::wire::Span;
use penstock_http::wire::list::{Lines, number, values};
use penstock_http::wire::{Fields, is_one_of};

/// The bytes of an answer that a client gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// The range, in bytes of the representation.
    span: Span,
    /// The length of the representation in bytes.
    length: u64,
    /// Bytes of the body to skip before the range.
    before: u64,
    /// Bytes of the range that are still to come.
    wanted: u64,
}

impl Cut {
    /// The cut that `request` needs of a response with `lines`: one range, of a 200 whose length is known, or of a 206
    /// that has all of the range. `None` if the response can go to the client unchanged.
    pub fn of(request: &Request<'_>, status: u16, lines: &Lines<'_>, received: Time) -> Option<Self> {
        request.ranges.as_ref()?;
        let (there, length) = match status {
            200 => {
                let length = values(lines, "content-length").next().and_then(number)?;
                (Span::new(0, length)?, length)
            }
            206 => {
                let (there, length) = content_range(lines).and_then(|range| range.span.zip(range.length))?;
                // A part that is shorter or longer than its Content-Range says has no known bytes to cut.
                let sent = values(lines, "content-length").next().and_then(number);
                (sent.is_none_or(|sent| sent == there.len()).then_some(there)?, length)
            }
            _ => return None,
        };
        let span = single_range(request, length, &Validators::of(lines, received))?;
        let is_more = status == 200 || span != there;
        let before = span.start().checked_sub(there.start())?;
        (is_more && there.contains(span)).then(|| Self { span, length, before, wanted: span.len() })
    }

    /// The fields of the 206 that the client gets.
    pub fn fields(&self, lines: &Lines<'_>) -> Fields {
        let kept = lines.iter().filter(|(name, _)| !is_one_of(name, &["content-length", "content-range"]));
        let mut fields: Fields = kept.copied().collect();
        let range = ContentRange { span: Some(self.span), length: Some(self.length) };
        fields.push(b"Content-Range", range.to_text().as_bytes());
        fields.push_number(b"Content-Length", self.span.len());
        fields
    }

    /// The part of the range in the next `length` bytes of the body.
    pub fn take(&mut self, length: usize) -> Range<usize> {
        let start = usize::try_from(self.before).map_or(length, |before| before.min(length));
        self.before -= start as u64;
        let wanted = usize::try_from(self.wanted).map_or(length - start, |wanted| wanted.min(length - start));
        self.wanted -= wanted as u64;
        start..start + wanted
    }

    /// Whether the whole range has come.
    pub fn is_done(&self) -> bool {
        self.wanted == 0
    }
}
