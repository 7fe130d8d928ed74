//! `Site` and `Route`: listeners of the engine, and the routes that it answers alone.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use penstock_engine::Code;
use penstock_engine::access::Entered as EdgeEntered;
use penstock_engine::edge::{
    self, CHALLENGES, Challenges, Field, Format, Handshakes, Limiter as EdgeLimiter, ListenOptions, Listener,
    Log, Pages, Part, Redirect, Route as EdgeRoute, Routes, Service, Site as EdgeSite,
};
use penstock_engine::metrics::{self, GRPC_HEALTH, GrpcHealth};
use penstock_engine::relay_spec::RouteLimits;
use penstock_engine::runtime::Threads;
use penstock_engine::tls::TlsServer;
use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;

use crate::access::Gate;
use crate::engine::Engine;
use crate::errors::{IntoPython, exception, os_error};
use crate::hub::Topics;
use crate::lane::Lane;
use crate::lock;
use crate::port::Slot;
use crate::relay_spec::{Handles, RelaySpec};
use crate::settings::{EdgeSettings, Settings, SiteTls};
use crate::transport::shared::Shared;

/// A native route, the callback for the ends of its requests, and its gate.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Route(Arc<EdgeRoute>, Option<Py<PyAny>>, Option<Py<Gate>>);

#[pymethods]
impl Route {
    /// `on_end` is called with the end of each request. `gate` decides about them.
    #[new]
    #[pyo3(signature = (spec, handles, host, on_end, gate))]
    #[expect(clippy::needless_pass_by_value, reason = "an extracted argument")]
    fn new(
        spec: RelaySpec<'_>,
        handles: Handles<'_>,
        host: Option<String>,
        on_end: Option<Py<PyAny>>,
        gate: Option<Py<Gate>>,
    ) -> PyResult<Self> {
        let spec = spec.with(&handles, on_end.is_some())?;
        let shared = gate.as_ref().map(|gate| gate.get().shared());
        Ok(Self(Arc::new(EdgeRoute::new(host, spec, shared)), on_end, gate))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.1)?;
        visit.call(&self.2)
    }
}

/// What the engine itself answers to plain HTTP.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct HttpPages(Arc<Pages>);

#[pymethods]
impl HttpPages {
    /// Every request is sent to https at `port`.
    #[staticmethod]
    fn redirects(port: u16) -> Self {
        Self(Arc::new(Pages::new("https_redirect", "/", Box::new(Redirect::new(port)))))
    }

    /// The answers to challenges of authorities of certificates, which an ACME client writes below `root`.
    #[staticmethod]
    #[expect(clippy::needless_pass_by_value, reason = "an extracted argument")]
    fn challenges(root: PathBuf) -> Self {
        Self(Arc::new(Pages::new("acme_challenges", CHALLENGES, Box::new(Challenges::new(&root)))))
    }

    /// Whether `engine` is ready, for clients of gRPC. The times are those of `penstock.config.Status`, in seconds.
    #[staticmethod]
    fn grpc_health(engine: &Bound<'_, Engine>, hung: f64, behind: f64) -> Self {
        let limits = metrics::StatusLimits {
            hung: Duration::from_secs_f64(hung),
            behind: Duration::from_secs_f64(behind),
            // It shows no page.
            viewers: 0,
        };
        let status = metrics::Status::new(Arc::clone(engine.get().board()), limits);
        Self(Arc::new(Pages::new("grpc_health", GRPC_HEALTH, Box::new(GrpcHealth(status)))))
    }
}

/// The limits of a route, for transports of the event loop's own.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Limiter(EdgeLimiter);

/// A request that a limiter has admitted.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Entered(Mutex<Option<EdgeEntered>>);

#[pymethods]
impl Limiter {
    #[new]
    fn new(name: String, limits: Settings<RouteLimits>) -> Self {
        Self(EdgeLimiter::new(name, limits.into()))
    }

    /// Counts a request, until `leave` is called on the result.
    fn enter(&self, py: Python<'_>) -> PyResult<Entered> {
        Ok(Entered(Mutex::new(Some(self.0.enter().into_python(py)?))))
    }
}

#[pymethods]
impl Entered {
    /// The request is over. Idempotent.
    fn leave(&self) {
        drop(lock(&self.0).take());
    }
}

/// The listeners of a server, and their connections. Closed with its engine, if not before.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Site {
    shared: Arc<EdgeSite>,
    threads: Arc<Threads>,
    engine: Py<Engine>,
    options: ListenOptions,
    /// Reports the ends of requests on native routes. Weak: it leads to Python objects, which lead back here.
    lane: Option<Weak<Shared>>,
    /// Woken when the last request ends.
    idle: Mutex<Option<Slot>>,
    /// The gates of its routes, which keeps their hooks listening.
    gates: Mutex<Vec<Py<Gate>>>,
}

/// The counts of a site.
#[pyclass(frozen, get_all, module = "penstock._native")]
pub(crate) struct SiteCounts {
    /// Connections that are open.
    connections: usize,
    /// Connections so far.
    accepted: u64,
    /// Requests so far.
    requests: u64,
    /// Requests that were refused so far.
    refused: u64,
}

/// The form of lines: none by default, no part for JSON, or texts and the names of the fields after them.
fn format_of(parts: Option<Vec<(String, Option<String>)>>) -> penstock_engine::Result<Format> {
    let Some(parts) = parts else { return Ok(Format::Plain) };
    if parts.is_empty() {
        return Ok(Format::Json);
    }
    let mut template = Vec::new();
    for (text, name) in parts {
        template.extend((!text.is_empty()).then_some(Part::Text(text)));
        if let Some(name) = name {
            let unknown = || Code::BadConfiguration.error(format!("no line can say {name:?}"));
            template.push(Part::Field(Field::named(&name).ok_or_else(unknown)?));
        }
    }
    Ok(Format::Template(template))
}

/// An access log: lines that wait for Python, or that a thread writes to a file.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct AccessLog(Arc<Log>);

#[pymethods]
impl AccessLog {
    /// `path`: the file, `-` for standard error; `None` if Python takes the lines. `parts` are those of `config.AccessLog`.
    #[new]
    #[pyo3(signature = (path = None, parts = None))]
    fn new(
        py: Python<'_>,
        path: Option<PathBuf>,
        parts: Option<Vec<(String, Option<String>)>>,
    ) -> PyResult<Self> {
        let format = format_of(parts).into_python(py)?;
        let log = match path {
            None => Log::kept(format),
            Some(path) => {
                Log::open(Some(path).filter(|path| path.as_os_str() != "-"), format).into_python(py)?
            }
        };
        Ok(Self(Arc::new(log)))
    }

    /// The names of what a line can say, each with what it is.
    #[staticmethod]
    fn fields() -> Vec<(&'static str, &'static str)> {
        Field::ALL.iter().map(|(name, _, what)| (*name, *what)).collect()
    }

    /// Opens the file anew.
    fn reopen(&self) {
        self.0.reopen();
    }

    /// Waits for lines without the interpreter's lock. Returns them, and the number of lines dropped after them; `None`
    /// if the log is closed and empty.
    fn take(&self, py: Python<'_>) -> Option<(Vec<String>, u64)> {
        let log = Arc::clone(&self.0);
        let (lines, dropped) = py.detach(move || log.take())?;
        Some((String::from_utf8_lossy(&lines).lines().map(str::to_owned).collect(), dropped))
    }

    /// Closes the log, and waits for `seconds` at most until its lines are in the file. False if they are not.
    fn close(&self, py: Python<'_>, seconds: f64) -> bool {
        let log = Arc::clone(&self.0);
        py.detach(move || log.close(Duration::from_secs_f64(seconds)))
    }
}

/// A route that the engine answers alone.
#[derive(FromPyObject)]
enum Answering<'py> {
    Relay(Bound<'py, Route>),
    Topics(Bound<'py, Topics>),
    Pages(Bound<'py, HttpPages>),
}

fn routes(py: Python<'_>, routes: &[Answering<'_>], lane: Option<&Weak<Shared>>) -> PyResult<Routes> {
    let service = |route: &Answering<'_>| match route {
        Answering::Relay(route) => Service::Relay(Arc::clone(&route.get().0)),
        Answering::Topics(topics) => Service::Topics(topics.get().shared()),
        Answering::Pages(pages) => Service::Pages(Arc::clone(&pages.get().0)),
    };
    let table = Routes::new(routes.iter().map(service).collect()).into_python(py)?;
    let watched = |route: &Answering<'_>| {
        let Answering::Relay(route) = route else { return None };
        let Route(route, on_end, _) = route.get();
        Some((Arc::clone(route), on_end.as_ref()?.clone_ref(py)))
    };
    let watched: Vec<_> = routes.iter().filter_map(watched).collect();
    match lane.and_then(Weak::upgrade) {
        Some(lane) => lane.watch(py, watched),
        None if watched.is_empty() => {}
        None => {
            let detail = "a native route has an on_complete, and the site no application to tell it";
            return Err(exception(py, &Code::BadConfiguration.error(detail)));
        }
    }
    Ok(table)
}

fn gates(py: Python<'_>, routes: &[Answering<'_>]) -> Vec<Py<Gate>> {
    let gate = |route: &Answering<'_>| match route {
        Answering::Relay(route) => route.get().2.as_ref().map(|gate| gate.clone_ref(py)),
        Answering::Topics(topics) => topics.get().gate().map(|gate| gate.clone_ref(py)),
        Answering::Pages(_) => None,
    };
    routes.iter().filter_map(gate).collect()
}

#[pymethods]
impl Site {
    /// With `own_log` the application logs its own answers.
    #[new]
    #[pyo3(signature = (engine, settings, natives, access_log, lane, own_log = false))]
    #[expect(clippy::needless_pass_by_value, reason = "an extracted argument")]
    fn new(
        py: Python<'_>,
        engine: &Bound<'_, Engine>,
        settings: Settings<EdgeSettings>,
        natives: Vec<Answering<'_>>,
        access_log: Option<&Bound<'_, AccessLog>>,
        lane: Option<&Bound<'_, Lane>>,
        own_log: bool,
    ) -> PyResult<Self> {
        let (supplies, threads) = engine.get().lend(py)?;
        // If a loop is running, origins that fail are logged there. A site needs no loop before `idle`.
        let _ = engine.get().port(py);
        let log = access_log.map(|log| Arc::clone(&log.get().0));
        let app = lane.map(|lane| lane.get().queue());
        let lane = lane.map(|lane| Arc::downgrade(lane.get().shared()));
        let table = routes(py, &natives, lane.as_ref())?;
        let EdgeSettings { config, listen, tls } = settings.0;
        let mut site = EdgeSite::new(config, supplies, table, log, app);
        if own_log {
            site = site.without_application_log();
        }
        if let Some(SiteTls { settings, limits, hsts }) = tls {
            let count = threads.count();
            // A directory may have a thousand certificates.
            let handshakes = py.detach(|| Handshakes::new(TlsServer::new(settings)?, limits, count));
            site = site.with_tls(handshakes.into_python(py)?, hsts);
        }
        let shared = Arc::new(site);
        engine.get().board().add_site(&shared);
        Ok(Self {
            shared,
            threads,
            engine: engine.clone().unbind(),
            options: listen,
            lane,
            idle: Mutex::new(None),
            gates: Mutex::new(gates(py, &natives)),
        })
    }

    /// Listens to an address, and returns it with the bound port.
    fn listen_tcp(&self, py: Python<'_>, address: &str, port: u16) -> PyResult<(String, u16)> {
        self.engine.get().check(py)?;
        let Ok(ip) = address.parse::<IpAddr>() else {
            let detail = format!("{address:?} is no IP address");
            return Err(exception(py, &Code::BadConfiguration.error(detail)));
        };
        let listener = Listener::tcp(SocketAddr::new(ip, port), self.options).into_python(py)?;
        let bound = listener
            .address()
            .map_or((address.to_owned(), port), |bound| (bound.ip().to_string(), bound.port()));
        listener.serve(&self.shared, &self.threads);
        Ok(bound)
    }

    #[expect(clippy::needless_pass_by_value, reason = "an extracted argument")]
    fn listen_unix(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.engine.get().check(py)?;
        Listener::unix(&path, self.options).into_python(py)?.serve(&self.shared, &self.threads);
        Ok(())
    }

    /// Listens on a duplicate of a bound or listening socket.
    fn listen_fd(&self, py: Python<'_>, descriptor: i32) -> PyResult<()> {
        let descriptor = penstock_engine::duplicate(descriptor).map_err(os_error)?;
        self.engine.get().check(py)?;
        Listener::adopt(descriptor, self.options).into_python(py)?.serve(&self.shared, &self.threads);
        Ok(())
    }

    #[expect(clippy::needless_pass_by_value, reason = "an extracted argument")]
    fn set_routes(&self, py: Python<'_>, natives: Vec<Answering<'_>>) -> PyResult<()> {
        self.shared.set_routes(routes(py, &natives, self.lane.as_ref())?);
        let previous = std::mem::replace(&mut *lock(&self.gates), gates(py, &natives));
        drop(previous);
        Ok(())
    }

    /// Reads the files of certificates anew, on a thread of its own, and has what is wrong with them logged.
    fn reload_tls(&self) {
        self.shared.reload_certificates(&self.threads);
    }

    /// Takes no new connection. Open connections end after the response in progress. Clients of event streams that end are told
    /// to come back within `retry` seconds, each at a time of its own.
    fn drain(&self, retry: f64) {
        self.shared.drain(Duration::from_secs_f64(retry));
    }

    /// Ends event streams whose clients come back by themselves in the next `over` seconds, each at a time of its own.
    fn end_events(&self, over: f64) {
        let (site, over) = (Arc::clone(&self.shared), Duration::from_secs_f64(over));
        self.threads.spawn(0, move || async move { site.end_events(over).await });
    }

    /// Closes every connection.
    fn close(&self) {
        self.shared.close();
    }

    /// A future that is done when no request is being answered. A second one replaces the first.
    fn idle<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let port = self.engine.get().port(py)?;
        let slot = Slot::new(port);
        let future = slot.park(py)?;
        if self.shared.is_idle(slot.waker()) {
            slot.waker().wake_by_ref();
        }
        let previous = lock(&self.idle).replace(slot);
        drop(previous);
        Ok(future)
    }

    /// Requests that are being answered.
    fn active(&self) -> usize {
        self.shared.active()
    }

    /// Lane, route and number of the requests that are being answered.
    fn waited_for(&self) -> Vec<(&'static str, String, u64)> {
        self.shared.waited_for()
    }

    fn counts(&self) -> SiteCounts {
        let edge::SiteCounts { connections, accepted, requests, refused, .. } = self.shared.counts();
        SiteCounts { connections, accepted, requests, refused }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.engine)?;
        if let Ok(gates) = self.gates.try_lock() {
            for gate in gates.iter() {
                visit.call(gate)?;
            }
        }
        Ok(())
    }
}
