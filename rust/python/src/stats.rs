//! The engine's counters, as `penstock.stats` declares them.

use std::collections::BTreeMap;
use std::sync::Arc;

use penstock_engine::origin::{EndpointStats, Origins};
use penstock_engine::pool::{ClassStats, CopyReason, Pool};
use penstock_engine::stream::Meter;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::record::record;

/// `penstock.stats.PoolStats`.
pub(crate) fn pool_stats<'py>(py: Python<'py>, pool: &Pool) -> PyResult<Bound<'py, PyAny>> {
    let stats = pool.stats();
    let class = |class: &ClassStats| {
        let ClassStats { size, total, live, peak } = *class;
        record!(py, "penstock.stats", SlabClass { size, total, live, peak })
    };
    let classes = stats.classes.iter().map(class).collect::<PyResult<Vec<_>>>()?;
    let copied = PyDict::new(py);
    for (reason, bytes) in CopyReason::ALL.iter().zip(stats.bytes_copied) {
        copied.set_item(reason.name(), bytes)?;
    }
    record!(
        py,
        "penstock.stats",
        PoolStats {
            budget: stats.budget,
            state: stats.state.name(),
            classes: PyTuple::new(py, classes)?,
            live_runs: stats.live_runs,
            live_bytes: stats.live_bytes,
            peak_bytes: stats.peak_bytes,
            refusals: stats.refusals,
            bytes_copied: copied,
        }
    )
}

/// `penstock.stats.OriginStats` by name, of the origins in use now or lately, summed over all engine threads.
pub(crate) fn origin_stats<'py>(py: Python<'py>, threads: &[Arc<Origins>]) -> PyResult<Bound<'py, PyDict>> {
    let mut sums = BTreeMap::<String, EndpointStats>::new();
    for endpoint in threads.iter().flat_map(|origins| origins.stats().endpoints) {
        sums.entry(endpoint.origin.to_string()).and_modify(|sum| sum.add(&endpoint)).or_insert(endpoint);
    }
    let stats = PyDict::new(py);
    for (name, EndpointStats { active, idle, waiting, counts, .. }) in sums {
        let origin = record!(
            py,
            "penstock.stats",
            OriginStats {
                active,
                idle,
                waiting,
                opened: counts.opened,
                reused: counts.reused,
                expired: counts.expired,
                closed: counts.closed,
                unsolicited: counts.unsolicited,
                retried: counts.retried,
            }
        )?;
        stats.set_item(name, origin)?;
    }
    Ok(stats)
}

/// `penstock.stats.RelayStats`.
pub(crate) fn relay_stats<'py>(py: Python<'py>, meter: &Meter) -> PyResult<Bound<'py, PyAny>> {
    let counts = meter.relays();
    record!(
        py,
        "penstock.stats",
        RelayStats {
            heartbeats: counts.heartbeats,
            idle: counts.idle,
            told: counts.told,
            draining: counts.draining,
            drained: counts.drained,
            undrained: counts.undrained,
        }
    )
}
