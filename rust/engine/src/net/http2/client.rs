//! A connection of HTTP/2 to an origin.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use h2::client::{Builder, Connection as Streams, SendRequest};

use super::asked::AskedStream;
use super::carrier::{Carrier, Traffic};
use super::gate::Gate;
use super::meter::Meter;
use super::portion::Portion;
use crate::net::{Connection, Transport};
use crate::sync::{Mutex, lock};

/// What an origin is let have, and may have us keep. Declared and validated in Python; there are no defaults here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLimits {
    /// Streams of a connection that are open at a time, unless the origin allows fewer.
    pub streams: u32,
    /// Bytes of a response's body that may come before they are read (`SETTINGS_INITIAL_WINDOW_SIZE`). A connection has room for
    /// as many of each stream, so that one that is not read holds up no other.
    pub window: u32,
}

/// The longest window (RFC 9113, section 6.9.1).
const MOST_WINDOW: u32 = (1 << 31) - 1;
/// The window of a connection before anything is said of it (section 6.9.2).
const FIRST_WINDOW: u32 = 65_535;

/// Begins streams on a connection.
#[derive(Debug)]
pub(crate) struct Client {
    carrier: Arc<Carrier>,
    sender: SendRequest<Portion>,
    scheme: &'static str,
    limits: SessionLimits,
    open: Arc<AtomicUsize>,
}

/// Carries the streams of a [`Client`]. A connection is only as live as this is polled.
#[derive(Debug)]
pub(crate) struct Driver {
    carrier: Arc<Carrier>,
    streams: Streams<Traffic, Portion>,
}

impl Client {
    /// Over `connection`, which has brought nothing yet, for URIs of `scheme`. Heads have at most `head_bytes`. The origin's
    /// preface is not waited for (RFC 9113, section 3.4).
    pub(crate) async fn begin(
        connection: Connection,
        scheme: &'static str,
        limits: SessionLimits,
        head_bytes: u32,
    ) -> io::Result<(Self, Driver)> {
        let carrier = Arc::new(Carrier {
            connection: Arc::new(connection),
            meter: Mutex::new(Meter::of_client()),
            gate: Arc::<Gate>::default(),
        });
        let window = limits.window.saturating_mul(limits.streams).clamp(FIRST_WINDOW, MOST_WINDOW);
        let mut builder = Builder::new();
        builder
            .enable_push(false)
            .initial_max_send_streams(limits.streams as usize)
            .initial_window_size(limits.window)
            .initial_connection_window_size(window)
            .max_concurrent_reset_streams(limits.streams as usize)
            .max_header_list_size(head_bytes);
        let begun = builder.handshake(Traffic(Arc::clone(&carrier))).await;
        let (sender, streams) = begun.map_err(|error| io::Error::other(error.to_string()))?;
        let client = Self { carrier: Arc::clone(&carrier), sender, scheme, limits, open: Arc::default() };
        Ok((client, Driver { carrier, streams }))
    }

    /// Streams that may be open at a time.
    pub(crate) fn most(&self) -> usize {
        self.sender.current_max_send_streams().min(self.limits.streams as usize)
    }

    /// Streams that are open.
    pub(crate) fn open(&self) -> usize {
        // Relaxed, here and below: a count of one thread.
        self.open.load(Ordering::Relaxed)
    }

    /// Whether the origin takes more streams, as far as is known.
    pub(crate) fn is_live(&mut self) -> bool {
        let ready = self.sender.poll_ready(&mut Context::from_waker(std::task::Waker::noop()));
        !matches!(ready, Poll::Ready(Err(_)))
    }

    /// A stream, as a connection that has carried nothing yet.
    pub(crate) fn stream(&self) -> Connection {
        let stream = AskedStream::new(&self.carrier, self.sender.clone(), self.scheme, &self.open);
        let mut connection = Connection::new(Transport::Channel(Box::new(stream)));
        connection.peer = self.carrier.connection.peer;
        connection
    }
}

impl Driver {
    /// Ready at the end of the connection; with what the origin did too often, if that ended it.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<String>> {
        let end = Pin::new(&mut self.streams).poll(context);
        let excess = lock(&self.carrier.meter).excess();
        if let Some(excess) = excess {
            let detail = format!("the origin sent more frames that carry nothing ({excess:?}) than one may");
            return Poll::Ready(Some(detail));
        }
        match (end, self.carrier.connection.poll_flush(context)) {
            // What else was wrong, the streams tell.
            (Poll::Ready(_), _) | (_, Poll::Ready(Err(_))) => Poll::Ready(None),
            // What is left is written by the next turn.
            (Poll::Pending, _) => Poll::Pending,
        }
    }
}
