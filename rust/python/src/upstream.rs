//! `Upstream`: several origins that stand in for one another, as Python declares them.

use std::sync::Arc;
use std::time::Duration;

use penstock_engine::Code;
use penstock_engine::origin::{
    self, Balance, CheckPolicy, HashKey, HealthPolicy, Hedge, Member, MemberStats, RetryPolicy,
    UpstreamPolicy, UpstreamStats,
};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::errors::exception;
use crate::record::record;
use crate::request::Endpoint;

/// Several origins, and by what they are known together.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Upstream {
    upstream: Arc<origin::Upstream>,
    endpoint: Py<Endpoint>,
}

/// Endpoint, weight, whether it is a backup, requests at most.
type MemberRow<'py> = (Bound<'py, Endpoint>, u32, bool, Option<usize>);

impl Upstream {
    pub(crate) fn shared(&self) -> &Arc<origin::Upstream> {
        &self.upstream
    }
}

#[pymethods]
impl Upstream {
    /// `identity` is by what the cache and errors know them.
    #[new]
    #[pyo3(signature = (identity, members, balance, key, health, check, retries))]
    #[expect(clippy::too_many_arguments, reason = "the parts of an upstream, each once")]
    #[expect(clippy::needless_pass_by_value, reason = "extracted arguments")]
    fn new(
        py: Python<'_>,
        identity: &Bound<'_, Endpoint>,
        members: Vec<MemberRow<'_>>,
        balance: &str,
        key: String,
        health: HealthSettings,
        check: Option<CheckSettings>,
        retries: RetrySettings,
    ) -> PyResult<Self> {
        let policy = UpstreamPolicy {
            balance: match balance {
                "hash" => Balance::Hash(match key.strip_prefix("field:") {
                    Some(name) => HashKey::Field(name.to_owned()),
                    None if key == "target" => HashKey::Target,
                    None => HashKey::Path,
                }),
                "least-loaded" => Balance::LeastLoaded,
                _ => Balance::RoundRobin,
            },
            health: health.into(),
            check: check.map(CheckPolicy::from),
            retries: retries.into(),
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

    /// What requests are sent to in place of an origin.
    #[getter]
    fn endpoint(&self, py: Python<'_>) -> Py<Endpoint> {
        self.endpoint.clone_ref(py)
    }

    #[expect(clippy::needless_pass_by_value, reason = "an extracted argument")]
    fn set(&self, members: Vec<MemberRow<'_>>) {
        self.upstream.set(members.iter().map(member).collect());
    }

    /// `penstock.origins.OriginsStats`. `urls` are those of the origins, in their order.
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

fn member((endpoint, weight, backup, max_requests): &MemberRow<'_>) -> Member {
    let endpoint = endpoint.get();
    Member {
        endpoint: endpoint.endpoint.clone(),
        authority: endpoint.authority.clone(),
        weight: *weight,
        backup: *backup,
        max_requests: *max_requests,
    }
}

#[derive(FromPyObject)]
struct HealthSettings {
    failures: Option<u32>,
    failure_percent: Option<u32>,
    least_requests: u32,
    window: f64,
    statuses: Vec<u16>,
    eject: f64,
    max_eject: f64,
    slow_start: f64,
    panic_percent: u32,
}

impl From<HealthSettings> for HealthPolicy {
    fn from(settings: HealthSettings) -> Self {
        Self {
            failures: settings.failures,
            failure_percent: settings.failure_percent,
            least_requests: settings.least_requests,
            window: Duration::from_secs_f64(settings.window),
            statuses: settings.statuses,
            eject: Duration::from_secs_f64(settings.eject),
            max_eject: Duration::from_secs_f64(settings.max_eject),
            slow_start: Duration::from_secs_f64(settings.slow_start),
            panic_percent: settings.panic_percent,
        }
    }
}

#[derive(FromPyObject)]
struct CheckSettings {
    path: String,
    interval: f64,
    timeout: f64,
    statuses: Vec<u16>,
    fall: u32,
    rise: u32,
}

impl From<CheckSettings> for CheckPolicy {
    fn from(settings: CheckSettings) -> Self {
        Self {
            path: settings.path,
            interval: Duration::from_secs_f64(settings.interval),
            timeout: Duration::from_secs_f64(settings.timeout),
            statuses: settings.statuses,
            fall: settings.fall,
            rise: settings.rise,
        }
    }
}

/// Seconds, or "p95" and the like.
#[derive(FromPyObject)]
enum HedgeSetting {
    Seconds(f64),
    Percentile(String),
}

impl From<HedgeSetting> for Hedge {
    fn from(setting: HedgeSetting) -> Self {
        match setting {
            HedgeSetting::Seconds(seconds) => Self::After(Duration::from_secs_f64(seconds)),
            // Validated in Python.
            HedgeSetting::Percentile(text) => Self::Percentile(text[1..].parse().unwrap_or(100)),
        }
    }
}

#[derive(FromPyObject)]
struct RetrySettings {
    tries: usize,
    statuses: Vec<u16>,
    try_timeout: Option<f64>,
    hedge: Option<HedgeSetting>,
    resume: bool,
    budget_percent: u32,
    budget_per_second: u32,
}

impl From<RetrySettings> for RetryPolicy {
    fn from(settings: RetrySettings) -> Self {
        Self {
            tries: settings.tries,
            statuses: settings.statuses,
            try_timeout: settings.try_timeout.map(Duration::from_secs_f64),
            hedge: settings.hedge.map(Hedge::from),
            resume: settings.resume,
            budget_percent: settings.budget_percent,
            budget_per_second: settings.budget_per_second,
        }
    }
}
