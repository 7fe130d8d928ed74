//! The boundary's `unsafe`: filling a `Py_buffer`, reading one, and raising without the detour through `PyErr`.
#![expect(unsafe_code, reason = "raw calls into CPython that PyO3 has no safe form of")]

use std::ffi::c_int;

use pyo3::buffer::PyBuffer;
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

/// Copies `count` bytes at `offset` out of a contiguous buffer. Copied under attachment, because other Python code
/// may write to the buffer.
///
/// # Panics
/// If the range does not lie inside the buffer and the target.
pub(crate) fn copy_out(buffer: &PyBuffer<u8>, offset: usize, target: &mut [u8]) {
    assert!(
        buffer.is_c_contiguous() && offset + target.len() <= buffer.len_bytes(),
        "range outside the buffer"
    );
    // SAFETY: the range was just checked, the buffer is contiguous, and PyBuffer holds the export.
    let start = unsafe { buffer.buf_ptr().cast::<u8>().add(offset) };
    // SAFETY: source and target are live for the length, and a slab is never part of a Python object that is being
    // copied into that same slab's spare part.
    unsafe { std::ptr::copy_nonoverlapping(start, target.as_mut_ptr(), target.len()) };
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

/// Takes over a descriptor that Python passed as a number.
pub(crate) fn own_descriptor(descriptor: i32) -> PyResult<std::os::fd::OwnedFd> {
    use std::os::fd::FromRawFd;
    if descriptor < 0 {
        return Err(pyo3::exceptions::PyValueError::new_err("a descriptor is not negative"));
    }
    // SAFETY: the caller gives up the descriptor by contract of `penstock.open_fd`, which has checked that it is open.
    Ok(unsafe { std::os::fd::OwnedFd::from_raw_fd(descriptor) })
}
