//! `Status`: pages about an engine, on a listener and a thread of their own.
//!
//! Thread and memory are not the engine's, so the pages answer while engine threads hang, the pool is full, or the
//! interpreter is held.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use penstock_engine::Code;
use penstock_engine::edge::{
    Heads, Ledger, ListenOptions, Listener, Pages, Routes, Service, Site as EdgeSite, Supplies,
};
use penstock_engine::metrics;
use penstock_engine::pool::{Pool, PoolConfig};
use penstock_engine::runtime::Threads;
use penstock_engine::stream::Meter;
use pyo3::prelude::*;

use crate::engine::Engine;
use crate::errors::{IntoPython, exception};
use crate::lock;
use crate::settings::{EdgeSettings, Settings, StatusSettings};

/// A listener, until it is closed.
struct Running {
    site: Arc<EdgeSite>,
    threads: Arc<Threads>,
    pool: Pool,
}

/// Pages about an engine.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Status {
    running: Mutex<Option<Running>>,
    options: ListenOptions,
}

impl Status {
    fn listen(&self, py: Python<'_>, listener: Listener) -> PyResult<()> {
        match &*lock(&self.running) {
            Some(running) => {
                listener.serve(&running.site, &running.threads);
                Ok(())
            }
            None => Err(exception(py, &Code::EngineClosed.error("the pages have been closed"))),
        }
    }
}

#[pymethods]
impl Status {
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "an extracted argument")]
    fn new(
        py: Python<'_>,
        engine: &Bound<'_, Engine>,
        settings: Settings<StatusSettings>,
        edge: Settings<EdgeSettings>,
        pool: Settings<PoolConfig>,
    ) -> PyResult<Self> {
        let (lent, _) = engine.get().lend(py)?;
        let pool = Pool::new(pool.into()).into_python(py)?;
        let threads = Arc::new(Threads::start_named("penstock-status", 1).into_python(py)?);
        let limits = metrics::StatusLimits {
            hung: Duration::from_secs_f64(settings.0.hung),
            behind: Duration::from_secs_f64(settings.0.behind),
            viewers: settings.0.viewers,
        };
        let exhibit = metrics::Status::new(Arc::clone(engine.get().board()), limits);
        let pages = Service::Pages(Arc::new(Pages::of_status(Box::new(exhibit), settings.0.scrapes)));
        let supplies = Supplies {
            pool: pool.clone(),
            flow: lent.flow,
            reads: lent.reads,
            meter: Arc::new(Meter::default()),
            // One for the one thread. No origin is ever asked.
            origins: lent.origins.into_iter().take(1).collect(),
            ledger: Arc::new(Ledger::new(1)),
            heads: Arc::new(Heads::new(&pool)),
            tracer: None,
        };
        let routes = Routes::new(vec![pages]).into_python(py)?;
        let site = Arc::new(EdgeSite::new(edge.0.config, supplies, routes, None, None));
        let running = Mutex::new(Some(Running { site, threads, pool }));
        Ok(Self { running, options: edge.0.listen })
    }

    /// Listens to an address, and returns it with the bound port.
    fn listen_tcp(&self, py: Python<'_>, address: &str, port: u16) -> PyResult<(String, u16)> {
        let Ok(ip) = address.parse::<IpAddr>() else {
            let detail = format!("{address:?} is no IP address");
            return Err(exception(py, &Code::BadConfiguration.error(detail)));
        };
        let listener = Listener::tcp(SocketAddr::new(ip, port), self.options).into_python(py)?;
        let bound = listener.address().map_or(port, |bound| bound.port());
        self.listen(py, listener)?;
        Ok((address.to_owned(), bound))
    }

    #[expect(clippy::needless_pass_by_value, reason = "an extracted argument")]
    fn listen_unix(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let listener = Listener::unix(&path, self.options).into_python(py)?;
        self.listen(py, listener)
    }

    /// Closes the listeners, and waits for the thread. Idempotent.
    fn close(&self, py: Python<'_>) {
        let Some(running) = lock(&self.running).take() else { return };
        if running.pool.dead() {
            // A forked child has no such thread, and the descriptors are the parent's.
            std::mem::forget(running);
            return;
        }
        running.site.close();
        running.threads.stop();
        py.detach(|| running.threads.join());
    }
}
