//! A count of what is under way, and the task that waits until nothing is.

use std::task::Waker;

use crate::sync::{AtomicUsize, Mutex, Ordering, lock};

/// The count, and one task that waits for it to be zero.
#[derive(Debug, Default)]
pub struct ActiveCount {
    count: AtomicUsize,
    waiter: Mutex<Option<Waker>>,
}

/// One that is under way, until this is dropped.
#[derive(Debug)]
pub struct Active<'a>(&'a ActiveCount);

impl ActiveCount {
    /// Counts one, until the guard is dropped.
    pub fn begin(&self) -> Active<'_> {
        // Relaxed, as everywhere here: the lock of `waiter` orders what `is_idle` depends on.
        self.count.fetch_add(1, Ordering::Relaxed);
        Active(self)
    }

    /// How many are under way.
    pub fn get(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether nothing is under way; if something is, `waker` is woken once when the last of it ends.
    pub fn is_idle(&self, waker: &Waker) -> bool {
        *lock(&self.waiter) = Some(waker.clone());
        // The count is read after the waker was stored. The last to end counts before it takes the lock: it finds the
        // waker, or it had the lock first, and the count read here is zero.
        self.get() == 0
    }
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::Relaxed) == 1 {
            let waiter = lock(&self.0.waiter).take();
            if let Some(waker) = waiter {
                waker.wake();
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicU32);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_last_to_end_wakes_the_waiter_once() {
        let (active, woken) = (ActiveCount::default(), Arc::new(Woken::default()));
        let waker = Waker::from(Arc::clone(&woken));
        let both = (active.begin(), active.begin());
        assert!(!active.is_idle(&waker));
        drop(both.0);
        assert_eq!((active.get(), woken.0.load(Ordering::Relaxed)), (1, 0));
        drop(both.1);
        drop(active.begin());
        assert_eq!((active.get(), woken.0.load(Ordering::Relaxed)), (0, 1));
        assert!(active.is_idle(&waker));
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use std::future::poll_fn;
    use std::task::Poll;

    use loom::future::block_on;
    use loom::thread;

    use super::*;
    use crate::pool::testing::model;
    use crate::sync::Arc;

    #[test]
    fn a_waiter_hears_of_the_last_end() {
        model(3, || {
            let active = Arc::new(ActiveCount::default());
            let ends: Vec<_> = (0..2)
                .map(|_| {
                    let active = Arc::clone(&active);
                    std::mem::forget(active.begin());
                    thread::spawn(move || drop(Active(&active)))
                })
                .collect();
            block_on(poll_fn(|context| match active.is_idle(context.waker()) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }));
            ends.into_iter().for_each(|end| end.join().unwrap());
        });
    }
}
