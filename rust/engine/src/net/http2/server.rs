//! A connection of HTTP/2 from a client.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use h2::Reason;
use h2::server::{Builder, Connection as Streams, Handshake};
use std::pin::Pin;

use super::carrier::{Carrier, Traffic};
use super::gate::Gate;
use super::meter::{Excess, Meter};
use super::portion::Portion;
use super::request;
use super::stream::Stream;
use crate::net::{Connection, Transport};
use crate::sync::{Mutex, lock};

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

/// Resets of streams that `h2` itself has caused by errors of the client. The meter knows more, and is asked first.
const LOCAL_ERRORS: usize = 1024;
/// Streams that the client has reset before their request was taken: more than the meter lets through at once.
const UNACCEPTED: usize = 128;

/// A connection, and the streams on it.
#[derive(Debug)]
pub(crate) struct Server {
    carrier: Arc<Carrier>,
    state: State,
}

#[derive(Debug)]
enum State {
    Begun(Box<Handshake<Traffic, Portion>>),
    Open(Box<Streams<Traffic, Portion>>),
}

/// What a connection comes to.
#[derive(Debug)]
pub(crate) enum Event {
    /// A request, on a connection of its own.
    Request(Arc<Connection>),
    /// A request came for which there was no room, and the client was told so: it may send it again.
    Refused,
    /// It has ended, well or not.
    End(Option<Excess>),
}

impl Server {
    /// Over `connection`, which has brought nothing yet; heads have at most `head_bytes`.
    pub(crate) fn new(connection: &Arc<Connection>, limits: &Http2Limits, head_bytes: u32) -> Self {
        let carrier = Arc::new(Carrier {
            connection: Arc::clone(connection),
            meter: Mutex::new(Meter::of_server()),
            gate: Arc::<Gate>::default(),
        });
        let mut builder = Builder::new();
        builder
            .max_concurrent_streams(limits.streams)
            .initial_window_size(limits.window)
            .initial_connection_window_size(limits.connection_window)
            .max_header_list_size(head_bytes)
            .max_pending_accept_reset_streams(UNACCEPTED)
            .max_local_error_reset_streams(Some(LOCAL_ERRORS));
        let handshake = builder.handshake(Traffic(Arc::clone(&carrier)));
        Self { carrier, state: State::Begun(Box::new(handshake)) }
    }

    /// Whether the client has sent its preface.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// The next request, if it `has_room`, or the end. What is to be sent is sent as far as the socket takes it.
    pub(crate) fn poll_event(&mut self, context: &mut Context<'_>, has_room: bool) -> Poll<Event> {
        let event = self.poll_streams(context, has_room);
        if let Some(excess) = lock(&self.carrier.meter).excess() {
            return Poll::Ready(Event::End(Some(excess)));
        }
        if matches!(event, Poll::Ready(Event::Request(_) | Event::Refused)) {
            // There may be more, and answers to them; all is written with the last.
            return event;
        }
        match self.carrier.connection.poll_flush(context) {
            Poll::Ready(Err(_)) => Poll::Ready(Event::End(None)),
            // What is left is written by the next turn, or lost with the connection.
            Poll::Ready(Ok(())) | Poll::Pending => event,
        }
    }

    fn poll_streams(&mut self, context: &mut Context<'_>, has_room: bool) -> Poll<Event> {
        loop {
            let streams = match &mut self.state {
                State::Open(streams) => streams,
                State::Begun(handshake) => match Pin::new(handshake).poll(context) {
                    Poll::Ready(Ok(streams)) => {
                        self.state = State::Open(Box::new(streams));
                        continue;
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Event::End(excess_of(&error))),
                    Poll::Pending => return Poll::Pending,
                },
            };
            let (request, mut respond) = match streams.poll_accept(context) {
                Poll::Ready(Some(Ok(stream))) => stream,
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Event::End(excess_of(&error))),
                Poll::Ready(None) => return Poll::Ready(Event::End(None)),
                Poll::Pending => return Poll::Pending,
            };
            if !has_room {
                // RFC 9113, section 8.7: it was not looked at.
                respond.send_reset(Reason::REFUSED_STREAM);
                return Poll::Ready(Event::Refused);
            }
            let (head, body) = request.into_parts();
            match request::received(&head, body) {
                Ok(asking) => {
                    let stream = Stream::new(&self.carrier, &head, asking, respond);
                    let connection = Connection::new(Transport::Channel(Box::new(stream)));
                    return Poll::Ready(Event::Request(Arc::new(connection)));
                }
                // RFC 9113, section 8.1.1.
                Err(_) => respond.send_reset(Reason::PROTOCOL_ERROR),
            }
        }
    }

    /// Takes no more requests, and ends after the ones that are here.
    pub(crate) fn drain(&mut self) {
        if let State::Open(streams) = &mut self.state {
            streams.graceful_shutdown();
        }
    }

    /// Ends at once, and tells the client why.
    pub(crate) fn refuse(&mut self, context: &mut Context<'_>) {
        if let State::Open(streams) = &mut self.state {
            streams.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
            let _ = streams.poll_closed(context);
        }
        let _ = self.carrier.connection.poll_flush(context);
    }
}

/// What was wrong with what the client sent, if that ended the connection.
fn excess_of(error: &h2::Error) -> Option<Excess> {
    if error.is_io() {
        // A malformed preface is told as such an error.
        let is_malformed = error.get_io().is_some_and(|error| error.kind() == io::ErrorKind::InvalidData);
        return is_malformed.then_some(Excess::Malformed);
    }
    if error.is_remote() {
        return None;
    }
    match error.reason() {
        Some(Reason::NO_ERROR) | None => None,
        Some(Reason::ENHANCE_YOUR_CALM) => Some(Excess::Overhead),
        Some(_) => Some(Excess::Malformed),
    }
}
