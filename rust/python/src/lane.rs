//! `Lane`: the application's side of a site. It takes requests from the engine's queue and gives each to a protocol.
//!
//! Protocols are pooled like a proxy's connections to its upstream: a request takes an idle one, or makes one. So a client
//! that is connected and sends no request costs Python nothing. Everything here runs on the event loop's thread, when a
//! [`crate::port::LoopPort`] delivers a burst.

use std::sync::{Arc, Mutex, Weak};

use penstock_engine::app::Queue;
use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;

use crate::engine::Engine;
use crate::lock;
use crate::port::{Receive, Slot};
use crate::settings::Settings;
use crate::transport::shared::{Application, Shared};

/// Requests that are begun in one turn of the loop, before their handlers run. Requests that wait can still be withdrawn when
/// their clients leave, be refused in overload, or be taken in another order: what is begun cannot. Arbitrary.
const TAKEN: usize = 8;

struct Listener(Weak<Shared>);

impl Receive for Listener {
    fn receive(&self, py: Python<'_>) {
        if let Some(shared) = self.0.upgrade() {
            shared.take(py, TAKEN);
        }
    }
}

/// The application's side of a site.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Lane {
    shared: Arc<Shared>,
    slot: Mutex<Option<Slot>>,
}

impl Lane {
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn queue(&self) -> Queue {
        self.shared.queue().clone()
    }
}

#[pymethods]
impl Lane {
    /// Of the running loop. Without `factory` there is no application, and the lane brings the site's reports alone.
    #[new]
    #[pyo3(signature = (engine, edge, factory, socket, fault, path))]
    fn new(
        py: Python<'_>,
        engine: &Bound<'_, Engine>,
        edge: Settings<Queue>,
        factory: Option<Py<PyAny>>,
        socket: Py<PyAny>,
        fault: Py<PyAny>,
        path: Option<String>,
    ) -> PyResult<Self> {
        let port = engine.get().port(py)?;
        let queue = if factory.is_some() { edge.0 } else { edge.0.without_application() };
        let factory = factory.unwrap_or_else(|| py.None());
        let application = Application { factory, socket, fault, path };
        let shared = Shared::new(py, &port, engine.get().threads(), queue.clone(), application)?;
        let slot = Slot::receiving(port, Arc::new(Listener(Arc::downgrade(&shared))));
        queue.listen(slot.waker());
        Ok(Self { shared, slot: Mutex::new(Some(slot)) })
    }

    /// Takes no more requests. The application gets the waiting ones now.
    fn drain(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.check_thread()?;
        self.shared.drain(py);
        Ok(())
    }

    /// Ends the idle protocols, and the others after their responses: from now on each takes one request.
    fn retire(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.check_thread()?;
        self.shared.retire(py);
        Ok(())
    }

    /// Reports the ends of requests, aborts waiting requests, and closes idle protocols. Idempotent.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.check_thread()?;
        if self.shared.close(py) {
            let slot = lock(&self.slot).take();
            drop(slot);
        }
        Ok(())
    }

    /// Requests that wait for the application, idle protocols, and responses that the engine sends after their handlers
    /// have returned.
    fn counts(&self) -> (usize, usize, usize) {
        self.shared.counts()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.shared.traverse(&visit)
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.shared.queue().abandon();
    }
}
