//! The data of a write: a copy, or the application's memory itself if it is immutable.
//!
//! A read-only buffer can still change: a read-only view of a `bytearray` or of an array forbids writes through that view
//! alone. So only the memory of immutable objects, `bytes` and frames, is lent, and only if the address of the view lies in
//! it. The engine then reads a range of that object; the view is not used after the call.

use std::ops::Range;

use penstock_engine::app::Content;
use penstock_engine::pool::Slice;
use penstock_engine::stream::Loan;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView};

use crate::buffer::{append_bytes, range_within};
use crate::frame::Frame;
use crate::port::Returns;

/// Bytes from which on memory is lent, not copied: to lend costs about as much as to copy that many. Arbitrary
/// within a factor of two.
const WORTH_LENDING: usize = 16 * 1024;

/// Immutable memory, and its owner.
enum Memory {
    Bytes(PyBackedBytes, Range<usize>),
    /// In this order: the credit of a frame comes back after its memory.
    Frame(Slice, #[expect(dead_code, reason = "held for its drop")] Loan),
}

/// Memory of Python that the engine reads. An owner that is a Python object is released on the loop's thread, on whichever
/// thread this is dropped.
struct Lent {
    memory: Option<Memory>,
    returns: Returns,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        match &self.memory {
            Some(Memory::Bytes(bytes, range)) => &bytes[range.clone()],
            Some(Memory::Frame(slice, _)) => slice,
            None => &[],
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(memory @ Memory::Bytes(..)) = self.memory.take() {
            self.returns.give_back(memory);
        }
    }
}

/// Appends `data`: to `small` if it is copied; else to `all`, after the contents of `small`. Returns the line of requests
/// that wait for the connection of a frame; 0 without one.
///
/// # Errors
/// `TypeError`: a type that asyncio's transports do not take. `BufferError`: the bytes are not contiguous.
/// `ValueError`: the view has been released.
pub(super) fn append(
    data: &Bound<'_, PyAny>,
    returns: &Returns,
    small: &mut Vec<u8>,
    all: &mut Vec<Content>,
) -> PyResult<usize> {
    let (memory, line) = take(data, small)?;
    let Some(memory) = memory else { return Ok(line) };
    if !small.is_empty() {
        all.push(Content::Bytes(std::mem::take(small)));
    }
    all.push(Content::Foreign(Box::new(Lent { memory: Some(memory), returns: returns.clone() })));
    Ok(line)
}

/// The memory of `data` if it is lent; else its bytes are appended to `copy`. Also the line of its stream.
fn take(data: &Bound<'_, PyAny>, copy: &mut Vec<u8>) -> PyResult<(Option<Memory>, usize)> {
    let py = data.py();
    // Exactly bytes: since Python 3.12 the buffer of a derived class can be another object's.
    if let Ok(bytes) = data.cast_exact::<PyBytes>() {
        let content = bytes.as_bytes();
        if content.len() < WORTH_LENDING {
            copy.extend_from_slice(content);
            return Ok((None, 0));
        }
        let all = 0..content.len();
        return Ok((Some(Memory::Bytes(bytes.clone().into(), all)), 0));
    }
    let view = data.cast::<PyMemoryView>();
    if view.is_err() && !data.is_instance_of::<PyBytes>() && !data.is_instance_of::<PyByteArray>() {
        let kind = data.get_type().name()?;
        let kind = kind.to_str()?;
        return Err(PyTypeError::new_err(format!("data argument must be a bytes-like object, not {kind}")));
    }
    let buffer = PyUntypedBuffer::get(data)?;
    if !buffer.is_c_contiguous() {
        return Err(PyBufferError::new_err("the bytes of the memoryview are not contiguous"));
    }
    let (mut memory, mut line) = (None, 0);
    if let Ok(view) = view {
        // The owner of a view of a view, too. memoryview has no subclasses that could return
        // another.
        let owner = view.getattr(intern!(py, "obj"))?;
        line = owner.cast::<Frame>().map_or(0, |frame| frame.get().line());
        if buffer.len_bytes() >= WORTH_LENDING {
            memory = lend(&owner, &buffer)?;
        }
    }
    if memory.is_none() {
        append_bytes(py, &buffer, copy);
    }
    buffer.release(py);
    Ok((memory, line))
}

/// The memory of `owner` that `buffer` is a range of, if `owner` is immutable.
fn lend(owner: &Bound<'_, PyAny>, buffer: &PyUntypedBuffer) -> PyResult<Option<Memory>> {
    let (address, length) = (buffer.buf_ptr().addr(), buffer.len_bytes());
    if let Ok(bytes) = owner.cast_exact::<PyBytes>() {
        let range = range_within(bytes.as_bytes(), address, length);
        return Ok(range.map(|range| Memory::Bytes(bytes.clone().into(), range)));
    }
    match owner.cast::<Frame>() {
        Ok(frame) => {
            let lent = frame.get().lend_at(address, length)?;
            Ok(lent.map(|(slice, loan)| Memory::Frame(slice, loan)))
        }
        Err(_) => Ok(None),
    }
}
