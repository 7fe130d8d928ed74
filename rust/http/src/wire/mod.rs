//! HTTP/1.1 as bytes: heads and bodies of requests and responses, without a socket and without waiting.
//!
//! A caller passes the bytes that it has read and gets ranges of the same memory back; nothing here copies
//! payload. A message that two parsers could understand differently is refused with a code and not repaired,
//! because response splitting and request smuggling use such differences (RFC 9112, section 11). The invariant of
//! every parser here: the way in which bytes were split into reads changes neither result nor error.

mod body;
mod chunked;
mod date;
mod decoder;
mod etag;
mod fields;
mod grpc_web;
mod head;
mod incoming;
pub mod list;
mod method;
mod range;
mod redact;
mod request;
mod section;
mod spans;
mod target;
mod text;
#[cfg(not(loom))]
mod websocket;

pub use body::{BodyFraming, BodyLimits, body_of, has_no_body, keeps_alive};
pub use chunked::Chunked;
pub use date::{http_date, parse_date};
pub use decoder::Decoder;
pub use etag::{EntityTag, Tags};
pub use fields::Fields;
pub use grpc_web::{GRPC, NoText, WebText, encode_web_text, encode_web_trailers, grpc_kind};
pub use head::{Head, HeadLimits, HeadScanner, parse_head, write_status_line};
pub use incoming::{Incoming, IncomingLimits, IncomingScanner, parse_incoming};
pub use method::is_safe;
pub use range::{ContentRange, Multipart, Ranges, Selected, Spec};
pub use redact::{hide, shown, without_tokens};
pub use request::{
    CHUNK_END, ChunkHead, HOP_BY_HOP, LAST_CHUNK, encode_chunk_head, encode_last_chunk, encode_request,
};
pub use spans::{Span, Spans};
pub use target::{has_dot_segments, is_target};
pub use text::{
    Names, folded, is_one_of, is_same_name, is_token, media_type, members, names_event_stream, reads_as,
    reads_as_one_of, trim, write_field, write_number,
};
#[cfg(not(loom))]
pub use websocket::{Handshake, offers_websocket};

#[cfg(all(test, not(loom)))]
pub(crate) mod tests;
