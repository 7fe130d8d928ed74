//! What a client may take of the edge. Declared and validated in Python; there are no defaults here.

use std::time::Duration;

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
    /// How long a client may take no byte of what waits for it (`WRITE_TIMEOUT`).
    pub write_timeout: Option<Duration>,
    /// Seconds that a client must have taken nothing to be cut off while the pool is full (`CLIENT_STALLED`).
    pub stall_turns: u64,
    /// How long a client that was refused may go on sending before it is cut off.
    pub linger: Duration,
    /// The longest event of an event stream that is relayed, in bytes.
    pub max_event: usize,
    /// Bytes of an event stream that the kernel may keep unsent for a client (`TCP_NOTSENT_LOWAT`).
    pub event_backlog: Option<u32>,
}
