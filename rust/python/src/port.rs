//! How engine threads wake an event loop: one eventfd per loop, one system call per burst.
//!
//! A waiting stream keeps an `asyncio.Future` in its slot here, and gives the engine a plain waker that has the
//! slot's number. A wake-up pushes the number to the mailbox and makes the eventfd readable, unless it already is.
//! The loop's reader callback then completes all futures of the burst. A permanent owner of a slot, such as a
//! transport, is called instead ([`Receive`]). An engine thread never drops a Python object.

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::time::Instant;

use penstock_engine::EventFd;
use penstock_engine::runtime::{Threads, signal_soon};
use pyo3::exceptions::PyOSError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use pyo3::{PyTraverseError, intern};
use slab::Slab;

use crate::asks::{Asks, Telling};
use crate::lock;

/// The half that engine threads see.
struct Mailbox {
    event: Arc<EventFd>,
    /// The eventfd is readable, or about to be: adding a slot needs no write to it.
    signalled: AtomicBool,
    slots: Mutex<Vec<usize>>,
    /// Python objects that the engine no longer reads.
    returned: Mutex<Vec<Box<dyn Send>>>,
    wakeups: AtomicU64,
}

impl Mailbox {
    fn put(&self, slot: usize) {
        lock(&self.slots).push(slot);
        self.signal();
    }

    /// Has the loop drop `held`: an engine thread may not enter the interpreter.
    fn give_back(&self, held: Box<dyn Send>) {
        let first = {
            let mut returned = lock(&self.returned);
            returned.push(held);
            returned.len() == 1
        };
        if first {
            self.signal();
        }
    }

    fn signal(&self) {
        // AcqRel pairs with the Release store in `take`: a thread that reads `false` has pushed after the
        // loop's last look.
        if !self.signalled.swap(true, Ordering::AcqRel) {
            signal_soon(&self.event);
        }
    }

    fn take(&self) -> Vec<usize> {
        self.wakeups.fetch_add(1, Ordering::Relaxed);
        self.event.clear();
        // Cleared before the slots are taken: a slot that is pushed in between signals again, and is found now
        // or at the next call. The other order would lose it. The lock of `slots` orders the two.
        self.signalled.store(false, Ordering::Release);
        std::mem::take(&mut *lock(&self.slots))
    }
}

/// Returns Python objects to the loop, from any thread.
#[derive(Clone)]
pub(crate) struct Returns(Arc<Mailbox>);

impl Returns {
    /// Has `held` dropped on the loop's thread.
    pub(crate) fn give_back(&self, held: impl Send + 'static) {
        self.0.give_back(Box::new(held));
    }
}

struct SlotWaker {
    mailbox: Arc<Mailbox>,
    slot: usize,
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.mailbox.put(self.slot);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.mailbox.put(self.slot);
    }
}

/// Called on the loop's thread when an engine thread has woken its slot. It handles its own errors, because others
/// of the same burst come after it.
pub(crate) trait Receive: Send + Sync {
    fn receive(&self, py: Python<'_>);
}

/// What a wake-up of a slot does.
#[derive(Default)]
enum Waiting {
    #[default]
    Nothing,
    /// Until the next wake-up.
    Future(Py<PyAny>),
    /// For every wake-up.
    Receiver(Arc<dyn Receive>),
}

/// The waiters of a loop, by the numbers of their slots.
type Slots = Slab<Waiting>;

/// Takes a future out of the slot; a receiver stays.
fn woken(slots: &mut Slots, slot: usize) -> Waiting {
    match slots.get_mut(slot) {
        Some(Waiting::Receiver(receiver)) => Waiting::Receiver(Arc::clone(receiver)),
        Some(waiting) => std::mem::take(waiting),
        None => Waiting::Nothing,
    }
}

/// The half that the event loop's thread sees. One per loop, shared by all engines used on it.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct LoopPort {
    mailbox: Arc<Mailbox>,
    slots: Mutex<Slots>,
    asks: Asks,
    event_loop: Py<PyAny>,
    create_future: Py<PyAny>,
    users: AtomicUsize,
}

/// Ports of loops that an engine is in use on.
static PORTS: Mutex<Vec<Py<LoopPort>>> = Mutex::new(Vec::new());

fn running_loop(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static GET: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    GET.import(py, "asyncio", "get_running_loop")?.call0()
}

impl LoopPort {
    /// The port of the running loop, and whether it differs from `current`, which the common case
    /// returns without a search.
    pub(crate) fn of_running_loop<'py>(
        py: Python<'py>,
        current: Option<&Py<Self>>,
    ) -> PyResult<(Bound<'py, Self>, bool)> {
        let event_loop = running_loop(py)?;
        if let Some(port) = current.filter(|port| port.get().event_loop.is(&event_loop)) {
            return Ok((port.bind(py).clone(), false));
        }
        let known = lock(&PORTS)
            .iter()
            .find(|port| port.get().event_loop.is(&event_loop))
            .map(|port| port.clone_ref(py));
        if let Some(port) = known {
            return Ok((port.into_bound(py), true));
        }
        let event =
            EventFd::new().map_err(|error| PyOSError::new_err(format!("cannot open an eventfd: {error}")))?;
        let port = Bound::new(
            py,
            Self {
                mailbox: Arc::new(Mailbox {
                    event: Arc::new(event),
                    signalled: AtomicBool::new(false),
                    slots: Mutex::new(Vec::new()),
                    returned: Mutex::new(Vec::new()),
                    wakeups: AtomicU64::new(0),
                }),
                slots: Mutex::new(Slots::default()),
                asks: Asks::default(),
                create_future: event_loop.getattr("create_future")?.unbind(),
                event_loop: event_loop.clone().unbind(),
                users: AtomicUsize::new(0),
            },
        )?;
        let descriptor = port.get().mailbox.event.as_raw_fd();
        event_loop.call_method1("add_reader", (descriptor, port.getattr("drain")?))?;
        lock(&PORTS).push(port.clone().unbind());
        Ok((port, true))
    }

    /// Counts an engine that uses the loop.
    pub(crate) fn enter(&self) {
        self.users.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an engine that is closed; the last one closes the port. Called on the loop's thread.
    pub(crate) fn leave(slf: &Bound<'_, Self>) -> PyResult<()> {
        let port = slf.get();
        if port.users.fetch_sub(1, Ordering::Relaxed) != 1 {
            return Ok(());
        }
        // Wake-ups from when the engine's threads ended would be lost when the reader is removed.
        port.drain(slf.py())?;
        lock(&PORTS).retain(|known| !known.is(slf));
        let event_loop = port.event_loop.bind(slf.py());
        if !event_loop.call_method0("is_closed")?.is_truthy()? {
            event_loop.call_method1("remove_reader", (port.mailbox.event.as_raw_fd(),))?;
        }
        Ok(())
    }

    /// The loop.
    pub(crate) fn event_loop<'py>(&self, py: Python<'py>) -> &Bound<'py, PyAny> {
        self.event_loop.bind(py)
    }

    /// Passes an error that no caller can get to the loop's exception handler.
    pub(crate) fn report(&self, py: Python<'_>, error: PyErr, message: &str) {
        let context = PyDict::new(py);
        let told = context
            .set_item("message", message)
            .and_then(|()| context.set_item("exception", error.clone_ref(py).into_value(py)))
            .and_then(|()| {
                let event_loop = self.event_loop(py);
                event_loop.call_method1(intern!(py, "call_exception_handler"), (&context,))
            });
        if told.is_err() {
            error.write_unraisable(py, None);
        }
    }

    /// A future of the loop.
    pub(crate) fn future<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.create_future.bind(py).call0()
    }

    /// As [`Threads::spawn`], for a request of this loop: a busy one tells the thread at its next turn.
    pub(crate) fn spawn<F>(
        slf: &Bound<'_, Self>,
        threads: &Arc<Threads>,
        thread: usize,
        start: impl FnOnce() -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let port = slf.get();
        let telling = port.asks.note(Instant::now(), threads, thread);
        if let Telling::Now = telling {
            return threads.spawn(thread, start);
        }
        threads.spawn_untold(thread, start);
        if let Telling::First = telling {
            let py = slf.py();
            let scheduled = slf
                .getattr(intern!(py, "tell"))
                .and_then(|tell| port.event_loop(py).call_method1(intern!(py, "call_soon"), (tell,)));
            if scheduled.is_err() {
                // The loop is closed.
                port.tell();
            }
        }
    }

    /// Returns Python objects to this loop.
    pub(crate) fn returns(&self) -> Returns {
        Returns(Arc::clone(&self.mailbox))
    }

    /// The number of times that the loop was woken.
    pub(crate) fn wakeups(&self) -> u64 {
        self.mailbox.wakeups.load(Ordering::Relaxed)
    }
}

#[pymethods]
impl LoopPort {
    /// Handles the wake-ups. The loop calls it when the eventfd is readable.
    fn drain(&self, py: Python<'_>) -> PyResult<()> {
        for slot in self.mailbox.take() {
            let waiting = woken(&mut lock(&self.slots), slot);
            match waiting {
                Waiting::Nothing => {}
                Waiting::Future(future) => {
                    let future = future.bind(py);
                    if !future.call_method0(intern!(py, "done"))?.is_truthy()? {
                        future.call_method1(intern!(py, "set_result"), (py.None(),))?;
                    }
                }
                Waiting::Receiver(receiver) => receiver.receive(py),
            }
        }
        let returned = std::mem::take(&mut *lock(&self.mailbox.returned));
        drop(returned);
        Ok(())
    }

    /// Tells the engine's threads of the requests of this turn. The loop calls it.
    fn tell(&self) {
        self.asks.tell();
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.event_loop)?;
        visit.call(&self.create_future)
    }
}

/// A waiter's place in a port, which is freed on drop.
pub(crate) struct Slot {
    port: Py<LoopPort>,
    number: usize,
    /// Whether there may be a future in this place: it saves ready frames the lock.
    parked: AtomicBool,
    waker: Waker,
}

impl Slot {
    pub(crate) fn new(port: Py<LoopPort>) -> Self {
        let number = lock(&port.get().slots).insert(Waiting::Nothing);
        let waker = Arc::new(SlotWaker { mailbox: Arc::clone(&port.get().mailbox), slot: number }).into();
        Self { port, number, parked: AtomicBool::new(false), waker }
    }

    /// A place whose wake-ups call `receiver`, which is kept alive until the place is freed.
    pub(crate) fn receiving(port: Py<LoopPort>, receiver: Arc<dyn Receive>) -> Self {
        let slot = Self::new(port);
        lock(&slot.port.get().slots)[slot.number] = Waiting::Receiver(receiver);
        slot
    }

    /// The waker for the engine.
    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Whether a task waits here already. A cancelled wait does not count.
    pub(crate) fn is_waiting(&self, py: Python<'_>) -> PyResult<bool> {
        // Acquire, with the Release of `park`: if this reads true, the future is there.
        if !self.parked.load(Ordering::Acquire) {
            return Ok(false);
        }
        let future = {
            let slots = lock(&self.port.get().slots);
            let Waiting::Future(future) = &slots[self.number] else {
                // Relaxed: under the lock that `park` takes before it sets it again.
                self.parked.store(false, Ordering::Relaxed);
                return Ok(false);
            };
            future.clone_ref(py)
        };
        Ok(!future.bind(py).call_method0(intern!(py, "done"))?.is_truthy()?)
    }

    /// A future to yield to the task; completed by the next wake-up.
    pub(crate) fn wait<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let future = self.park(py)?;
        // What `Future.__iter__` sets before it yields itself, so that the task accepts the future.
        future.setattr(intern!(py, "_asyncio_future_blocking"), true)?;
        Ok(future)
    }

    /// A future to await; completed by the next wake-up.
    pub(crate) fn park<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let port = self.port.get();
        let future = port.future(py)?;
        let previous = {
            let mut slots = lock(&port.slots);
            // Release, with the Acquire of `is_waiting`.
            self.parked.store(true, Ordering::Release);
            std::mem::replace(&mut slots[self.number], Waiting::Future(future.clone().unbind()))
        };
        drop(previous);
        Ok(future)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let waiting = lock(&self.port.get().slots).remove(self.number);
        drop(waiting);
    }
}
