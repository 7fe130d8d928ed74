//! What a connection and an application can do to their exchange at once, in every order.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc as Plain;
use std::task::Poll;

use loom::future::block_on;
use loom::thread;

use super::dispatcher::InProcess;
use super::*;
use crate::error::Code;
use crate::pool::testing::model;

/// Bytes written until the application is done, or `None` if it broke off.
fn written(near: &Near) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut commands = VecDeque::new();
    loop {
        block_on(poll_fn(|context| near.poll_commands(context, &mut commands))).ok()?;
        for command in commands.drain(..) {
            match command {
                Command::Write(content) => bytes.extend_from_slice(content.bytes()),
                Command::Done => return Some(bytes),
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Awaits news that `pick` makes something of.
fn await_news<T>(far: &Far, mut pick: impl FnMut(News) -> Option<T>) -> T {
    block_on(poll_fn(|context| {
        far.listen(context.waker());
        pick(far.take()).map_or(Poll::Pending, Poll::Ready)
    }))
}

#[test]
fn what_is_written_arrives() {
    model(3, || {
        let (near, far) = link();
        let app = thread::spawn(move || {
            far.write(Content::Bytes(b"a".to_vec()));
            far.flush();
            far.write(Content::Bytes(b"b".to_vec()));
            far.done();
        });
        assert_eq!(written(&near), Some(b"ab".to_vec()));
        app.join().unwrap();
    });
}

#[test]
fn an_application_that_vanishes_is_noticed() {
    model(3, || {
        let (near, far) = link();
        let app = thread::spawn(move || {
            far.write(Content::Bytes(b"a".to_vec()));
            drop(far);
        });
        assert_eq!(written(&near), None);
        app.join().unwrap();
    });
}

#[test]
fn an_application_that_waits_for_the_kernel_is_told() {
    model(3, || {
        let (near, far) = link();
        let client = thread::spawn(move || {
            let mut commands = VecDeque::new();
            let _ = block_on(poll_fn(|context| near.poll_commands(context, &mut commands)));
            near.sent(2);
            near
        });
        far.write(Content::Bytes(b"ab".to_vec()));
        far.flush();
        block_on(poll_fn(|context| {
            far.listen(context.waker());
            if far.await_below(0) { Poll::Pending } else { Poll::Ready(()) }
        }));
        drop(client.join().unwrap());
        far.finish();
    });
}

#[test]
fn an_outcome_finds_one_who_begins_to_listen() {
    model(3, || {
        let (near, far) = link();
        let client = thread::spawn(move || near.report(Outcome { bytes: 1, begun: true, failure: None }));
        assert_eq!(await_news(&far, |news| news.outcome).bytes, 1);
        client.join().unwrap();
    });
}

#[test]
fn an_application_that_leaves_is_noticed() {
    model(3, || {
        let (near, far) = link();
        let app = thread::spawn(move || far.finish());
        assert_eq!(written(&near), Some(Vec::new()));
        let over = block_on(poll_fn(|context| near.poll_commands(context, &mut VecDeque::new())));
        assert_eq!(over, Err(Over::Left));
        app.join().unwrap();
    });
}

#[test]
fn a_lost_client_is_told_to_one_who_writes() {
    model(3, || {
        let (near, far) = link();
        let client = thread::spawn(move || near.lose(Loss::Failed(Code::ClientGone.error("gone")), false));
        far.write(Content::Bytes(b"a".to_vec()));
        let Loss::Failed(error) = await_news(&far, |news| news.lost) else { panic!("it was not closed") };
        assert_eq!(error.code(), Code::ClientGone);
        assert_eq!(far.unsent(), 0);
        client.join().unwrap();
    });
}

#[test]
fn a_request_is_taken_or_withdrawn() {
    model(3, || {
        let queue = Queue::new(1, None, 0);
        let (near, far) = link();
        let ends = Ends::default();
        let request =
            Request { head: Vec::new(), body: None, chunked: false, ends, is_proven: true, thread: 0, far };
        let place = queue.offer(request).unwrap();
        let taker = queue.clone();
        let app = thread::spawn(move || taker.take().map(|request| request.far.finish()).is_some());
        let withdrawn = queue.withdraw(place);
        assert!(app.join().unwrap() != withdrawn);
        assert_eq!(written(&near).is_some(), !withdrawn);
    });
}

#[test]
fn a_dispatcher_misses_no_request() {
    model(3, || {
        let queue = Queue::new(2, None, 0);
        // The application in this process has listened before, and takes no requests from now on.
        queue.listen(std::task::Waker::noop());
        let offering = queue.clone();
        let clients = thread::spawn(move || {
            [(), ()].map(|()| {
                let (near, far) = link();
                let ends = Ends::default();
                let request = Request {
                    head: Vec::new(),
                    body: None,
                    chunked: false,
                    ends,
                    is_proven: true,
                    thread: 0,
                    far,
                };
                offering.offer(request).unwrap();
                near
            })
        });
        let mut is_named = false;
        let mut left = 2;
        // By one waker for all, named once: it looks for requests when it is woken, and not before.
        block_on(poll_fn(|context| {
            if !std::mem::replace(&mut is_named, true) {
                queue.dispatch_by(Plain::new(InProcess(context.waker().clone())));
                return Poll::Pending;
            }
            while let Some(request) = queue.take() {
                request.far.finish();
                left -= 1;
            }
            if left > 0 { Poll::Pending } else { Poll::Ready(()) }
        }));
        assert!(queue.is_empty());
        for near in clients.join().unwrap() {
            assert_eq!(written(&near), Some(Vec::new()));
        }
    });
}
