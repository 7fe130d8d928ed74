//! `Admission`: a request to subscribe, which is decided on the event loop's thread. An engine thread then serves the
//! subscriber: the one that owns its client, or one that reads for Python; for a worker process, a thread of the parent.

use penstock_engine::hub::{self, Admitted, Lease};
use penstock_engine::stream::Stream;
use penstock_engine::wire::Head;
use penstock_engine::{Code, Result};
use pyo3::prelude::*;

use crate::asking::Asking;
use crate::errors::exception;
use crate::port::Slot;

/// The decision, and the process that has made it.
pub(crate) enum Decision {
    Here(hub::Admission),
    /// The parent of this worker process: a head, and then the events.
    Afar(Stream),
}

impl Decision {
    fn head(&self) -> Option<Head> {
        match self {
            Self::Here(admission) => Some(admission.head()),
            Self::Afar(stream) => stream.head().map(|head| head.head.clone()),
        }
    }
}

/// A subscriber that was admitted.
pub(crate) enum Guest {
    /// Until the lease expires, if there is one.
    Here(Box<Admitted>, Option<Lease>),
    /// A subscriber of the parent of this worker process.
    Afar(Stream),
}

/// A request to subscribe.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Admission {
    asking: Asking<Decision>,
    lease: Option<Lease>,
}

impl Admission {
    pub(crate) fn new(
        asking: impl Future<Output = Result<Decision>> + Send + 'static,
        lease: Option<Lease>,
        slot: Slot,
    ) -> Self {
        Self { asking: Asking::new(asking, slot), lease }
    }

    /// Takes the admitted subscriber, to serve it.
    pub(crate) fn take(&self, py: Python<'_>) -> PyResult<Guest> {
        match self.asking.take() {
            Some(Decision::Here(hub::Admission::Admitted(admitted))) => {
                Ok(Guest::Here(admitted, self.lease.clone()))
            }
            Some(Decision::Afar(stream)) => Ok(Guest::Afar(stream)),
            _ => Err(exception(py, &Code::StreamClosed.error("this admission has been used, or closed"))),
        }
    }
}

#[pymethods]
impl Admission {
    /// Drives the decision. `None`: it is decided; else a future, after which the caller asks
    /// again.
    fn step<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.asking.step(py)
    }

    /// Status and fields of the response; `None` before the decision, and after the subscriber was
    /// taken.
    fn head(&self) -> Option<(u16, Vec<(String, String)>)> {
        let head = self.asking.look(Decision::head)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Some((head.status, head.headers().map(|(name, value)| (text(name), text(value))).collect()))
    }

    /// Gives it up. Idempotent.
    fn close(&self) {
        drop(self.asking.take());
    }
}
