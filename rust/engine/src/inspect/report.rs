//! What the inspection has found in a response.

use std::time::Duration;

use super::content::Content;

/// Why a usage may have been missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hidden {
    /// The response has a content coding, although the request asked for none.
    Encoded,
    /// The response, or its usage, is above the limit.
    TooLarge,
}

/// What was seen of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The kind of the response.
    pub content: Content,
    /// Whether the request was changed before it was sent.
    pub amended: bool,
    /// Events that a browser would have dispatched.
    pub events: u64,
    /// Bytes of the body, as they came from the origin.
    pub bytes: u64,
    /// From the request to the first token.
    pub first: Option<Duration>,
    /// The longest time between two tokens that followed one another.
    pub longest_gap: Option<Duration>,
    /// From the request to the end.
    pub total: Duration,
    /// The usage: one JSON object.
    pub usage: Option<Vec<u8>>,
    /// Why the usage may be missing.
    pub hidden: Option<Hidden>,
}
