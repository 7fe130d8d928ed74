//! Inspection: its rules, the inspection of one response, and the counts of a route.

use std::sync::{Arc, Mutex, OnceLock};
use std::task::Waker;
use std::time::{Duration, Instant};

use penstock_engine::app;
use penstock_engine::counters::{BOUNDS, Histogram};
use penstock_engine::events::{Ended, begin_inspection};
use penstock_engine::inspect::{self, Amendment, Names, Path, Rules, Sums, Wanted};
use penstock_engine::metrics::Board;
use penstock_engine::{Code, Error};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::ends::Report;
use crate::engine::Engine;
use crate::errors::exception;
use crate::lock;
use crate::port::{LoopPort, Slot};
use crate::record::record;
use crate::stream::FrameStream;
use crate::transport::Transport;

/// `penstock.config.Inspection`, validated there.
#[derive(FromPyObject)]
struct InspectionSettings {
    usage: Vec<String>,
    usage_start: Vec<String>,
    tokens: Vec<String>,
    amend: Option<String>,
    insist: bool,
    max_request: u64,
    max_response: usize,
}

/// The rules of an inspection.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Inspection(Arc<Rules>);

#[pymethods]
impl Inspection {
    #[new]
    fn new(py: Python<'_>, settings: InspectionSettings) -> PyResult<Self> {
        let path = |path: &String, is_final| {
            let names = path.split('.').map(str::to_owned).collect();
            Path { names, is_final }
        };
        let starts = settings.usage_start.iter().map(|start| path(start, false));
        let paths = starts.chain(settings.usage.iter().map(|usage| path(usage, true))).collect();
        let amendment = settings
            .amend
            .map(|text| {
                Amendment::new(text.into_bytes(), settings.insist).ok_or_else(|| {
                    exception(
                        py,
                        &penstock_engine::Code::BadConfiguration.error("amend is no object of JSON"),
                    )
                })
            })
            .transpose()?;
        Ok(Self(Arc::new(Rules {
            wanted: Wanted::new(paths),
            tokens: Names::new(settings.tokens),
            amendment,
            max_request: settings.max_request,
            max_response: settings.max_response,
        })))
    }

    /// Whether a request with these fields may be amended.
    #[pyo3(signature = (content_type, content_encoding))]
    fn amends(&self, content_type: Option<&str>, content_encoding: Option<&str>) -> bool {
        self.0.amends(content_type.map(str::as_bytes), content_encoding.map(str::as_bytes))
    }

    /// The amended body of a request; `None` if there is nothing to amend.
    fn amend<'py>(&self, py: Python<'py>, body: &Bound<'py, PyBytes>) -> Option<Bound<'py, PyBytes>> {
        let amended = self.0.amendment.as_ref()?.apply(body.as_bytes())?;
        Some(PyBytes::new(py, &amended))
    }
}

/// `penstock.stats.Histogram`, whose bounds are the same in all processes.
#[derive(FromPyObject)]
struct HistogramSums {
    counts: Vec<u64>,
    sum: f64,
}

impl HistogramSums {
    fn read(self, py: Python<'_>) -> PyResult<Histogram> {
        let (counts, sum) = (self.counts.try_into(), Duration::try_from_secs_f64(self.sum));
        let (Ok(counts), Ok(sum)) = (counts, sum) else {
            let error = Code::BadConfiguration.error("counts of another process have other buckets");
            return Err(exception(py, &error));
        };
        Ok(Histogram { counts, sum })
    }
}

/// `penstock.stats.InspectionStats`.
#[derive(FromPyObject)]
struct InspectionSums {
    streams: u64,
    responses: u64,
    hidden: u64,
    with_usage: u64,
    events: u64,
    bytes: u64,
    first_token: HistogramSums,
    token_gaps: HistogramSums,
    totals: HistogramSums,
}

fn histogram<'py>(
    py: Python<'py>,
    bounds: &Bound<'py, PyTuple>,
    histogram: &Histogram,
) -> PyResult<Bound<'py, PyAny>> {
    let counts = PyTuple::new(py, histogram.counts)?;
    record!(py, "penstock.stats", Histogram { bounds, counts, sum: histogram.sum.as_secs_f64() })
}

/// The counts of the inspected responses of a route.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Counts {
    name: String,
    sums: Arc<inspect::Counts>,
    /// Set after they were added to the metrics of an engine.
    known: OnceLock<()>,
}

#[pymethods]
impl Counts {
    /// For the route of that name.
    #[new]
    fn new(name: String) -> Self {
        Self { name, sums: Arc::default(), known: OnceLock::new() }
    }

    /// Adds the counts to the metrics of `engine`.
    fn add_to(&self, engine: &Bound<'_, Engine>) {
        self.add_to_board(engine.get().board());
    }

    /// Adds the counts of another process.
    fn add(&self, py: Python<'_>, stats: InspectionSums) -> PyResult<()> {
        let InspectionSums { streams, responses, hidden, with_usage, events, bytes, .. } = stats;
        let first = stats.first_token.read(py)?;
        let gaps = stats.token_gaps.read(py)?;
        let totals = stats.totals.read(py)?;
        self.sums.add(&Sums { streams, responses, hidden, with_usage, events, bytes, first, gaps, totals });
        Ok(())
    }

    /// `penstock.stats.InspectionStats`.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let Sums { streams, responses, hidden, with_usage, events, bytes, first, gaps, totals } =
            self.sums.sums();
        let bounds = PyTuple::new(py, BOUNDS.iter().map(Duration::as_secs_f64))?;
        record!(
            py,
            "penstock.stats",
            InspectionStats {
                streams,
                responses,
                hidden,
                with_usage,
                events,
                bytes,
                first_token: histogram(py, &bounds, &first)?,
                token_gaps: histogram(py, &bounds, &gaps)?,
                totals: histogram(py, &bounds, &totals)?,
            }
        )
    }
}

impl Counts {
    /// Only the first call has an effect, so that one engine alone has them.
    pub(crate) fn add_to_board(&self, board: &Board) {
        self.known.get_or_init(|| board.add_inspected(&self.name, &self.sums));
    }
}

/// The rules and the counts of a native route.
pub(crate) type Inspected<'py> = (Bound<'py, Inspection>, Bound<'py, Counts>);

pub(crate) fn parts((inspection, counts): &Inspected<'_>) -> (Arc<Rules>, Arc<inspect::Counts>) {
    (Arc::clone(&inspection.get().0), Arc::clone(&counts.get().sums))
}

/// The inspection of one response.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Inspector {
    pub(crate) response: inspect::Inspector,
    port: Py<LoopPort>,
    /// Woken at the end of the response.
    over: Mutex<Option<Slot>>,
}

#[pymethods]
impl Inspector {
    /// For the response to a request that is sent now. `amended`: the request was amended. `near`: the transport of its
    /// client, if that is the engine's.
    #[new]
    #[pyo3(signature = (engine, inspection, counts, amended, near))]
    fn new(
        py: Python<'_>,
        engine: &Bound<'_, Engine>,
        inspection: &Bound<'_, Inspection>,
        counts: &Bound<'_, Counts>,
        amended: bool,
        near: Option<&Bound<'_, Transport>>,
    ) -> PyResult<Self> {
        let engine = engine.get();
        counts.get().add_to_board(engine.board());
        let (rules, counts) = (Arc::clone(&inspection.get().0), Arc::clone(&counts.get().sums));
        let thread = near.map_or(0, |transport| transport.get().engine_thread());
        let response = inspect::Inspector::new(rules, counts, engine.pool(), thread, amended, Instant::now());
        Ok(Self { response, port: engine.port(py)?, over: Mutex::new(None) })
    }

    /// Takes the head of `stream`. Returns whether the body must be cut into events.
    pub(crate) fn begin(&self, stream: &Bound<'_, FrameStream>) -> bool {
        stream.get().head().is_some_and(|head| begin_inspection(&self.response, &head.head))
    }

    /// A future that is done when the response is over.
    fn over<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        over(py, &self.port, &self.over, |waker| self.response.is_over(waker))
    }

    /// Ends the inspection, and returns its report.
    fn report(&self, py: Python<'_>) -> Report {
        Report::new(py, &self.response.end(Instant::now()))
    }
}

/// The inspection of one response in a worker process, whose parent fetches and inspects it.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Expected {
    report: Mutex<app::Expected>,
    /// Until the request is sent.
    inspection: Mutex<Option<app::Inspection>>,
    port: Py<LoopPort>,
    /// Where the end wakes who waits for it.
    over: Mutex<Option<Slot>>,
}

#[pymethods]
impl Expected {
    /// `amended`: the request was amended.
    #[new]
    #[pyo3(signature = (engine, amended))]
    fn new(py: Python<'_>, engine: &Bound<'_, Engine>, amended: bool) -> PyResult<Self> {
        let (inspection, expected) = app::Inspection::new(amended);
        Ok(Self {
            report: Mutex::new(expected),
            inspection: Mutex::new(Some(inspection)),
            port: engine.get().port(py)?,
            over: Mutex::new(None),
        })
    }

    /// Whether the response is over.
    fn is_over(&self) -> bool {
        lock(&self.report).is_over()
    }

    /// A future that is done when the response is over.
    fn over<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        // The response to a request that was never sent is over.
        drop(self.begin());
        over(py, &self.port, &self.over, |waker| lock(&self.report).wait_over(waker))
    }

    /// The report; `None` before the end, or if the parent has sent none.
    fn report(&self, py: Python<'_>) -> Option<Report> {
        lock(&self.report).report().map(|report| Report::new(py, report))
    }
}

impl Expected {
    /// The inspection to send with the request.
    pub(crate) fn begin(&self) -> Option<app::Inspection> {
        lock(&self.inspection).take()
    }
}

/// A future that is done when `is_over` returns true, or wakes the slot that this puts into
/// `place`.
fn over<'py>(
    py: Python<'py>,
    port: &Py<LoopPort>,
    place: &Mutex<Option<Slot>>,
    is_over: impl FnOnce(&Waker) -> bool,
) -> PyResult<Bound<'py, PyAny>> {
    let slot = Slot::new(port.clone_ref(py));
    let future = slot.park(py)?;
    if is_over(slot.waker()) {
        slot.waker().wake_by_ref();
    }
    let previous = lock(place).replace(slot);
    drop(previous);
    Ok(future)
}

/// The end of a stream that is read without a client.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Watched {
    end: Arc<Mutex<End>>,
    port: Py<LoopPort>,
    /// Where the end wakes who waits for it.
    over: Mutex<Option<Slot>>,
}

#[derive(Default)]
struct End {
    /// The bytes that were read, and the error that ended them early.
    outcome: Option<(u64, Option<Error>)>,
    waker: Option<Waker>,
}

impl Watched {
    /// Also returns the callback for the end.
    pub(crate) fn new(port: Py<LoopPort>) -> (Self, Ended) {
        let end = Arc::<Mutex<End>>::default();
        let told = Arc::clone(&end);
        let ended = Box::new(move |bytes, error| {
            let waker = {
                let mut end = lock(&told);
                end.outcome = Some((bytes, error));
                end.waker.take()
            };
            if let Some(waker) = waker {
                waker.wake();
            }
        });
        (Self { end, port, over: Mutex::new(None) }, ended)
    }
}

#[pymethods]
impl Watched {
    /// A future that is done when the stream has ended.
    fn over<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        over(py, &self.port, &self.over, |waker| {
            let mut end = lock(&self.end);
            end.waker = Some(waker.clone());
            end.outcome.is_some()
        })
    }

    /// The bytes that were read, and the error that ended them early; `None` before the end.
    fn outcome(&self, py: Python<'_>) -> Option<(u64, Option<PyErr>)> {
        let end = lock(&self.end);
        let (bytes, error) = end.outcome.as_ref()?;
        Some((*bytes, error.as_ref().map(|error| exception(py, error))))
    }
}
