//! Requests that wait for the application.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::app::{Ends, Fault, Near, Outcome, Over, Queue, Request, link};
use crate::error::Code;

fn request(name: &str) -> (Near, Request) {
    let (near, far) = link();
    let ends = Ends::default();
    (
        near,
        Request {
            head: name.as_bytes().to_vec(),
            body: None,
            chunked: false,
            ends,
            is_proven: true,
            thread: 0,
            far,
            socket: None,
            edge: None,
        },
    )
}

fn taken(queue: &Queue) -> Option<Vec<u8>> {
    queue.take().map(|request| {
        request.far.finish();
        request.head
    })
}

#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn requests_are_taken_in_their_order_with_one_wake_up() {
    let queue = Queue::new(8, None, 0);
    let bell = Arc::new(Bell::default());
    queue.listen(&Waker::from(Arc::clone(&bell)));
    let mut nears = Vec::new();
    for name in ["a", "b", "c"] {
        let (near, request) = request(name);
        queue.offer(request).unwrap();
        nears.push(near);
    }
    assert_eq!(bell.0.load(Ordering::Relaxed), 1);
    assert_eq!([taken(&queue), taken(&queue), taken(&queue), taken(&queue)].concat_some(), b"abc");
    let (_near, request) = request("d");
    queue.offer(request).unwrap();
    assert_eq!(bell.0.load(Ordering::Relaxed), 2);
}

trait ConcatSome {
    fn concat_some(self) -> Vec<u8>;
}

impl<const COUNT: usize> ConcatSome for [Option<Vec<u8>>; COUNT] {
    fn concat_some(self) -> Vec<u8> {
        self.into_iter().flatten().flatten().collect()
    }
}

#[test]
fn one_more_than_the_bound_is_refused_at_once() {
    let queue = Queue::new(2, None, 0);
    let (_first, request_first) = request("a");
    let (_second, request_second) = request("b");
    let (_third, request_third) = request("c");
    let place = queue.offer(request_first).unwrap();
    queue.offer(request_second).unwrap();
    assert_eq!(queue.offer(request_third).unwrap_err().code(), Code::AppBusy);
    assert!(queue.withdraw(place));
    assert!(!queue.withdraw(place), "it is gone");
    let (_fourth, request_fourth) = request("d");
    queue.offer(request_fourth).unwrap();
    assert_eq!([taken(&queue), taken(&queue)].concat_some(), b"bd");
}

#[test]
fn a_request_that_was_taken_cannot_be_withdrawn() {
    let queue = Queue::new(2, None, 0);
    let (_near, request) = request("a");
    let place = queue.offer(request).unwrap();
    assert!(queue.waits(place));
    let request = queue.take().unwrap();
    assert!(!queue.waits(place) && !queue.withdraw(place));
    request.far.finish();
}

#[test]
fn a_closed_queue_gives_out_what_it_has() {
    let queue = Queue::new(2, None, 0);
    let (_near, waiting) = request("a");
    queue.offer(waiting).unwrap();
    queue.close();
    let (_other, late) = request("b");
    assert_eq!(queue.offer(late).unwrap_err().code(), Code::Draining);
    assert_eq!(taken(&queue).unwrap(), b"a");
}

#[test]
fn requests_of_an_abandoned_queue_are_broken_off() {
    let queue = Queue::new(2, None, 0);
    let (near, waiting) = request("a");
    queue.offer(waiting).unwrap();
    queue.abandon();
    assert_eq!(over(&near), Some(Over::Aborted));
}

/// How the application's half has ended.
fn over(near: &Near) -> Option<Over> {
    match near.poll_commands(&mut Context::from_waker(Waker::noop()), &mut VecDeque::new()) {
        Poll::Ready(Err(over)) => Some(over),
        _ => None,
    }
}

#[test]
fn the_newest_request_is_taken_first_once_another_has_waited_for_too_long() {
    for (limit, order) in [(None, b"abc"), (Some(Duration::MAX), b"abc"), (Some(Duration::ZERO), b"cba")] {
        let queue = Queue::new(8, None, 0).in_order_within(limit);
        let nears = ["a", "b", "c"].map(|name| {
            let (near, request) = request(name);
            queue.offer(request).unwrap();
            near
        });
        assert_eq!([taken(&queue), taken(&queue), taken(&queue)].concat_some(), order, "{limit:?}");
        drop(nears);
    }
}

#[test]
fn what_has_waited_for_too_long_in_overload_is_given_back() {
    let queue = Queue::new(8, None, 0);
    let (near, waiting) = request("a");
    let place = queue.offer(waiting).unwrap();
    queue.shed(Duration::MAX);
    assert_eq!((over(&near), queue.waits(place)), (None, true));
    queue.shed(Duration::ZERO);
    assert_eq!((over(&near), queue.waits(place)), (Some(Over::Refused), false));
    assert_eq!((queue.stats().expired, queue.stats().waiting), (1, 0));
    queue.shed(Duration::ZERO);
    assert_eq!(queue.stats().expired, 1, "nothing waits");
}

/// What was taken since the last reading, and whether more wait.
fn progress(queue: &Queue) -> (u64, bool) {
    let waits = queue.reading().expect("it is open");
    (waits.taken, waits.have_grown)
}

#[test]
fn a_queue_tells_what_was_taken_and_whether_more_wait_since_it_was_asked_last() {
    let queue = Queue::new(2, None, 0);
    let mut nears = Vec::new();
    let mut offer = |name| {
        let (near, request) = request(name);
        nears.push(near);
        queue.offer(request).is_ok()
    };
    assert!(offer("a"));
    assert_eq!(progress(&queue), (0, true));
    taken(&queue);
    assert_eq!(progress(&queue), (1, false));
    assert!(offer("b"));
    taken(&queue);
    assert!(offer("c"));
    assert_eq!(progress(&queue), (1, true));
    assert_eq!(progress(&queue), (0, false));
    taken(&queue);
    assert_eq!([offer("d"), offer("e"), offer("f")], [true, true, false]);
    assert_eq!(progress(&queue), (1, true));
    taken(&queue);
    assert_eq!([offer("g"), offer("h")], [true, false]);
    assert_eq!(progress(&queue), (1, true), "as many wait as may, and more came");
}

#[test]
fn a_dispatcher_that_leaves_requests_is_called_again() {
    let queue = Queue::new(8, None, 0);
    let bell = Arc::new(Bell::default());
    queue.listen(&Waker::from(Arc::clone(&bell)));
    let nears = ["a", "b"].map(|name| {
        let (near, request) = request(name);
        queue.offer(request).unwrap();
        near
    });
    assert_eq!((taken(&queue).unwrap(), bell.0.load(Ordering::Relaxed)), (b"a".to_vec(), 1));
    queue.call();
    assert_eq!((taken(&queue).unwrap(), bell.0.load(Ordering::Relaxed)), (b"b".to_vec(), 2));
    queue.call();
    assert_eq!(bell.0.load(Ordering::Relaxed), 2, "none waits");
    drop(nears);
}

#[test]
fn faults_are_told_once_and_bounded() {
    let queue = Queue::new(2, None, 0);
    let bell = Arc::new(Bell::default());
    queue.listen(&Waker::from(Arc::clone(&bell)));
    for _ in 0..100 {
        let error = Code::BadResponse.error("short");
        queue.reports().fault(Fault { request: Some("GET /".to_owned()), error, is_relay: false });
    }
    assert!(bell.0.load(Ordering::Relaxed) > 0);
    assert_eq!(queue.reports().take_faults().len(), 64);
    assert_eq!(queue.reports().take_faults().len(), 0);
}

#[test]
fn an_end_that_is_not_awaited_wakes_for_a_failure_alone() {
    let queue = Queue::new(2, None, 0);
    let bell = Arc::new(Bell::default());
    queue.listen(&Waker::from(Arc::clone(&bell)));
    let end = |failure| Outcome { bytes: 1, begun: true, failure };
    queue.reports().completion(1).unawaited().tell(end(None));
    assert_eq!(bell.0.load(Ordering::Relaxed), 0);
    assert!(queue.reports().take_completed().is_empty());
    queue.reports().completion(2).unawaited().tell(end(Some(Code::BodyTruncated.error("short"))));
    queue.reports().completion(3).tell(end(None));
    assert_eq!(bell.0.load(Ordering::Relaxed), 1, "for the first of a burst");
    let tickets: Vec<u64> = queue.reports().take_completed().into_iter().map(|(ticket, _)| ticket).collect();
    assert_eq!((tickets, queue.reports().take_unawaited()), (vec![2, 3], vec![1]));
    assert!(queue.reports().take_unawaited().is_empty());
}

#[test]
fn what_becomes_of_requests_is_counted() {
    let queue = Queue::new(2, None, 0);
    let (_first, request_first) = request("a");
    let (_second, request_second) = request("b");
    let (_third, request_third) = request("c");
    let place = queue.offer(request_first).unwrap();
    queue.offer(request_second).unwrap();
    queue.offer(request_third).unwrap_err();
    assert!(queue.withdraw(place));
    taken(&queue).unwrap();
    let (_near, late) = request("d");
    let place = queue.offer(late).unwrap();
    assert!(queue.expire(place) && !queue.expire(place));
    let (_other, last) = request("e");
    queue.offer(last).unwrap();
    let stats = queue.stats();
    assert_eq!((stats.waiting, stats.bound), (1, 2));
    assert_eq!((stats.taken, stats.refused, stats.withdrawn, stats.expired), (1, 1, 1, 1));
    queue.abandon();
    assert_eq!(queue.stats().waiting, 0);
    assert_eq!(queue.stats().oldest, std::time::Duration::ZERO);
}

#[test]
fn who_takes_requests_gives_a_sign_when_asked_though_none_wait() {
    let queue = Queue::new(2, None, 0);
    let (bell, asking) = (Arc::new(Bell::default()), Arc::new(Bell::default()));
    queue.listen(&Waker::from(Arc::clone(&bell)));
    let waker = Waker::from(Arc::clone(&asking));
    let mut context = std::task::Context::from_waker(&waker);
    assert!(queue.poll_sign(&mut context).is_ready(), "none is owed");
    queue.ask_sign();
    queue.ask_sign();
    assert_eq!(bell.0.load(Ordering::Relaxed), 1, "it has been woken, and is silent");
    assert!(queue.poll_sign(&mut context).is_pending());
    assert!(queue.poll_sign(&mut context).is_pending());
    let owed = queue.stats().owed;
    assert!(queue.stats().owed > owed, "it grows while nothing is heard");
    assert_eq!(taken(&queue), None);
    assert_eq!(asking.0.load(Ordering::Relaxed), 1, "a task that asks twice is woken once");
    assert!(queue.poll_sign(&mut context).is_ready());
    let took = queue.stats().lag;
    assert!(took > owed);
    queue.ask_sign();
    assert_eq!(taken(&queue), None);
    assert_eq!(queue.stats().owed, std::time::Duration::ZERO);
    assert_ne!(queue.stats().lag, took, "it is that of the last one");
}

#[test]
fn nobody_waits_for_the_sign_of_one_that_has_gone() {
    let queue = Queue::new(2, None, 0);
    queue.listen(Waker::noop());
    queue.ask_sign();
    let asking = Arc::new(Bell::default());
    let waker = Waker::from(Arc::clone(&asking));
    assert!(queue.poll_sign(&mut std::task::Context::from_waker(&waker)).is_pending());
    queue.abandon();
    assert_eq!(asking.0.load(Ordering::Relaxed), 1);
    queue.ask_sign();
    assert_eq!(queue.stats().owed, std::time::Duration::ZERO, "there is no dispatcher to ask");
}
