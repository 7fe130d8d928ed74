//! What the operator decides and RFC 9111 leaves open. The values come from Python's config; there are no defaults here.

use std::time::Duration;

/// What is done with responses that set cookies. RFC 9111 (section 7.3) lets a cache store them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cookies {
    /// Stored, cookies included, where the origin itself has said for how long.
    Explicit,
    /// Never stored.
    Refuse,
}

/// How Accept-Language is compared where a response varies by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Languages {
    /// As the client wrote it, but for whitespace and case.
    Ordered,
    /// Languages of equal weight in whatever order (RFC 9110, section 12.5.4).
    Weighted,
    /// The same; and a response that is in the one language that the client likes best is what it wants.
    Preferred,
}

/// What is fetched when something is asked for and is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RangeFill {
    /// The whole object.
    Whole,
    /// The range, as it was asked for.
    Asked,
    /// As `Slices` where a range is asked for, or what is asked for is known to be too large to be stored in one piece; else
    /// the whole object.
    Auto(u64),
    /// Slices of that many bytes, one after the other: those that the range lies in, and all of them where there is none.
    Slices(u64),
}

impl RangeFill {
    /// Bytes of a slice, where objects may be in slices.
    pub fn slice(self) -> Option<u64> {
        match self {
            Self::Auto(size) | Self::Slices(size) => Some(size),
            Self::Whole | Self::Asked => None,
        }
    }
}

/// The policy of a cache, or of one route of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// The name of this cache in Cache-Status.
    pub name: String,
    /// Fields of targeted control that are about this cache, the one that is asked first in front (RFC 9213).
    pub targets: Vec<String>,
    /// Fresh for that long whatever the origin says, where it lets the response be stored at all.
    pub lifetime: Option<Duration>,
    /// Fresh for that share of the time since it was last modified, where the origin says nothing (RFC 9111,
    /// section 4.2.2).
    pub heuristic_percent: u32,
    /// The longest time that such a guess gives.
    pub heuristic_max: Duration,
    /// For how long 404, 405, 410, 414 and 501 are fresh where nothing tells.
    pub negative: Duration,
    /// For how long a stale response is served while it is fetched anew, where the origin does not say.
    pub stale_while_revalidate: Duration,
    /// For how long a stale response stands in for an error, where the origin does not say.
    pub stale_if_error: Duration,
    /// What is done with responses that set cookies.
    pub cookies: Cookies,
    /// Whether clients may have the origin asked though a fresh response is there: `no-cache`, `no-store`, `max-age`,
    /// `min-fresh` and Pragma. What else they say is always followed.
    pub clients_may_refresh: bool,
    /// How Accept-Language is compared.
    pub languages: Languages,
    /// What is fetched for a range.
    pub range_fill: RangeFill,
    /// The most ranges that one request gets; more are answered with the whole.
    pub max_ranges: usize,
}
