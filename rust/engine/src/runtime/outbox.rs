//! The outbox of an engine thread: the event loops that it wakes, each once for all that it has to tell them.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::sync::Arc;
use crate::sys::EventFd;

/// The event loops that an engine thread is about to wake.
#[derive(Default)]
struct Outbox {
    events: RefCell<Vec<Arc<EventFd>>>,
    filled: Arc<Notify>,
    /// Until when the thread keeps its core after it has woken an event loop.
    stays_until: Cell<Option<Instant>>,
}

/// The longest time for which the thread stands back. A burst of small handlers is shorter. If it took longer, another
/// process wants the core too, or a handler is slow, and a switch costs little beside it.
const LONG: Duration = Duration::from_millis(1);

/// How long the thread does not stand back after that, so that such waits are rare. Arbitrary.
const STAY: Duration = Duration::from_millis(100);

impl Outbox {
    fn send(&self) {
        let events = self.events.take();
        if events.is_empty() {
            return;
        }
        for event in events {
            event.signal();
        }
        self.stand_back();
    }

    /// Lets an event loop that was woken onto this core begin, and end its burst. While this thread is ready to run,
    /// neither the answers of the loop nor packets of clients wake it; asleep, each of them would wake it onto the loop's
    /// core.
    fn stand_back(&self) {
        let begun = Instant::now();
        if self.stays_until.get().is_some_and(|until| begun < until) {
            return;
        }
        std::thread::yield_now();
        if begun.elapsed() > LONG {
            self.stays_until.set(Some(begun + STAY));
        }
    }
}

thread_local! {
    /// The outbox of an engine thread.
    static OUTBOX: RefCell<Option<Outbox>> = const { RefCell::new(None) };
}

/// Has this thread put its signals off from now on.
pub(super) fn open() {
    OUTBOX.set(Some(Outbox::default()));
}

/// Sends what was put off; no signal of this thread is from now on.
pub(super) fn close() {
    if let Some(outbox) = OUTBOX.take() {
        outbox.send();
    }
}

/// Signals `event`; on an engine thread not before the tasks that are ready have run. All their signals are then one
/// wake-up: an event loop on the same core would otherwise take the core after the first request of a burst, and handle
/// each request alone.
pub fn signal_soon(event: &Arc<EventFd>) {
    let later = OUTBOX.with_borrow(|outbox| {
        let Some(outbox) = outbox else { return false };
        outbox.events.borrow_mut().push(Arc::clone(event));
        outbox.filled.notify_one();
        true
    });
    if !later {
        event.signal();
    }
}

/// Sends the signals that were put off, after the tasks that were ready at the time of the first.
/// Never ends.
pub(super) async fn deliver() {
    let Some(filled) = OUTBOX.with_borrow(|outbox| outbox.as_ref().map(|outbox| Arc::clone(&outbox.filled)))
    else {
        return;
    };
    loop {
        filled.notified().await;
        OUTBOX.with_borrow(|outbox| {
            if let Some(outbox) = outbox {
                outbox.send();
            }
        });
    }
}
