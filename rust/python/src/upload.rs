//! A request body on its way from Python to an engine thread.

use std::sync::{Arc, Mutex};

use penstock_engine::Code;
use penstock_engine::pool::{CopyReason, Pool, Purpose};
use penstock_engine::stream::{Ending, Feed};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;

use crate::awaitable::{Awaitable, Want};
use crate::buffer::copy_out;
use crate::errors::{IntoPython, exception};
use crate::lock;
use crate::port::{LoopPort, Slot};

/// Python's side of a request body. `await room(n)`, then `write` at most `n` bytes.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Upload {
    feed: Arc<Mutex<Option<Feed>>>,
    pool: Pool,
    slot: Arc<Slot>,
}

impl Upload {
    pub(crate) fn new(feed: Feed, pool: Pool, port: Py<LoopPort>) -> Self {
        Self { feed: Arc::new(Mutex::new(Some(feed))), pool, slot: Arc::new(Slot::new(port)) }
    }
}

#[pymethods]
impl Upload {
    fn room(&self, size: usize) -> Awaitable {
        Awaitable::new(Want::Room(Arc::clone(&self.feed), self.pool.clone(), size), Arc::clone(&self.slot))
    }

    /// Copies `length` bytes at `offset` into the pool and passes them on. The copy is counted: an engine thread
    /// must not hold a Python object, and the buffer may change under it.
    #[expect(clippy::needless_pass_by_value, reason = "the argument is the export, which ends with the call")]
    fn write(&self, py: Python<'_>, data: PyBuffer<u8>, offset: usize, length: usize) -> PyResult<()> {
        let mut writer = self.pool.writer(length, Purpose::Bulk).into_python(py)?;
        copy_out(py, &data, offset, &mut writer.spare()[..length]);
        self.pool.count_copy(CopyReason::Upload, length);
        let slice = writer.commit(length);
        match lock(&self.feed).as_ref() {
            Some(feed) => feed.push_raw(slice).into_python(py),
            None => Err(exception(py, &Code::StreamClosed.error("the upload has ended"))),
        }
    }

    fn finish(&self) {
        let feed = lock(&self.feed).take();
        if let Some(feed) = feed {
            feed.finish(Ending::default());
        }
    }

    fn fail(&self, reason: String) {
        let feed = lock(&self.feed).take();
        if let Some(feed) = feed {
            feed.fail(Code::UploadFailed.error(reason));
        }
    }
}
