//! `Frame`: a read-only view of pool memory that Python owns a share of.
#![expect(clippy::doc_markdown, reason = "Python's docstrings name its classes without backticks")]

use std::ffi::c_int;
use std::sync::{Arc, Mutex, OnceLock};

use penstock_engine::framing::event::{self, Event};
use penstock_engine::pool::{CopyReason, Slice};
use penstock_engine::stream::{Delivery, Loan};
use pyo3::exceptions::{PyBufferError, PyIndexError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PySlice};

use crate::buffer;
use crate::lock;

/// The owner of the bytes: the delivery, or the frame that this one is a part of.
enum Owner {
    Delivery(Delivery),
    /// The engine has sent it, or is about to: it counts as an export until the kernel has the bytes.
    Lent(Arc<Delivery>),
    Part(Part),
}

/// A range of a frame, which counts as an export of that frame.
struct Part {
    slice: Slice,
    parent: Py<Frame>,
}

impl Drop for Part {
    fn drop(&mut self) {
        lock(&self.parent.get().state).exports -= 1;
    }
}

impl Owner {
    fn delivery(&self) -> Option<&Delivery> {
        match self {
            Self::Delivery(delivery) => Some(delivery),
            Self::Lent(delivery) => Some(delivery),
            Self::Part(_) => None,
        }
    }

    fn slice(&self) -> &Slice {
        match self {
            Self::Delivery(delivery) => delivery.slice(),
            Self::Lent(delivery) => delivery.slice(),
            Self::Part(part) => &part.slice,
        }
    }

    fn line(&self) -> usize {
        match self {
            Self::Delivery(delivery) => delivery.line(),
            Self::Lent(delivery) => delivery.line(),
            Self::Part(part) => part.parent.get().line(),
        }
    }

    /// The same, and a loan of the delivery.
    fn lend(self) -> (Self, Option<Loan>) {
        match self {
            Self::Delivery(delivery) => Self::Lent(Arc::new(delivery)).lend(),
            Self::Lent(delivery) => {
                let loan = delivery.lend();
                (Self::Lent(delivery), Some(loan))
            }
            Self::Part(part) => {
                let loan = part.parent.get().lend();
                (Self::Part(part), loan)
            }
        }
    }
}

struct State {
    owner: Option<Owner>,
    /// Buffer exports and parts that are alive.
    exports: usize,
}

impl State {
    /// With what the engine has not sent yet.
    fn exports(&self) -> usize {
        match &self.owner {
            Some(Owner::Lent(delivery)) => self.exports + Arc::strong_count(delivery) - 1,
            _ => self.exports,
        }
    }
}

// The docs of the class and its members are what `help(penstock.Frame)` prints; `_native.pyi` has the same for editors,
// and a test compares the two.
/// Read-only bytes in the engine's memory.
///
/// A frame is a buffer: `memoryview(frame)`, `bytes(frame)`, `numpy.frombuffer(frame, numpy.uint8)`. What it holds
/// counts against the window of its stream until the last view and the frame itself are gone.
///
/// NumPy's type hints accept no buffer but a memoryview: write `numpy.frombuffer(memoryview(frame), numpy.uint8)` where
/// code is type-checked. No byte is copied either way.
#[pyclass(frozen, weakref, module = "penstock._native")]
pub(crate) struct Frame {
    state: Mutex<State>,
    event: OnceLock<Box<Event>>,
}

impl Frame {
    pub(crate) fn new(delivery: Delivery) -> Self {
        Self::of(Owner::Delivery(delivery))
    }

    fn of(owner: Owner) -> Self {
        Self { state: Mutex::new(State { owner: Some(owner), exports: 0 }), event: OnceLock::new() }
    }

    fn with<T>(&self, use_slice: impl FnOnce(&Slice) -> T) -> PyResult<T> {
        let state = lock(&self.state);
        state.owner.as_ref().map(|owner| use_slice(owner.slice())).ok_or_else(released)
    }

    fn part<'py>(slf: &Bound<'py, Self>, start: usize, end: usize) -> PyResult<Bound<'py, Self>> {
        let slice = {
            let mut state = lock(&slf.get().state);
            let slice = state.owner.as_ref().ok_or_else(released)?.slice().slice(start..end);
            state.exports += 1;
            slice
        };
        let part = Part { slice, parent: slf.clone().unbind() };
        Bound::new(slf.py(), Self::of(Owner::Part(part)))
    }

    /// The `length` bytes at `address`, if all of them are the frame's, for the engine to send: it can drop them on
    /// any thread, without waking the loop.
    pub(crate) fn lend_at(&self, address: usize, length: usize) -> PyResult<Option<(Slice, Loan)>> {
        let find = |slice: &Slice| Some(slice.slice(buffer::range_within(slice, address, length)?));
        let Some(slice) = self.with(find)? else { return Ok(None) };
        Ok(self.lend().map(|loan| (slice, loan)))
    }

    fn lend(&self) -> Option<Loan> {
        let mut state = lock(&self.state);
        let (owner, loan) = state.owner.take()?.lend();
        state.owner = Some(owner);
        loan
    }

    /// The line of requests that wait for the connection of its stream; 0 without one.
    pub(crate) fn line(&self) -> usize {
        lock(&self.state).owner.as_ref().map_or(0, Owner::line)
    }

    fn view<'py>(slf: &Bound<'py, Self>, start: usize, end: usize) -> PyResult<Bound<'py, PyMemoryView>> {
        PyMemoryView::from(Self::part(slf, start, end)?.as_any())
    }

    fn parsed(&self) -> PyResult<&Event> {
        if let Some(event) = self.event.get() {
            return Ok(event);
        }
        let event = self.with(|slice| event::parse(slice))?;
        Ok(self.event.get_or_init(|| Box::new(event)))
    }
}

impl Frame {
    /// Copies the bytes to `offset` of `target` and returns where they end.
    pub(crate) fn copy_into(&self, target: &mut [u8], offset: usize) -> PyResult<usize> {
        self.with(|slice| {
            let end = offset + slice.len();
            target[offset..end].copy_from_slice(slice);
            end
        })
    }
}

fn released() -> PyErr {
    PyValueError::new_err("the frame has been released")
}

#[pymethods]
impl Frame {
    fn __len__(&self) -> PyResult<usize> {
        self.with(|slice| slice.len())
    }

    fn __getitem__<'py>(slf: &Bound<'py, Self>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let length = slf.get().__len__()?;
        if let Ok(range) = key.cast::<PySlice>() {
            let indices = range.indices(isize::try_from(length)?)?;
            if indices.step != 1 {
                return Err(PyValueError::new_err(
                    "a frame is sliced with a step of 1; use memoryview(frame) for others",
                ));
            }
            let start = usize::try_from(indices.start)?;
            let end = start + indices.slicelength;
            return Ok(Self::part(slf, start, end)?.into_any());
        }
        let index: isize = key.extract()?;
        let position =
            if index < 0 { length.checked_sub(index.unsigned_abs()) } else { usize::try_from(index).ok() };
        let byte = position.and_then(|at| slf.get().with(|slice| slice.get(at).copied()).transpose());
        match byte {
            Some(byte) => Ok(byte?.into_pyobject(slf.py())?.into_any()),
            None => Err(PyIndexError::new_err("frame index out of range")),
        }
    }

    /// # Safety
    /// CPython calls it, with a view that is its own to be filled.
    #[expect(unsafe_code, reason = "the signature of the buffer protocol's slot")]
    unsafe fn __getbuffer__(slf: &Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let mut state = lock(&slf.get().state);
        let owner =
            state.owner.as_ref().ok_or_else(|| PyBufferError::new_err("the frame has been released"))?;
        if let Some(delivery) = owner.delivery() {
            if delivery.pool().dead() {
                return Err(PyBufferError::new_err(
                    "the frame's memory belongs to the parent of this forked process",
                ));
            }
        }
        // SAFETY: `view` is what CPython passed; the slice cannot be released before `exports` is zero again.
        unsafe { buffer::export(slf.as_any(), owner.slice(), view, flags)? };
        state.exports += 1;
        Ok(())
    }

    /// # Safety
    /// CPython calls it, once for each view that `__getbuffer__` has filled.
    #[expect(unsafe_code, reason = "the signature of the buffer protocol's slot")]
    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        lock(&self.state).exports -= 1;
    }

    fn __eq__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        // memoryview knows how to compare with every other buffer.
        let Ok(theirs) = PyMemoryView::from(other) else { return Ok(false) };
        PyMemoryView::from(slf.as_any())?.eq(theirs)
    }

    fn __repr__(&self) -> String {
        let state = lock(&self.state);
        match &state.owner {
            Some(owner) => {
                format!("<penstock.Frame of {} bytes, {} exports>", owner.slice().len(), state.exports())
            }
            None => "<penstock.Frame, released>".to_owned(),
        }
    }

    /// Views and parts that are alive.
    #[getter]
    fn exports(&self) -> usize {
        lock(&self.state).exports()
    }

    /// Whether `release` was called.
    #[getter]
    fn released(&self) -> bool {
        lock(&self.state).owner.is_none()
    }

    /// Give the memory back now.
    ///
    /// Raises:
    ///     BufferError: a view or a part of the frame is alive.
    fn release(&self) -> PyResult<()> {
        let owner = {
            let mut state = lock(&self.state);
            let exports = state.exports();
            if exports > 0 {
                return Err(PyBufferError::new_err(format!(
                    "{exports} views of the frame are alive; release them first"
                )));
            }
            state.owner.take()
        };
        drop(owner);
        Ok(())
    }

    /// The value of the block's `event` field, of a frame cut by `framing.Events`; None if it has none.
    #[getter]
    fn event<'py>(slf: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, PyMemoryView>>> {
        let range = slf.get().parsed()?.name.clone();
        range.map(|range| Self::view(slf, range.start, range.end)).transpose()
    }

    /// The value of the block's `id` field; None if it has none, or one with a NUL.
    #[getter]
    fn id<'py>(slf: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, PyMemoryView>>> {
        let range = slf.get().parsed()?.id.clone();
        range.map(|range| Self::view(slf, range.start, range.end)).transpose()
    }

    /// The value of the block's `retry` field in milliseconds; None if it has none that is a number.
    #[getter]
    fn retry(&self) -> PyResult<Option<u64>> {
        Ok(self.parsed()?.retry)
    }

    /// The values of the block's `data` fields, joined by LF: a view of one, a copy of several.
    #[getter]
    fn data<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyMemoryView>> {
        let frame = slf.get();
        let data = &frame.parsed()?.data;
        if data.is_empty() {
            return Self::view(slf, 0, 0);
        }
        if let Some(range) = data.only() {
            return Self::view(slf, range.start, range.end);
        }
        let joined = frame.with(|slice| data.joined(slice).into_owned())?;
        if let Some(delivery) = lock(&frame.state).owner.as_ref().and_then(Owner::delivery) {
            delivery.pool().count_copy(CopyReason::EventData, joined.len());
        }
        PyMemoryView::from(PyBytes::new(slf.py(), &joined).as_any())
    }
}
