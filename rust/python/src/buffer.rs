//! The boundary's `unsafe`: filling a `Py_buffer`, reading one, and raising without the detour through `PyErr`.
#![expect(unsafe_code, reason = "raw calls into CPython that PyO3 has no safe form of")]

use std::ffi::c_int;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::port::Returns;

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

/// A contiguous, read-only export of an object's bytes, which stay where they are for as long as it lives. May be read
/// and dropped on any thread: the export itself is given back where Python can be entered.
pub(crate) struct Pinned {
    export: Option<Released>,
    returns: Returns,
}

/// An export that waits to be given back.
pub(crate) struct Released(Box<ffi::Py_buffer>);

// SAFETY: the structure is plain data. What it points to is read-only memory that the export keeps in place, and the
// one call that enters Python, `release`, asks for proof of being attached.
unsafe impl Send for Released {}
// SAFETY: as above; through a shared reference only the bytes are read.
unsafe impl Sync for Released {}

impl std::fmt::Debug for Released {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Released").field("length", &self.0.len).finish()
    }
}

impl Released {
    fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut view = Box::new(ffi::Py_buffer::new());
        // SAFETY: the structure is live and writable; CPython fills it or reports an error.
        let result = unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &raw mut *view, ffi::PyBUF_SIMPLE) };
        if result == 0 { Ok(Self(view)) } else { Err(PyErr::fetch(object.py())) }
    }

    fn bytes(&self) -> &[u8] {
        let length = usize::try_from(self.0.len).unwrap_or(0);
        if length == 0 {
            return &[];
        }
        // SAFETY: a filled view of PyBUF_SIMPLE is contiguous, and its exporter keeps it so until it is released.
        // Whoever keeps the slice beyond this call into Python has checked that the view is read-only.
        unsafe { std::slice::from_raw_parts(self.0.buf.cast::<u8>(), length) }
    }

    /// Gives the export back.
    pub(crate) fn release(mut self, _py: Python<'_>) {
        // SAFETY: attached to the interpreter; the view was filled by CPython and is released this once.
        unsafe { ffi::PyBuffer_Release(&raw mut *self.0) };
    }
}

/// What an object's bytes have become.
pub(crate) enum Taken {
    /// A copy: it is small, or could be changed.
    Copied,
    Pinned(Pinned),
}

/// Appends the bytes of `object` to `copy`, or pins them if there are at least `worth` and nobody can change them.
///
/// # Errors
/// `TypeError`: it has no bytes. `BufferError`: they are not contiguous.
pub(crate) fn take_bytes(
    object: &Bound<'_, PyAny>,
    worth: usize,
    returns: &Returns,
    copy: &mut Vec<u8>,
) -> PyResult<Taken> {
    let export = Released::of(object)?;
    if export.0.readonly != 0 && export.bytes().len() >= worth {
        return Ok(Taken::Pinned(Pinned { export: Some(export), returns: returns.clone() }));
    }
    copy.extend_from_slice(export.bytes());
    export.release(object.py());
    Ok(Taken::Copied)
}

impl AsRef<[u8]> for Pinned {
    fn as_ref(&self) -> &[u8] {
        self.export.as_ref().map_or(&[], Released::bytes)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(export) = self.export.take() {
            self.returns.give_back(export);
        }
    }
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
