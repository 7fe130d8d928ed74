//! What a client may take of the edge. Declared and validated in Python; there are no defaults here.

use std::time::Duration;

use super::clients::ClientLimits;
use crate::net::http2::Http2Limits;
use crate::wire::{BodyLimits, IncomingLimits};

/// Limits on clients; `None` is no limit.
#[derive(Debug, Clone, Copy)]
pub struct EdgeConfig {
    /// The request head.
    pub head: IncomingLimits,
    /// What a chunked request body may hold besides its payload.
    pub body: BodyLimits,
    /// Bytes of a request body (`REQUEST_TOO_LARGE`), unless its route has a limit of its own.
    pub max_body: Option<u64>,
    /// How long a connection may wait for a request.
    pub idle_timeout: Option<Duration>,
    /// From the first byte of a request head to its last (`REQUEST_TIMEOUT`).
    pub head_timeout: Option<Duration>,
    /// Between two reads of a request body (`REQUEST_TIMEOUT`).
    pub body_timeout: Option<Duration>,
    /// From the beginning of a request body to its end (`REQUEST_TIMEOUT`).
    pub body_total_timeout: Option<Duration>,
    /// Bytes a second that a request has to come at (`REQUEST_TOO_SLOW`), on the average since it began.
    pub least_rate: Option<u64>,
    /// Time that a request head has before it is held to that.
    pub head_patience: Duration,
    /// Time that a request body has before it is held to that.
    pub body_patience: Duration,
    /// How long a client may take no byte of what waits for it (`WRITE_TIMEOUT`).
    pub write_timeout: Option<Duration>,
    /// How long a client must have taken nothing to be cut off while others need what it holds (`CLIENT_STALLED`).
    pub stall_grace: Duration,
    /// How late an engine thread, or the application, may be before work is shed; `None` if none is.
    pub overload_after: Option<Duration>,
    /// What a client may have of one connection of HTTP/2.
    pub http2: Option<Http2Limits>,
    /// Whether a client may say of which trace its requests are a part.
    pub trusts_trace_context: bool,
    /// What one client may take.
    pub clients: ClientLimits,
    /// How long a client that was refused may go on sending before it is cut off.
    pub linger: Duration,
    /// The longest event of an event stream that is relayed, in bytes.
    pub max_event: usize,
    /// Bytes of an event stream that the kernel may keep unsent for a client (`TCP_NOTSENT_LOWAT`).
    pub event_backlog: Option<u32>,
}

impl EdgeConfig {
    /// How long may have been waited for `received` bytes of a request that has had its `patience`.
    pub(super) fn allowed(&self, patience: Duration, received: u64) -> Option<Duration> {
        self.least_rate
            .map(|rate| patience + Duration::from_millis(received.saturating_mul(1000) / rate.max(1)))
    }
}
