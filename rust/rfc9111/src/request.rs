//! The properties of a request that a cache needs.

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
    /// Its target.
    pub target: Target<'a>,
    /// Its fields.
    pub lines: &'a Lines<'a>,
    /// Its cache directives.
    pub control: RequestControl,
    /// Whether it has an Authorization field.
    pub authorized: bool,
    /// Its conditions: the responses that its client has.
    pub conditions: Conditions,
    /// Its ranges. Only ranges of GET have a meaning (RFC 9110, section 14.2).
    pub ranges: Option<Ranges>,
    /// Whether it has a Range field that a recipient may follow.
    pub is_ranged: bool,
    /// If-Range: the state to which the ranges must belong.
    pub if_range: Option<IfRange>,
}

/// The fields that [`Request::read`] reads. A response that varies by other fields needs these too.
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

/// Whether a field has a meaning for a cache by itself. A request without such a field is read as one without
/// fields.
pub fn is_read(name: &[u8]) -> bool {
    is_one_of(name, &READ)
}

impl<'a> Request<'a> {
    /// Reads a request.
    pub fn read(method: &'a str, target: Target<'a>, lines: &'a Lines<'a>) -> Self {
        let mut range = values(lines, "range");
        let first = range.next().filter(|_| method == "GET");
        // If there are two, both are ignored: another recipient could follow the other one.
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
