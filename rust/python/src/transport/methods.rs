//! The methods of `asyncio.Transport`, and others that only penstock calls.

use std::sync::Arc;

use penstock_engine::Code;
use penstock_engine::app::{Attachment, ClientSocket, Content, Far, File, Note, RelayOrder, Subscription};
use penstock_engine::edge::RelayedHead;
use pyo3::PyTraverseError;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::gc::PyVisit;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use super::written::append;
use super::{HIGH, Transport, closing};
use crate::admission::{Admission, Guest};
use crate::engine::Engine;
use crate::errors::{IntoPython, os_error};
use crate::events::{EventPolicy, policy as policy_of};
use crate::framing::Framing;
use crate::inspect::Inspector;
use crate::lock;
use crate::relay::{Added, Changes, Forwarding, Received, Replaced};
use crate::relay_spec::Relay;
use crate::request::Fields;
use crate::stream::FrameStream;
use crate::tls::TlsSession;

/// Bytes of the longest value of a socket option; Python has the same limit.
const OPTION: usize = 1024;

/// Linux's number, on every architecture.
const EBADF: i32 = 9;

/// `penstock.web.handover.Rest`: how the engine sends the rest of a response.
#[derive(FromPyObject)]
struct Rest<'py> {
    /// How events are relayed.
    policy: Option<Bound<'py, EventPolicy>>,
    inspector: Option<Bound<'py, Inspector>>,
    /// Called once: how many bytes were sent, the error that ended it early or None, whether the head was sent.
    on_end: Py<PyAny>,
    /// Whether an end without an error wakes the loop; else `on_end` is not called for it.
    is_awaited: bool,
    /// In a worker process: describes `on_end` to another worker, which is told the end if this one has ended
    /// before it.
    account: Option<Vec<u8>>,
}

impl Transport {
    /// Has the engine send the rest of a response, after `head` if it sends the head too.
    fn attach(
        &self,
        py: Python<'_>,
        head: Option<Vec<u8>>,
        stream: &FrameStream,
        rest: Rest<'_>,
    ) -> PyResult<()> {
        let Rest { policy, inspector, on_end, is_awaited, account } = rest;
        let policy = policy_of(policy.as_ref());
        let inspector = inspector.map(|inspector| inspector.get().response.clone());
        // The parent of a worker process keeps the end until the worker has heard of it.
        let is_awaited = is_awaited || self.edge().is_some();
        self.leave_to_engine(py, |far| {
            let stream = stream.hand_over(py)?;
            let completion = self.core.shared.completion(on_end);
            let rest = Some(if is_awaited { completion } else { completion.unawaited() });
            if let Some(head) = head {
                far.write(Content::Bytes(head));
            }
            far.attach(Attachment { stream, rest, policy, inspector, account });
            Ok(())
        })
    }

    /// The client's socket; `None` in a worker process.
    fn socket(&self) -> PyResult<Option<ClientSocket>> {
        self.core.shared.check_thread()?;
        let state = lock(&self.core.state);
        let exchange = state.exchange.as_ref().filter(|_| state.turn == self.turn);
        match exchange {
            Some(exchange) => Ok(exchange.socket.clone()),
            None => Err(os_error(std::io::Error::from_raw_os_error(EBADF))),
        }
    }

    /// Has the engine send something, by `how`.
    fn leave_to_engine(&self, py: Python<'_>, how: impl FnOnce(&Far) -> PyResult<()>) -> PyResult<()> {
        {
            let state = lock(&self.core.state);
            let is_usable = state.turn == self.turn && !state.closing;
            let exchange = state.exchange.as_ref().filter(|_| is_usable).ok_or_else(closing)?;
            how(&exchange.far)?;
        }
        // Nearly always the handler returns now, and the end of its response is sent with this.
        self.core.flush_soon(py);
        Ok(())
    }
}

#[pymethods]
impl Transport {
    fn write(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        self.core.shared.check_thread()?;
        let (mut small, mut all) = (Vec::new(), Vec::new());
        let line = append(data, &self.core.shared.returns, &mut small, &mut all)?;
        if self.is_over() {
            return Ok(());
        }
        if !small.is_empty() {
            self.core.write(py, [Content::Bytes(small)], line);
        } else if !all.is_empty() {
            self.core.write(py, all, line);
        }
        Ok(())
    }

    fn writelines(&self, py: Python<'_>, list_of_data: &Bound<'_, PyAny>) -> PyResult<()> {
        self.core.shared.check_thread()?;
        let (mut small, mut all) = (Vec::new(), Vec::new());
        let mut line = 0;
        for data in list_of_data.try_iter()? {
            line = line.max(append(&data?, &self.core.shared.returns, &mut small, &mut all)?);
        }
        if !small.is_empty() {
            all.push(Content::Bytes(small));
        }
        if !all.is_empty() && !self.is_over() {
            self.core.write(py, all, line);
        }
        Ok(())
    }

    /// HTTP/1.1 has no half-closed connections, and asyncio's TLS transports cannot either.
    #[expect(clippy::unused_self, reason = "a method of asyncio's interface")]
    fn write_eof(&self) -> PyResult<()> {
        Err(PyRuntimeError::new_err("this transport cannot close its writing side alone"))
    }

    #[expect(clippy::unused_self, reason = "a method of asyncio's interface")]
    fn can_write_eof(&self) -> bool {
        false
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.core.shared.check_thread()?;
        if self.is_newest() {
            self.core.close(py);
        }
        Ok(())
    }

    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        self.core.shared.check_thread()?;
        if self.is_newest() {
            self.core.abort(py);
        }
        Ok(())
    }

    fn is_closing(&self) -> bool {
        self.is_over() || lock(&self.core.state).closing
    }

    fn is_reading(&self) -> bool {
        let state = lock(&self.core.state);
        state.turn == self.turn && state.reading && !state.closing
    }

    fn pause_reading(&self) -> PyResult<()> {
        self.core.shared.check_thread()?;
        if !self.is_over() {
            lock(&self.core.state).reading = false;
        }
        Ok(())
    }

    fn resume_reading(&self) -> PyResult<()> {
        self.core.shared.check_thread()?;
        let mut state = lock(&self.core.state);
        if state.turn != self.turn || std::mem::replace(&mut state.reading, true) || state.closing {
            return Ok(());
        }
        // Waiting data is passed to the protocol at the loop's next turn, as in asyncio.
        if let (Some(exchange), Some(slot)) = (&state.exchange, &state.slot) {
            if exchange.body.is_some() {
                slot.waker().wake_by_ref();
            }
        }
        Ok(())
    }

    fn get_protocol(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let state = lock(&self.core.state);
        let protocol = state.protocol.as_ref().filter(|_| state.turn == self.turn);
        protocol.map(|protocol| protocol.object.clone_ref(py))
    }

    fn set_protocol(&self, py: Python<'_>, protocol: &Bound<'_, PyAny>) -> PyResult<()> {
        self.core.shared.check_thread()?;
        if self.is_over() { Ok(()) } else { self.core.set_protocol(py, protocol) }
    }

    #[pyo3(signature = (name, default=None))]
    fn get_extra_info<'py>(
        slf: &Bound<'py, Self>,
        name: &str,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = slf.py();
        let Self { core, ends, .. } = slf.get();
        match name {
            "peername" => core.shared.address(py, ends.remote, false).map(Some),
            "sockname" => core.shared.address(py, ends.local, true).map(Some),
            // aiohttp takes a connection for secure if it has a context; `ssl_object` is what asyncio's transports have.
            "sslcontext" | "ssl_object" => match &ends.tls {
                Some(session) => TlsSession::of(py, session).map(Some),
                None => Ok(default),
            },
            "peercert" | "cipher" | "compression" => match &ends.tls {
                Some(session) => TlsSession::extra(py, session, name).map(Some),
                None => Ok(default),
            },
            "socket" => core.shared.application.socket.bind(py).call1((slf,)).map(Some),
            _ => Ok(default),
        }
    }

    fn get_write_buffer_size(&self) -> usize {
        if self.is_over() { 0 } else { self.core.unsent() }
    }

    fn get_write_buffer_limits(&self) -> (usize, usize) {
        let state = lock(&self.core.state);
        (state.low, state.high)
    }

    #[pyo3(signature = (high=None, low=None))]
    fn set_write_buffer_limits(
        &self,
        py: Python<'_>,
        high: Option<usize>,
        low: Option<usize>,
    ) -> PyResult<()> {
        self.core.shared.check_thread()?;
        let high = high.unwrap_or_else(|| low.map_or(HIGH, |low| 4 * low));
        let low = low.unwrap_or(high / 4);
        if low > high {
            return Err(PyValueError::new_err(format!("high ({high}) must be >= low ({low}) must be >= 0")));
        }
        {
            let mut state = lock(&self.core.state);
            if state.turn != self.turn {
                return Ok(());
            }
            (state.high, state.low) = (high, low);
        }
        self.core.check_limits(py);
        Ok(())
    }

    /// Has the engine send `count` bytes of a file from `offset` on. The future gives how many were sent: fewer only
    /// if the file has no more. Cancelling it cancels nothing.
    fn send_file<'py>(
        &self,
        py: Python<'py>,
        descriptor: i32,
        offset: u64,
        count: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.core.shared.check_thread()?;
        let descriptor = penstock_engine::duplicate(descriptor).map_err(os_error)?;
        if self.is_over() {
            return Err(closing());
        }
        self.core.send(py, |far| {
            far.send_file(File { descriptor, offset, count });
            Ok(())
        })
    }

    /// As `Forwarding.request_fields`, for a request that this transport has received.
    fn request_fields<'py>(
        &self,
        request: &Bound<'py, PyAny>,
        forwarding: &Bound<'py, Forwarding>,
        received: Option<Received<'py>>,
        replaced: Option<Vec<Replaced<'py>>>,
        added: Option<Vec<Added<'py>>>,
    ) -> PyResult<Fields> {
        forwarding.get().fields(request, Some(&self.ends), Changes { received, replaced, added })
    }

    /// Has the engine answer `request` with `stream`: a head made of the origin's, and the body, by `rest`. Event streams
    /// are cut by `events`. `closes`: the connection ends after it. Returns the bytes of the head.
    #[expect(clippy::too_many_arguments, reason = "what a head is made of, each once")]
    fn relay(
        &self,
        py: Python<'_>,
        request: &Bound<'_, PyAny>,
        stream: &Bound<'_, FrameStream>,
        forwarding: &Bound<'_, Forwarding>,
        events: &Bound<'_, Framing>,
        closes: bool,
        rest: Rest<'_>,
    ) -> PyResult<usize> {
        self.core.shared.check_thread()?;
        let policy = policy_of(rest.policy.as_ref());
        let method = request.getattr(intern!(py, "method"))?.cast_into::<PyString>()?;
        let (_, minor_version): (u8, u8) = request.getattr(intern!(py, "version"))?.extract()?;
        let (method, policy) = (method.to_str()?, policy.as_deref());
        let head = stream.get().relayed_head(forwarding.get(), method, minor_version, closes, policy);
        let RelayedHead { bytes, is_events } = head.into_python(py)?;
        // An inspected body with a length is cut into events as well.
        let is_inspected = rest.inspector.as_ref().is_some_and(|inspector| inspector.get().begin(stream));
        if is_events | is_inspected {
            stream.get().set_framing(py, events.get())?;
        }
        let size = bytes.len();
        self.attach(py, Some(bytes), stream.get(), rest)?;
        Ok(size)
    }

    /// Has the engine answer by `relay` as on a native route; the loop is not woken for it again. `target`: that at the
    /// origin. False, without an effect: the request has a body, `engine` is not that of its client, or this is a worker
    /// process.
    fn hand_over(
        &self,
        py: Python<'_>,
        relay: &Bound<'_, Relay>,
        target: String,
        engine: &Bound<'_, Engine>,
    ) -> PyResult<bool> {
        self.core.shared.check_thread()?;
        let is_here = {
            let state = lock(&self.core.state);
            let is_usable = state.turn == self.turn && !state.closing;
            let exchange = state.exchange.as_ref().filter(|_| is_usable);
            exchange.is_some_and(|exchange| !exchange.has_body && exchange.edge.is_none())
        };
        if !is_here || !Arc::ptr_eq(&engine.get().threads(), &self.core.shared.threads) {
            return Ok(false);
        }
        let order = RelayOrder { relay: Arc::clone(&relay.get().0), target };
        self.leave_to_engine(py, |far| {
            far.relay(order);
            Ok(())
        })?;
        Ok(true)
    }

    /// Has the engine send the rest of the body from `stream`, framed as in the head.
    fn attach_rest(&self, py: Python<'_>, stream: &Bound<'_, FrameStream>, rest: Rest<'_>) -> PyResult<()> {
        self.core.shared.check_thread()?;
        self.attach(py, None, stream.get(), rest)
    }

    /// Has the engine serve an admitted subscriber, framed as in the head. `on_end` is as in [`Rest`].
    fn attach_topic(
        &self,
        py: Python<'_>,
        admission: &Bound<'_, Admission>,
        on_end: Py<PyAny>,
    ) -> PyResult<()> {
        self.core.shared.check_thread()?;
        let guest = admission.get().take(py)?;
        self.leave_to_engine(py, |far| {
            let rest = self.core.shared.completion(on_end);
            match guest {
                Guest::Here(admitted, lease) => far.subscribe(Subscription { admitted, lease, rest }),
                Guest::Afar(stream) => far.attach(Attachment {
                    stream,
                    rest: Some(rest),
                    policy: None,
                    inspector: None,
                    account: None,
                }),
            }
            Ok(())
        })
    }

    /// Has the engine send `stream` as a part of the body. The future gives how many bytes were sent.
    fn attach_part<'py>(
        &self,
        py: Python<'py>,
        stream: &Bound<'py, FrameStream>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.core.shared.check_thread()?;
        if self.is_over() {
            return Err(closing());
        }
        self.core.send(py, |far| {
            far.attach(Attachment {
                stream: stream.get().hand_over(py)?,
                rest: None,
                policy: None,
                inspector: None,
                account: None,
            });
            far.flush();
            Ok(())
        })
    }

    /// In a worker process: the parent sends the rest of the request's body with the next fetch. `told` is called after the
    /// last bytes that still pass here. False: the whole body is here already.
    fn leave_body(&self, told: Py<PyAny>) -> bool {
        let mut state = lock(&self.core.state);
        let is_here = state.turn == self.turn;
        let exchange = state.exchange.as_mut().filter(|exchange| is_here && exchange.body.is_some());
        match exchange {
            Some(exchange) => {
                exchange.goes_on = Some(told);
                true
            }
            None => false,
        }
    }

    /// Reads at most `size` bytes of an option of the client's socket. `None` in a worker process, which has no socket.
    ///
    /// # Errors
    /// `OSError`: the kernel's, or `EBADF`: the response has ended.
    fn get_option<'py>(
        &self,
        py: Python<'py>,
        level: i32,
        name: i32,
        size: usize,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let Some(socket) = self.socket()? else { return Ok(None) };
        let mut value = vec![0; size.min(OPTION)];
        let length = socket.option(level, name, &mut value).map_err(os_error)?;
        Ok(Some(PyBytes::new(py, &value[..length])))
    }

    /// Sets an option of the client's socket to a number. In a worker process the parent sets it later.
    ///
    /// # Errors
    /// As for `get_option`.
    fn set_option(&self, level: i32, name: i32, value: i32) -> PyResult<()> {
        if let Some(socket) = self.socket()? {
            return socket.set_option(level, name, value).map_err(os_error);
        }
        if let Some(exchange) = &lock(&self.core.state).exchange {
            exchange.far.set_option(level, name, value);
        }
        Ok(())
    }

    /// The protocol's response has ended. `free`: the protocol can take another request.
    fn end_response(&self, py: Python<'_>, free: bool) {
        if !self.is_over() {
            self.core.end_response(py, free);
        }
    }

    /// Whether the protocol is ended by its lane, which has retired, after the response if it has one to send.
    fn retires(&self) -> bool {
        self.core.retires()
    }

    /// Sets tenant and error code of the request for the access log.
    #[pyo3(signature = (tenant, failure))]
    fn note(&self, tenant: Option<String>, failure: Option<u16>) {
        let failure = failure.and_then(|number| {
            Code::all().iter().map(|entry| entry.code).find(|code| code.number() == number)
        });
        let state = lock(&self.core.state);
        if let Some(exchange) = state.exchange.as_ref().filter(|_| state.turn == self.turn) {
            exchange.far.note(Note { tenant, failure });
        }
    }

    fn lose(&self, py: Python<'_>) {
        self.core.lose(py, None);
    }

    fn __repr__(&self) -> String {
        let state = lock(&self.core.state);
        let what = match &state.exchange {
            _ if state.closing => "closing",
            _ if state.turn != self.turn => "over",
            Some(_) => "busy",
            None => "idle",
        };
        format!("<penstock.Transport {what}>")
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // If it is locked, it is in use, and not garbage.
        if let Ok(state) = self.core.state.try_lock() {
            // The newest transport of a core visits what all of them share.
            if let Some(protocol) = state.protocol.as_ref().filter(|_| state.newest == self.turn) {
                visit.call(&protocol.object)?;
                visit.call(&protocol.data_received)?;
                visit.call(&protocol.begin_request)?;
                if let Some(handler) = &state.handler {
                    visit.call(handler)?;
                }
            }
        }
        Ok(())
    }
}
