//! Sets of byte spans: which bytes of a representation are stored, and the slices in which large ones are
//! fetched.

use std::fmt;

/// Bytes from `start` up to, but not including, `end`. Never empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    start: u64,
    end: u64,
}

impl Span {
    /// The span of all bytes.
    pub const ALL: Self = Self { start: 0, end: u64::MAX };

    /// `None` if it would be empty.
    pub fn new(start: u64, end: u64) -> Option<Self> {
        (start < end).then_some(Self { start, end })
    }

    /// The first byte.
    pub fn start(self) -> u64 {
        self.start
    }

    /// The position after the last byte.
    pub fn end(self) -> u64 {
        self.end
    }

    /// The number of bytes.
    #[expect(clippy::len_without_is_empty, reason = "it never is")]
    pub fn len(self) -> u64 {
        self.end - self.start
    }

    /// Whether it contains all of `other`.
    pub fn contains(self, other: Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// Whether they have a byte in common.
    pub fn overlaps(self, other: Self) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// The span, widened to whole slices of `size` bytes, in a representation of `length` bytes.
    #[must_use]
    pub fn aligned(self, size: u64, length: Option<u64>) -> Self {
        let size = size.max(1);
        let end = self.end.div_ceil(size).saturating_mul(size);
        // It ends at the end of the representation at most; but never within the span, in case the
        // known length is wrong.
        let end = length.map_or(end, |length| end.min(length)).max(self.end);
        Self { start: self.start / size * size, end }
    }
}

impl fmt::Display for Span {
    /// `0-499`, as in Range and Content-Range.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.start, self.end - 1)
    }
}

/// A set of bytes: spans in ascending order that neither overlap nor touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spans(Vec<Span>);

impl Spans {
    /// Adds a span, and joins it with the spans that it overlaps or touches.
    pub fn insert(&mut self, span: Span) {
        let first = self.0.partition_point(|other| other.end < span.start);
        let last = self.0.partition_point(|other| other.start <= span.end);
        let joined = self.0[first..last].iter().fold(span, |joined, other| Span {
            start: joined.start.min(other.start),
            end: joined.end.max(other.end),
        });
        self.0.splice(first..last, [joined]);
    }

    /// The spans, in their order.
    pub fn iter(&self) -> impl Iterator<Item = Span> + '_ {
        self.0.iter().copied()
    }

    /// Whether it contains all of `span`.
    pub fn contains(&self, span: Span) -> bool {
        let first = self.0.partition_point(|other| other.end <= span.start);
        self.0.get(first).is_some_and(|other| other.contains(span))
    }

    /// The parts of `span` that are missing, in ascending order.
    pub fn missing(&self, span: Span) -> Vec<Span> {
        let mut missing = Vec::new();
        let mut start = span.start;
        for present in self.iter().filter(|present| present.overlaps(span)) {
            missing.extend(Span::new(start, present.start));
            start = present.end;
        }
        missing.extend(Span::new(start, span.end));
        missing
    }

    /// The number of bytes.
    pub fn total(&self) -> u64 {
        self.iter().map(Span::len).sum()
    }
}

impl FromIterator<Span> for Spans {
    fn from_iter<I: IntoIterator<Item = Span>>(spans: I) -> Self {
        let mut set = Self::default();
        for span in spans {
            set.insert(span);
        }
        set
    }
}
