//! `Cache` and `Caching`: what an engine keeps of what it fetches, and how a route and a request use it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use penstock_engine::Code;
use penstock_engine::store::{self, CacheStats, DiskConfig, DiskStats, Overrides, Purge, RequestStats};
use pyo3::prelude::*;

use crate::engine::Engine;
use crate::errors::{IntoPython, exception};
use crate::settings::CachingSettings;

/// What is stored.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Cache(Arc<store::Cache>);

/// As `penstock.cache.CacheStats`, field by field: how full it is, and how requests went.
type StatsRow = ((usize, usize, usize, usize, usize), (u64, u64, u64, u64, u64, u64, u64));

/// As `penstock.stats.DiskStats`, field by field.
type DiskRow = (usize, u64, u64, bool, u64, u64, u64, u64, u64, u64, u64, bool);

/// URL, status, bytes, age, seconds to live, hits, tags.
type Row = (String, u16, u64, u64, i64, u32, Vec<String>);

#[pymethods]
impl Cache {
    /// `memory` is in bytes, of the engine's pool; `variants` the most of one key; `disk` is a directory, how many bytes its files take at most, and for how
    /// many seconds anybody waits for it.
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

    /// Writes what is in memory alone to the disk, for so many seconds at most, and lets go of the directory. The
    /// engine's threads must have ended. False if the disk hangs, and the directory stays taken.
    fn close(&self, py: Python<'_>, within: f64) -> bool {
        py.detach(|| self.0.close(Duration::from_secs_f64(within)))
    }

    /// What is on disk, if anything can be.
    fn disk_stats(&self) -> Option<DiskRow> {
        self.0.disk_stats().map(|stats| {
            let DiskStats { objects, used, limit, ready, .. } = stats;
            let DiskStats { hits, promoted, written, skipped, failed, damaged, .. } = stats;
            let DiskStats { timeouts, hanging, .. } = stats;
            (
                objects, used, limit, ready, hits, promoted, written, skipped, failed, damaged, timeouts,
                hanging,
            )
        })
    }

    fn stats(&self) -> StatsRow {
        let CacheStats { keys, objects, disk_objects, used, limit, requests, .. } = self.0.stats();
        let RequestStats { hits, stale, revalidated, collapsed, misses, passed, errors } = requests;
        let counts = (hits, stale, revalidated, collapsed, misses, passed, errors);
        ((keys, objects, disk_objects, used, limit), counts)
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
        // Without the interpreter: it looks at all that is stored.
        py.detach(|| self.0.purge(purge, soft)).into_python(py)
    }

    fn list(
        &self,
        py: Python<'_>,
        prefix: Option<&str>,
        after: Option<&str>,
        limit: usize,
    ) -> PyResult<Vec<Row>> {
        let listed = py.detach(|| self.0.list(prefix, after, limit)).into_python(py)?;
        let row = |row: store::Listed| (row.url, row.status, row.size, row.age, row.ttl, row.hits, row.tags);
        Ok(listed.into_iter().map(row).collect())
    }
}

/// How a route uses a cache, and under which name that is counted.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Caching(pub(crate) store::Caching);

#[pymethods]
impl Caching {
    #[new]
    fn new(cache: &Bound<'_, Cache>, settings: CachingSettings, name: &str) -> Self {
        Self(store::Caching::new(Arc::clone(&cache.get().0), settings.into(), name))
    }
}

/// What `penstock.config.Overrides` says of one request.
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
