//! The inbox of an engine thread: what other threads have it start and wake, many at a time for one system call.

use std::cell::RefCell;
use std::task::{Wake, Waker};

use tokio::sync::Notify;

use crate::sync::{Arc, Mutex, MutexGuard, lock};

/// Starts a task, on the thread that will run it.
type Start = Box<dyn FnOnce() + Send>;

/// The inbox of a thread: tasks that other threads have given to it, and its tasks that they have woken. Tokio's own
/// queue makes a system call for each task; here it is one for all tasks that come before the thread looks.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    tasks: Mutex<Tasks>,
    filled: Notify,
}

#[derive(Default)]
struct Tasks {
    waiting: Vec<Start>,
    woken: Vec<Waker>,
    /// The thread has been woken and has not looked yet.
    told: bool,
    closed: bool,
}

impl std::fmt::Debug for Tasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tasks")
            .field("waiting", &self.waiting.len())
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}

impl Inbox {
    pub(super) fn put(&self, start: Start) {
        let mut tasks = lock(&self.tasks);
        if tasks.closed {
            return;
        }
        tasks.waiting.push(start);
        self.tell(tasks);
    }

    /// As `put`, but the thread is not woken: it looks when it is told of something else, or by [`Self::tell_waiting`].
    pub(super) fn put_untold(&self, start: Start) {
        let mut tasks = lock(&self.tasks);
        if !tasks.closed {
            tasks.waiting.push(start);
        }
    }

    /// Wakes the thread if tasks wait that it was not told of.
    pub(super) fn tell_waiting(&self) {
        let tasks = lock(&self.tasks);
        if !tasks.waiting.is_empty() {
            self.tell(tasks);
        }
    }

    fn wake(&self, waker: Waker) {
        let mut tasks = lock(&self.tasks);
        if tasks.closed {
            drop(tasks);
            drop(waker);
            return;
        }
        tasks.woken.push(waker);
        self.tell(tasks);
    }

    fn tell(&self, mut tasks: MutexGuard<'_, Tasks>) {
        let told = std::mem::replace(&mut tasks.told, true);
        drop(tasks);
        if !told {
            self.filled.notify_one();
        }
    }

    /// Starts the tasks that are put in. Never ends.
    pub(super) async fn serve(&self) {
        loop {
            self.filled.notified().await;
            let (waiting, woken) = {
                let mut tasks = lock(&self.tasks);
                tasks.told = false;
                (std::mem::take(&mut tasks.waiting), std::mem::take(&mut tasks.woken))
            };
            for start in waiting {
                start();
            }
            for waker in woken {
                waker.wake();
            }
        }
    }

    /// Drops the tasks in it, and the tasks that will be put in.
    pub(super) fn close(&self) {
        let dropped = {
            let mut tasks = lock(&self.tasks);
            tasks.closed = true;
            (std::mem::take(&mut tasks.waiting), std::mem::take(&mut tasks.woken))
        };
        drop(dropped);
    }
}

thread_local! {
    /// The inbox of an engine thread.
    static INBOX: RefCell<Option<Arc<Inbox>>> = const { RefCell::new(None) };
}

/// Has other threads wake the tasks of this one through `inbox`.
pub(super) fn open(inbox: &Arc<Inbox>) {
    INBOX.set(Some(Arc::clone(inbox)));
}

/// Wakes a task of an engine thread through its inbox.
struct Afar {
    inbox: Arc<Inbox>,
    waker: Waker,
}

impl Wake for Afar {
    fn wake(self: std::sync::Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &std::sync::Arc<Self>) {
        self.inbox.wake(self.waker.clone());
    }
}

/// The waker to give to another thread in place of `waker`, which wakes a task of the calling engine thread: many that
/// are woken before the thread looks cost one system call. Not on an engine thread, it is `waker` itself.
pub(crate) fn from_afar(waker: &Waker) -> Waker {
    match INBOX.with_borrow(Clone::clone) {
        Some(inbox) => Waker::from(std::sync::Arc::new(Afar { inbox, waker: waker.clone() })),
        None => waker.clone(),
    }
}
