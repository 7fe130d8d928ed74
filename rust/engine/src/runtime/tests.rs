use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::pulse::TICK;
use super::{Activity, Threads, from_afar, signal_soon};
use crate::sync::Arc;
use crate::sys::EventFd;

#[test]
fn tasks_run_on_the_thread_they_were_given_to() {
    let threads = Threads::start(2).unwrap();
    let (sender, receiver) = mpsc::channel();
    for number in 0..2 {
        let sender = sender.clone();
        threads.spawn(number, || async move {
            sender.send(std::thread::current().name().map(str::to_owned)).unwrap();
        });
        assert_eq!(receiver.recv().unwrap(), Some(format!("penstock-engine-{number}")));
    }
    assert_eq!([threads.pick(), threads.pick(), threads.pick()], [0, 1, 0]);
}

#[test]
fn a_task_of_which_a_thread_was_not_told_waits_for_the_next_word() {
    let threads = Threads::start(1).unwrap();
    let (sender, receiver) = mpsc::channel();
    for number in 0..2 {
        let sender = sender.clone();
        threads.spawn_untold(0, move || async move { sender.send(number).unwrap() });
    }
    threads.tell(0);
    assert_eq!([receiver.recv().unwrap(), receiver.recv().unwrap()], [0, 1]);
    // It comes with what is told after it as well, in order.
    let told = sender.clone();
    threads.spawn_untold(0, move || async move { sender.send(2).unwrap() });
    threads.spawn(0, move || async move { told.send(3).unwrap() });
    assert_eq!([receiver.recv().unwrap(), receiver.recv().unwrap()], [2, 3]);
    // There is nothing to tell of.
    threads.tell(0);
    threads.stop();
    threads.join();
    let (late, dropped) = mpsc::channel::<()>();
    threads.spawn_untold(0, move || async move { late.send(()).unwrap() });
    dropped.recv().unwrap_err();
}

#[test]
fn a_thread_that_hangs_is_seen_from_another() {
    let threads = Threads::start(2).unwrap();
    let (hangs, is_hanging) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    threads.spawn(1, || async move {
        hangs.send(()).unwrap();
        let _ = released.recv();
    });
    is_hanging.recv().unwrap();
    let end = Instant::now() + Duration::from_secs(30);
    // Twice the tick: a thread that turns is never silent for so long unless it gets no processor.
    while threads.activity()[1].silent < 2 * TICK {
        assert!(Instant::now() < end, "{:?}", threads.activity());
        std::thread::sleep(Duration::from_millis(20));
    }
    release.send(()).unwrap();
    // A hang counts as work. It began up to a tick after the last report.
    let is_over = |activity: &Activity| activity.silent <= TICK && activity.busy >= TICK;
    while !is_over(&threads.activity()[1]) {
        assert!(Instant::now() < end, "{:?}", threads.activity());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(threads.activity()[0].tasks, 1, "what delivers signals");
}

#[test]
fn a_task_is_woken_from_another_thread() {
    let threads = Threads::start(1).unwrap();
    let (sender, receiver) = mpsc::channel();
    let (done, is_done) = mpsc::channel();
    threads.spawn(0, move || async move {
        let mut polled = 0;
        std::future::poll_fn(|context| {
            polled += 1;
            sender.send(from_afar(context.waker())).unwrap();
            if polled == 3 { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
        done.send(()).unwrap();
    });
    receiver.recv().unwrap().wake_by_ref();
    receiver.recv().unwrap().wake();
    is_done.recv().unwrap();
    threads.stop();
    threads.join();
    // The receivers are gone, and nothing is kept for them.
    receiver.recv().unwrap().wake();
}

#[test]
fn a_signal_waits_for_the_tasks_that_are_ready() {
    let threads = Threads::start(1).unwrap();
    let (sender, receiver) = mpsc::channel();
    threads.spawn(0, || async move {
        let event = Arc::new(EventFd::new().unwrap());
        signal_soon(&event);
        let before = event.is_readable();
        tokio::task::yield_now().await;
        sender.send((before, event.is_readable())).unwrap();
    });
    assert_eq!(receiver.recv().unwrap(), (false, true));
    threads.stop();
    threads.join();
}

#[test]
fn a_signal_is_sent_also_by_a_thread_that_ends_and_by_any_other() {
    struct Signals(Arc<EventFd>);
    impl Drop for Signals {
        fn drop(&mut self) {
            signal_soon(&self.0);
        }
    }
    let threads = Threads::start(1).unwrap();
    let event = Arc::new(EventFd::new().unwrap());
    let (guard, (sender, receiver)) = (Signals(Arc::clone(&event)), mpsc::channel());
    threads.spawn(0, || async move {
        let _guard = guard;
        sender.send(()).unwrap();
        std::future::pending::<()>().await;
    });
    receiver.recv().unwrap();
    assert!(!event.is_readable());
    threads.stop();
    threads.join();
    assert!(event.is_readable());
    event.clear();
    signal_soon(&event);
    assert!(event.is_readable());
}

#[test]
fn stopping_drops_the_tasks_that_run_and_those_that_come() {
    struct Dropped(mpsc::Sender<()>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.send(()).unwrap();
        }
    }
    let threads = Threads::start(1).unwrap();
    let (sender, receiver) = mpsc::channel();
    for _ in 0..2 {
        let guard = Dropped(sender.clone());
        threads.spawn(0, || async move {
            let _guard = guard;
            std::future::pending::<()>().await;
        });
        threads.stop();
        threads.join();
        receiver.recv().unwrap();
    }
}
