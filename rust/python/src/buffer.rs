//! The boundary's `unsafe`: filling a `Py_buffer`, copying out of one, and raising without the detour through `PyErr`.
#![expect(unsafe_code, reason = "raw calls into CPython that PyO3 has no safe form of")]

use std::ffi::c_int;
use std::ops::Range;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

/// Exports `bytes` read-only through `view` on behalf of `owner`.
///
/// # Safety
/// `view` is the one `CPython` passed to `bf_getbuffer`, and `bytes` stays where it is, unchanged, for as long as
/// `owner` counts the export.
pub(crate) unsafe fn export(
    owner: &Bound<'_, PyAny>,
    bytes: &[u8],
    view: *mut ffi::Py_buffer,
    flags: c_int,
) -> PyResult<()> {
    if view.is_null() {
        return Err(PyBufferError::new_err("no view to fill"));
    }
    let length = ffi::Py_ssize_t::try_from(bytes.len())?;
    let start = bytes.as_ptr().cast_mut().cast();
    // SAFETY: the view is live (our caller's promise); CPython takes its own reference to the owner and, because the
    // export is read-only, never writes through the pointer.
    let result = unsafe { ffi::PyBuffer_FillInfo(view, owner.as_ptr(), start, length, 1, flags) };
    if result == 0 { Ok(()) } else { Err(PyErr::fetch(owner.py())) }
}

/// Appends all bytes of a contiguous buffer. `py`: while the interpreter is held, no Python code writes to it.
///
/// # Panics
/// If the buffer is not contiguous.
pub(crate) fn append_bytes(_py: Python<'_>, buffer: &PyUntypedBuffer, target: &mut Vec<u8>) {
    assert!(buffer.is_c_contiguous(), "the buffer is not contiguous");
    let length = buffer.len_bytes();
    target.reserve(length);
    let spare = target.spare_capacity_mut().as_mut_ptr().cast::<u8>();
    // SAFETY: `buffer` holds the export, so `length` bytes are there to be read; as many were just reserved, in memory of
    // the vector's own. A thread that writes there without the interpreter can garble the copy, as it can garble CPython's.
    unsafe { std::ptr::copy_nonoverlapping(buffer.buf_ptr().cast::<u8>(), spare, length) };
    // SAFETY: so many were reserved, and have just been written.
    unsafe { target.set_len(target.len() + length) };
}

/// Copies bytes from `offset` on out of a contiguous buffer. `py`: as for [`append_bytes`].
///
/// # Panics
/// If the range does not lie inside the buffer.
pub(crate) fn copy_out(_py: Python<'_>, buffer: &PyUntypedBuffer, offset: usize, target: &mut [u8]) {
    let end = offset.checked_add(target.len());
    assert!(
        buffer.is_c_contiguous() && end.is_some_and(|end| end <= buffer.len_bytes()),
        "range outside the buffer"
    );
    // SAFETY: the range was just checked, the buffer is contiguous, and `buffer` holds the export.
    let start = unsafe { buffer.buf_ptr().cast::<u8>().add(offset) };
    // SAFETY: source and target are live for the length. They do not overlap: a `&mut` of memory that is exported to Python
    // cannot be had, because what a `Writer` gives out is no part of a frame.
    unsafe { std::ptr::copy_nonoverlapping(start, target.as_mut_ptr(), target.len()) };
}

/// Where `length` bytes at `address` lie in `bytes`, if all of them do.
pub(crate) fn range_within(bytes: &[u8], address: usize, length: usize) -> Option<Range<usize>> {
    let start = address.checked_sub(bytes.as_ptr().addr())?;
    let end = start.checked_add(length)?;
    (end <= bytes.len()).then_some(start..end)
}

/// Raises `StopIteration(value)`: how an iterator hands its result to `await`. `PyStopIteration::new_err` would box a
/// closure and build an argument tuple for each frame.
///
/// `CPython` unpacks a value that is a tuple or an exception; the callers pass frames and lists.
pub(crate) fn stop_iteration(value: &Bound<'_, PyAny>) {
    // SAFETY: CPython has set the static before any module is loaded, and never changes it.
    let kind = unsafe { ffi::PyExc_StopIteration };
    // SAFETY: attached to the interpreter (we hold a Bound), and both pointers are live; the call takes its own
    // references.
    unsafe { ffi::PyErr_SetObject(kind, value.as_ptr()) };
}

/// Issues a `ResourceWarning` from a destructor, where nothing can be raised and a pending exception must survive.
pub(crate) fn warn_unclosed(message: &std::ffi::CStr) {
    Python::try_attach(|py| {
        let pending = PyErr::take(py);
        // SAFETY: CPython has set the static before any module is loaded, and never changes it.
        let category = unsafe { ffi::PyExc_ResourceWarning };
        // SAFETY: attached; the category and the NUL-terminated message are live.
        let result = unsafe { ffi::PyErr_WarnEx(category, message.as_ptr(), 1) };
        if result != 0 {
            PyErr::fetch(py).write_unraisable(py, None);
        }
        if let Some(pending) = pending {
            pending.restore(py);
        }
    });
}
