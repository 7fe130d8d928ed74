//! `Transport`: a connection for aiohttp's protocol; for the engine, one exchange after another.
//!
//! A [`Core`] belongs to one protocol for life, and to a client for one request: it is bound to an exchange, passes the
//! request to the protocol, and writes the response. After the protocol has ended its response, the core is free for
//! the next request, of any client, for which the protocol gets another [`Transport`]. The invariants: everything
//! happens on the event loop's thread; no lock is held while Python is called; a transport that is kept after its
//! response reaches no client; a core whose exchange has failed is never used again.

mod ending;
mod join;
mod methods;
pub(crate) mod shared;
mod written;

use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};

use penstock_engine::app::{ClientSocket, Content, Ends, Far, Loss, Outcome, RemoteEdge, Request};
use penstock_engine::runtime::Threads;
use penstock_engine::stream::Stream;
use penstock_engine::trace::Trace;
use pyo3::exceptions::{PyConnectionResetError, PyRuntimeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::errors::exception;
use crate::lock;
use crate::port::{Receive, Slot};
use crate::tls::TlsSession;

use join::join;
use shared::Shared;

/// asyncio's own default, in bytes.
const HIGH: usize = 64 * 1024;

/// The default limits of a transport: high and low.
const LIMITS: (usize, usize) = (HIGH, HIGH / 4);

/// Writes of one turn of the loop are flushed at once from this size on; less waits for the end of the turn, or of the
/// response. A head, the frames of a short body and its end are then one wake-up of the engine, and one write. Arbitrary
/// above 64 KiB, the size of a common read.
const WORTH_FLUSHING: usize = 128 * 1024;

/// How many times the limit one turn of the loop may write before the protocol is paused, if nothing is left of earlier
/// turns: the engine has not had that yet. Otherwise a body of 64 KiB would wait for a wake-up of the loop.
const TURN_OF_LIMIT: usize = 4;

/// Bytes of a request body in one call of `data_received`.
const PIECE: usize = 256 * 1024;

/// The protocol, and its methods that are called for every request.
struct Protocol {
    object: Py<PyAny>,
    data_received: Py<PyAny>,
    /// Takes the head of a request without a body, in place of `data_received`.
    begin_request: Py<PyAny>,
}

/// The exchange of one request.
#[expect(clippy::struct_excessive_bools, reason = "independent properties of a request and of its answer")]
struct Exchange {
    far: Far,
    /// The body of the request, until it has ended.
    body: Option<Stream>,
    /// Whether the request has a body, which may have ended.
    has_body: bool,
    /// Whether the protocol sees the body in chunks.
    chunked: bool,
    /// Whether the connection has switched protocols.
    tunnel: bool,
    /// Whether the protocol has ended its response, and waits for the rest of the body.
    lingers: bool,
    /// Whether it takes another request after that.
    ended: bool,
    /// The client's socket; `None` in a worker process.
    socket: Option<ClientSocket>,
    /// In a worker process: the parent, for this request.
    edge: Option<Arc<dyn RemoteEdge>>,
    /// The rest of the body does not pass here: called after the last bytes that do.
    goes_on: Option<Py<PyAny>>,
}

#[expect(clippy::struct_excessive_bools, reason = "things that a protocol sets each by itself")]
struct State {
    exchange: Option<Exchange>,
    protocol: Option<Protocol>,
    /// Gets a transport for each request: the first protocol, whichever replaces it.
    handler: Option<Py<PyAny>>,
    /// The number of the request: transports of earlier ones are over.
    turn: u64,
    /// The engine thread that owns the client's connection.
    thread: usize,
    /// See [`Request::is_proven`].
    is_proven: bool,
    /// The turn of the newest transport.
    newest: u64,
    /// The protocol's cache of properties of its connection (`under_cached_property`).
    memory: Option<Py<PyDict>>,
    ends: Ends,
    reading: bool,
    paused: bool,
    high: usize,
    low: usize,
    /// Bytes that were written in this turn of the loop.
    fresh: usize,
    closing: bool,
    /// The protocol waits for a part of a body that does not pass here: it gets no other request.
    spent: bool,
    /// Whether a flush is scheduled.
    dirty: bool,
    slot: Option<Slot>,
    /// The future of what the engine is sending.
    sending: Option<Py<PyAny>>,
}

/// The state behind the transports of one protocol. Its slot calls it when there is news.
pub(crate) struct Core {
    shared: Arc<Shared>,
    state: Mutex<State>,
    /// The current transport.
    transport: Mutex<Option<Py<Transport>>>,
}

/// A duck type of `asyncio.Transport`, for one request.
///
/// It has no `__dict__`, as no class here has: `CPython` 3.11 and 3.12 make the dictionary after they have tracked a new
/// object and before it is filled in, and that may run the collector. As uvloop's transports, it takes no attributes.
#[pyclass(frozen, weakref, module = "penstock._native")]
pub(crate) struct Transport {
    core: Arc<Core>,
    turn: u64,
    ends: Ends,
}

/// Calls a core when the engine has news for it. Weak: the slot belongs to the core.
struct Listener(Weak<Core>);

impl Receive for Listener {
    fn receive(&self, py: Python<'_>) {
        if let Some(core) = self.0.upgrade() {
            core.hear(py);
        }
    }
}

impl Transport {
    /// Makes a transport for a protocol of `shared`, and connects the two for the client at `ends`.
    pub(crate) fn connect(py: Python<'_>, shared: &Arc<Shared>, ends: Ends) -> PyResult<Py<Self>> {
        let protocol = shared.application.factory.bind(py).call0()?;
        let state = State {
            exchange: None,
            protocol: None,
            handler: Some(protocol.clone().unbind()),
            turn: 0,
            thread: 0,
            is_proven: false,
            newest: 0,
            memory: None,
            ends: ends.clone(),
            reading: true,
            paused: false,
            high: LIMITS.0,
            low: LIMITS.1,
            fresh: 0,
            closing: false,
            spent: false,
            dirty: false,
            slot: None,
            sending: None,
        };
        let core = Arc::new(Core {
            shared: Arc::clone(shared),
            state: Mutex::new(state),
            transport: Mutex::new(None),
        });
        let slot = Slot::receiving(shared.port.clone_ref(py), Arc::new(Listener(Arc::downgrade(&core))));
        {
            let mut state = lock(&core.state);
            state.slot = Some(slot);
            state.memory = match protocol.getattr(intern!(py, "_cache")) {
                Ok(memory) => memory.cast_into::<PyDict>().ok().map(Bound::unbind),
                Err(_) => None,
            };
        }
        let transport = Py::new(py, Self { core: Arc::clone(&core), turn: 0, ends })?;
        *lock(&core.transport) = Some(transport.clone_ref(py));
        core.set_protocol(py, &protocol)?;
        protocol.call_method1(intern!(py, "connection_made"), (&transport,))?;
        Ok(transport)
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// The engine thread that owns the client's connection, if it is one of `threads`.
    pub(crate) fn thread(&self, threads: &Arc<Threads>) -> Option<usize> {
        Arc::ptr_eq(threads, &self.core.shared.threads).then(|| lock(&self.core.state).thread)
    }

    /// The engine thread that owns the client's connection.
    pub(crate) fn engine_thread(&self) -> usize {
        lock(&self.core.state).thread
    }

    /// Whether the client has received a whole response before; see [`Request::is_proven`].
    pub(crate) fn is_proven(&self) -> bool {
        let state = lock(&self.core.state);
        state.turn == self.turn && state.is_proven
    }

    /// The trace of its request, if it has one.
    pub(crate) fn trace(&self) -> Option<Arc<Trace>> {
        let state = lock(&self.core.state);
        state.exchange.as_ref().filter(|_| state.turn == self.turn)?.far.trace()
    }

    /// In a worker process: what fetches where the client is.
    pub(crate) fn edge(&self) -> Option<Arc<dyn RemoteEdge>> {
        let state = lock(&self.core.state);
        let exchange = state.exchange.as_ref().filter(|_| state.turn == self.turn)?;
        exchange.edge.clone()
    }

    /// Whether its response has ended. Then its methods do nothing, as if it were closed, except `close` and `abort`.
    fn is_over(&self) -> bool {
        lock(&self.core.state).turn != self.turn
    }

    /// Whether it ends its protocol by closing: until that has another request.
    fn is_newest(&self) -> bool {
        let state = lock(&self.core.state);
        state.turn == self.turn || (state.newest == self.turn && state.exchange.is_none())
    }
}

impl Core {
    fn set_protocol(&self, py: Python<'_>, protocol: &Bound<'_, PyAny>) -> PyResult<()> {
        let data_received = protocol.getattr(intern!(py, "data_received"))?;
        let begin_request =
            protocol.getattr_opt(intern!(py, "begin_request"))?.filter(|method| !method.is_none());
        let begin_request = begin_request.unwrap_or_else(|| data_received.clone()).unbind();
        let (object, data_received) = (protocol.clone().unbind(), data_received.unbind());
        let protocol = Protocol { object, data_received, begin_request };
        let previous = lock(&self.state).protocol.replace(protocol);
        drop(previous);
        Ok(())
    }

    /// Gives the protocol a new transport for a request of a client at `ends`, unless its transport is unused.
    fn renew(self: &Arc<Self>, py: Python<'_>, ends: &Ends) -> PyResult<()> {
        let (turn, handler) = {
            let mut state = lock(&self.state);
            let is_new = state.newest == state.turn;
            let Some(handler) = state.handler.as_ref().filter(|_| !is_new) else { return Ok(()) };
            let handler = handler.clone_ref(py);
            state.newest = state.turn;
            (state.turn, handler)
        };
        let transport = Py::new(py, Transport { core: Arc::clone(self), turn, ends: ends.clone() })?;
        // The attribute where aiohttp's protocols keep the argument of `connection_made`.
        handler.bind(py).setattr(intern!(py, "transport"), &transport)?;
        let previous = lock(&self.transport).replace(transport);
        drop(previous);
        Ok(())
    }

    /// Passes a request to the protocol, which is idle.
    pub(crate) fn begin(self: &Arc<Self>, py: Python<'_>, request: Request) {
        let Request { head, body, chunked, ends, is_proven, thread, far, socket, edge } = request;
        if let Err(error) = self.renew(py, &ends) {
            // The request is dropped, which ends its connection.
            return self.fail(py, error, "a protocol could not be given a transport for its next request");
        }
        let has_body = body.is_some();
        let memory = {
            let mut state = lock(&self.state);
            if let Some(slot) = &state.slot {
                far.listen(slot.waker());
            }
            state.exchange = Some(Exchange {
                far,
                body,
                has_body,
                chunked,
                tunnel: false,
                lingers: false,
                ended: false,
                socket,
                edge,
                goes_on: None,
            });
            state.reading = true;
            state.thread = thread;
            state.is_proven = is_proven;
            if state.ends == ends {
                None
            } else {
                state.ends.clone_from(&ends);
                state.memory.as_ref().map(|memory| memory.clone_ref(py))
            }
        };
        if let Some(memory) = memory {
            if let Err(error) = self.introduce(py, memory.bind(py), &ends) {
                return self.fail(py, error, "a protocol could not be told of its client");
            }
        }
        if has_body {
            self.hand_over(py, Some(head));
        } else {
            self.receive_head(py, &PyBytes::new(py, &head));
        }
    }

    /// Replaces the protocol's cache by the values for another client that aiohttp needs for every request.
    fn introduce(&self, py: Python<'_>, memory: &Bound<'_, PyDict>, ends: &Ends) -> PyResult<()> {
        memory.clear();
        memory.set_item(intern!(py, "peername"), self.shared.address(py, ends.remote, false)?)?;
        let session = ends.tls.as_ref().map(|session| TlsSession::of(py, session)).transpose()?;
        memory.set_item(intern!(py, "ssl_context"), session)
    }

    /// Handles news of the engine.
    fn hear(&self, py: Python<'_>) {
        let (news, resumed) = {
            let mut state = lock(&self.state);
            let (low, paused) = (state.low, state.paused);
            let Some(exchange) = &mut state.exchange else { return };
            let mut news = exchange.far.take();
            if let Some(stream) = news.tunnel.take() {
                exchange.body = Some(stream);
                exchange.tunnel = true;
            }
            // A protocol may write more after it was paused. If the engine's news crossed such a write,
            // `await_below` waits again.
            let resumed = paused && news.lost.is_none() && !exchange.far.await_below(low);
            if resumed {
                state.paused = false;
            }
            (news, resumed)
        };
        if resumed {
            self.call(py, intern!(py, "resume_writing"));
        }
        if let Some(outcome) = news.outcome {
            self.settle(py, Ok(outcome));
        }
        if let Some(loss) = news.lost {
            let error = match loss {
                Loss::Closed => None,
                Loss::Failed(error) => Some(PyConnectionResetError::new_err(error.to_string())),
            };
            return self.lose(py, error);
        }
        self.hand_over(py, None);
    }

    /// Has the engine send something, and returns the future of its outcome.
    fn send<'py>(
        &self,
        py: Python<'py>,
        start: impl FnOnce(&Far) -> PyResult<()>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let future = self.shared.port.get().future(py)?;
        let mut state = lock(&self.state);
        if state.sending.is_some() {
            return Err(PyRuntimeError::new_err("the engine is sending something on this transport already"));
        }
        let exchange = state.exchange.as_ref().filter(|_| !state.closing).ok_or_else(closing)?;
        start(&exchange.far)?;
        state.sending = Some(future.clone().unbind());
        Ok(future)
    }

    /// Completes the future of what the engine has sent.
    fn settle(&self, py: Python<'_>, outcome: Result<Outcome, PyErr>) {
        let Some(future) = lock(&self.state).sending.take() else { return };
        let future = future.bind(py);
        let settled = future.call_method0(intern!(py, "done")).and_then(|done| {
            if done.is_truthy()? {
                return Ok(());
            }
            let error = match outcome {
                Ok(Outcome { bytes, failure: None, .. }) => {
                    return future.call_method1(intern!(py, "set_result"), (bytes,)).map(drop);
                }
                Ok(Outcome { failure: Some(error), .. }) => exception(py, &error),
                Err(error) => error,
            };
            future.call_method1(intern!(py, "set_exception"), (error.into_value(py),)).map(drop)
        });
        if let Err(error) = settled {
            self.shared.report(py, error, "a future of a transport could not be completed");
        }
    }

    /// Passes `before`, and then the available bytes of the body, to the protocol.
    fn hand_over(&self, py: Python<'_>, mut before: Option<Vec<u8>>) {
        loop {
            let (pieces, ended, chunked, tunnel) = {
                let mut state = lock(&self.state);
                let state = &mut *state;
                let mut pieces = Vec::new();
                let mut ended = false;
                let (mut chunked, mut tunnel) = (false, false);
                if let (true, Some(exchange), Some(slot)) = (state.reading, &mut state.exchange, &state.slot)
                {
                    let mut context = Context::from_waker(slot.waker());
                    let mut size = 0;
                    (chunked, tunnel) = (exchange.chunked && !exchange.tunnel, exchange.tunnel);
                    while let Some(stream) = exchange.body.as_ref().filter(|_| size < PIECE) {
                        match stream.poll_next(&mut context) {
                            Poll::Ready(Some(Ok(piece))) => {
                                size += piece.len();
                                pieces.push(piece);
                            }
                            Poll::Ready(None) => {
                                ended = true;
                                exchange.body = None;
                            }
                            // The exchange reports the error. A window that we hold ourselves is released
                            // below.
                            Poll::Ready(Some(Err(_))) | Poll::Pending => break,
                        }
                    }
                }
                (pieces, ended, chunked, tunnel)
            };
            let before = before.take();
            if before.is_none() && pieces.is_empty() && !ended {
                return;
            }
            match join(py, before.as_deref(), &pieces, ended && chunked, chunked) {
                Ok(data) => {
                    if !data.as_bytes().is_empty() {
                        self.receive_data(py, &data);
                    }
                }
                Err(error) => return self.fail(py, error, "a request body could not be handed over"),
            }
            if ended {
                self.tell_end(py, chunked);
                return self.end_of_body(py, tunnel);
            }
        }
    }

    /// All of the body has arrived that passes here. If the rest does not, its reader is told, unless the body is chunked:
    /// then the protocol sees the end itself.
    fn tell_end(&self, py: Python<'_>, chunked: bool) {
        let goes_on = {
            let mut state = lock(&self.state);
            let goes_on = state.exchange.as_mut().and_then(|exchange| exchange.goes_on.take());
            state.spent |= goes_on.is_some() && !chunked;
            goes_on
        };
        let Some(goes_on) = goes_on.filter(|_| !chunked) else { return };
        if let Err(error) = goes_on.bind(py).call0() {
            self.fail(py, error, "the reader of a request body could not be told of its end");
        }
    }

    fn end_of_body(&self, py: Python<'_>, tunnel: bool) {
        if tunnel {
            // As in asyncio: unless the protocol asks to keep its side open, it is closed.
            let keeps = self.call(py, intern!(py, "eof_received"));
            if !keeps.is_some_and(|keeps| keeps.bind(py).is_truthy().unwrap_or(false)) {
                self.close(py);
            }
            return;
        }
        let is_over = lock(&self.state).exchange.as_ref().is_some_and(|exchange| exchange.ended);
        if is_over {
            self.leave(py);
        }
    }

    fn receive_head(&self, py: Python<'_>, head: &Bound<'_, PyBytes>) {
        let receiver =
            lock(&self.state).protocol.as_ref().map(|protocol| protocol.begin_request.clone_ref(py));
        self.give(py, receiver, head, "the protocol could not begin with a request");
    }

    fn receive_data(&self, py: Python<'_>, data: &Bound<'_, PyBytes>) {
        let receiver =
            lock(&self.state).protocol.as_ref().map(|protocol| protocol.data_received.clone_ref(py));
        self.give(py, receiver, data, "protocol.data_received() failed");
    }

    fn give(&self, py: Python<'_>, receiver: Option<Py<PyAny>>, data: &Bound<'_, PyBytes>, failure: &str) {
        if let Some(Err(error)) = receiver.map(|receiver| receiver.bind(py).call1((data,)).map(drop)) {
            self.fail(py, error, failure);
        }
    }

    /// Calls a method of the protocol.
    fn call(&self, py: Python<'_>, name: &Bound<'_, pyo3::types::PyString>) -> Option<Py<PyAny>> {
        let protocol = lock(&self.state).protocol.as_ref().map(|protocol| protocol.object.clone_ref(py))?;
        match protocol.bind(py).call_method0(name) {
            Ok(result) => Some(result.unbind()),
            Err(error) => {
                self.fail(py, error, "a method of the protocol failed");
                None
            }
        }
    }

    /// As asyncio's `_fatal_error`: reports the error to the loop, and aborts the connection.
    fn fail(&self, py: Python<'_>, error: PyErr, message: &str) {
        self.shared.report(py, error, message);
        self.abort(py);
    }

    /// `line`: see [`Far::write_of`].
    fn write(&self, py: Python<'_>, contents: impl IntoIterator<Item = Content>, mut line: usize) {
        let pausing = {
            let mut state = lock(&self.state);
            let state = &mut *state;
            let (high, low) = (state.high, state.low);
            // After a close, or without a client, data is dropped, as by asyncio's transports.
            let Some(exchange) = state.exchange.as_ref().filter(|_| !state.closing) else { return };
            let mut unsent = 0;
            for content in contents {
                state.fresh += content.bytes().len();
                unsent = exchange.far.write_of(content, std::mem::take(&mut line));
            }
            if state.fresh >= WORTH_FLUSHING {
                exchange.far.flush();
            }
            let most = if unsent > state.fresh { high } else { high.saturating_mul(TURN_OF_LIMIT) };
            let pausing = unsent > most && !state.paused && exchange.far.await_below(low);
            if pausing {
                state.paused = true;
            }
            pausing
        };
        self.flush_soon(py);
        if pausing {
            self.call(py, intern!(py, "pause_writing"));
        }
    }

    /// Schedules a flush at the loop's next turn, unless one is scheduled.
    fn flush_soon(&self, py: Python<'_>) {
        if std::mem::replace(&mut lock(&self.state).dirty, true) {
            return;
        }
        if let Some(transport) = lock(&self.transport).as_ref().map(|transport| transport.clone_ref(py)) {
            self.shared.flush_soon(py, transport);
        }
    }

    /// Sends the data that was written in this turn of the loop.
    pub(crate) fn flush(&self) {
        let mut state = lock(&self.state);
        state.dirty = false;
        state.fresh = 0;
        if let Some(exchange) = &state.exchange {
            exchange.far.flush();
        }
    }

    fn unsent(&self) -> usize {
        lock(&self.state).exchange.as_ref().map_or(0, |exchange| exchange.far.unsent())
    }

    /// Pauses the protocol if more is unsent than the new limits allow.
    fn check_limits(&self, py: Python<'_>) {
        let pausing = {
            let mut state = lock(&self.state);
            let (high, low, paused) = (state.high, state.low, state.paused);
            let Some(exchange) = &state.exchange else { return };
            let waits = (paused || exchange.far.unsent() > high) && exchange.far.await_below(low);
            let pausing = waits && !paused;
            if pausing {
                state.paused = true;
            }
            // If it is paused and need not wait, it resumes by a wake-up.
            if paused && !waits {
                if let (Some(exchange), Some(slot)) = (&state.exchange, &state.slot) {
                    exchange.far.listen(slot.waker());
                    slot.waker().wake_by_ref();
                }
            }
            pausing
        };
        if pausing {
            self.call(py, intern!(py, "pause_writing"));
        }
    }
}

fn closing() -> PyErr {
    PyConnectionResetError::new_err("the connection is closing")
}
