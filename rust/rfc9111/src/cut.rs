//! A client's range, cut out of an answer that is not stored and has more than that: of an origin that does not follow
//! ranges, or a slice that turned out to be nothing to keep.
//!
//! What lies behind the last byte that is wanted is not read: a range costs the origin what lies before its end.

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

/// Which bytes of an answer a client gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Those of the representation.
    span: Span,
    /// Bytes of the whole representation.
    length: u64,
    /// Bytes of the body before the first that is wanted, which are still to come.
    before: u64,
    /// Bytes that are wanted, which are still to come.
    wanted: u64,
}

impl Cut {
    /// What `request` gets of a response with `lines`: one range, of a 200 whose length is known, or of a 206 that has all
    /// of it. None where the response does for the client as it is.
    pub fn of(request: &Request<'_>, status: u16, lines: &Lines<'_>, received: Time) -> Option<Self> {
        request.ranges.as_ref()?;
        let (there, length) = match status {
            200 => {
                let length = values(lines, "content-length").next().and_then(number)?;
                (Span::new(0, length)?, length)
            }
            206 => content_range(lines).and_then(|range| range.span.zip(range.length))?,
            _ => return None,
        };
        let span = single_range(request, length, &Validators::of(lines, received))?;
        let is_more = status == 200 || span != there;
        let before = span.start().checked_sub(there.start())?;
        (is_more && there.contains(span)).then(|| Self { span, length, before, wanted: span.len() })
    }

    /// The fields of the response as its client gets it, with status 206.
    pub fn fields(&self, lines: &Lines<'_>) -> Fields {
        let kept = lines.iter().filter(|(name, _)| !is_one_of(name, &["content-length", "content-range"]));
        let mut fields: Fields = kept.copied().collect();
        let range = ContentRange { span: Some(self.span), length: Some(self.length) };
        fields.push(b"Content-Range", range.to_text().as_bytes());
        fields.write(b"Content-Length", self.span.len());
        fields
    }

    /// What is wanted of the next `length` bytes of the body.
    pub fn take(&mut self, length: usize) -> Range<usize> {
        let start = usize::try_from(self.before).map_or(length, |before| before.min(length));
        self.before -= start as u64;
        let wanted = usize::try_from(self.wanted).map_or(length - start, |wanted| wanted.min(length - start));
        self.wanted -= wanted as u64;
        start..start + wanted
    }

    /// Whether all that is wanted has come.
    pub fn is_done(&self) -> bool {
        self.wanted == 0
    }
}
