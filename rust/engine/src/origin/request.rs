//! One request to an origin, as the caller describes it.

use std::borrow::Cow;
use std::sync::Arc;

use penstock_trace::Trace;

use super::endpoint::Endpoint;
use super::limits::Timeouts;
use super::upstream::Upstream;
use crate::stream::Stream;
use crate::sync::Arc as Shared;
use crate::wire::Fields;

/// A request with its limits.
#[derive(Debug)]
pub struct Request {
    /// Its endpoint; with an upstream, the common name of its origins.
    pub endpoint: Endpoint,
    /// The origins of which one gets the request in place of the endpoint.
    pub upstream: Option<Shared<Upstream>>,
    /// A token, case-sensitive.
    pub method: Cow<'static, str>,
    /// The target after the method: mostly `/path?query`.
    pub target: String,
    /// The `Host` field, unless `headers` has one; each origin of an upstream has its own.
    pub authority: Arc<str>,
    /// Names and values, in order. The engine writes the fields of the message's framing.
    pub headers: Arc<Fields>,
    /// The body.
    pub body: RequestBody,
    /// Limits on time.
    pub timeouts: Timeouts,
    /// Its client is proven: it has taken a response to its end, or the request belongs to no client. If requests wait for
    /// a connection, such requests and all others take turns, so that clients that only stall do not keep them waiting.
    pub is_proven: bool,
    /// Whether its failure is logged here, because no other code logs it.
    pub reports: bool,
    /// How its body is sent on.
    pub passing: Passing,
    /// The body goes to a reader of frames, for which each costs more than a read of the connection.
    pub in_frames: bool,
    /// The trace that it is a part of. The origin is told of it in place of what the headers say.
    pub trace: Option<Arc<Trace>>,
}

/// How the body of a request is sent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passing {
    /// Without its trailers.
    Body,
    /// With them.
    Trailers,
    /// With them, and what there is of it at once: it is a stream of messages.
    Call,
}

/// The body of a request.
#[derive(Debug)]
pub enum RequestBody {
    /// There is no body.
    None,
    /// Bytes in memory, which can be sent again.
    Bytes(Vec<u8>),
    /// Bytes that arrive over time and are gone after they are sent.
    Stream {
        /// Their stream; the engine is its consumer.
        stream: Stream,
        /// Their number, if it is known; if not, they are sent in chunks.
        length: Option<u64>,
    },
    /// There is no body, but a tunnel of WebSocket: the bytes after the origin's 101. If it does not answer 101, the
    /// stream is dropped unread.
    Tunnel(Stream),
}

/// Whether the method is idempotent (RFC 9110, section 9.2.2).
pub(super) fn is_idempotent(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "PUT" | "DELETE" | "OPTIONS" | "TRACE")
}
