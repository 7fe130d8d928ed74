//! `Decisions` and `Gate`: how the engine asks Python to decide about requests, and how Python
//! revokes decisions; and how decisions move from one process to the next.
//!
//! Questions wait in the engine. The first of a burst wakes the slot of the listener, and the loop's callback hands each to
//! Python as a [`Question`]. One that Python drops has failed, so that no request waits for it.

use std::fs::File;
use std::io::{BufReader, BufWriter, Seek};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use penstock_engine::access::{
    self, AccessConfig, Allotment, Asked, Begun, Decider, DecisionStats, Denial, Entered, Grant, Part, Posed,
    Refusal, Request, Secret, TenantCounts, TenantLimits, Verdict, Whose,
};
use penstock_engine::takeover::decisions::{self, Content, DecisionCounts};
use penstock_engine::wire::Fields;
use penstock_engine::{Code, Error, duplicate};
use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::engine::Engine;
use crate::errors::{IntoPython, exception, os_error};
use crate::lock;
use crate::port::{Receive, Slot};
use crate::record::record;
use crate::settings::Settings;

/// The decisions, and the hook that is asked.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Decisions {
    shared: Arc<access::Decisions>,
    listening: Mutex<Option<Listening>>,
}

/// The hook, and the slot of its loop.
struct Listening {
    _slot: Slot,
    listener: Arc<Listener>,
}

struct Listener {
    decisions: Arc<access::Decisions>,
    /// The hook: called with each question.
    pose: Py<PyAny>,
}

impl Receive for Listener {
    fn receive(&self, py: Python<'_>) {
        while let Some(posed) = access::Decisions::take(&self.decisions) {
            let question = Question(Mutex::new(Some(posed)));
            if let Err(error) = self.pose.bind(py).call1((question,)) {
                error.write_unraisable(py, Some(self.pose.bind(py)));
            }
        }
    }
}

#[pymethods]
impl Decisions {
    #[new]
    fn new(settings: Settings<AccessConfig>) -> Self {
        let shared = Arc::new(access::Decisions::new(&settings.into()));
        Self { shared, listening: Mutex::new(None) }
    }

    /// Adds the counts to the metrics of `engine`.
    fn add_to(&self, engine: &Bound<'_, Engine>) {
        engine.get().board().add_decisions(&self.shared);
    }

    /// Calls `pose` with each question from now on, on the running loop, in place of an earlier hook.
    fn listen(&self, py: Python<'_>, engine: &Bound<'_, Engine>, pose: Py<PyAny>) -> PyResult<()> {
        let listener = Arc::new(Listener { decisions: Arc::clone(&self.shared), pose });
        let slot = Slot::receiving(engine.get().port(py)?, Arc::clone(&listener) as Arc<dyn Receive>);
        self.shared.listen(slot.waker());
        let previous = lock(&self.listening).replace(Listening { _slot: slot, listener });
        drop(previous);
        Ok(())
    }

    /// Revokes the decisions about `tenant`, or all. Returns how many decisions that were, and how many responses were cut.
    #[pyo3(signature = (tenant, cut))]
    fn revoke(&self, tenant: Option<&str>, cut: bool) -> (usize, usize) {
        self.shared.revoke(tenant.map_or(Whose::All, Whose::Tenant), cut)
    }

    /// `penstock.stats.TenantStats` of each tenant, by name.
    fn tenants<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let tenants = PyDict::new(py);
        for (name, TenantCounts { active, requests, refused, bytes }) in self.shared.tenants() {
            let stats = record!(py, "penstock.stats", TenantStats { active, requests, refused, bytes })?;
            tenants.set_item(name.as_ref(), stats)?;
        }
        Ok(tenants)
    }

    /// Resets the total of a tenant. False if there is no such tenant.
    fn renew(&self, tenant: &str) -> bool {
        self.shared.renew(tenant)
    }

    /// Writes `content` to a file, up to `most` bytes: `all`, `totals` of tenants, or their `growth` since the last call. Returns
    /// how many decisions and tenants are in it.
    fn write_records(
        &self,
        py: Python<'_>,
        descriptor: i32,
        content: &str,
        most: usize,
    ) -> PyResult<(usize, usize)> {
        let content = match content {
            "all" => Content::All,
            "totals" => Content::Totals,
            "growth" => Content::Growth,
            _ => {
                return Err(exception(
                    py,
                    &Code::BadConfiguration.error(format!("{content:?} is no content")),
                ));
            }
        };
        let written = py.detach(|| {
            let mut file = BufWriter::new(File::from(duplicate(descriptor)?));
            decisions::write(&self.shared, &mut file, content, most)
        });
        written.map(counted).map_err(os_error)
    }

    /// Takes the records in a file, from its beginning; decisions with `has_decisions`. Returns how many decisions and tenants
    /// were taken.
    fn take_records(&self, py: Python<'_>, descriptor: i32, has_decisions: bool) -> PyResult<(usize, usize)> {
        let taken = py.detach(|| {
            let mut file = File::from(duplicate(descriptor)?);
            file.rewind()?;
            decisions::take(&self.shared, &mut BufReader::new(file), has_decisions)
        });
        taken.map(counted).map_err(os_error)
    }

    /// `penstock.stats.DecisionStats`.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let DecisionStats { allowed, denied, open, running, counted } = self.shared.stats();
        record!(
            py,
            "penstock.stats",
            DecisionStats {
                allowed,
                denied,
                open,
                running,
                hits: counted.allowed,
                denied_hits: counted.denied,
                asked: counted.asked,
                joined: counted.joined,
                failed: counted.failed,
                evicted: counted.evicted,
                revoked: counted.revoked,
            }
        )
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let Ok(listening) = self.listening.try_lock() {
            if let Some(listening) = &*listening {
                visit.call(&listening.listener.pose)?;
            }
        }
        Ok(())
    }
}

fn counted(counts: DecisionCounts) -> (usize, usize) {
    (counts.decisions, counts.tenants)
}

impl Drop for Decisions {
    fn drop(&mut self) {
        self.shared.close();
    }
}

/// Decides by a token of the request.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Verifier {
    pub(crate) shared: Arc<dyn access::Verifier>,
    /// Keeps its keys up to date, as long as this exists.
    pub(crate) keeper: Option<Py<PyAny>>,
}

#[pymethods]
impl Verifier {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.keeper)
    }

    /// The fields of a client without the token, for the origin.
    fn forwarded<'py>(
        &self,
        py: Python<'py>,
        headers: Vec<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>,
    ) -> Vec<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let left = |(name, value): (Bound<'py, PyBytes>, Bound<'py, PyBytes>)| {
            let left = self.shared.forwarded(name.as_bytes(), value.as_bytes())?;
            let left = PyBytes::new(py, &left);
            Some((name, left))
        };
        headers.into_iter().filter_map(left).collect()
    }
}

/// The gate of a route.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Gate {
    shared: Arc<access::Gate>,
    /// Keeps the hook listening.
    decisions: Py<Decisions>,
    verifier: Option<Py<Verifier>>,
}

impl Gate {
    pub(crate) fn shared(&self) -> Arc<access::Gate> {
        Arc::clone(&self.shared)
    }
}

/// `("header" | "cookie" | "query" | "path" | "address" | "host" | "method", name or number)`, validated in Python.
type PartRow = (String, String);

fn part(py: Python<'_>, (kind, what): PartRow) -> PyResult<Part> {
    Ok(match kind.as_str() {
        "header" => Part::Header(what),
        "cookie" => Part::Cookie(what),
        "query" => Part::Query(what),
        "path" => Part::Path(what.parse()?),
        "address" => Part::Address,
        "host" => Part::Host,
        "method" => Part::Method,
        _ => {
            let detail = format!("{kind:?} is no part of a request");
            return Err(exception(py, &Code::BadConfiguration.error(detail)));
        }
    })
}

#[pymethods]
impl Gate {
    /// The gate of the route called `name`, whose keys `scope` makes its own. Without a `verifier` the hook is asked, and
    /// `parts` make the key of its answer. `lifetime`: seconds for which a verified token is cached.
    #[new]
    #[pyo3(signature = (decisions, name, scope, parts, verifier, lifetime))]
    fn new(
        py: Python<'_>,
        decisions: &Bound<'_, Decisions>,
        name: &str,
        scope: String,
        parts: Vec<PartRow>,
        verifier: Option<&Bound<'_, Verifier>>,
        lifetime: f64,
    ) -> PyResult<Self> {
        let of = decisions.get();
        let decider =
            verifier.map_or(Decider::Ask, |verifier| Decider::Verify(Arc::clone(&verifier.get().shared)));
        let parts = parts.into_iter().map(|row| part(py, row)).collect::<PyResult<_>>()?;
        let lifetime = Duration::from_secs_f64(lifetime);
        let shared = Arc::clone(&of.shared);
        // Not before: decisions are made as soon as a configuration is read, and the process before is heard after that.
        let secret = Secret::new(&access::own_secret().into_python(py)?);
        let gate = access::Gate::new(name, scope, parts, decider, lifetime, shared, secret);
        let verifier = verifier.map(|verifier| verifier.clone().unbind());
        Ok(Self { shared: Arc::new(gate), decisions: decisions.clone().unbind(), verifier })
    }

    /// Revokes the decision about requests with these values for the parts of the key.
    #[expect(clippy::needless_pass_by_value, reason = "an extracted argument")]
    fn revoke(&self, values: Vec<Option<Vec<u8>>>, cut: bool) -> (usize, usize) {
        self.shared.revoke(&values, cut)
    }

    /// Asks for a request on a transport of the event loop's own. Returns a [`Permit`], a [`Refused`], a
    /// [`Waiting`]; or `None`: the decision was revoked meanwhile, and the caller asks again.
    #[pyo3(signature = (engine, method, target, prefix, authority, remote, headers))]
    #[expect(clippy::too_many_arguments, reason = "the parts of a request, each once")]
    #[expect(clippy::needless_pass_by_value, reason = "an extracted argument")]
    fn enter<'py>(
        slf: &Bound<'py, Self>,
        engine: &Bound<'py, Engine>,
        method: String,
        target: String,
        prefix: String,
        authority: String,
        remote: Option<String>,
        headers: Vec<(Vec<u8>, Vec<u8>)>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let mut fields = Fields::default();
        for (name, value) in &headers {
            fields.push(name, value);
        }
        let entering = Entering { method, target, prefix, authority, remote, headers: fields };
        let gate = &slf.get().shared;
        let begun = entering.with(|asked| gate.begin(asked));
        match begun {
            Err(refusal) => Ok(Refused::new(py, &refusal).into_pyobject(py)?.into_any()),
            Ok(Begun::Pass(pass)) => match gate.hold(&pass) {
                Some(permit) => Permit::found(py, engine, permit, pass.target),
                // It was revoked meanwhile.
                None => Ok(py.None().into_bound(py)),
            },
            Ok(Begun::Waiting(waiting)) => {
                let slot = Slot::new(engine.get().port(py)?);
                let waiting = Mutex::new(Some((waiting, slot)));
                let (gate, engine) = (slf.clone().unbind(), engine.clone().unbind());
                Ok(Waiting { gate, engine, entering, seat: waiting }.into_pyobject(py)?.into_any())
            }
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.decisions)?;
        visit.call(&self.verifier)
    }
}

/// A request on a transport of the event loop's own.
struct Entering {
    method: String,
    target: String,
    prefix: String,
    authority: String,
    remote: Option<String>,
    headers: Fields,
}

impl Entering {
    fn with<T>(&self, work: impl FnOnce(&Asked<'_>) -> T) -> T {
        work(&Asked {
            method: &self.method,
            target: &self.target,
            prefix: &self.prefix,
            authority: &self.authority,
            remote: self.remote.as_deref(),
            headers: &self.headers,
        })
    }
}

/// A request that waits for the answer to a question.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Waiting {
    gate: Py<Gate>,
    engine: Py<Engine>,
    entering: Entering,
    seat: Mutex<Option<(access::Waiting, Slot)>>,
}

#[pymethods]
impl Waiting {
    /// A future that is done when there is an answer, and the seconds until it is too late.
    fn wait<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, f64)> {
        let mut seat = lock(&self.seat);
        let Some((waiting, slot)) = &mut *seat else {
            return Err(exception(py, &Code::Internal.error("the wait has ended")));
        };
        let future = slot.park(py)?;
        let mut context = Context::from_waker(slot.waker());
        if Pin::new(&mut *waiting).poll(&mut context).is_ready() {
            slot.waker().wake_by_ref();
        }
        let left = waiting.until().saturating_duration_since(Instant::now());
        Ok((future, left.as_secs_f64()))
    }

    /// The result, as of `Gate.enter`. A request that has waited for too long is refused.
    fn result<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let Some((mut waiting, slot)) = lock(&self.seat).take() else {
            return Ok(py.None().into_bound(py));
        };
        let gate = &self.gate.get().shared;
        let mut context = Context::from_waker(slot.waker());
        let mut outcome = Pin::new(&mut waiting).poll(&mut context);
        if outcome.is_pending() {
            gate.decisions().expire(&waiting);
            outcome = Pin::new(&mut waiting).poll(&mut context);
        }
        let Poll::Ready(outcome) = outcome else { return Ok(py.None().into_bound(py)) };
        match self.entering.with(|asked| gate.end(outcome, asked)) {
            Err(refusal) => Ok(Refused::new(py, &refusal).into_pyobject(py)?.into_any()),
            // A hook has no token to remove from the target.
            Ok(pass) => match pass.and_then(|pass| gate.hold(&pass)) {
                Some(permit) => Permit::found(py, self.engine.bind(py), permit, None),
                None => Ok(py.None().into_bound(py)),
            },
        }
    }
}

/// A request that was let in, until `leave` is called.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Permit {
    held: Mutex<Option<Held>>,
    /// Path and query without a token; `None`: as the client sent them.
    target: Option<String>,
}

/// Released when the response is over.
struct Held {
    permit: access::Permit,
    slot: Slot,
    _entered: Option<Entered>,
}

impl Permit {
    fn found<'py>(
        py: Python<'py>,
        engine: &Bound<'py, Engine>,
        permit: access::Permit,
        target: Option<String>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let allotment = permit.decision().allotment.as_ref();
        let entered = match allotment.map(Allotment::enter).transpose() {
            Ok(entered) => entered,
            Err(error) => return Ok(Refused::new(py, &error.into()).into_pyobject(py)?.into_any()),
        };
        let slot = Slot::new(engine.get().port(py)?);
        let held = Held { permit, slot, _entered: entered };
        Ok(Self { held: Mutex::new(Some(held)), target }.into_pyobject(py)?.into_any())
    }
}

#[pymethods]
impl Permit {
    /// Path and query without a token; `None`: as the client sent them.
    #[getter]
    fn target(&self) -> Option<&str> {
        self.target.as_deref()
    }

    /// The tenant of the request.
    #[getter]
    fn tenant(&self) -> Option<String> {
        lock(&self.held).as_ref()?.permit.decision().tenant().map(str::to_owned)
    }

    /// Seconds until the decision expires.
    #[getter]
    fn left(&self) -> f64 {
        let until = lock(&self.held).as_ref().map(|held| held.permit.decision().until);
        until.map_or(0.0, |until| until.saturating_duration_since(Instant::now()).as_secs_f64())
    }

    /// A future that is done when the response is to be cut because the decision was revoked.
    fn cut<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let held = lock(&self.held);
        let Some(Held { permit, slot, .. }) = &*held else {
            return Err(exception(py, &Code::Internal.error("the permit was given back")));
        };
        let future = slot.park(py)?;
        if permit.poll_cut(&Context::from_waker(slot.waker())).is_ready() {
            slot.waker().wake_by_ref();
        }
        Ok(future)
    }

    /// Counts bytes for the tenant. Returns the seconds to wait before more is sent.
    fn sent(&self, py: Python<'_>, count: usize) -> PyResult<f64> {
        let held = lock(&self.held);
        let allotment = held.as_ref().and_then(|held| held.permit.decision().allotment.as_ref());
        let Some(allotment) = allotment else { return Ok(0.0) };
        allotment.check_total().into_python(py)?;
        allotment.tenant.count(count as u64);
        let now = Instant::now();
        let until = allotment.pace(count, now);
        Ok(until.map_or(0.0, |until| until.duration_since(now).as_secs_f64()))
    }

    /// The response is over. Idempotent.
    fn leave(&self) {
        let held = lock(&self.held).take();
        drop(held);
    }
}

/// A request that was not let in.
#[pyclass(frozen, get_all, module = "penstock._native")]
pub(crate) struct Refused {
    /// The exception to raise or log.
    error: Py<PyAny>,
    /// The HTTP status.
    status: u16,
    /// The detail for the client, if the decision has one.
    detail: Option<String>,
    /// The value of `WWW-Authenticate`.
    challenge: Option<String>,
}

impl Refused {
    fn new(py: Python<'_>, refusal: &Refusal) -> Self {
        let denial = refusal.denial();
        Self {
            error: exception(py, &refusal.error).into_value(py).into_any(),
            status: denial.map_or(refusal.error.code().status(), |denial| denial.status),
            detail: denial.and_then(|denial| denial.detail.as_deref()).map(str::to_owned),
            challenge: denial.and_then(|denial| denial.challenge.as_deref()).map(str::to_owned),
        }
    }
}

type Field = (Py<PyBytes>, Py<PyBytes>);

/// The request of a question.
#[pyclass(frozen, get_all, module = "penstock._native")]
pub(crate) struct AskedRequest {
    /// The name of the route.
    route: String,
    method: String,
    /// Path and query, as the client sent them.
    target: String,
    /// The requested host, and its port.
    authority: String,
    /// The client's address; `None` on a Unix socket.
    remote: Option<String>,
    headers: Vec<Field>,
    /// The first value of each part of the key.
    key: Vec<Option<Py<PyBytes>>>,
}

/// A question. If it is dropped, it has failed.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Question(Mutex<Option<Posed>>);

#[pymethods]
impl Question {
    /// The request; `None` after the answer.
    fn request(&self, py: Python<'_>) -> Option<AskedRequest> {
        let posed = lock(&self.0);
        let Request { route, method, target, authority, remote, headers, key } = &posed.as_ref()?.request;
        let bytes = |bytes: &[u8]| PyBytes::new(py, bytes).unbind();
        Some(AskedRequest {
            route: route.clone(),
            method: method.clone(),
            target: target.clone(),
            authority: authority.clone(),
            remote: remote.clone(),
            headers: headers.iter().map(|(name, value)| (bytes(name), bytes(value))).collect(),
            key: key.iter().map(|value| value.as_deref().map(bytes)).collect(),
        })
    }

    #[pyo3(signature = (lifetime, tenant, limits))]
    fn allow(&self, lifetime: f64, tenant: Option<String>, limits: Option<Settings<TenantLimits>>) {
        let (tenant, limits) = (tenant.map(String::into_boxed_str), limits.map(Into::into));
        let grant = Grant { tenant, limits, ..Grant::default() };
        self.answer(Verdict::Allow(grant), lifetime);
    }

    #[pyo3(signature = (lifetime, status, detail, challenge))]
    fn deny(&self, lifetime: f64, status: u16, detail: Option<String>, challenge: Option<String>) {
        let denial = Denial {
            status,
            detail: detail.map(String::into_boxed_str),
            challenge: challenge.map(String::into_boxed_str),
        };
        self.answer(Verdict::Deny(denial), lifetime);
    }

    /// Ends it without an answer. `late`: the hook has taken too long; else it has failed.
    fn fail(&self, late: bool) {
        let posed = lock(&self.0).take();
        if let Some(posed) = posed {
            posed.fail(failure(late));
        }
    }
}

impl Question {
    fn answer(&self, verdict: Verdict, lifetime: f64) {
        let posed = lock(&self.0).take();
        if let Some(posed) = posed {
            posed.answer(verdict, Duration::from_secs_f64(lifetime));
        }
    }
}

fn failure(late: bool) -> Error {
    if late {
        return Code::AccessTimeout.error("the hook that authorises requests has taken too long");
    }
    Code::AccessFailed.error("the hook that authorises requests has failed")
}
