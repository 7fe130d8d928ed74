//! `LoadRun` and `LoadOrigin`: the load generator, on threads of its own, which never hold the interpreter.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use penstock_load::origin::{Origin, Settings};
use penstock_load::plan::Plan;
use penstock_load::record::Records;
use penstock_load::run::Run;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::errors::os_error;
use crate::lock;

/// How often a waiting thread looks whether the run has ended.
const LOOK: Duration = Duration::from_millis(10);

/// A run of the load generator.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct LoadRun {
    /// Until its records are taken.
    run: Mutex<Option<Run>>,
}

fn taken() -> PyErr {
    PyRuntimeError::new_err("the records of this run have been taken")
}

#[pymethods]
impl LoadRun {
    #[new]
    fn new(plan: &str) -> PyResult<Self> {
        let plan = Plan::from_json(plan).map_err(PyValueError::new_err)?;
        let run = Run::start(plan).map_err(PyRuntimeError::new_err)?;
        Ok(Self { run: Mutex::new(Some(run)) })
    }

    /// Sessions that began, ended and were dropped; responses, bytes and failed requests.
    fn progress(&self) -> PyResult<(u64, u64, u64, u64, u64, u64)> {
        let run = lock(&self.run);
        let told = run.as_ref().ok_or_else(taken)?.progress();
        Ok((told.started, told.ended, told.dropped, told.requests, told.bytes, told.errors))
    }

    /// Waits for the end for so many seconds at most. Whether it has come.
    fn wait(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        let until = Instant::now() + Duration::from_secs_f64(seconds);
        loop {
            if lock(&self.run).as_ref().ok_or_else(taken)?.is_finished() {
                return Ok(true);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            py.detach(|| std::thread::sleep(left.min(LOOK)));
        }
    }

    /// Has the run end early.
    fn stop(&self) {
        if let Some(run) = lock(&self.run).as_ref() {
            run.stop();
        }
    }

    /// Waits for the end, and takes what was recorded, as JSON.
    fn records(&self, py: Python<'_>) -> PyResult<String> {
        let run = lock(&self.run).take().ok_or_else(taken)?;
        let records = py.detach(move || run.join()).map_err(PyRuntimeError::new_err)?;
        py.detach(|| Records::to_json(&records)).map_err(PyRuntimeError::new_err)
    }
}

/// An origin that makes up what it serves.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct LoadOrigin {
    origin: Mutex<Option<Origin>>,
    port: u16,
}

#[pymethods]
impl LoadOrigin {
    #[new]
    fn new(settings: &str) -> PyResult<Self> {
        let settings = Settings::from_json(settings).map_err(PyValueError::new_err)?;
        let origin = Origin::start(settings).map_err(os_error)?;
        let port = origin.address().port();
        Ok(Self { origin: Mutex::new(Some(origin)), port })
    }

    /// The port on 127.0.0.1.
    #[getter]
    fn port(&self) -> u16 {
        self.port
    }

    /// Ends it.
    fn close(&self, py: Python<'_>) {
        let origin = lock(&self.origin).take();
        py.detach(move || drop(origin));
    }
}
