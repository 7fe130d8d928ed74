//! What a request may take of time and an origin of connections. Declared and validated in Python; no defaults here.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Sleep, sleep, timeout};

use crate::error::{Code, Error, Result};
use crate::net::Called;
use crate::wire::{BodyLimits, HeadLimits};

/// How long each stage of an exchange may take; `None` for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Waiting for a connection to become free (`QUEUE_TIMEOUT`).
    pub queue: Option<Duration>,
    /// Turning the name into addresses (`RESOLVE_TIMEOUT`).
    pub resolve: Option<Duration>,
    /// Opening a connection, over all addresses (`CONNECT_TIMEOUT`).
    pub connect: Option<Duration>,
    /// The TLS handshake (`TLS_TIMEOUT`).
    pub tls: Option<Duration>,
    /// From the last byte of the request to the first of the response, and from an interim response to the next
    /// (`FIRST_BYTE_TIMEOUT`).
    pub first_byte: Option<Duration>,
    /// While waiting for the socket, either way, and never while waiting for the consumer or for room in the pool
    /// (`IO_TIMEOUT`).
    pub between_bytes: Option<Duration>,
    /// In a tunnel of WebSocket, while nothing passes either way (`IO_TIMEOUT`).
    pub tunnel: Option<Duration>,
    /// The whole exchange, whatever it waits for (`TOTAL_TIMEOUT`).
    pub total: Option<Duration>,
    /// Whoever takes the body has a limit of his own for the pauses of an event stream: `between_bytes` is not for them.
    pub lets_events_pause: bool,
}

/// What one endpoint may take of an engine thread, and what its responses may look like.
#[derive(Debug, Clone, Copy)]
pub struct OriginLimits {
    /// Connections open at a time, in use or idle.
    pub connections: usize,
    /// Requests that may wait for a connection; one more is refused with `QUEUE_FULL`.
    pub waiting: usize,
    /// Bytes of a request's body that have to be here before it takes a connection, unless it is shorter.
    pub upload_part: usize,
    /// How long a body of unknown length is waited for.
    pub upload_wait: Option<Duration>,
    /// Of the connections, and of the places in the line for them, what requests may take whose bodies are still coming, in
    /// percent.
    pub upload_percent: usize,
    /// How long an unused connection is kept.
    pub idle_timeout: Duration,
    /// Requests on one connection.
    pub requests_per_connection: u64,
    /// How long after its opening a connection is still given to a new request.
    pub connection_age: Duration,
    /// How long a name is believed to have the addresses that it was resolved to; for nothing, each connection asks.
    pub name_lifetime: Duration,
    /// Between two log lines of one cause.
    pub log_interval: Duration,
    /// The response head.
    pub head: HeadLimits,
    /// What a chunked body may hold besides its payload.
    pub body: BodyLimits,
}

/// When the whole exchange has taken too long. Looked at for each event, and asked when it may have passed.
#[derive(Debug)]
pub(super) struct Deadline {
    total: Duration,
    timer: Called<Pin<Box<Sleep>>>,
}

impl Deadline {
    /// From now on, where there is one.
    pub(super) fn of(timeouts: &Timeouts) -> Option<Self> {
        timeouts.total.map(|total| Self { total, timer: Called::new(Box::pin(sleep(total))) })
    }

    /// Ready with the error when it has passed.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Error> {
        let total = self.total;
        self.timer
            .poll(context)
            .map(|()| Code::TotalTimeout.error(format!("the exchange took longer than {total:?}")))
    }
}

/// Waits for `work` within `limit`, or says with `code` that `what` took longer.
pub(super) async fn within<T>(
    limit: Option<Duration>,
    code: Code,
    what: &'static str,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    let Some(limit) = limit else { return work.await };
    timeout(limit, work)
        .await
        .unwrap_or_else(|_| Err(code.error(format!("{what} took longer than {limit:?}"))))
}
