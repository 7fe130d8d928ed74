//! Handles of the policies for event streams, and for bodies whose clients disconnect. All users of a handle share
//! its limit.

use std::sync::Arc;
use std::time::Duration;

use penstock_engine::events::{self, Leave};
use pyo3::prelude::*;

/// `penstock.config.Drain`, validated there.
#[derive(Clone, Copy, FromPyObject)]
struct DrainSettings {
    bytes: u64,
    seconds: f64,
    concurrency: usize,
}

/// How bodies are read on after their clients have disconnected.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Drain(Arc<events::Drain>);

#[pymethods]
impl Drain {
    #[new]
    fn new(settings: DrainSettings) -> Self {
        let DrainSettings { bytes, seconds, concurrency } = settings;
        Self(Arc::new(events::Drain::new(bytes, Duration::from_secs_f64(seconds), concurrency)))
    }
}

/// What to do with a body after its client has disconnected.
pub(crate) fn leave(drain: Option<&Bound<'_, Drain>>) -> Leave {
    drain.map_or(Leave::Cancel, |drain| Leave::Drain(Arc::clone(&drain.get().0)))
}

/// `penstock.config.EventRelay`, validated there, without its `drain`.
#[derive(FromPyObject)]
struct EventSettings {
    heartbeat: Option<f64>,
    idle: Option<f64>,
    unbuffered: bool,
    error_event: Option<String>,
}

/// How event streams are relayed.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct EventPolicy(pub(crate) Arc<events::Policy>);

#[pymethods]
impl EventPolicy {
    #[new]
    #[pyo3(signature = (settings, drain))]
    fn new(settings: EventSettings, drain: Option<&Bound<'_, Drain>>) -> Self {
        let EventSettings { heartbeat, idle, unbuffered, error_event } = settings;
        let seconds = |value: Option<f64>| value.map(Duration::from_secs_f64);
        Self(Arc::new(events::Policy {
            heartbeat: seconds(heartbeat),
            idle: seconds(idle),
            unbuffered,
            error_event,
            leave: leave(drain),
        }))
    }

    /// Default fields of the head of an event stream.
    fn fields(&self) -> Vec<(&'static str, &'static str)> {
        let text = |bytes| std::str::from_utf8(bytes).unwrap_or_default();
        self.0.fields().iter().map(|(name, value)| (text(name), text(value))).collect()
    }
}

/// The policy of `handle`.
pub(crate) fn policy(handle: Option<&Bound<'_, EventPolicy>>) -> Option<Arc<events::Policy>> {
    handle.map(|handle| Arc::clone(&handle.get().0))
}
