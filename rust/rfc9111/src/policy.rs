//! The policy of the operator, where RFC 9111 leaves a choice. Python declares and validates it; there are no defaults
//! here.

use std::time::Duration;

/// How responses that set cookies are treated. RFC 9111 (section 7.3) allows a cache to store them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cookies {
    /// They are stored with their cookies, if the origin itself has set a lifetime.
    Explicit,
    /// They are not stored.
    Refuse,
}

/// How Accept-Language is compared if a response varies by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Languages {
    /// As the client wrote it, ignoring whitespace and case.
    Ordered,
    /// Languages of equal weight in any order (RFC 9110, section 12.5.4).
    Weighted,
    /// As above; and a response in the language that the client prefers matches.
    Preferred,
}

/// The part that is fetched on a miss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RangeFill {
    /// The whole object.
    Whole,
    /// The range of the request.
    Asked,
    /// As `Slices` if the request has a range, or the object is known to be too large to be stored in one piece; otherwise
    /// the whole object.
    Auto(u64),
    /// Slices of this many bytes, one after the other: the slices of the range, or all slices if there is no range.
    Slices(u64),
}

impl RangeFill {
    /// Bytes of a slice; `None` if objects are not fetched in slices.
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
    /// The fields of targeted cache control that apply to this cache, the most important first (RFC 9213).
    pub targets: Vec<String>,
    /// The lifetime in place of the origin's, for responses that may be stored.
    pub lifetime: Option<Duration>,
    /// The heuristic lifetime, as a share of the time since the last modification, for responses without a
    /// lifetime (RFC 9111, section 4.2.2).
    pub heuristic_percent: u32,
    /// The longest heuristic lifetime.
    pub heuristic_max: Duration,
    /// The lifetime of 404, 405, 410, 414 and 501 without one of their own.
    pub negative: Duration,
    /// How long a stale response is served while it is revalidated, unless the origin sets it.
    pub stale_while_revalidate: Duration,
    /// How long a stale response is served in place of an error, unless the origin sets it.
    pub stale_if_error: Duration,
    /// How responses that set cookies are treated.
    pub store_cookies: Cookies,
    /// Whether clients may bypass a fresh response by `no-cache`, `no-store`, `max-age`, `min-fresh` and Pragma.
    /// Other directives of clients always count.
    pub clients_may_refresh: bool,
    /// How Accept-Language is compared.
    pub languages: Languages,
    /// The part that is fetched for a range.
    pub range_fill: RangeFill,
    /// The limit of ranges in one request; a request for more gets the whole.
    pub max_ranges: usize,
}
