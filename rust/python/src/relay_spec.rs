//! Python's `RelaySpec`, read field by field.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use penstock_engine::relay_spec::{self, Edit, Origin, RouteLimits};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::cache::Caching;
use crate::engine::Engine;
use crate::events::{Drain, EventPolicy, leave, policy};
use crate::inspect::{Inspected, parts};
use crate::relay::{Policy, wire_bytes};
use crate::request::{Endpoint, Timeouts};
use crate::settings::Settings;

/// Numbers for relays whose ends are reported.
static COMPLETIONS: AtomicU64 = AtomicU64::new(0);

/// `penstock.serving.relay_spec.HeaderEdits`, validated there.
#[derive(FromPyObject)]
pub(crate) struct HeaderEdits<'py> {
    set: Vec<(Bound<'py, PyString>, Option<Bound<'py, PyString>>)>,
    add: Vec<(Bound<'py, PyString>, Bound<'py, PyString>)>,
}

impl HeaderEdits<'_> {
    pub(crate) fn edits(&self) -> PyResult<Vec<Edit>> {
        let set = self.set.iter().map(|(name, value)| {
            let name = wire_bytes(name)?.into_owned();
            Ok(match value {
                Some(value) => Edit::Set(name, wire_bytes(value)?.into_owned()),
                None => Edit::Drop(name),
            })
        });
        let add = self.add.iter().map(|(name, value)| {
            Ok(Edit::Add(wire_bytes(name)?.into_owned(), wire_bytes(value)?.into_owned()))
        });
        set.chain(add).collect()
    }
}

/// `penstock.serving.relay_spec.RelaySpec`, without the fields that are handles.
#[derive(FromPyObject)]
pub(crate) struct RelaySpec<'py> {
    name: String,
    prefix: String,
    replacement: String,
    forwarding: Policy,
    limits: Settings<RouteLimits>,
    request: HeaderEdits<'py>,
    response: HeaderEdits<'py>,
    max_event: Option<usize>,
}

/// `penstock.serving.relay_spec.Handles`: the parts of a relay that are objects of an engine.
#[derive(FromPyObject)]
pub(crate) struct Handles<'py> {
    origin: Bound<'py, Endpoint>,
    timeouts: Bound<'py, Timeouts>,
    drain: Option<Bound<'py, Drain>>,
    events: Option<Bound<'py, EventPolicy>>,
    caching: Option<Bound<'py, Caching>>,
    inspect: Option<Inspected<'py>>,
}

impl RelaySpec<'_> {
    /// The engine's form. `is_told`: the ends of its requests are reported.
    pub(crate) fn with(self, handles: &Handles<'_>, is_told: bool) -> PyResult<relay_spec::RelaySpec> {
        let Endpoint { endpoint, upstream, authority } = handles.origin.get();
        Ok(relay_spec::RelaySpec {
            name: self.name,
            origin: Origin {
                endpoint: endpoint.clone(),
                upstream: upstream.clone(),
                authority: authority.clone(),
            },
            prefix: self.prefix,
            replacement: self.replacement,
            forwarding: self.forwarding.into(),
            timeouts: handles.timeouts.get().0,
            limits: self.limits.into(),
            request: self.request.edits()?,
            response: self.response.edits()?,
            drain: leave(handles.drain.as_ref()),
            events: policy(handles.events.as_ref()),
            max_event: self.max_event,
            caching: handles.caching.as_ref().map(|caching| caching.get().0.clone()),
            inspect: handles.inspect.as_ref().map(parts),
            // Relaxed: a number that no other relay has.
            completion: is_told.then(|| COMPLETIONS.fetch_add(1, Ordering::Relaxed)),
        })
    }
}

/// A relay for `Transport.hand_over`.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Relay(pub(crate) Arc<relay_spec::Relay>);

#[pymethods]
impl Relay {
    /// `engine` carries it out; its metrics get the counts of the inspection.
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "an extracted argument")]
    fn new(spec: RelaySpec<'_>, handles: Handles<'_>, engine: &Bound<'_, Engine>) -> PyResult<Self> {
        if let Some((_, counts)) = &handles.inspect {
            counts.get().add_to_board(engine.get().board());
        }
        Ok(Self(Arc::new(relay_spec::Relay::new(spec.with(&handles, false)?))))
    }
}
