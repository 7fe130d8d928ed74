//! `Cache` and `Caching`: the responses that an engine stores, and how a route or a request uses them.

use std::fs::File;
use std::io::{BufReader, BufWriter, Seek, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use penstock_engine::store::{
    self, CachePolicy, CacheStats, DiskConfig, Listed, Overrides, Purge, RequestStats,
};
use penstock_engine::{Code, duplicate};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::engine::Engine;
use crate::errors::{IntoPython, exception, os_error};
use crate::lock;
use crate::record::record;
use crate::settings::Settings;

/// Bytes of records that are written or read at a time: of many small ones, one system call.
const BUFFER: usize = 256 << 10;

/// What is left to move of a cache to the cache of another process.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct MovingCache(Mutex<store::Moving>);

#[pymethods]
impl MovingCache {
    /// Writes records of about `most` bytes to a file. How many: 0 when all have been written.
    fn write(&self, py: Python<'_>, descriptor: i32, most: u64) -> PyResult<usize> {
        let written = py.detach(|| {
            let mut target = BufWriter::with_capacity(BUFFER, File::from(duplicate(descriptor)?));
            let records = lock(&self.0).write(&mut target, most)?;
            target.flush()?;
            Ok(records)
        });
        written.map_err(os_error)
    }
}

/// The stored responses of an engine.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Cache(Arc<store::Cache>);

#[pymethods]
impl Cache {
    /// `memory`: bytes of the engine's pool. `variants`: of one key, at most. `disk`: a directory, the bytes of its files
    /// at most, and the seconds to wait for an operation.
    #[new]
    #[pyo3(signature = (engine, memory, variants, disk))]
    fn new(
        py: Python<'_>,
        engine: &Bound<'_, Engine>,
        memory: usize,
        variants: usize,
        disk: Option<(PathBuf, u64, f64)>,
    ) -> PyResult<Self> {
        let disk = disk.map(|(directory, budget, timeout)| DiskConfig {
            directory,
            budget,
            timeout: Duration::from_secs_f64(timeout),
        });
        Ok(Self(engine.get().cache(py, memory, variants, disk.as_ref())?))
    }

    /// Writes responses that are in memory alone to the disk, for `within` seconds at most, and unlocks the directory for
    /// another process. False if the disk hangs: the directory stays locked.
    fn release_directory(&self, py: Python<'_>, within: f64) -> bool {
        py.detach(|| self.0.release_directory(Duration::from_secs_f64(within)))
    }

    /// Begins to move what is in memory to the cache of another process.
    fn begin_moving(&self, py: Python<'_>) -> MovingCache {
        MovingCache(Mutex::new(py.detach(|| self.0.begin_moving())))
    }

    /// Drops what is in memory, and gives the memory back to the system: so many bytes.
    fn release_memory(&self, py: Python<'_>) -> usize {
        py.detach(|| self.0.release_memory())
    }

    /// Takes the records in a file, from its beginning. Whether there is room for more.
    fn take_records(&self, py: Python<'_>, descriptor: i32) -> PyResult<bool> {
        let has_room = py.detach(|| {
            let mut file = File::from(duplicate(descriptor)?);
            file.rewind()?;
            self.0.take_records(&mut BufReader::with_capacity(BUFFER, file))
        });
        has_room.map_err(os_error)
    }

    /// Writes responses that are in memory alone to the disk, for `within` seconds at most, and unlocks the
    /// directory. The engine's threads must have ended. False if the disk hangs: the directory stays locked.
    fn close(&self, py: Python<'_>, within: f64) -> bool {
        py.detach(|| self.0.close(Duration::from_secs_f64(within)))
    }

    /// `penstock.stats.DiskStats`, if there is a disk.
    fn disk_stats<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(stats) = self.0.disk_stats() else { return Ok(None) };
        record!(
            py,
            "penstock.stats",
            DiskStats {
                objects: stats.objects,
                used: stats.used,
                limit: stats.limit,
                ready: stats.ready,
                hits: stats.hits,
                promoted: stats.promoted,
                written: stats.written,
                skipped: stats.skipped,
                failed: stats.failed,
                damaged: stats.damaged,
                timeouts: stats.timeouts,
                hanging: stats.hanging,
            }
        )
        .map(Some)
    }

    /// `penstock.cache.CacheStats`.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let CacheStats { keys, objects, disk_objects, used, limit, requests, .. } = self.0.stats();
        let RequestStats { hits, stale, revalidated, collapsed, misses, passed, errors } = requests;
        record!(
            py,
            "penstock.cache",
            CacheStats {
                keys,
                objects,
                disk_objects,
                used,
                limit,
                hits,
                stale,
                revalidated,
                collapsed,
                misses,
                passed,
                errors,
            }
        )
    }

    /// `what` is "url", "prefix", "tag" or "all".
    fn purge(&self, py: Python<'_>, what: &str, value: &str, soft: bool) -> PyResult<usize> {
        let purge = match what {
            "url" => Purge::Url(value),
            "prefix" => Purge::Prefix(value),
            "tag" => Purge::Tag(value),
            "all" => Purge::All,
            other => {
                let detail = format!("{other:?} is nothing that can be purged by");
                return Err(exception(py, &Code::BadConfiguration.error(detail)));
            }
        };
        // Without the interpreter: it visits every stored response.
        py.detach(|| self.0.purge(purge, soft)).into_python(py)
    }

    /// `penstock.cache.StoredResponse`s.
    fn list<'py>(
        &self,
        py: Python<'py>,
        prefix: Option<&str>,
        after: Option<&str>,
        limit: usize,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let listed = py.detach(|| self.0.list(prefix, after, limit)).into_python(py)?;
        let stored = |row: Listed| {
            let Listed { url, status, size, age, ttl, hits, tags } = row;
            let tags = PyTuple::new(py, tags)?;
            record!(py, "penstock.cache", StoredResponse { url, status, size, age, ttl, hits, tags })
        };
        PyTuple::new(py, listed.into_iter().map(stored).collect::<PyResult<Vec<_>>>()?)
    }
}

/// How a route uses a cache, and the name that its requests are counted under.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Caching(pub(crate) store::Caching);

#[pymethods]
impl Caching {
    #[new]
    fn new(cache: &Bound<'_, Cache>, settings: Settings<CachePolicy>, name: &str) -> Self {
        Self(store::Caching::new(Arc::clone(&cache.get().0), settings.into(), name))
    }
}

/// `penstock.config.Overrides`.
#[derive(FromPyObject)]
pub(crate) struct OverrideSettings {
    key: Option<String>,
    lifetime: Option<f64>,
    tags: Vec<String>,
    bypass: bool,
}

impl From<OverrideSettings> for Overrides {
    fn from(settings: OverrideSettings) -> Self {
        Self {
            key: settings.key.map(Into::into),
            lifetime: settings.lifetime.map(Duration::from_secs_f64),
            tags: settings.tags.into_iter().map(Into::into).collect(),
            bypass: settings.bypass,
        }
    }
}
