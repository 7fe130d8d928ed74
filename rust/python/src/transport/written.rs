//! What a write keeps of the application's data: a copy, or the memory itself where nothing can change it.
//!
//! A buffer that is read-only can still change: a read-only view of a `bytearray` or of an array forbids writing through that
//! view alone. So memory is lent only by what is immutable itself, `bytes` and frames, and only if the address
//! of the view lies in it. The engine then reads a range of that object; the view is not used after the call.

use std::ops::Range;

use penstock_engine::app::Content;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView};

use crate::buffer::{append_bytes, range_within};
use crate::frame::{Frame, Part};
use crate::port::Returns;

/// From this size on memory is lent, and below it copied: to lend it costs about as much as to copy that many bytes.
/// Arbitrary within a factor of two.
const WORTH_LENDING: usize = 16 * 1024;

/// Memory that nothing can change, and its owner.
enum Memory {
    Bytes(PyBackedBytes, Range<usize>),
    Frame(Part),
}

/// Memory of Python's that the engine reads. The owner is let go of on the loop's thread, wherever this is dropped.
struct Lent {
    memory: Option<Memory>,
    returns: Returns,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        match &self.memory {
            Some(Memory::Bytes(bytes, range)) => &bytes[range.clone()],
            Some(Memory::Frame(part)) => part.bytes(),
            None => &[],
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.returns.give_back(memory);
        }
    }
}

/// Appends what a write of `data` sends: to `small` what is copied, to `all` what is lent, after what is in `small`. Returned is
/// the line in which requests wait for the connection that it came over, if it is of a frame; 0 for none.
///
/// # Errors
/// `TypeError`: the type is not one that asyncio's transports take. `BufferError`: the bytes are not contiguous.
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

/// The memory of `data` if it is lent; else its bytes are appended to `copy`. And the line of the stream that it is of.
fn take(data: &Bound<'_, PyAny>, copy: &mut Vec<u8>) -> PyResult<(Option<Memory>, usize)> {
    let py = data.py();
    // Exactly bytes: since Python 3.12 a class derived from it can say that its buffer is another object's.
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
        // Through all views of views; memoryview has no subclasses that could say something else.
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

/// The memory of `owner` that `buffer` is a range of, if that is immutable.
fn lend(owner: &Bound<'_, PyAny>, buffer: &PyUntypedBuffer) -> PyResult<Option<Memory>> {
    let (address, length) = (buffer.buf_ptr().addr(), buffer.len_bytes());
    if let Ok(bytes) = owner.cast_exact::<PyBytes>() {
        let range = range_within(bytes.as_bytes(), address, length);
        return Ok(range.map(|range| Memory::Bytes(bytes.clone().into(), range)));
    }
    match owner.cast::<Frame>() {
        Ok(frame) => Ok(Frame::part_at(frame, address, length)?.map(Memory::Frame)),
        Err(_) => Ok(None),
    }
}
