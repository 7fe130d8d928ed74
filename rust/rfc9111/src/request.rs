//! What a cache must know of a request.

use super::control::RequestControl;
use super::key::Target;
use super::validate::{Conditions, IfRange};
use penstock_http::wire::Ranges;
use penstock_http::wire::is_one_of;
use penstock_http::wire::list::{Lines, values};

/// A request as the cache reads it, once.
#[derive(Debug)]
pub struct Request<'a> {
    /// Its method.
    pub method: &'a str,
    /// What it is about.
    pub target: Target<'a>,
    /// Its fields.
    pub lines: &'a Lines<'a>,
    /// What it says about caches.
    pub control: RequestControl,
    /// Whether it has credentials in Authorization.
    pub authorized: bool,
    /// What its client has already.
    pub conditions: Conditions,
    /// The ranges that it asks for; those of GET alone mean something (RFC 9110, section 14.2).
    pub ranges: Option<Ranges>,
    /// Whether it has a Range field that is followed by whoever understands it.
    pub is_ranged: bool,
    /// The state that the ranges must be of.
    pub if_range: Option<IfRange>,
}

/// The fields that [`Request::read`] looks at. What varies by other fields looks at those as well.
pub const READ: [&str; 9] = [
    "authorization",
    "cache-control",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "pragma",
    "range",
];

/// Whether a field says anything to a cache by itself. A request in which none does is read as one without fields.
pub fn is_read(name: &[u8]) -> bool {
    is_one_of(name, &READ)
}

impl<'a> Request<'a> {
    /// Reads a request.
    pub fn read(method: &'a str, target: Target<'a>, lines: &'a Lines<'a>) -> Self {
        let mut range = values(lines, "range");
        let first = range.next().filter(|_| method == "GET");
        // Of two fields none is followed: another reader could follow the other.
        let only = first.filter(|_| range.next().is_none());
        Self {
            method,
            target,
            lines,
            control: RequestControl::parse(values(lines, "cache-control"), values(lines, "pragma")),
            authorized: values(lines, "authorization").next().is_some(),
            conditions: Conditions::of(lines),
            ranges: only.and_then(Ranges::parse),
            is_ranged: first.is_some(),
            if_range: values(lines, "if-range").next().map(IfRange::parse),
        }
    }
}
