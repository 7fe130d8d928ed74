//! A connection of HTTP/2 from a client.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use penstock_http2::{ErrorCode, Limits, Session};

use super::carrier::Carrier;
use super::meter::{Excess, Meter};
use super::stream::Stream;
use crate::net::{Connection, Transport};
use crate::work::{Work, doing};

/// What a client may have of one connection. Declared and validated in Python; there are no defaults here.
#[derive(Debug, Clone, Copy)]
pub struct Http2Limits {
    /// Streams that are open at a time (`SETTINGS_MAX_CONCURRENT_STREAMS`).
    pub streams: u32,
    /// Requests of one connection, after which the client is asked to open another one.
    pub requests: u64,
    /// How long a connection takes requests.
    pub age: Duration,
    /// Bytes of a request's body that a client may send before they are read (`SETTINGS_INITIAL_WINDOW_SIZE`).
    pub window: u32,
    /// Bytes of the bodies of all requests of a connection, as well.
    pub connection_window: u32,
}

/// A connection, and the streams on it.
#[derive(Debug)]
pub(crate) struct Server {
    carrier: Arc<Carrier>,
}

/// What came of a request that has arrived.
#[derive(Debug)]
pub(crate) enum Event {
    /// It is on a connection of its own.
    Request(Arc<Connection>),
    /// There was no room for it, and the client was told so: it may send it again.
    Refused,
}

impl Server {
    /// Over `connection`, which has brought nothing yet; heads have at most `head_bytes`.
    pub(crate) fn new(connection: &Arc<Connection>, limits: &Http2Limits, head_bytes: u32) -> Self {
        let Http2Limits { streams, window, connection_window, .. } = *limits;
        let session = Session::server(Limits { streams, window, connection_window, head_bytes });
        Self { carrier: Arc::new(Carrier::new(Arc::clone(connection), session, Meter::of_server())) }
    }

    /// Whether the client has sent its preface.
    pub(crate) fn is_open(&self) -> bool {
        self.carrier.shared().session.is_open()
    }

    /// Reads and writes what there is, as far as the socket goes. Ready at the end of the connection, with what the client did too
    /// often, if that ends it. Until then [`Server::next_request`] has what came.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Excess>> {
        let _doing = doing(Work::Http2);
        let is_lost = self.carrier.poll(context).is_ready();
        if let Some(excess) = self.excess() {
            return Poll::Ready(Some(excess));
        }
        let shared = self.carrier.shared();
        let is_over = shared.session.is_over() && shared.is_written();
        if is_lost || is_over { Poll::Ready(None) } else { Poll::Pending }
    }

    /// The next request that has come, if there is one; it is refused unless it `has_room`. What the streams of requests have to send is
    /// sent by [`Server::settle`].
    pub(crate) fn next_request(&mut self, has_room: bool) -> Option<Event> {
        let _doing = doing(Work::Http2);
        let shared = &mut *self.carrier.shared();
        let id = shared.session.accept()?;
        if !has_room {
            // RFC 9113, section 8.7: it was not looked at.
            shared.reset(id, ErrorCode::REFUSED_STREAM);
            shared.close(id);
            shared.kick();
            return Some(Event::Refused);
        }
        shared.attend();
        let stream = Stream::new(&self.carrier, shared, id);
        Some(Event::Request(Arc::new(Connection::new(Transport::Channel(Box::new(stream))))))
    }

    /// Sends what streams have to send together since [`Server::next_request`]; whether there was something. The task that polls
    /// this is woken for what comes later.
    pub(crate) fn settle(&mut self, context: &mut Context<'_>) -> bool {
        let _doing = doing(Work::Http2);
        self.carrier.shared().settle(&self.carrier.connection, context)
    }

    /// What was wrong with what the client sent, if that ends the connection.
    fn excess(&self) -> Option<Excess> {
        self.carrier.excess().or_else(|| self.carrier.shared().failure.map(|_| Excess::Malformed))
    }

    /// Takes no more requests, and ends after the ones that are here.
    pub(crate) fn drain(&mut self) {
        let shared = &mut *self.carrier.shared();
        shared.session.drain();
        shared.kick();
    }

    /// Ends at once, and tells the client why.
    pub(crate) fn refuse(&mut self, context: &mut Context<'_>) {
        let shared = &mut *self.carrier.shared();
        if shared.failure.is_none() {
            shared.session.fail(ErrorCode::ENHANCE_YOUR_CALM);
        }
        shared.say_last(&self.carrier.connection, context);
    }
}
