//! A connection of HTTP/2 to an origin.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use penstock_http2::{Limits, Session};

use super::asked::AskedStream;
use super::carrier::Carrier;
use super::meter::Meter;
use crate::net::{Connection, Transport};
use crate::work::{Work, doing};

/// What an origin is let have, and may have us keep. Declared and validated in Python; there are no defaults here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLimits {
    /// Streams of a connection that are open at a time, unless the origin allows fewer.
    pub streams: u32,
    /// Bytes of a response's body that may come before they are read (`SETTINGS_INITIAL_WINDOW_SIZE`). A connection has room for
    /// as many of each stream, so that one that is not read holds up no other.
    pub window: u32,
}

/// Begins streams on a connection.
#[derive(Debug)]
pub(crate) struct Client {
    carrier: Arc<Carrier>,
    scheme: &'static str,
    limits: SessionLimits,
    open: Arc<AtomicUsize>,
}

/// Carries the streams of a [`Client`]. A connection is only as live as this is polled.
#[derive(Debug)]
pub(crate) struct Driver {
    carrier: Arc<Carrier>,
}

impl Client {
    /// Over `connection`, which has brought nothing yet, for URIs of `scheme`. Heads have at most `head_bytes`. The origin's
    /// preface is not waited for (RFC 9113, section 3.4).
    pub(crate) fn begin(
        connection: Connection,
        scheme: &'static str,
        limits: SessionLimits,
        head_bytes: u32,
    ) -> (Self, Driver) {
        let SessionLimits { streams, window } = limits;
        let connection_window = window.saturating_mul(streams);
        let session = Session::client(Limits { streams, window, connection_window, head_bytes });
        let carrier = Arc::new(Carrier::new(Arc::new(connection), session, Meter::of_client()));
        let client = Self { carrier: Arc::clone(&carrier), scheme, limits, open: Arc::default() };
        (client, Driver { carrier })
    }

    /// Streams that may be open at a time.
    pub(crate) fn most(&self) -> usize {
        let allowed = self.carrier.shared().session.most_streams();
        usize::try_from(allowed.min(self.limits.streams)).unwrap_or(usize::MAX)
    }

    /// Streams that are open.
    pub(crate) fn open(&self) -> usize {
        // Relaxed, here and below: a count of one thread.
        self.open.load(Ordering::Relaxed)
    }

    /// Whether the origin takes more streams, as far as is known.
    pub(crate) fn is_live(&self) -> bool {
        let shared = self.carrier.shared();
        !shared.is_lost && !shared.session.is_refused()
    }

    /// A stream, as a connection that has carried nothing yet.
    pub(crate) fn stream(&self) -> Connection {
        let stream = AskedStream::new(&self.carrier, self.scheme, &self.open);
        let mut connection = Connection::new(Transport::Channel(Box::new(stream)));
        connection.peer = self.carrier.connection.peer;
        connection
    }
}

impl Driver {
    /// Ready at the end of the connection; with what the origin did wrong or too often, if that ended it.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<String>> {
        let _doing = doing(Work::Http2);
        let is_lost = self.carrier.poll(context).is_ready();
        if let Some(excess) = self.carrier.excess() {
            let detail = format!("the origin sent more frames that carry nothing ({excess:?}) than one may");
            return Poll::Ready(Some(detail));
        }
        let shared = &mut *self.carrier.shared();
        if shared.failure.is_some() {
            // What was wrong, the streams tell.
            shared.say_last(&self.carrier.connection, context);
        }
        let has_ended = is_lost || (shared.session.is_refused() && shared.session.is_empty());
        if has_ended { Poll::Ready(None) } else { Poll::Pending }
    }
}
