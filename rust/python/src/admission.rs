//! `Admission`: whether one may subscribe, asked on the event loop's thread. Who is let in is then left to an engine thread:
//! to the one that owns its client, or to one that reads for Python; in a worker process, to its parent's.

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

/// What was decided, and where.
pub(crate) enum Decision {
    Here(hub::Admission),
    /// By the parent of this worker process: a head, and then the events.
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

/// Who has been let in.
pub(crate) enum Guest {
    /// Until the lease has run out, if there is one.
    Here(Box<Admitted>, Option<Lease>),
    /// The parent of this worker process knows it.
    Afar(Stream),
}

type Asking = Pin<Box<dyn Future<Output = Result<Decision>> + Send>>;

enum State {
    Asking(Asking),
    Decided(Decision),
    /// Given away, or of no use any more.
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

    /// Who has been let in, for somebody to serve.
    pub(crate) fn take(&self, py: Python<'_>) -> PyResult<Guest> {
        let state = std::mem::replace(&mut *lock(&self.state), State::Over);
        match state {
            State::Decided(Decision::Here(hub::Admission::Admitted(admitted))) => {
                Ok(Guest::Here(admitted, self.lease.clone()))
            }
            State::Decided(Decision::Afar(stream)) => Ok(Guest::Afar(stream)),
            _ => Err(exception(py, &Code::StreamClosed.error("nobody waits to be served by this admission"))),
        }
    }

    /// Whether it is decided; if not, the slot is woken when that may have changed.
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
    /// Goes on. None: it is decided; else a future of when to ask again.
    fn step<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.poll().into_python(py)? {
            return Ok(None);
        }
        let future = self.slot.park(py)?;
        // What came before the future was there.
        let is_decided = self.poll().into_python(py)?;
        Ok(Some(future).filter(|_| !is_decided))
    }

    /// Status and fields of the response; none before it is decided, and once somebody serves it.
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
