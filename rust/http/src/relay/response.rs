//! The fields of a response on its way to the client, and interim responses as a whole.

use super::hop::{EndToEnd, is};
use crate::wire::{Head, members, names_event_stream, write_field, write_status_line};

/// The end-to-end fields of an origin's response, in their order.
///
/// Content-Length is among them once, as one number. Equal values, on several lines or in one list, are
/// not a contradiction (RFC 9110, section 8.6), but not every server can send them.
pub fn response_fields(head: &Head) -> impl Iterator<Item = (&[u8], &[u8])> {
    let end_to_end = EndToEnd::of(head.headers());
    let mut has_length = false;
    head.headers().filter_map(move |(name, value)| {
        if !end_to_end.has(name) {
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

/// Whether a body is an event stream that the relay may end after any event. The events of an encoded body cannot be found.
/// A body of a known length must not end early: the client would miss the rest.
pub fn is_event_stream(head: &Head) -> bool {
    head.get("content-encoding").is_none()
        && head.get("content-length").is_none()
        && head.get("content-type").is_some_and(names_event_stream)
}

/// The bytes of an interim response, for a client of HTTP/1.1: HTTP/1.0 has none (RFC 9110, section 15.2). Content-Length,
/// which it must not have (section 8.6), is dropped, because a client could expect a body.
pub fn encode_interim(head: &Head, via: Option<&str>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(256);
    write_status_line(&mut bytes, head.status, head.reason());
    let via = via.map(|via| (b"Via".as_slice(), via.as_bytes()));
    for (name, value) in response_fields(head).filter(|(name, _)| !is(name, "content-length")).chain(via) {
        write_field(&mut bytes, name, value);
    }
    bytes.extend_from_slice(b"\r\n");
    bytes
}
