//! The kind of a body, by its fields.

use crate::wire::{media_type, names_event_stream};

/// The kind of a response, for inspection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// An event stream.
    Events,
    /// One value of JSON.
    Json,
    /// Any other, without a usage.
    Other,
}

/// Whether a body has a content coding.
pub(super) fn is_coded(content_encoding: &[u8]) -> bool {
    !content_encoding.is_empty() && !content_encoding.eq_ignore_ascii_case(b"identity")
}

/// By the media type, without its parameters.
pub(super) fn content_of(content_type: &[u8]) -> Content {
    if names_event_stream(content_type) {
        Content::Events
    } else if is_json(media_type(content_type)) {
        Content::Json
    } else {
        Content::Other
    }
}

/// Whether a media type is one of JSON (RFC 6839, section 3.1).
fn is_json(kind: &[u8]) -> bool {
    kind.eq_ignore_ascii_case(b"application/json")
        || kind.len() > 5 && kind[kind.len() - 5..].eq_ignore_ascii_case(b"+json")
}
