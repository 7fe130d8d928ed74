//! Range and Content-Range (RFC 9110, section 14), and bodies of several parts (section 14.6).

use super::list::{elements, number};
use super::spans::{Span, Spans};

/// One member of a Range field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spec {
    /// From one byte to another, both included; to the end if there is no second.
    From(u64, Option<u64>),
    /// The last bytes of the representation.
    Last(u64),
}

/// The ranges of a request, at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranges(Vec<Spec>);

/// The answer to a Range field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selected {
    /// The whole representation, with status 200: the field is ignored.
    Whole,
    /// These bytes, with status 206.
    Parts(Vec<Span>),
    /// Nothing, with status 416.
    Unsatisfiable,
}

impl Ranges {
    /// Reads a Range field; `None` if it is malformed or has an unknown unit: then it is ignored (section 14.2).
    pub fn parse(value: &[u8]) -> Option<Self> {
        let equals = value.iter().position(|byte| *byte == b'=')?;
        let unit = value[..equals].eq_ignore_ascii_case(b"bytes");
        let specs = elements(&value[equals + 1..]).map(Spec::parse).collect::<Option<Vec<_>>>()?;
        (unit && !specs.is_empty()).then_some(Self(specs))
    }

    /// The ranges in the order of the request.
    pub fn specs(&self) -> &[Spec] {
        &self.0
    }

    /// The answer for a representation of `length` bytes. More than `most` ranges get the whole, as section 14.2
    /// allows; ranges that overlap are joined, so that no request gets more bytes than the representation has.
    pub fn select(&self, length: u64, most: usize) -> Selected {
        // A Content-Range cannot name a part of an empty body.
        if length == 0 || self.0.len() > most {
            return Selected::Whole;
        }
        let mut spans: Vec<_> = self.0.iter().filter_map(|spec| spec.of(length)).collect();
        let overlap =
            |(place, span): (usize, &Span)| spans[..place].iter().any(|other| other.overlaps(*span));
        if spans.iter().enumerate().any(overlap) {
            spans = spans.into_iter().collect::<Spans>().iter().collect();
        }
        if spans.is_empty() { Selected::Unsatisfiable } else { Selected::Parts(spans) }
    }
}

impl Spec {
    fn parse(member: &[u8]) -> Option<Self> {
        let dash = member.iter().position(|byte| *byte == b'-')?;
        match (&member[..dash], &member[dash + 1..]) {
            (b"", last) => Some(Self::Last(number(last)?)),
            (first, b"") => Some(Self::From(number(first)?, None)),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Self::From(first, Some(last)))
            }
        }
    }

    /// The bytes of the range in a representation of `length` bytes; `None` if it has no byte
    /// there.
    pub fn of(self, length: u64) -> Option<Span> {
        match self {
            Self::From(first, last) => {
                Span::new(first, last.map_or(length, |last| last.saturating_add(1)).min(length))
            }
            Self::Last(count) => Span::new(length.saturating_sub(count), length),
        }
    }
}

/// Content-Range (section 14.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentRange {
    /// The bytes of the body; `None` in a 416.
    pub span: Option<Span>,
    /// The length of the whole, if it is known.
    pub length: Option<u64>,
}

impl ContentRange {
    /// Reads a field value; `None` if it is malformed, contradicts itself or has another unit.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let space = value.iter().position(|byte| *byte == b' ')?;
        let rest = &value[space + 1..];
        let slash = rest.iter().position(|byte| *byte == b'/')?;
        let length = match &rest[slash + 1..] {
            b"*" => None,
            digits => Some(number(digits)?),
        };
        let span = match &rest[..slash] {
            b"*" => None,
            range => match Spec::parse(range)? {
                Spec::From(first, Some(last)) => Some(Span::new(first, last.checked_add(1)?)?),
                _ => return None,
            },
        };
        let beyond = span.zip(length).is_some_and(|(span, length)| span.end() > length);
        let nothing = span.is_none() && length.is_none();
        let unit = value[..space].eq_ignore_ascii_case(b"bytes");
        (unit && !beyond && !nothing).then_some(Self { span, length })
    }

    /// The field value.
    pub fn to_text(self) -> String {
        let span = self.span.map_or_else(|| "*".to_owned(), |span| span.to_string());
        let length = self.length.map_or_else(|| "*".to_owned(), |length| length.to_string());
        format!("bytes {span}/{length}")
    }
}

/// The framing of a body of several parts: the bytes before each part, and after the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Multipart {
    /// Before each part, in the order of the spans.
    pub heads: Vec<Vec<u8>>,
    /// After the last part.
    pub tail: Vec<u8>,
    /// The length of the body in bytes, with the parts.
    pub length: u64,
}

impl Multipart {
    /// Frames these parts of a representation of `length` bytes. `boundary` must not occur in a part: it is
    /// random, and long.
    pub fn of(spans: &[Span], length: u64, content_type: Option<&[u8]>, boundary: &str) -> Self {
        let head = |span: &Span| {
            let mut head = format!("\r\n--{boundary}\r\n").into_bytes();
            if let Some(value) = content_type {
                head.extend([b"Content-Type: ", value, b"\r\n"].concat());
            }
            let range = ContentRange { span: Some(*span), length: Some(length) };
            head.extend_from_slice(format!("Content-Range: {}\r\n\r\n", range.to_text()).as_bytes());
            head
        };
        let heads: Vec<_> = spans.iter().map(head).collect();
        let tail = format!("\r\n--{boundary}--\r\n").into_bytes();
        let framing = heads.iter().chain([&tail]).map(|part| part.len() as u64).sum::<u64>();
        Self { length: framing + spans.iter().map(|span| span.len()).sum::<u64>(), heads, tail }
    }
}
