//! `Cache`: what an engine keeps of what it fetches.

use std::sync::Arc;

use penstock_engine::store::Cache as Store;
use pyo3::prelude::*;

use crate::engine::Engine;

/// What is stored.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Cache(pub(crate) Arc<Store>);

#[pymethods]
impl Cache {
    /// `memory` is in bytes, of the engine's pool.
    #[new]
    fn new(py: Python<'_>, engine: &Bound<'_, Engine>, memory: usize) -> PyResult<Self> {
        Ok(Self(Arc::new(engine.get().cache(py, memory)?)))
    }

    /// Forgets all that is stored.
    fn clear(&self) {
        self.0.clear();
    }

    /// Keys, bytes that are taken, bytes that may be.
    fn stats(&self) -> (usize, usize, usize) {
        let stats = self.0.stats();
        (stats.keys, stats.used, stats.limit)
    }
}
