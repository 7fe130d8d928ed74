//! One request, as whoever wants its response describes it.

use std::sync::Arc;

use super::endpoint::Endpoint;
use super::limits::Timeouts;
use super::upstream::Upstream;
use crate::stream::Stream;
use crate::sync::Arc as Shared;
use crate::wire::Fields;

/// What to ask of an origin, and what it may take.
#[derive(Debug)]
pub struct Request {
    /// Where it goes; with an upstream, by what its origins are known together.
    pub endpoint: Endpoint,
    /// The origins of which one is asked in place of that.
    pub upstream: Option<Shared<Upstream>>,
    /// A token, case-sensitive.
    pub method: String,
    /// What stands behind the method: mostly `/path?query`.
    pub target: String,
    /// The `Host` field, unless `headers` has one; each origin of an upstream has its own.
    pub authority: String,
    /// Names and values, in order; those that frame the message are written by the engine.
    pub headers: Arc<Fields>,
    /// What follows the head.
    pub body: RequestBody,
    /// Limits on time.
    pub timeouts: Timeouts,
    /// Its client has taken a response to its end, or it is of no client. Where requests wait for a connection, such requests
    /// and all others take turns: clients that come in order to stall do not keep them waiting.
    pub is_proven: bool,
    /// Whether an operator is told of its failure, because nobody else is who could tell.
    pub reports: bool,
}

/// The body of a request.
#[derive(Debug)]
pub enum RequestBody {
    /// There is none.
    None,
    /// Memory that is at hand and can be sent again.
    Bytes(Vec<u8>),
    /// Bytes that come by and by and are gone once they are sent.
    Stream {
        /// Where they come from; the engine is its consumer.
        stream: Stream,
        /// How many there will be, if that is known; they are sent in chunks if not.
        length: Option<u64>,
    },
    /// None, but a tunnel of WebSocket: what is sent and received once the origin has answered 101. If it does not, the
    /// stream is dropped unread.
    Tunnel(Stream),
}

/// Whether doing it twice is doing it once (RFC 9110, section 9.2.2).
pub(super) fn is_idempotent(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "PUT" | "DELETE" | "OPTIONS" | "TRACE")
}
