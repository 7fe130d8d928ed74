//! `Awaitable`: what `await` drives. There is one for each stream and purpose, used again for every frame.
//!
//! A result that is ready completes in the same call, with no future and no turn of the loop. An empty stream parks
//! one future in the stream's [`Slot`]. A frame leaves the queue only in the call that returns it, so a cancelled
//! wait loses none.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use penstock_engine::Code;
use penstock_engine::pool::Purpose;
use penstock_engine::relay::encode_interim;
use penstock_engine::stream::{Delivery, Feed, Stream};
use pyo3::exceptions::PyStopAsyncIteration;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyList};

use crate::buffer::stop_iteration;
use crate::errors::{IntoPython, exception};
use crate::frame::Frame;
use crate::lock;
use crate::port::Slot;
use crate::relay::Forwarding;

/// Results without a turn of the loop; then the task yields, so that a fast origin cannot starve other tasks.
const RUN: usize = 64;

/// The same in bytes: about what a loop's own transports read in one turn.
const RUN_BYTES: usize = 1024 * 1024;

/// What the awaitable produces.
pub(crate) enum Want {
    /// The response head; produces `None`.
    Head(Arc<Stream>),
    /// The response head, by who asked for it; produces the response. A wait that fails or is cancelled closes it.
    Entry(Arc<Stream>, Py<PyAny>),
    /// The head; the callable gets the bytes of each interim response before it.
    RelayedHead(Arc<Stream>, Py<Forwarding>, Py<PyAny>),
    /// One frame.
    Frame(Arc<Stream>),
    /// A list of the ready frames: at least one, and at most this number.
    Batch(Arc<Stream>, usize),
    /// Room for this number of bytes of a request body; produces `None`.
    Room(Arc<std::sync::Mutex<Option<Feed>>>, penstock_engine::pool::Pool, usize),
}

/// A private awaitable of a stream. Only one task may await a stream at a time.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Awaitable {
    want: Want,
    slot: Arc<Slot>,
    run: AtomicUsize,
    run_bytes: AtomicUsize,
}

impl Awaitable {
    pub(crate) fn new(want: Want, slot: Arc<Slot>) -> Self {
        Self { want, slot, run: AtomicUsize::new(0), run_bytes: AtomicUsize::new(0) }
    }

    /// Whether it is time for a turn of the loop. If so, begins to count again.
    fn run_is_over(&self) -> bool {
        // Relaxed: only the one consumer counts.
        let over =
            self.run.load(Ordering::Relaxed) >= RUN || self.run_bytes.load(Ordering::Relaxed) >= RUN_BYTES;
        if over {
            self.rest();
        }
        over
    }

    fn ran(&self, bytes: usize) {
        // Not `fetch_add`, which locks the bus: only the one consumer counts.
        self.run.store(self.run.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.run_bytes.store(self.run_bytes.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
    }

    fn rest(&self) {
        self.run.store(0, Ordering::Relaxed);
        self.run_bytes.store(0, Ordering::Relaxed);
    }

    /// `first` and the frames that are ready after it, `most` in all.
    fn batch<'py>(
        &self,
        stream: &Stream,
        first: Delivery,
        most: usize,
        py: Python<'py>,
    ) -> PyResult<Bound<'py, PyList>> {
        let frames = PyList::empty(py);
        let mut next = Some(first);
        while let Some(delivery) = next {
            self.ran(delivery.len());
            frames.append(Bound::new(py, Frame::new(delivery))?)?;
            next = if frames.len() < most { stream.take_ready() } else { None };
        }
        Ok(frames)
    }

    fn poll(&self, py: Python<'_>, context: &mut Context<'_>) -> PyResult<Poll<()>> {
        match &self.want {
            Want::Frame(stream) => match stream.poll_next(context) {
                Poll::Pending => Ok(Poll::Pending),
                Poll::Ready(next) => {
                    let delivery = delivery(py, next)?;
                    self.ran(delivery.len());
                    stop_iteration(Bound::new(py, Frame::new(delivery))?.as_any());
                    Ok(Poll::Ready(()))
                }
            },
            Want::Batch(stream, most) => {
                let Poll::Ready(next) = stream.poll_next(context) else { return Ok(Poll::Pending) };
                stop_iteration(self.batch(stream, delivery(py, next)?, *most, py)?.as_any());
                Ok(Poll::Ready(()))
            }
            Want::Head(stream) => match stream.poll_head(context) {
                Poll::Pending => Ok(Poll::Pending),
                Poll::Ready(head) => head.map(|_| Poll::Ready(())).into_python(py),
            },
            Want::Entry(stream, response) => match stream.poll_head(context) {
                Poll::Pending => Ok(Poll::Pending),
                Poll::Ready(head) => {
                    head.into_python(py)?;
                    stop_iteration(response.bind(py));
                    Ok(Poll::Ready(()))
                }
            },
            Want::RelayedHead(stream, forwarding, write) => {
                let head = stream.poll_head(context);
                // After the poll of the head: then the interim responses that came with it are there.
                for head in stream.take_interim() {
                    let via = forwarding.get().policy.via((1, head.minor_version));
                    write.bind(py).call1((PyBytes::new(py, &encode_interim(&head, via.as_deref())),))?;
                }
                match head {
                    Poll::Pending => Ok(Poll::Pending),
                    Poll::Ready(head) => head.map(|_| Poll::Ready(())).into_python(py),
                }
            }
            Want::Room(feed, pool, size) => {
                let feed = lock(feed);
                let Some(feed) = feed.as_ref() else {
                    return Err(exception(py, &Code::StreamClosed.error("the upload has ended")));
                };
                match feed.poll_room(context) {
                    Poll::Pending => return Ok(Poll::Pending),
                    Poll::Ready(room) => room.into_python(py)?,
                }
                match pool.poll_room(context, *size, Purpose::Bulk) {
                    Poll::Pending => Ok(Poll::Pending),
                    Poll::Ready(room) => room.map(|_| Poll::Ready(())).into_python(py),
                }
            }
        }
    }
}

fn delivery(py: Python<'_>, next: Option<penstock_engine::Result<Delivery>>) -> PyResult<Delivery> {
    match next {
        Some(result) => result.into_python(py),
        None => Err(PyStopAsyncIteration::new_err(())),
    }
}

#[pymethods]
impl Awaitable {
    fn __await__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let next = self.advance(py);
        if next.is_err() {
            self.give_up();
        }
        next
    }

    /// Raises the error at the place of the wait. A wait for the head of a response is over then, and so is the response.
    #[pyo3(signature = (kind, value=None, traceback=None))]
    fn throw(
        &self,
        kind: Bound<'_, PyAny>,
        value: Option<Bound<'_, PyAny>>,
        traceback: Option<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        self.give_up();
        drop(traceback);
        Err(PyErr::from_value(value.unwrap_or(kind)))
    }

    /// The task that waits is gone.
    fn close(&self) {
        self.give_up();
    }
}

impl Awaitable {
    /// The wait for an entry has failed.
    fn give_up(&self) {
        if let Want::Entry(stream, _) = &self.want {
            stream.close();
        }
    }

    fn advance<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.slot.is_waiting(py)? {
            return Err(exception(py, &Code::Busy.error("another task is already awaiting this stream")));
        }
        if self.run_is_over() {
            // A bare yield: the task is resumed at the loop's next turn.
            return Ok(Some(py.None().into_bound(py)));
        }
        match self.poll(py, &mut Context::from_waker(self.slot.waker()))? {
            Poll::Ready(()) => Ok(None),
            Poll::Pending => {
                self.rest();
                self.slot.wait(py).map(Some)
            }
        }
    }
}

/// What `await` drives where there is nothing to wait for.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Done;

impl Done {
    /// The one object that all share.
    pub(crate) fn get(py: Python<'_>) -> PyResult<Py<Self>> {
        static ONE: PyOnceLock<Py<Done>> = PyOnceLock::new();
        Ok(ONE.get_or_try_init(py, || Py::new(py, Self))?.clone_ref(py))
    }
}

#[pymethods]
impl Done {
    fn __await__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[expect(clippy::unused_self, reason = "a method of the iterator protocol")]
    fn __next__(&self) -> Option<Py<PyAny>> {
        None
    }
}
