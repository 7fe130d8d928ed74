//! The engine's counters as plain tuples; `penstock.stats` names their fields.

use std::collections::BTreeMap;
use std::sync::Arc;

use penstock_engine::origin::Origins;
use penstock_engine::pool::{CopyReason, Pool};
use penstock_engine::stream::Meter;

/// Size, total, live, peak.
type Class = (usize, usize, usize, usize);

/// Budget, state, classes, live runs, live bytes, peak bytes, refusals, copied bytes by reason.
pub(crate) type PoolRow =
    (usize, &'static str, Vec<Class>, usize, usize, usize, usize, Vec<(&'static str, usize)>);

/// A snapshot of `pool`.
pub(crate) fn pool_row(pool: &Pool) -> PoolRow {
    let stats = pool.stats();
    let copied = CopyReason::ALL.iter().zip(stats.bytes_copied).map(|(reason, bytes)| (reason.name(), bytes));
    (
        stats.budget,
        stats.state.name(),
        stats.classes.iter().map(|class| (class.size, class.total, class.live, class.peak)).collect(),
        stats.live_runs,
        stats.live_bytes,
        stats.peak_bytes,
        stats.refusals,
        copied.collect(),
    )
}

/// Active, idle, waiting.
type Now = (usize, usize, usize);

/// Opened, reused, expired, closed, unsolicited, retried.
type SoFar = (u64, u64, u64, u64, u64, u64);

/// Name, and its counts over all engine threads.
pub(crate) type OriginRow = (String, Now, SoFar);

/// The origins that are in use or were lately, by name.
pub(crate) fn origin_rows(threads: &[Arc<Origins>]) -> Vec<OriginRow> {
    let mut rows = BTreeMap::<String, (Now, SoFar)>::new();
    for endpoint in threads.iter().flat_map(|origins| origins.stats().endpoints) {
        let (now, so_far) = rows.entry(endpoint.origin.to_string()).or_default();
        now.0 += endpoint.active;
        now.1 += endpoint.idle;
        now.2 += endpoint.waiting;
        so_far.0 += endpoint.counts.opened;
        so_far.1 += endpoint.counts.reused;
        so_far.2 += endpoint.counts.expired;
        so_far.3 += endpoint.counts.closed;
        so_far.4 += endpoint.counts.unsolicited;
        so_far.5 += endpoint.counts.retried;
    }
    rows.into_iter().map(|(name, (now, so_far))| (name, now, so_far)).collect()
}

/// Heartbeats, idle, told, draining, drained, undrained.
pub(crate) type RelayRow = (u64, u64, u64, usize, u64, u64);

pub(crate) fn relay_row(meter: &Meter) -> RelayRow {
    let counts = meter.relays();
    (counts.heartbeats, counts.idle, counts.told, counts.draining, counts.drained, counts.undrained)
}
