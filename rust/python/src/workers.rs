//! `Workers` and `WorkerSite`: the two ends between the process that has the sockets and the processes that run the
//! application.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};

use penstock_engine::Code;
use penstock_engine::app::RemoteEdge;
use penstock_engine::hub::{Hub, Terms};
use penstock_engine::runtime::Threads;
use penstock_engine::workers::{self, Begun, Feeding, Notice, Orphan, Planned, Restart, Topics, Worker};
use pyo3::PyTraverseError;
use pyo3::exceptions::PyValueError;
use pyo3::gc::PyVisit;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::ends::OrphanEnd;
use crate::engine::Engine;
use crate::errors::{IntoPython, exception, os_error};
use crate::lane::Lane;
use crate::lock;
use crate::port::{LoopPort, Receive, Slot};
use crate::relay_spec::Relay;
use crate::stream::Source;
use crate::transport::Transport;

/// How the parent carries out a worker's relays or subscriptions.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Plan(workers::Plan);

impl Plan {
    pub(crate) fn of_topics(hub: Arc<Hub>, terms: Terms) -> Self {
        Self(workers::Plan::Topics(Arc::new(Topics { hub, terms })))
    }
}

#[pymethods]
impl Plan {
    /// A plan of relays. `Hub.plan` makes plans of subscriptions.
    #[new]
    fn new(relay: &Bound<'_, Relay>) -> Self {
        Self(workers::Plan::Relay(Arc::clone(&relay.get().0)))
    }
}

/// The answer to a worker's [`FeedRequest`]. If it is dropped, the worker gets an error.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Answer(Mutex<Option<Begun>>);

impl Answer {
    fn say(&self, result: penstock_engine::Result<()>) {
        if let Some(begun) = lock(&self.0).take() {
            // The worker may have ended.
            let _ = begun.send(result);
        }
    }
}

#[pymethods]
impl Answer {
    fn done(&self) {
        self.say(Ok(()));
    }

    /// `name` is that of an error code.
    #[pyo3(signature = (name, detail, origin))]
    fn failed(&self, name: &str, detail: String, origin: Option<String>) -> PyResult<()> {
        let Some(row) = Code::all().iter().find(|row| row.name == name) else {
            return Err(PyValueError::new_err(format!("{name:?} is the name of no code")));
        };
        let error = row.code.error(detail);
        self.say(Err(match origin {
            Some(origin) => error.at(&origin.into()),
            None => error,
        }));
        Ok(())
    }
}

/// A worker's request to feed a topic.
#[pyclass(frozen, get_all, module = "penstock._native")]
pub(crate) struct FeedRequest {
    /// The number of the hub.
    hub: u64,
    topic: String,
    /// The type of the event that reports a failure.
    error_event: String,
    /// The stream to publish.
    source: Py<Source>,
    /// Gets the answer.
    answer: Py<Answer>,
}

struct Callbacks {
    make_plan: Py<PyAny>,
    feed: Py<PyAny>,
    orphan: Py<PyAny>,
    silent: Py<PyAny>,
}

/// Passes notices of the workers to the callbacks, on the loop.
struct Inner {
    port: Py<LoopPort>,
    workers: Arc<workers::Workers>,
    callbacks: Mutex<Option<Callbacks>>,
    /// The futures of `add`, by the number of the worker.
    joining: Mutex<HashMap<u32, Py<PyAny>>>,
}

impl Receive for Inner {
    fn receive(&self, py: Python<'_>) {
        for notice in self.workers.take_notices() {
            self.tell(py, notice);
        }
    }
}

impl Inner {
    fn tell(&self, py: Python<'_>, notice: Notice) {
        let told = match notice {
            Notice::Reached(number, reached) => self.reached(py, number, reached),
            Notice::Plan(description, planned) => {
                self.plan(py, &description, planned);
                Ok(())
            }
            Notice::Feed(feeding) => self.feed(py, *feeding),
            Notice::Orphan(orphan) => self.orphan(py, *orphan),
            Notice::Silent(number, owed) => {
                self.call(py, |callbacks| &callbacks.silent, (number, owed.as_secs_f64())).map(drop)
            }
        };
        if let Err(error) = told {
            self.report(py, error);
        }
    }

    fn call<'py, A>(
        &self,
        py: Python<'py>,
        which: impl FnOnce(&Callbacks) -> &Py<PyAny>,
        arguments: A,
    ) -> PyResult<Bound<'py, PyAny>>
    where
        A: pyo3::call::PyCallArgs<'py>,
    {
        let callback = lock(&self.callbacks).as_ref().map(|callbacks| which(callbacks).clone_ref(py));
        match callback {
            Some(callback) => callback.into_bound(py).call1(arguments),
            None => Err(exception(py, &Code::EngineClosed.error("the workers are being closed"))),
        }
    }

    fn reached(&self, py: Python<'_>, number: u32, reached: penstock_engine::Result<()>) -> PyResult<()> {
        let Some(future) = lock(&self.joining).remove(&number) else { return Ok(()) };
        let future = future.bind(py);
        if future.call_method0(intern!(py, "done"))?.is_truthy()? {
            return Ok(());
        }
        match reached {
            Ok(()) => future.call_method1(intern!(py, "set_result"), (py.None(),)).map(drop),
            Err(error) => {
                let error = exception(py, &error).into_value(py);
                future.call_method1(intern!(py, "set_exception"), (error,)).map(drop)
            }
        }
    }

    fn plan(&self, py: Python<'_>, description: &[u8], planned: Planned) {
        let made = self
            .call(py, |callbacks| &callbacks.make_plan, (PyBytes::new(py, description),))
            .and_then(|plan| Ok(plan.cast::<Plan>()?.get().0.clone()));
        let plan = made.map_err(|error| {
            let detail = format!("what a worker process asks for cannot be carried out: {error}");
            self.report(py, error);
            Code::BadConfiguration.error(detail)
        });
        // Who wanted it may have gone.
        let _ = planned.send(plan);
    }

    fn feed(&self, py: Python<'_>, feeding: Feeding) -> PyResult<()> {
        let Feeding { hub, topic, error_event, stream, begun } = feeding;
        let source = Py::new(py, Source::new(stream, self.port.clone_ref(py)))?;
        let answer = Py::new(py, Answer(Mutex::new(Some(begun))))?;
        let wanted = FeedRequest { hub, topic, error_event, source, answer };
        self.call(py, |callbacks| &callbacks.feed, (wanted,)).map(drop)
    }

    fn orphan(&self, py: Python<'_>, orphan: Orphan) -> PyResult<()> {
        let end = OrphanEnd::new(py, orphan)?;
        self.call(py, |callbacks| &callbacks.orphan, (end,)).map(drop)
    }

    fn report(&self, py: Python<'_>, error: PyErr) {
        self.port.get().report(py, error, "a callback of worker processes failed");
    }
}

/// Weak: the slot belongs to the object that it calls.
struct Listening(Weak<Inner>);

impl Receive for Listening {
    fn receive(&self, py: Python<'_>) {
        if let Some(inner) = self.0.upgrade() {
            inner.receive(py);
        }
    }
}

/// The worker processes of a site.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Workers {
    inner: Arc<Inner>,
    slot: Mutex<Option<Slot>>,
}

#[pymethods]
impl Workers {
    /// They answer the requests of `lane`.
    #[new]
    #[pyo3(signature = (engine, lane, make_plan, feed, orphan, silent))]
    fn new(
        py: Python<'_>,
        engine: &Bound<'_, Engine>,
        lane: &Bound<'_, Lane>,
        make_plan: Py<PyAny>,
        feed: Py<PyAny>,
        orphan: Py<PyAny>,
        silent: Py<PyAny>,
    ) -> PyResult<Self> {
        let (supplies, threads) = engine.get().lend(py)?;
        let port = engine.get().port(py)?;
        let workers = Arc::new(workers::Workers::new(supplies, &lane.get().queue(), &threads));
        engine.get().board().add_workers(&workers);
        let inner = Arc::new(Inner {
            port: port.clone_ref(py),
            workers,
            callbacks: Mutex::new(Some(Callbacks { make_plan, feed, orphan, silent })),
            joining: Mutex::new(HashMap::new()),
        });
        let slot = Slot::receiving(port, Arc::new(Listening(Arc::downgrade(&inner))));
        inner.workers.listen(Some(slot.waker().clone()));
        Ok(Self { inner, slot: Mutex::new(Some(slot)) })
    }

    /// Connects to the worker `number`, which listens at `path`. The future is done when it is
    /// connected.
    fn add<'py>(
        &self,
        py: Python<'py>,
        number: u32,
        generation: u32,
        path: PathBuf,
    ) -> PyResult<Bound<'py, PyAny>> {
        let future = self.inner.port.get().future(py)?;
        let previous = lock(&self.inner.joining).insert(number, future.clone().unbind());
        drop(previous);
        self.inner.workers.add(number, generation, path);
        Ok(future)
    }

    /// Sends requests to workers of this generation from now on.
    fn switch(&self, generation: u32) {
        self.inner.workers.switch(generation);
    }

    /// Sends no more requests to a worker.
    fn retire(&self, number: u32) {
        self.inner.workers.retire(number);
    }

    /// Removes a worker that has ended.
    fn remove(&self, number: u32) {
        self.inner.workers.remove(number);
    }

    /// Counts workers that were started in place of others, which had `"ended"`, `"hung"` or been `"reloaded"`.
    fn restarted(&self, reason: &str, count: u64) -> PyResult<()> {
        let restart = match reason {
            "ended" => Restart::Ended,
            "hung" => Restart::Hung,
            "reloaded" => Restart::Reloaded,
            _ => return Err(PyValueError::new_err(format!("{reason:?} is no reason for a restart"))),
        };
        self.inner.workers.restarted(restart, count);
        Ok(())
    }

    /// Open requests of a worker.
    fn busy(&self, number: u32) -> usize {
        self.inner.workers.busy(number)
    }

    /// Closes the connections, and drops the callbacks. Idempotent.
    fn close(&self) {
        self.inner.workers.listen(None);
        self.inner.workers.close();
        let slot = lock(&self.slot).take();
        let callbacks = lock(&self.inner.callbacks).take();
        let joining = std::mem::take(&mut *lock(&self.inner.joining));
        drop((slot, callbacks, joining));
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let Ok(callbacks) = self.inner.callbacks.try_lock() {
            if let Some(Callbacks { make_plan, feed, orphan, silent }) = &*callbacks {
                visit.call(make_plan)?;
                visit.call(feed)?;
                visit.call(orphan)?;
                visit.call(silent)?;
            }
        }
        Ok(())
    }
}

/// A worker's connection to its parent for messages that belong to no request.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Lines(Arc<workers::Lines>);

impl Lines {
    /// The parent, for messages that belong to no request.
    pub(crate) fn aside(&self) -> Arc<dyn RemoteEdge> {
        self.0.edge()
    }

    /// The parent, for the request of `near` if given; `None` if that is over.
    pub(crate) fn edge(&self, near: Option<&Bound<'_, Transport>>) -> Option<Arc<dyn RemoteEdge>> {
        near.map_or_else(|| Some(self.aside()), |near| near.get().edge())
    }
}

#[pymethods]
impl Lines {
    #[new]
    fn new() -> Self {
        Self(Arc::default())
    }
}

/// The application's side in a worker process, in place of a `Site`.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct WorkerSite {
    worker: Arc<Worker>,
    engine: Py<Engine>,
    /// Woken when the last request ends.
    idle: Mutex<Option<Slot>>,
}

#[pymethods]
impl WorkerSite {
    /// Accepts on a duplicate of `descriptor`, a listening Unix socket. Only the process `parent` may connect.
    #[new]
    #[pyo3(signature = (engine, lane, descriptor, parent, lines))]
    fn new(
        py: Python<'_>,
        engine: &Bound<'_, Engine>,
        lane: &Bound<'_, Lane>,
        descriptor: i32,
        parent: i32,
        lines: &Bound<'_, Lines>,
    ) -> PyResult<Self> {
        let descriptor = penstock_engine::duplicate(descriptor).map_err(os_error)?;
        let (supplies, threads): (_, Arc<Threads>) = engine.get().lend(py)?;
        let worker = Arc::new(Worker::new(supplies, lane.get().queue(), parent, Arc::clone(&lines.get().0)));
        worker.serve(descriptor, &threads).into_python(py)?;
        Ok(Self { worker, engine: engine.clone().unbind(), idle: Mutex::new(None) })
    }

    /// Takes no more requests.
    fn drain(&self) {
        self.worker.drain();
    }

    /// Aborts all requests.
    fn close(&self) {
        self.worker.close();
    }

    /// Open requests.
    fn active(&self) -> usize {
        self.worker.active()
    }

    /// A future that is done when no request is open. A second one replaces the first.
    fn idle<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let port = self.engine.get().port(py)?;
        let slot = Slot::new(port);
        let future = slot.park(py)?;
        if self.worker.is_idle(slot.waker()) {
            slot.waker().wake_by_ref();
        }
        let previous = lock(&self.idle).replace(slot);
        drop(previous);
        Ok(future)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.engine)
    }
}
