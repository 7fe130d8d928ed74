//! Points in time and spans of seconds for caches (RFC 9111, sections 1.2.2 and 4.2).

use std::fmt;
use std::time::Duration;

use penstock_http::wire::list::number;
use penstock_http::wire::{http_date, parse_date};

/// The longest span in a field, 68 years: a longer one counts as this (RFC 9111, section 1.2.2).
pub const LONGEST: Duration = Duration::from_secs(1 << 31);

/// A point in time, in milliseconds since 1970. The caller passes the time; nothing here reads a clock.
///
/// Milliseconds, because segments are fresh for a second or two: with whole seconds, a response could become stale
/// too early or too late by most of its lifetime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The point in time this many milliseconds after 1970.
    pub fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// The point in time this many seconds after 1970.
    pub fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// Milliseconds since 1970.
    pub fn as_millis(self) -> u64 {
        self.0
    }

    /// Whole seconds since 1970.
    pub fn as_secs(self) -> u64 {
        self.0 / 1000
    }

    /// The span from `earlier` to this time; zero if `earlier` is later, as after a clock was set back.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// This time plus a span.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)))
    }

    /// Reads an HTTP-date in any of its three forms (RFC 9110, section 5.6.7). `None` if it is not a date, or is
    /// before 1970.
    pub fn parse(value: &[u8]) -> Option<Self> {
        parse_date(value).map(Self::from_secs)
    }
}

impl fmt::Display for Time {
    /// The HTTP-date, in whole seconds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        http_date(self.as_secs()).fmt(f)
    }
}

/// `delta-seconds` (RFC 9111, section 1.2.2): digits and nothing else, and no more than [`LONGEST`].
pub(super) fn delta_seconds(digits: &[u8]) -> Option<Duration> {
    number(digits).map(|seconds| Duration::from_secs(seconds).min(LONGEST))
}
