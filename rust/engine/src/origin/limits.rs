//! The time limits of a request and the limits of an origin. Python declares and validates them; there are no
//! defaults here.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Sleep, sleep, timeout};

use super::endpoint::Endpoint;
use crate::error::{Code, Error, Result};
use crate::net::Called;
use crate::net::http2::SessionLimits;
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
    /// The reader of the body has its own limit for the pauses of an event stream, so `between_bytes` does not apply to
    /// them.
    pub lets_events_pause: bool,
}

impl Timeouts {
    /// The same limit for each stage and for the whole.
    pub(crate) const fn each(limit: Option<Duration>) -> Self {
        Self {
            queue: limit,
            resolve: limit,
            connect: limit,
            tls: limit,
            first_byte: limit,
            between_bytes: limit,
            tunnel: limit,
            total: limit,
            lets_events_pause: false,
        }
    }
}

/// The limits of one endpoint in an engine thread, and of its responses.
#[derive(Debug, Clone, Copy)]
pub struct OriginLimits {
    /// Connections open at a time, in use or idle.
    pub connections: usize,
    /// Requests that may wait for a connection; one more is refused with `QUEUE_FULL`.
    pub waiting: usize,
    /// Bytes of a request's body that have to be here before it takes a connection, unless it is shorter.
    pub upload_part: usize,
    /// How long to wait for a body of unknown length.
    pub upload_wait: Option<Duration>,
    /// The share of the connections, and of the line for them, for requests whose bodies are still coming, in percent.
    pub upload_percent: usize,
    /// How long an unused connection is kept.
    pub idle_timeout: Duration,
    /// Requests on one connection.
    pub requests_per_connection: u64,
    /// How long after its opening a connection is still given to a new request.
    pub connection_age: Duration,
    /// How long the addresses of a name are used; if zero, each connection resolves the name.
    pub name_lifetime: Duration,
    /// Between two log lines of one cause.
    pub log_interval: Duration,
    /// The response head.
    pub head: HeadLimits,
    /// What a chunked body may hold besides its payload.
    pub body: BodyLimits,
}

/// The origins that are asked by HTTP/2: over TLS if they agree (ALPN), else because it is known that they speak it (RFC 9113,
/// section 3.3).
#[derive(Debug, Clone)]
pub struct Http2Origins {
    /// The origins, over whatever sockets.
    pub endpoints: Vec<Endpoint>,
    /// Of each of their connections.
    pub limits: SessionLimits,
}

impl Http2Origins {
    /// The limits of connections of HTTP/2 to `endpoint`, if there are to be any.
    pub(super) fn of(&self, endpoint: &Endpoint) -> Option<SessionLimits> {
        self.endpoints.iter().any(|one| one.is_same_origin(endpoint)).then_some(self.limits)
    }
}

/// The deadline of the whole exchange. It is checked for each event, and the clock is read only if it may
/// have passed.
#[derive(Debug)]
pub(super) struct Deadline {
    total: Duration,
    timer: Called<Pin<Box<Sleep>>>,
}

impl Deadline {
    /// Starts the time, if there is a limit.
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
