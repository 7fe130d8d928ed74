//! `Admission`: a request to subscribe, which is decided on the event loop's thread. An engine thread then serves the
//! subscriber: the one that owns its client, or one that reads for Python; for a worker process, a thread of the parent.

use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};

use penstock_engine::hub::{self, Admitted, Lease};
use penstock_engine::stream::Stream;
use penstock_engine::wire::Head;
use penstock_engine::{Code, Result};
use pyo3::prelude::*;

use crate::errors::{IntoPython, exception};
use crate::lock;
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

type Asking = Pin<Box<dyn Future<Output = Result<Decision>> + Send>>;

enum State {
    Asking(Asking),
    Decided(Decision),
    /// Taken, or closed.
    Over,
}

/// A request to subscribe.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Admission {
    state: Mutex<State>,
    lease: Option<Lease>,
    slot: Slot,
}

impl Admission {
    pub(crate) fn new(
        asking: impl Future<Output = Result<Decision>> + Send + 'static,
        lease: Option<Lease>,
        slot: Slot,
    ) -> Self {
        Self { state: Mutex::new(State::Asking(Box::pin(asking))), lease, slot }
    }

    /// Takes the admitted subscriber, to serve it.
    pub(crate) fn take(&self, py: Python<'_>) -> PyResult<Guest> {
        let state = std::mem::replace(&mut *lock(&self.state), State::Over);
        match state {
            State::Decided(Decision::Here(hub::Admission::Admitted(admitted))) => {
                Ok(Guest::Here(admitted, self.lease.clone()))
            }
            State::Decided(Decision::Afar(stream)) => Ok(Guest::Afar(stream)),
            _ => Err(exception(py, &Code::StreamClosed.error("this admission has been used, or closed"))),
        }
    }

    /// Whether it is decided. If not, the slot is woken when that may have changed.
    fn poll(&self) -> Result<bool> {
        let mut state = lock(&self.state);
        let State::Asking(asking) = &mut *state else { return Ok(true) };
        let Poll::Ready(decision) = asking.as_mut().poll(&mut Context::from_waker(self.slot.waker())) else {
            return Ok(false);
        };
        *state = State::Over;
        *state = State::Decided(decision?);
        Ok(true)
    }
}

#[pymethods]
impl Admission {
    /// Drives the decision. `None`: it is decided; else a future, after which the caller asks
    /// again.
    fn step<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.poll().into_python(py)? {
            return Ok(None);
        }
        let future = self.slot.park(py)?;
        // A wake-up before the future existed would be lost.
        let is_decided = self.poll().into_python(py)?;
        Ok(Some(future).filter(|_| !is_decided))
    }

    /// Status and fields of the response; `None` before the decision, and after the subscriber was
    /// taken.
    fn head(&self) -> Option<(u16, Vec<(String, String)>)> {
        let state = lock(&self.state);
        let State::Decided(decision) = &*state else { return None };
        let head = decision.head()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Some((head.status, head.headers().map(|(name, value)| (text(name), text(value))).collect()))
    }

    /// Gives it up. Idempotent.
    fn close(&self) {
        let state = std::mem::replace(&mut *lock(&self.state), State::Over);
        drop(state);
    }
}
