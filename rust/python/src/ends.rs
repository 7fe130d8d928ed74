//! Reports to Python: the ends of requests on native routes, the ends of relays of lost workers, and inspected responses.

use std::time::Duration;

use penstock_engine::app::Ended;
use penstock_engine::inspect::{self, Content, Hidden};
use penstock_engine::workers::Orphan;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::exception;
use crate::stream::timings;

/// The end of a request on a native route.
#[pyclass(frozen, get_all, module = "penstock._native")]
pub(crate) struct RequestEnd {
    method: String,
    /// Path and query, as the client sent them.
    target: String,
    /// The client's address; `None` on a Unix socket.
    client: Option<String>,
    /// The status that the client was sent; `None` without a response.
    status: Option<u16>,
    /// Bytes of the body that the client was sent.
    bytes: u64,
    /// `penstock.stats.Timings`; `None` if no origin was asked.
    timings: Option<Py<PyAny>>,
    /// Why the response is incomplete.
    error: Option<Py<PyAny>>,
    /// The inspection, if the response was inspected.
    report: Option<Py<Report>>,
    tenant: Option<String>,
}

impl RequestEnd {
    pub(crate) fn new(py: Python<'_>, ended: Ended) -> PyResult<Self> {
        let Ended { method, target, client, status, bytes, tenant, stages, error, report, .. } = ended;
        let timings = stages
            .map(|stages| timings(py, &stages.timings, Some(stages.body), stages.reused))
            .transpose()?
            .map(Bound::unbind);
        let error = error.as_ref().map(|error| exception(py, error).into_value(py).into_any());
        let report = report.map(|report| Py::new(py, Report::new(py, &report))).transpose()?;
        Ok(Self { method, target, client, status, bytes, timings, error, report, tenant })
    }
}

/// The end of a relay whose worker process has ended before it.
#[pyclass(frozen, get_all, module = "penstock._native")]
pub(crate) struct OrphanEnd {
    /// What the worker has left for its `on_complete`.
    account: Py<PyBytes>,
    /// Bytes of the body that the client was sent.
    bytes: u64,
    error: Option<Py<PyAny>>,
    /// Whether any of the head was sent.
    begun: bool,
    /// `penstock.stats.Timings`; `None` without a head.
    timings: Option<Py<PyAny>>,
    /// The inspection, if the response was inspected.
    report: Option<Py<Report>>,
}

impl OrphanEnd {
    pub(crate) fn new(py: Python<'_>, orphan: Orphan) -> PyResult<Self> {
        let Orphan { account, outcome, timings: stages, report } = orphan;
        let stages = stages.map(|(stages, body, reused)| timings(py, &stages, body, reused));
        Ok(Self {
            account: PyBytes::new(py, &account).unbind(),
            bytes: outcome.bytes,
            error: outcome.failure.as_ref().map(|error| exception(py, error).into_value(py).into_any()),
            begun: outcome.begun,
            timings: stages.transpose()?.map(Bound::unbind),
            report: report.map(|report| Py::new(py, Report::new(py, &report))).transpose()?,
        })
    }
}

/// The inspection of one response; `penstock.web.Inspected` has the same fields. Times are in seconds.
#[pyclass(frozen, get_all, module = "penstock._native")]
pub(crate) struct Report {
    /// "events", "json" or "other".
    content: &'static str,
    /// Whether the request was amended.
    amended: bool,
    /// Events that a browser would dispatch.
    events: u64,
    /// Bytes of the body.
    bytes: u64,
    /// To the first token.
    first_token: Option<f64>,
    /// The longest between two tokens.
    longest_gap: Option<f64>,
    /// To the end.
    total: f64,
    /// The usage as the origin has written it: an object of JSON.
    usage: Option<Py<PyBytes>>,
    /// Why a usage may not have been seen: `"encoded"` or `"too_large"`.
    hidden: Option<&'static str>,
}

impl Report {
    pub(crate) fn new(py: Python<'_>, report: &inspect::Report) -> Self {
        let seconds = |duration: Option<Duration>| duration.map(|duration| duration.as_secs_f64());
        Self {
            content: match report.content {
                Content::Events => "events",
                Content::Json => "json",
                Content::Other => "other",
            },
            amended: report.amended,
            events: report.events,
            bytes: report.bytes,
            first_token: seconds(report.first),
            longest_gap: seconds(report.longest_gap),
            total: report.total.as_secs_f64(),
            usage: report.usage.as_ref().map(|usage| PyBytes::new(py, usage).unbind()),
            hidden: report.hidden.map(|hidden| match hidden {
                Hidden::Encoded => "encoded",
                Hidden::TooLarge => "too_large",
            }),
        }
    }
}
