//! `FrameStream`: the consumer's side of a body, as an asynchronous iterator.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use penstock_engine::Code;
use penstock_engine::edge::{RelayedHead, relayed_head};
use penstock_engine::events::Policy;
use penstock_engine::pool::CopyReason;
use penstock_engine::stream::{ResponseHead, Stream, Timings};
use penstock_engine::wire::Head;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::awaitable::{Awaitable, Done, Want};
use crate::buffer::warn_unclosed;
use crate::errors::{IntoPython, exception};
use crate::frame::Frame;
use crate::framing::Framing;
use crate::lock;
use crate::port::{LoopPort, Slot};
use crate::record::record;
use crate::relay::Forwarding;

/// A stream that was started and waits for its Python object.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Source(Mutex<Option<(Stream, Py<LoopPort>)>>);

impl Source {
    pub(crate) fn new(stream: Stream, port: Py<LoopPort>) -> Self {
        Self(Mutex::new(Some((stream, port))))
    }
}

type Field = (Vec<u8>, Vec<u8>);

/// `penstock.stats.Timings`. `body`: how long it took, if it has ended.
pub(crate) fn timings<'py>(
    py: Python<'py>,
    timings: &Timings,
    body: Option<Duration>,
    reused: bool,
) -> PyResult<Bound<'py, PyAny>> {
    record!(
        py,
        "penstock.stats",
        Timings {
            queue: timings.queue.as_secs_f64(),
            resolve: timings.resolve.as_secs_f64(),
            connect: timings.connect.as_secs_f64(),
            tls: timings.tls.as_secs_f64(),
            first_byte: timings.first_byte.as_secs_f64(),
            body: body.map(|body| body.as_secs_f64()),
            reused,
        }
    )
}

/// The base of every stream that Python reads.
#[pyclass(frozen, subclass, weakref, module = "penstock._native")]
pub(crate) struct FrameStream {
    stream: Arc<Stream>,
    slot: Arc<Slot>,
    next: OnceLock<Py<Awaitable>>,
    head: OnceLock<Py<Awaitable>>,
    /// A task awaits its head, or has.
    is_awaited: AtomicBool,
}

impl FrameStream {
    /// The stream, for another consumer.
    pub(crate) fn hand_over(&self, py: Python<'_>) -> PyResult<Stream> {
        self.stream.hand_over().into_python(py)
    }

    /// The head, once it has come.
    pub(crate) fn head(&self) -> Option<&ResponseHead> {
        self.stream.head()
    }

    /// The head for the client of a relay.
    pub(crate) fn relayed_head(
        &self,
        forwarding: &Forwarding,
        method: &str,
        minor_version: u8,
        closes: bool,
        policy: Option<&Policy>,
    ) -> penstock_engine::Result<RelayedHead> {
        let Some(ResponseHead { head, .. }) = self.stream.head() else {
            return Err(Code::Internal.error("a head was relayed before it has arrived"));
        };
        let via = forwarding.policy.via((1, head.minor_version));
        let redirects = forwarding.redirects.as_ref();
        relayed_head(head, method, minor_version, closes, via.as_deref(), redirects, policy)
    }

    pub(crate) fn set_framing(&self, py: Python<'_>, framing: &Framing) -> PyResult<()> {
        self.stream.set_framing(&framing.0).into_python(py)
    }

    /// The awaitable in `place`, made at the first call: a relay never awaits single frames, a file has no
    /// head.
    fn awaitable(
        &self,
        py: Python<'_>,
        place: &OnceLock<Py<Awaitable>>,
        want: fn(Arc<Stream>) -> Want,
    ) -> PyResult<Py<Awaitable>> {
        if let Some(awaitable) = place.get() {
            return Ok(awaitable.clone_ref(py));
        }
        let awaitable = Py::new(py, Awaitable::new(want(Arc::clone(&self.stream)), Arc::clone(&self.slot)))?;
        Ok(place.get_or_init(|| awaitable).clone_ref(py))
    }
}

#[pymethods]
impl FrameStream {
    #[new]
    fn new(py: Python<'_>, source: &Bound<'_, Source>) -> PyResult<Self> {
        let Some((stream, port)) = lock(&source.get().0).take() else {
            return Err(exception(py, &Code::StreamClosed.error("this source has become a stream already")));
        };
        let stream = Arc::new(stream);
        let slot = Arc::new(Slot::new(port));
        Ok(Self {
            stream,
            slot,
            next: OnceLock::new(),
            head: OnceLock::new(),
            is_awaited: AtomicBool::new(false),
        })
    }

    fn __aiter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __anext__(&self, py: Python<'_>) -> PyResult<Py<Awaitable>> {
        self.awaitable(py, &self.next, Want::Frame)
    }

    /// Closes the stream, as `_close` does.
    #[pyo3(signature = (kind, error, traceback, /))]
    fn __aexit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        error: &Bound<'_, PyAny>,
        traceback: &Bound<'_, PyAny>,
    ) -> PyResult<Py<Done>> {
        let _ = (kind, error, traceback);
        self.stream.close();
        Done::get(py)
    }

    fn _set_framing(&self, py: Python<'_>, framing: &Bound<'_, Framing>) -> PyResult<()> {
        self.set_framing(py, framing.get())
    }

    fn _join<'py>(&self, py: Python<'py>, frames: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyBytes>> {
        let frames =
            frames.iter().map(|frame| Ok(frame.cast_into::<Frame>()?)).collect::<PyResult<Vec<_>>>()?;
        let mut length = 0;
        for frame in &frames {
            length += frame.len()?;
        }
        self.stream.pool().count_copy(CopyReason::PythonBytes, length);
        PyBytes::new_with(py, length, |target| {
            let mut end = 0;
            for frame in &frames {
                end = frame.get().copy_into(target, end)?;
            }
            Ok(())
        })
    }

    fn _headers(&self) -> Vec<Field> {
        let fields = |head: &ResponseHead| {
            head.head.headers().map(|(name, value)| (name.to_vec(), value.to_vec())).collect()
        };
        self.stream.head().map(fields).unwrap_or_default()
    }

    fn _trailers(&self) -> Vec<Field> {
        self.stream.ending().map(|ending| ending.trailers).unwrap_or_default()
    }

    /// Bytes held against the window, and the window.
    fn _held(&self) -> (usize, usize) {
        self.stream.held()
    }

    fn _close(&self) {
        self.stream.close();
    }

    #[getter]
    fn closed(&self) -> bool {
        self.stream.is_closed()
    }
}

// Functions, because methods would be public ones of `penstock.FrameStream` and `penstock.Response`.

/// Waits for the head of `stream`. Interim responses that come before it are written with `write`, as a client of
/// HTTP/1.1 gets them.
#[pyfunction]
#[pyo3(signature = (stream, forwarding, write))]
pub(crate) fn relay_head(
    py: Python<'_>,
    stream: &Bound<'_, FrameStream>,
    forwarding: Py<Forwarding>,
    write: Option<Py<PyAny>>,
) -> PyResult<Py<Awaitable>> {
    let this = stream.get();
    let Some(write) = write else { return this.awaitable(py, &this.head, Want::Head) };
    let want = Want::RelayedHead(Arc::clone(&this.stream), forwarding, write);
    Py::new(py, Awaitable::new(want, Arc::clone(&this.slot)))
}

/// Status, reason, minor version of HTTP, or `None` before the head.
#[pyfunction]
pub(crate) fn status_line(stream: &Bound<'_, FrameStream>) -> Option<(u16, String, u8)> {
    let reason = |head: &Head| head.reason().iter().map(|byte| char::from(*byte)).collect();
    stream.get().head().map(|ResponseHead { head, .. }| (head.status, reason(head), head.minor_version))
}

/// As `status_line`, but `None` also before `entry`: whether the head has come by then is chance.
#[pyfunction]
pub(crate) fn entry_line(response: &Bound<'_, FrameStream>) -> Option<(u16, String, u8)> {
    // Relaxed, as in `entry`: on the loop's thread alone.
    if response.get().is_awaited.load(Ordering::Relaxed) { status_line(response) } else { None }
}

/// Waits for the head of `response`, and gives the response. If the wait fails or is cancelled, the response is closed.
#[pyfunction]
pub(crate) fn entry(response: Bound<'_, FrameStream>) -> Awaitable {
    let this = response.get();
    this.is_awaited.store(true, Ordering::Relaxed);
    let (stream, slot) = (Arc::clone(&this.stream), Arc::clone(&this.slot));
    Awaitable::new(Want::Entry(stream, response.into_any().unbind()), slot)
}

/// Names and values as received, as text; bytes that are not UTF-8 become lone surrogates.
#[pyfunction]
pub(crate) fn field_texts<'py>(stream: &Bound<'py, FrameStream>) -> PyResult<Bound<'py, PyList>> {
    let py = stream.py();
    let fields = PyList::empty(py);
    for (name, value) in stream.get().head().into_iter().flat_map(|head| head.head.headers()) {
        fields.append((name_text(py, name)?, value_text(py, value)?))?;
    }
    Ok(fields)
}

/// Names whose texts are kept; the longest of them. Arbitrary: those of an application's origins are some dozens.
const NAMES: usize = 256;
const LONGEST: usize = 64;

/// The name of a field as `multidict.istr`, which mappings of fields need not convert to small letters again and again.
pub(crate) fn name_text<'py>(py: Python<'py>, name: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    static KNOWN: Mutex<BTreeMap<Vec<u8>, Py<PyAny>>> = Mutex::new(BTreeMap::new());
    static ISTR: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    if let Some(known) = lock(&KNOWN).get(name) {
        return Ok(known.bind(py).clone());
    }
    let text = ISTR.import(py, "multidict", "istr")?.call1((String::from_utf8_lossy(name),))?;
    let mut known = lock(&KNOWN);
    if name.len() <= LONGEST && known.len() < NAMES {
        known.insert(name.to_vec(), text.clone().unbind());
    }
    Ok(text)
}

fn value_text<'py>(py: Python<'py>, value: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    match std::str::from_utf8(value) {
        Ok(text) => Ok(PyString::new(py, text).into_any()),
        Err(_) => PyBytes::new(py, value).call_method1(intern!(py, "decode"), ("utf-8", "surrogateescape")),
    }
}

/// The fields that a gateway passes on, as text; empty before the head.
#[pyfunction]
pub(crate) fn response_fields<'py>(
    stream: &Bound<'py, FrameStream>,
    forwarding: &Bound<'py, Forwarding>,
) -> PyResult<Bound<'py, PyList>> {
    let py = stream.py();
    match stream.get().head() {
        Some(head) => forwarding.get().response_fields(py, &head.head),
        None => Ok(PyList::empty(py)),
    }
}

/// `penstock.stats.Timings`, or `None` before the head.
#[pyfunction]
pub(crate) fn timings_of<'py>(stream: &Bound<'py, FrameStream>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let this = stream.get();
    let Some(head) = this.head() else { return Ok(None) };
    let body = this.stream.ending().map(|ending| ending.body);
    timings(stream.py(), &head.timings, body, head.reused).map(Some)
}

/// Waits for frames: a list of at least one and at most `most`.
#[pyfunction]
pub(crate) fn next_batch(stream: &Bound<'_, FrameStream>, most: usize) -> Awaitable {
    let this = stream.get();
    Awaitable::new(Want::Batch(Arc::clone(&this.stream), most.max(1)), Arc::clone(&this.slot))
}

/// The frames that are ready, at most `most`; an empty list if none is.
#[pyfunction]
pub(crate) fn take_ready<'py>(stream: &Bound<'py, FrameStream>, most: usize) -> PyResult<Bound<'py, PyList>> {
    let py = stream.py();
    let frames = PyList::empty(py);
    while frames.len() < most {
        let Some(delivery) = stream.get().stream.take_ready() else { break };
        frames.append(Bound::new(py, Frame::new(delivery))?)?;
    }
    Ok(frames)
}

/// Whether the source has ended well and no frame waits: `next_batch` would raise `StopAsyncIteration`.
#[pyfunction]
pub(crate) fn is_done(stream: &Bound<'_, FrameStream>) -> bool {
    stream.get().stream.is_done()
}

impl Drop for FrameStream {
    fn drop(&mut self) {
        // A body that was read to its end, or that failed, owes nothing.
        if !self.stream.pool().dead() && !self.stream.is_closed() && !self.stream.is_over() {
            self.stream.close();
            warn_unclosed(c"a penstock stream was dropped before its end without aclose(); use 'async with'");
        }
    }
}
