//! A future that is polled only when it has been woken.
//!
//! A task that waits for several things is polled for each of them, and would ask all the others too. One that is quiet
//! for hours beside one that is busy then costs its cache lines, and its code, for each event.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Asks a future when it has been woken, and the first time.
#[derive(Debug)]
pub(crate) struct Called<F> {
    future: F,
    bell: Option<(Arc<Bell>, Waker)>,
}

/// Wakes the task, and has it ask the future.
#[derive(Debug)]
struct Bell {
    rung: AtomicBool,
    task: Waker,
}

impl<F: Future + Unpin> Called<F> {
    pub(crate) fn new(future: F) -> Self {
        Self { future, bell: None }
    }

    /// Polls the future, if it may have got any further. Not after it was ready.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<F::Output> {
        let bell = self.bell.take_if(|(bell, _)| bell.task.will_wake(context.waker()));
        let (bell, waker) = self.bell.insert(bell.unwrap_or_else(|| {
            let bell = Arc::new(Bell { rung: AtomicBool::new(true), task: context.waker().clone() });
            (Arc::clone(&bell), Waker::from(bell))
        }));
        // Relaxed: what rings wakes the task after it, which then looks again. Acquire pairs with the Release of
        // `wake_by_ref`: what happened before the bell was rung, the future sees.
        if !bell.rung.load(Ordering::Relaxed) || !bell.rung.swap(false, Ordering::Acquire) {
            return Poll::Pending;
        }
        std::pin::Pin::new(&mut self.future).poll(&mut Context::from_waker(waker))
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Release pairs with the Acquire of `poll`.
        self.rung.store(true, Ordering::Release);
        self.task.wake_by_ref();
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Task(std::sync::atomic::AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn it_is_asked_once_and_then_only_when_woken() {
        let (mut asked, mut heard) = (0, None);
        let mut called = Called::new(poll_fn(|context| {
            asked += 1;
            heard = Some(context.waker().clone());
            if asked == 3 { Poll::Ready(()) } else { Poll::Pending }
        }));
        let task = Arc::new(Task::default());
        let waker = Waker::from(Arc::clone(&task));
        let context = &mut Context::from_waker(&waker);
        let mut rounds = 0;
        while called.poll(context).is_pending() {
            assert!(called.poll(context).is_pending(), "it was not woken");
            rounds += 1;
            assert_eq!(task.0.load(Ordering::Relaxed), rounds - 1);
            // What the future has left with its waker.
            called.bell.as_ref().unwrap().1.wake_by_ref();
            assert_eq!(task.0.load(Ordering::Relaxed), rounds, "the task is woken with it");
        }
        drop(called);
        assert_eq!((asked, rounds), (3, 2));
        assert!(heard.is_some());
    }

    #[test]
    fn another_task_is_told_anew() {
        let mut called = Called::new(poll_fn(|_| Poll::<()>::Pending));
        let tasks = [(); 2].map(|()| Arc::new(Task::default()));
        for task in &tasks {
            assert!(called.poll(&mut Context::from_waker(&Waker::from(Arc::clone(task)))).is_pending());
        }
        called.bell.as_ref().unwrap().1.wake_by_ref();
        assert_eq!(tasks.map(|task| task.0.load(Ordering::Relaxed)), [0, 1]);
    }
}
