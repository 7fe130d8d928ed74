//! `Cache`: what an engine keeps of what it fetches.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use penstock_engine::store::{Cache as Store, DiskConfig, DiskStats};
use pyo3::prelude::*;

use crate::engine::Engine;

/// As `penstock.stats.DiskStats`, field by field.
type DiskRow = (usize, u64, u64, bool, u64, u64, u64, u64, u64, u64);

/// What is stored.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Cache(pub(crate) Arc<Store>);

#[pymethods]
impl Cache {
    /// `memory` is in bytes, of the engine's pool; `disk` is a directory, and how many bytes its files take at most.
    #[new]
    #[pyo3(signature = (engine, memory, disk))]
    fn new(
        py: Python<'_>,
        engine: &Bound<'_, Engine>,
        memory: usize,
        disk: Option<(PathBuf, u64)>,
    ) -> PyResult<Self> {
        let disk = disk.map(|(directory, budget)| DiskConfig { directory, budget });
        Ok(Self(engine.get().cache(py, memory, disk.as_ref())?))
    }

    /// Writes what is in memory alone to the disk, for so many seconds at most, and lets go of the directory. The
    /// engine's threads must have ended.
    fn close(&self, py: Python<'_>, within: f64) {
        py.detach(|| self.0.close(Duration::from_secs_f64(within)));
    }

    /// What is on disk, if anything can be.
    fn disk_stats(&self) -> Option<DiskRow> {
        self.0.disk_stats().map(|stats| {
            let DiskStats { objects, used, limit, ready, .. } = stats;
            let DiskStats { hits, promoted, written, skipped, failed, damaged, .. } = stats;
            (objects, used, limit, ready, hits, promoted, written, skipped, failed, damaged)
        })
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
