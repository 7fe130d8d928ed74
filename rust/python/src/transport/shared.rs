//! `Shared`: the state of a lane and its transports: idle protocols, transports with unflushed data, and the callbacks for
//! responses and requests that end. All of it is used on the event loop's thread.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread::ThreadId;

use penstock_engine::Code;
use penstock_engine::app::{Completion, Ends, Fault, Outcome, Queue, Request};
use penstock_engine::edge::Route;
use penstock_engine::runtime::Threads;
use pyo3::exceptions::PyRuntimeError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use pyo3::{PyTraverseError, intern};

use super::Transport;
use crate::ends::RequestEnd;
use crate::errors::exception;
use crate::lock;
use crate::port::{LoopPort, Returns};

/// How many idle protocols are searched for one that served the same client: fewer than a hundred comparisons cost less
/// than making the client's address again. Arbitrary.
const IDLE_SEARCH: usize = 64;

/// The callbacks for the ends of responses that the engine sends, by ticket.
#[derive(Default)]
struct Endings {
    next: u64,
    callbacks: HashMap<u64, Py<PyAny>>,
}

/// The callback for the ends of requests on one native route.
struct Watcher {
    /// Dropped after no request can begin on the route and the end of each has been queued.
    route: Weak<Route>,
    callback: Py<PyAny>,
}

/// What a lane needs of the application.
pub(crate) struct Application {
    /// Makes a protocol.
    pub(crate) factory: Py<PyAny>,
    /// Makes what `get_extra_info("socket")` returns for a transport.
    pub(crate) socket: Py<PyAny>,
    /// Called with each fault: the request or None, the error, and whether a relay has failed.
    pub(crate) fault: Py<PyAny>,
    /// The path of the listening Unix socket, if it is one.
    pub(crate) path: Option<String>,
}

/// The state of a lane and its transports.
pub(crate) struct Shared {
    pub(crate) port: Py<LoopPort>,
    pub(crate) returns: Returns,
    pub(crate) threads: Arc<Threads>,
    thread: ThreadId,
    queue: Queue,
    pub(crate) application: Application,
    /// Protocols without a request, each with the addresses of its last one. The most recent is last.
    idle: Mutex<Vec<(Ends, Py<Transport>)>>,
    /// Transports with data that was written in this turn of the loop.
    dirty: Mutex<Vec<Py<Transport>>>,
    /// A [`Flush`], for `call_soon`.
    flush: OnceLock<Py<PyAny>>,
    endings: Mutex<Endings>,
    /// By the completion number of their routes.
    watchers: Mutex<HashMap<u64, Watcher>>,
    /// No protocol takes a second request.
    retired: OnceLock<()>,
    closed: OnceLock<()>,
}

impl Shared {
    /// `port` is that of the running loop.
    pub(crate) fn new(
        py: Python<'_>,
        port: &Py<LoopPort>,
        threads: Arc<Threads>,
        queue: Queue,
        application: Application,
    ) -> PyResult<Arc<Self>> {
        let shared = Arc::new(Self {
            returns: port.get().returns(),
            port: port.clone_ref(py),
            threads,
            thread: std::thread::current().id(),
            queue,
            application,
            idle: Mutex::new(Vec::new()),
            dirty: Mutex::new(Vec::new()),
            flush: OnceLock::new(),
            endings: Mutex::new(Endings::default()),
            watchers: Mutex::new(HashMap::new()),
            retired: OnceLock::new(),
            closed: OnceLock::new(),
        });
        let flush = Py::new(py, Flush(Arc::downgrade(&shared)))?;
        // Set once, here.
        let _ = shared.flush.set(flush.into_any());
        Ok(shared)
    }

    /// Raises `RuntimeError` on any thread but the loop's. asyncio's own transports do so in debug mode alone.
    pub(crate) fn check_thread(&self) -> PyResult<()> {
        if std::thread::current().id() == self.thread {
            return Ok(());
        }
        Err(PyRuntimeError::new_err(
            "Non-thread-safe operation invoked on an event loop other than the current one",
        ))
    }

    /// Flushes `transport` at the loop's next turn.
    pub(crate) fn flush_soon(&self, py: Python<'_>, transport: Py<Transport>) {
        let first = {
            let mut dirty = lock(&self.dirty);
            dirty.push(transport);
            dirty.len() == 1
        };
        if !first {
            return;
        }
        let scheduled = self
            .flush
            .get()
            .map(|flush| self.port.get().event_loop(py).call_method1(intern!(py, "call_soon"), (flush,)));
        if !matches!(scheduled, Some(Ok(_))) {
            self.flush_all();
        }
    }

    fn flush_all(&self) {
        let dirty = std::mem::take(&mut *lock(&self.dirty));
        for transport in dirty {
            transport.get().core().flush();
        }
    }

    pub(crate) fn put_idle(&self, ends: Ends, transport: Py<Transport>) {
        lock(&self.idle).push((ends, transport));
    }

    /// The idle protocol that served this client last, because it knows the addresses; else the most recent one.
    fn take_idle(&self, ends: &Ends) -> Option<Py<Transport>> {
        let mut idle = lock(&self.idle);
        match idle.iter().rev().take(IDLE_SEARCH).position(|(known, _)| known == ends) {
            Some(from_end) => {
                let at = idle.len() - 1 - from_end;
                Some(idle.remove(at).1)
            }
            None => idle.pop().map(|(_, transport)| transport),
        }
    }

    /// Removes a transport that takes no other request.
    pub(crate) fn forget(&self, transport: &Py<Transport>) {
        lock(&self.idle).retain(|(_, other)| !other.is(transport));
    }

    pub(crate) fn address<'py>(
        &self,
        py: Python<'py>,
        address: Option<SocketAddr>,
        local: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        match address {
            Some(address) => Ok(address_tuple(py, address)?.into_any()),
            // The same values as the `socket` module's for a Unix socket.
            None if local => Ok(self.application.path.as_deref().unwrap_or("").into_pyobject(py)?.into_any()),
            None => Ok("".into_pyobject(py)?.into_any()),
        }
    }

    /// Passes an error that no caller can get to the loop's exception handler.
    pub(crate) fn report(&self, py: Python<'_>, error: PyErr, message: &str) {
        self.port.get().report(py, error, message);
    }

    /// Has `on_end` called when a response ends that the engine sends.
    pub(crate) fn completion(&self, on_end: Py<PyAny>) -> Completion {
        let mut endings = lock(&self.endings);
        let ticket = endings.next;
        endings.next += 1;
        endings.callbacks.insert(ticket, on_end);
        self.queue.reports().completion(ticket)
    }

    /// Drops the callbacks of responses that ended without an error and are not awaited: the loop was not woken for them.
    fn forget_unawaited(&self) {
        let tickets = self.queue.reports().take_unawaited();
        if tickets.is_empty() {
            return;
        }
        let forgotten: Vec<_> = {
            let mut endings = lock(&self.endings);
            tickets.iter().filter_map(|ticket| endings.callbacks.remove(ticket)).collect()
        };
        drop(forgotten);
    }

    fn complete(&self, py: Python<'_>, ticket: u64, outcome: &Outcome) {
        let Some(callback) = lock(&self.endings).callbacks.remove(&ticket) else { return };
        let error = outcome.failure.as_ref().map(|error| exception(py, error).into_value(py));
        if let Err(error) = callback.bind(py).call1((outcome.bytes, error, outcome.begun)) {
            self.report(py, error, "a callback of the end of a response failed");
        }
    }

    /// Calls the callbacks of these routes from now on. Requests that have ended before on others are reported first.
    pub(crate) fn watch(&self, py: Python<'_>, routes: Vec<(Arc<Route>, Py<PyAny>)>) {
        let gone: Vec<u64> = lock(&self.watchers)
            .iter()
            .filter(|(_, watcher)| watcher.route.strong_count() == 0)
            .map(|(ticket, _)| *ticket)
            .collect();
        // After the search for dropped routes: the last end on a route is queued before the route is dropped.
        self.tell_ended(py);
        let mut old = Vec::new();
        {
            let mut watchers = lock(&self.watchers);
            old.extend(gone.iter().filter_map(|ticket| watchers.remove(ticket)));
            for (route, callback) in routes {
                if let Some(ticket) = route.completion() {
                    let watcher = Watcher { route: Arc::downgrade(&route), callback };
                    old.extend(watchers.insert(ticket, watcher));
                }
            }
        }
        drop(old);
    }

    fn tell_ended(&self, py: Python<'_>) {
        let (ended, dropped) = self.queue.reports().take_ended();
        for one in ended {
            let callback =
                lock(&self.watchers).get(&one.ticket).map(|watcher| watcher.callback.clone_ref(py));
            let Some(callback) = callback else { continue };
            let told = RequestEnd::new(py, one).and_then(|end| callback.bind(py).call1((end,)));
            if let Err(error) = told {
                self.report(py, error, "a callback of the end of a request failed");
            }
        }
        if dropped > 0 {
            let detail = format!(
                "the ends of {dropped} requests on native routes were not reported: Python was stalled"
            );
            self.log_fault(py, &Fault { request: None, error: Code::AppBusy.error(detail), is_relay: false });
        }
    }

    fn log_fault(&self, py: Python<'_>, fault: &Fault) {
        let error = exception(py, &fault.error).into_value(py);
        if let Err(error) =
            self.application.fault.bind(py).call1((fault.request.as_deref(), error, fault.is_relay))
        {
            self.report(py, error, "a fault could not be logged");
        }
    }

    fn begin(self: &Arc<Self>, py: Python<'_>, request: Request) {
        let transport = match self.take_idle(&request.ends) {
            Some(transport) => transport,
            None => match Transport::connect(py, self, request.ends.clone()) {
                Ok(transport) => transport,
                // The request is dropped, which ends its connection.
                Err(error) => return self.report(py, error, "no protocol could be made for a request"),
            },
        };
        transport.get().core().begin(py, request);
    }

    /// Takes no more requests. The application gets the waiting ones now.
    pub(crate) fn drain(self: &Arc<Self>, py: Python<'_>) {
        self.queue.close();
        self.take(py, usize::MAX);
    }

    /// Ends the idle protocols, and each other one after its response.
    pub(crate) fn retire(&self, py: Python<'_>) {
        // Set before, or set now.
        let _ = self.retired.set(());
        let idle = std::mem::take(&mut *lock(&self.idle));
        for (_, transport) in idle {
            transport.get().core().abort(py);
        }
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.retired.get().is_some()
    }

    /// Reports the ends of requests, drops the callbacks, aborts waiting requests and idle protocols. False if it was
    /// closed before.
    pub(crate) fn close(&self, py: Python<'_>) -> bool {
        if self.closed.set(()).is_err() {
            return false;
        }
        self.forget_unawaited();
        self.tell_ended(py);
        let watchers = std::mem::take(&mut *lock(&self.watchers));
        drop(watchers);
        self.queue.abandon();
        self.retire(py);
        true
    }

    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        self.forget_unawaited();
        (self.queue.len(), lock(&self.idle).len(), lock(&self.endings).callbacks.len())
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.application.factory)?;
        visit.call(&self.application.socket)?;
        visit.call(&self.application.fault)?;
        if let Ok(watchers) = self.watchers.try_lock() {
            for watcher in watchers.values() {
                visit.call(&watcher.callback)?;
            }
        }
        if let Ok(idle) = self.idle.try_lock() {
            for (_, transport) in idle.iter() {
                visit.call(transport)?;
            }
        }
        Ok(())
    }

    /// Begins `most` of the requests that wait, and does what else there is to do.
    pub(crate) fn take(self: &Arc<Self>, py: Python<'_>, most: usize) {
        self.forget_unawaited();
        if self.queue.is_in_process() {
            for _ in 0..most {
                let Some(request) = self.queue.take() else { break };
                self.begin(py, request);
            }
            self.queue.call();
        }
        for (ticket, outcome) in self.queue.reports().take_completed() {
            self.complete(py, ticket, &outcome);
            self.queue.reports().note_heard(ticket);
        }
        self.tell_ended(py);
        for fault in self.queue.reports().take_faults() {
            self.log_fault(py, &fault);
        }
    }
}

/// Flushes the transports of a lane. Weak: the loop may keep it for longer than the lane lives.
#[pyclass(frozen, module = "penstock._native")]
struct Flush(Weak<Shared>);

#[pymethods]
impl Flush {
    fn __call__(&self) {
        if let Some(shared) = self.0.upgrade() {
            shared.flush_all();
        }
    }
}

/// An address in the form of the `socket` module.
fn address_tuple(py: Python<'_>, address: SocketAddr) -> PyResult<Bound<'_, PyTuple>> {
    match address {
        SocketAddr::V4(v4) => (v4.ip().to_string(), v4.port()).into_pyobject(py),
        SocketAddr::V6(v6) => {
            (v6.ip().to_string(), v6.port(), v6.flowinfo(), v6.scope_id()).into_pyobject(py)
        }
    }
}
