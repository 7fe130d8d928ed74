//! A span, as it is told to a collector.

use crate::context::{SpanContext, State};
use crate::id::SpanId;

/// Which side of a request a span is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It stands for something within the process.
    Internal = 1,
    /// It answers a request.
    Server = 2,
    /// It sends one.
    Client = 3,
}

/// The value of an attribute.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// Text, of which the first 1,024 bytes are told.
    Text(&'a str),
    /// A number.
    Number(i64),
    /// A number that need not be whole.
    Float(f64),
    /// True or false.
    Flag(bool),
}

impl Value<'_> {
    /// A count; what does not fit is the most that does.
    pub fn count(count: u64) -> Self {
        Self::Number(i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// A time in milliseconds.
    pub fn millis(time: std::time::Duration) -> Self {
        Self::Float(time.as_secs_f64() * 1e3)
    }
}

/// The name and the value of an attribute.
pub type Attribute<'a> = (&'static str, Value<'a>);

/// A part of a trace that has ended. Times are in nanoseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span<'a> {
    /// Its trace and its id.
    pub(crate) context: SpanContext,
    /// What it is a part of.
    pub(crate) parent: Option<SpanId>,
    /// The parent is a span of another process.
    pub(crate) is_remote: bool,
    /// Passed on as it came.
    pub(crate) state: &'a State,
    /// What it does, in few words that are the same for many.
    pub(crate) name: &'a str,
    /// Its side.
    pub(crate) kind: Kind,
    /// When it began.
    pub(crate) began: u64,
    /// When it ended.
    pub(crate) ended: u64,
    /// What is known of it.
    pub(crate) attributes: &'a [Attribute<'a>],
    /// It has failed.
    pub(crate) is_failure: bool,
    /// A span of another trace, or of the same, that it belongs to.
    pub(crate) link: Option<SpanContext>,
}
