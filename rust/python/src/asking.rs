//! A future of the engine that a coroutine of Python drives: `while (waits := asking.step()) is not None: await waits`.

use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};

use penstock_engine::Result;
use penstock_engine::hub::{self, Id};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

use crate::errors::{IntoPython, exception};
use crate::lock;
use crate::port::Slot;

enum State<T> {
    Asking(Pin<Box<dyn Future<Output = Result<T>> + Send>>),
    Ready(T),
    /// It has failed, or its result was taken.
    Over,
}

/// A future and its result.
pub(crate) struct Asking<T> {
    state: Mutex<State<T>>,
    slot: Slot,
}

impl<T> Asking<T> {
    pub(crate) fn new(asking: impl Future<Output = Result<T>> + Send + 'static, slot: Slot) -> Self {
        Self { state: Mutex::new(State::Asking(Box::pin(asking))), slot }
    }

    /// Drives it. `None`: it is ready; else a future of the loop, after which the caller asks again.
    pub(crate) fn step<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.poll().into_python(py)? {
            return Ok(None);
        }
        let future = self.slot.park(py)?;
        // A wake-up before the future existed would be lost.
        let is_ready = self.poll().into_python(py)?;
        Ok(Some(future).filter(|_| !is_ready))
    }

    /// Whether it is ready. If not, the slot is woken when that may have changed.
    fn poll(&self) -> Result<bool> {
        let mut state = lock(&self.state);
        let State::Asking(asking) = &mut *state else { return Ok(true) };
        let Poll::Ready(result) = asking.as_mut().poll(&mut Context::from_waker(self.slot.waker())) else {
            return Ok(false);
        };
        *state = State::Over;
        *state = State::Ready(result?);
        Ok(true)
    }

    /// Looks at the result, if it is there.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&T) -> Option<R>) -> Option<R> {
        if let State::Ready(result) = &*lock(&self.state) { look(result) } else { None }
    }

    /// Takes the result, if it is there. Nothing is asked any more.
    pub(crate) fn take(&self) -> Option<T> {
        let state = std::mem::replace(&mut *lock(&self.state), State::Over);
        if let State::Ready(result) = state { Some(result) } else { None }
    }
}

/// What a call of a hub gives.
pub(crate) enum Given {
    Id(Id),
    IsNews(bool),
    Claim(hub::Claim),
}

impl Given {
    pub(crate) fn into_object(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        match self {
            Self::Id(id) => id.to_string().into_bound_py_any(py),
            Self::IsNews(is_news) => is_news.into_bound_py_any(py),
            Self::Claim(claim) => TopicClaim(Mutex::new(Some(claim))).into_bound_py_any(py),
        }
    }
}

/// A call of a hub that another process answers. Dropped, the call goes on.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct HubAnswer(pub(crate) Asking<Given>);

#[pymethods]
impl HubAnswer {
    /// Drives the call. `None`: it is answered; else a future, after which the caller asks again.
    fn step<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.0.step(py)
    }

    /// What it gives; once.
    fn result<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let Some(given) = self.0.take() else {
            let error =
                penstock_engine::Code::Busy.error("this call has no answer yet, or its answer was taken");
            return Err(exception(py, &error));
        };
        given.into_object(py)
    }
}

/// The right to feed a topic, until this is dropped or used.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct TopicClaim(Mutex<Option<hub::Claim>>);

impl TopicClaim {
    pub(crate) fn take(&self, py: Python<'_>) -> PyResult<hub::Claim> {
        let claim = lock(&self.0).take();
        claim.ok_or_else(|| {
            exception(py, &penstock_engine::Code::Busy.error("this right to feed a topic has been used"))
        })
    }
}
