//! The fields of a response on its way to the client.

use super::hop::{Nominated, ends_here, is};
use crate::wire::{Head, members};

/// The end-to-end fields of an origin's response, in their order.
///
/// Content-Length is among them once, as one number: equal values on lines of their own or on one are no
/// contradiction (RFC 9110, section 8.6), but not every server's writer takes them.
pub fn response_fields(head: &Head) -> impl Iterator<Item = (&[u8], &[u8])> {
    let nominated = Nominated::of(head.headers());
    let mut has_length = false;
    head.headers().filter_map(move |(name, value)| {
        if ends_here(name) || nominated.contains(name) {
            return None;
        }
        if !is(name, "content-length") {
            return Some((name, value));
        }
        if has_length {
            return None;
        }
        has_length = true;
        members(value).next().map(|length| (name, length))
    })
}
