//! An asynchronous iterator that is always ready and always gives the same object.

use pyo3::ffi;
use pyo3::prelude::*;

#[pyclass(frozen)]
struct Bare {
    value: Py<PyAny>,
}

#[pymethods]
impl Bare {
    #[new]
    fn new(value: Py<PyAny>) -> Self {
        Self { value }
    }

    fn __aiter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __anext__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __await__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self) -> Option<Py<PyAny>> {
        // SAFETY: attached to the interpreter, and both pointers are live; the call takes its own references.
        unsafe { ffi::PyErr_SetObject(ffi::PyExc_StopIteration, self.value.as_ptr()) };
        None
    }
}

#[pymodule]
fn bare(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Bare>()
}
