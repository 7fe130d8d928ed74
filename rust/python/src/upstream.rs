//! `Upstream`: several origins for the same requests, as Python declares them.

use std::sync::Arc;
use std::time::Duration;

use penstock_engine::Code;
use penstock_engine::origin::{
    self, Balance, CheckPolicy, HashKey, HealthPolicy, Member, MemberStats, RetryPolicy, UpstreamPolicy,
    UpstreamStats,
};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::errors::exception;
use crate::record::record;
use crate::request::Endpoint;
use crate::settings::{Settings, word};

/// Several origins, and the endpoint that stands for them.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Upstream {
    upstream: Arc<origin::Upstream>,
    endpoint: Py<Endpoint>,
}

/// `penstock.config.Origin`, without its URL.
#[derive(FromPyObject)]
struct MemberSettings {
    weight: u32,
    backup: bool,
    max_requests: Option<usize>,
}

type MemberRow<'py> = (Bound<'py, Endpoint>, MemberSettings);

impl Upstream {
    pub(crate) fn shared(&self) -> &Arc<origin::Upstream> {
        &self.upstream
    }
}

#[pymethods]
impl Upstream {
    /// `identity`: the name of them all, for the cache and for errors.
    #[new]
    #[pyo3(signature = (identity, members, balance, key, health, check, retries))]
    #[expect(clippy::too_many_arguments, reason = "the parts of an upstream, each once")]
    #[expect(clippy::needless_pass_by_value, reason = "extracted arguments")]
    fn new(
        py: Python<'_>,
        identity: &Bound<'_, Endpoint>,
        members: Vec<MemberRow<'_>>,
        balance: &str,
        key: &str,
        health: Settings<HealthPolicy>,
        check: Option<Settings<CheckPolicy>>,
        retries: Settings<RetryPolicy>,
    ) -> PyResult<Self> {
        let policy = UpstreamPolicy {
            balance: balance_by(py, balance, key)?,
            health: health.0,
            check: check.map(|check| check.0),
            retries: retries.0,
        };
        let identity = identity.get();
        let name = Arc::from(identity.endpoint.to_string());
        let members = members.iter().map(member).collect();
        let upstream = Arc::new(origin::Upstream::new(name, policy, members));
        let endpoint = Endpoint {
            endpoint: identity.endpoint.clone(),
            authority: identity.authority.clone(),
            upstream: Some(Arc::clone(&upstream)),
        };
        Ok(Self { upstream, endpoint: Py::new(py, endpoint)? })
    }

    /// The endpoint that stands for the origins.
    #[getter]
    fn endpoint(&self, py: Python<'_>) -> Py<Endpoint> {
        self.endpoint.clone_ref(py)
    }

    #[expect(clippy::needless_pass_by_value, reason = "an extracted argument")]
    fn set(&self, members: Vec<MemberRow<'_>>) {
        self.upstream.set(members.iter().map(member).collect());
    }

    /// `penstock.origins.OriginsStats`. `urls`: of the origins, in the same order.
    #[expect(clippy::needless_pass_by_value, reason = "an extracted argument")]
    fn stats<'py>(&self, py: Python<'py>, urls: Vec<Bound<'py, PyString>>) -> PyResult<Bound<'py, PyAny>> {
        let UpstreamStats { counts, budget_left, members } = self.upstream.stats();
        if urls.len() != members.len() {
            let detail = format!("{} URLs were given for {} origins", urls.len(), members.len());
            return Err(exception(py, &Code::Internal.error(detail)));
        }
        let state = |(url, member): (&Bound<'py, PyString>, &MemberStats)| {
            record!(
                py,
                "penstock.origins",
                OriginState {
                    url,
                    available: member.is_up && member.ejected.is_none(),
                    up: member.is_up,
                    ejected: member.ejected.as_ref().map(Duration::as_secs_f64),
                    weight: member.weight,
                    active: member.active,
                    requests: member.requests,
                    failures: member.failures,
                }
            )
        };
        let origins = urls.iter().zip(&members).map(state).collect::<PyResult<Vec<_>>>()?;
        record!(
            py,
            "penstock.origins",
            OriginsStats {
                requests: counts.requests,
                retries: counts.retries,
                hedges: counts.hedges,
                resumed: counts.resumed,
                over_budget: counts.over_budget,
                ejections: counts.ejections,
                budget_left,
                origins: PyTuple::new(py, origins)?,
            }
        )
    }
}

fn member((endpoint, settings): &MemberRow<'_>) -> Member {
    let endpoint = endpoint.get();
    Member {
        endpoint: endpoint.endpoint.clone(),
        authority: endpoint.authority.clone(),
        weight: settings.weight,
        backup: settings.backup,
        max_requests: settings.max_requests,
    }
}

/// `key` is "path", "target" or "field:NAME".
fn balance_by(py: Python<'_>, balance: &str, key: &str) -> PyResult<Balance> {
    let key = match key.strip_prefix("field:") {
        Some(name) => HashKey::Field(name.to_owned()),
        None if word(py, key, &[("path", false), ("target", true)])? => HashKey::Target,
        None => HashKey::Path,
    };
    match balance {
        "round-robin" => Ok(Balance::RoundRobin),
        "least-loaded" => Ok(Balance::LeastLoaded),
        "hash" => Ok(Balance::Hash(key)),
        _ => {
            let detail = format!("{balance:?} is not one of round-robin, least-loaded, hash");
            Err(exception(py, &Code::BadConfiguration.error(detail)))
        }
    }
}
