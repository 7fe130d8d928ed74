//! Makes Python exceptions of engine errors.

use penstock_engine::{Code, Error};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::record::record;

/// Every error code as `penstock.exceptions.ErrorCode`, ascending.
#[pyfunction]
pub(crate) fn error_table(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyAny>>> {
    let row = |entry: &penstock_engine::error::Entry| {
        record!(
            py,
            "penstock.exceptions",
            ErrorCode {
                number: entry.code.number(),
                name: entry.name,
                kind: entry.kind.name(),
                source: entry.source.name(),
                retryable: entry.retryable,
                meaning: entry.meaning,
                status: entry.code.status(),
            }
        )
    };
    Code::all().iter().map(row).collect()
}

/// The exception for `error`: its class is chosen in `penstock.exceptions` by kind.
pub(crate) fn exception(py: Python<'_>, error: &Error) -> PyErr {
    static FROM_NATIVE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let code = error.code();
    let made = FROM_NATIVE
        .get_or_try_init(py, || py.import("penstock.exceptions")?.getattr("from_native").map(Bound::unbind))
        .and_then(|make| {
            make.call1(
                py,
                (
                    code.number(),
                    code.name(),
                    code.kind().name(),
                    code.source().name(),
                    code.retryable(),
                    error.detail(),
                    error.origin(),
                ),
            )
        });
    match made {
        Ok(exception) => PyErr::from_value(exception.into_bound(py)),
        Err(failure) => failure,
    }
}

/// The operating system's error in the form of Python's own: with `errno`, and without the number in the
/// text.
pub(crate) fn os_error(error: std::io::Error) -> PyErr {
    let words = error.to_string();
    match error.raw_os_error() {
        Some(number) => {
            let words = words.trim_end_matches(&format!(" (os error {number})")).to_owned();
            PyOSError::new_err((number, words))
        }
        None => error.into(),
    }
}

/// Turns the engine's result into Python's.
pub(crate) trait IntoPython<T> {
    /// The value, or the exception for the error.
    fn into_python(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> IntoPython<T> for penstock_engine::Result<T> {
    fn into_python(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| exception(py, &error))
    }
}
