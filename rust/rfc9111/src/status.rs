//! Cache-Status (RFC 9211): how the cache has treated a request, as a member of a structured list.

use super::decide::{Decision, Why};
use super::freshness::State;
use super::stored::Stored;
use super::time::Time;
use penstock_http::wire::{Fields, is_one_of, is_token, write_number};

/// The member of this cache. Parameters that are false or unknown are omitted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CacheStatus {
    /// The request was answered without the origin.
    pub hit: bool,
    /// Why the origin was asked.
    pub forwarded: Option<Why>,
    /// The status of the origin's answer.
    pub forwarded_status: Option<u16>,
    /// Seconds for which the response remains fresh; negative: for which it has been stale.
    pub ttl: Option<i64>,
    /// The answer was stored.
    pub stored: bool,
    /// The request was answered by another request's fetch.
    pub collapsed: bool,
    /// A detail.
    pub detail: Option<&'static str>,
}

impl CacheStatus {
    /// Stale, while it is revalidated.
    pub const WHILE_REVALIDATE: &str = "stale-while-revalidate";
    /// Stale, in place of an error.
    pub const IF_ERROR: &str = "stale-if-error";
    /// Stale, and the client accepts it.
    pub const MAX_STALE: &str = "max-stale";

    /// The status of a decision, before the origin is asked. `stored` is its stored response.
    pub fn of(decision: &Decision, stored: Option<&Stored>, now: Time) -> Self {
        let ttl = stored.map(|stored| match stored.freshness.state(now) {
            State::Fresh(left) => seconds(left),
            State::Stale(span) => -seconds(span),
        });
        let forwarded = |why| Self { forwarded: Some(why), ..Self::default() };
        match decision {
            Decision::Hit { .. } => Self { hit: true, ttl, ..Self::default() },
            Decision::HitStale { refresh, .. } => {
                let detail = if refresh.is_some() { Self::WHILE_REVALIDATE } else { Self::MAX_STALE };
                Self { hit: true, ttl, detail: Some(detail), ..Self::default() }
            }
            Decision::Revalidate { why, .. } | Decision::Miss { why, .. } | Decision::Bypass(why) => {
                forwarded(*why)
            }
            Decision::Begin { .. } | Decision::Complete { .. } => forwarded(Why::Partial),
            Decision::Select { .. } => forwarded(Why::VaryMiss),
            Decision::OnlyIfCached => Self { detail: Some("only-if-cached"), ..Self::default() },
        }
    }

    /// Whether the answer is a stale stored response: the detail gives the reason.
    pub fn is_stale(&self) -> bool {
        self.detail
            .is_some_and(|detail| [Self::WHILE_REVALIDATE, Self::IF_ERROR, Self::MAX_STALE].contains(&detail))
    }

    /// `fields` with this member added after the members of other caches on the way, in one field.
    #[must_use]
    pub fn beside(&self, name: &str, mut fields: Fields) -> Fields {
        let mut others = Vec::new();
        for (_, value) in fields.iter().filter(|(name, _)| is_one_of(name, &["cache-status"])) {
            others.extend_from_slice(value);
            others.extend_from_slice(b", ");
        }
        if others.is_empty() {
            fields.push_with(b"Cache-Status", |out| self.write(name, out));
            return fields;
        }
        self.write(name, &mut others);
        let mut joined: Fields =
            fields.iter().filter(|(name, _)| !is_one_of(name, &["cache-status"])).collect();
        joined.push(b"Cache-Status", &others);
        joined
    }

    /// What became of a request, by the value of its field: the last member is this cache's.
    pub fn result(value: &[u8]) -> &'static str {
        let last = value.rsplit(|byte| *byte == b',').next().unwrap_or_default();
        let mut parameters = last.split(|byte| *byte == b';').map(<[u8]>::trim_ascii).skip(1);
        let has = |wanted: &[u8]| last.split(|byte| *byte == b';').any(|part| part.trim_ascii() == wanted);
        let is_stale = parameters.any(|part| part.starts_with(b"ttl=-"));
        match (has(b"hit"), has(b"collapsed"), has(b"fwd-status=304"), has(b"stored")) {
            (true, ..) if is_stale => "stale",
            (true, ..) => "hit",
            (_, true, ..) => "collapsed",
            (_, _, true, _) => "revalidated",
            (.., true) => "miss",
            _ => "passed",
        }
    }

    /// Appends the member, with the name of the cache. Without `write!`, which takes 400 instructions more for a hit.
    pub fn write(&self, name: &str, out: &mut Vec<u8>) {
        // A token of a structured field begins with a letter (RFC 9651, section 3.3.4); any other name is written
        // as a string.
        if is_token(name.as_bytes()) && name.starts_with(|first: char| first.is_ascii_alphabetic()) {
            out.extend_from_slice(name.as_bytes());
        } else {
            out.push(b'"');
            for shown in name.bytes().filter(|shown| matches!(shown, b' '..=b'~')) {
                if matches!(shown, b'"' | b'\\') {
                    out.push(b'\\');
                }
                out.push(shown);
            }
            out.push(b'"');
        }
        if self.hit {
            out.extend_from_slice(b"; hit");
        }
        if let Some(why) = self.forwarded {
            out.extend_from_slice(b"; fwd=");
            out.extend_from_slice(why.token().as_bytes());
        }
        if let Some(code) = self.forwarded_status {
            out.extend_from_slice(b"; fwd-status=");
            write_number(out, code.into());
        }
        if let Some(ttl) = self.ttl {
            out.extend_from_slice(if ttl < 0 { b"; ttl=-" } else { b"; ttl=" });
            write_number(out, ttl.unsigned_abs());
        }
        if self.stored {
            out.extend_from_slice(b"; stored");
        }
        if self.collapsed {
            out.extend_from_slice(b"; collapsed");
        }
        if let Some(detail) = self.detail {
            out.extend_from_slice(b"; detail=");
            out.extend_from_slice(detail.as_bytes());
        }
    }
}

fn seconds(span: std::time::Duration) -> i64 {
    i64::try_from(span.as_secs()).unwrap_or(i64::MAX)
}

impl Why {
    /// The value of `fwd`.
    pub fn token(self) -> &'static str {
        match self {
            Self::Bypass => "bypass",
            Self::Method => "method",
            Self::UriMiss => "uri-miss",
            Self::VaryMiss => "vary-miss",
            Self::Request => "request",
            Self::Stale => "stale",
            Self::Partial => "partial",
        }
    }
}
