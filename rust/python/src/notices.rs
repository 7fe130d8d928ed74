//! Log notices about origins, on their way from engine threads to Python.

use std::sync::Arc;

use penstock_engine::origin::{Event, Notice, Notices};
use pyo3::prelude::*;

use crate::port::{Receive, Slot};

/// The function that logs notices, and the loop that calls it.
#[derive(Default)]
pub(crate) struct Telling {
    pub(crate) tell: Option<Py<PyAny>>,
    /// On the loop that used the engine last; `None` before its first use.
    pub(crate) slot: Option<Slot>,
}

/// An event of an origin that is worth a line in the log.
#[pyclass(frozen, get_all, module = "penstock._native")]
pub(crate) struct OriginNotice {
    origin: String,
    /// The address that was connected to, if one was.
    address: Option<String>,
    /// The name of the event, such as that of an error code.
    event: &'static str,
    reason: String,
    /// Whether the origin can be used again.
    is_good: bool,
    /// Notices of the same kind that were left out since the last one.
    left_out: u64,
}

/// Calls `tell` with each notice.
pub(crate) struct Teller {
    pub(crate) notices: Arc<Notices>,
    pub(crate) tell: Py<PyAny>,
}

impl Receive for Teller {
    fn receive(&self, py: Python<'_>) {
        while let Some(notice) = self.notices.take() {
            let Notice { origin, address, event, reason, left_out } = notice;
            let notice = OriginNotice {
                origin: origin.to_string(),
                address: address.map(|address| address.to_string()),
                event: event.name(),
                reason,
                is_good: event == Event::Up,
                left_out,
            };
            if let Err(error) = self.tell.bind(py).call1((notice,)) {
                error.write_unraisable(py, Some(self.tell.bind(py)));
            }
        }
    }
}
