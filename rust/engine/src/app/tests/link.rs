//! The exchange between a connection and the application, step by step. Races are loom's.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use super::pool;
use crate::app::{Command, Content, Far, Loss, Near, Outcome, Over, link};
use crate::error::Code;
use crate::framing::Framing;
use crate::stream::{FlowConfig, Meter, channel};

/// Counts how often it was woken.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Bell {
    fn new() -> (Arc<Self>, Waker) {
        let bell = Arc::new(Self::default());
        (Arc::clone(&bell), bell.into())
    }

    fn rung(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }
}

fn commands(near: &Near, waker: &Waker) -> Poll<Result<Vec<Command>, Over>> {
    let mut commands = VecDeque::new();
    near.poll_commands(&mut Context::from_waker(waker), &mut commands)
        .map(|result| result.map(|()| commands.into_iter().collect()))
}

fn reason(far: &Far) -> Code {
    let Some(Loss::Failed(error)) = far.take().lost else { panic!("it is not lost") };
    error.code()
}

/// Shows by its count whether it is held.
struct Held(Arc<Vec<u8>>);

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[test]
fn what_is_written_arrives_in_order_with_one_wake_up() {
    let (near, far) = link();
    let (bell, waker) = Bell::new();
    assert!(commands(&near, &waker).is_pending());
    far.flush();
    far.write(Content::Bytes(b"a".to_vec()));
    far.write(Content::Foreign(Box::new(b"b".to_vec())));
    assert_eq!(bell.rung(), 0);
    far.flush();
    far.done();
    assert_eq!(bell.rung(), 1);
    let Poll::Ready(Ok(commands)) = commands(&near, &waker) else { panic!("there are commands") };
    let [Command::Write(first), Command::Write(second), Command::Done] = &commands[..] else {
        panic!("{commands:?}")
    };
    assert_eq!((first.bytes(), second.bytes()), (b"a".as_slice(), b"b".as_slice()));
}

#[test]
fn bytes_are_unsent_until_the_kernel_has_them() {
    let (near, far) = link();
    let (bell, waker) = Bell::new();
    far.listen(&waker);
    assert_eq!(far.write(Content::Bytes(vec![0; 60])), 60);
    assert_eq!(far.write(Content::Bytes(vec![0; 40])), 100);
    near.sent(10);
    assert_eq!((far.unsent(), bell.rung()), (90, 0));
    assert!(far.await_below(50));
    near.sent(30);
    assert_eq!((far.unsent(), bell.rung()), (60, 0));
    near.sent(10);
    assert_eq!((far.take().unsent, bell.rung()), (50, 1));
    near.sent(50);
    assert_eq!(bell.rung(), 0, "it was told once");
    assert!(!far.await_below(0));
}

#[test]
fn a_stream_that_was_switched_to_is_told_once() {
    let pool = pool();
    let meter = Arc::new(Meter::default());
    let flow = FlowConfig { floor: 1, ceiling: 1 };
    let (_feed, stream) = channel(&pool, flow, &Framing::Raw, &meter);
    let (near, far) = link();
    let (bell, waker) = Bell::new();
    near.tunnel(stream);
    far.listen(&waker);
    assert_eq!(bell.rung(), 1, "it came before the first call of listen");
    assert!(far.take().tunnel.is_some());
    assert!(far.take().tunnel.is_none());
}

#[test]
fn what_nobody_has_taken_is_closed_with_either_half() {
    for near_first in [true, false] {
        let pool = pool();
        let meter = Arc::new(Meter::default());
        let (_feed, stream) = channel(&pool, FlowConfig { floor: 1, ceiling: 1 }, &Framing::Raw, &meter);
        let (near, far) = link();
        near.tunnel(stream);
        if near_first {
            drop(near);
        } else {
            drop(far);
        }
        assert_eq!(meter.live(), 0);
    }
}

#[test]
fn an_outcome_is_told_once() {
    let (near, far) = link();
    let (bell, waker) = Bell::new();
    far.listen(&waker);
    near.report(Outcome { bytes: 7, begun: true, failure: None });
    assert_eq!(bell.rung(), 1);
    assert_eq!(far.take().outcome.unwrap().bytes, 7);
    assert!(far.take().outcome.is_none());
}

#[test]
fn a_lost_client_frees_what_was_written() {
    let owner = Arc::new(vec![0_u8; 10]);
    let (near, far) = link();
    let (bell, waker) = Bell::new();
    far.listen(&waker);
    far.write(Content::Foreign(Box::new(Held(Arc::clone(&owner)))));
    near.lose(Loss::Failed(Code::ClientGone.error("gone")), false);
    assert_eq!(bell.rung(), 1);
    assert_eq!(Arc::strong_count(&owner), 1);
    assert_eq!(far.write(Content::Foreign(Box::new(Held(Arc::clone(&owner))))), 0);
    assert_eq!((Arc::strong_count(&owner), far.unsent()), (1, 0));
    assert!(!far.await_below(0));
    assert_eq!(reason(&far), Code::ClientGone);
    drop(near);
    assert_eq!(reason(&far), Code::ClientGone, "the first reason stands");
}

#[test]
fn a_connection_that_goes_without_a_word_is_a_failure() {
    let (near, far) = link();
    drop(near);
    assert_eq!(reason(&far), Code::EngineClosed);
}

#[test]
fn an_application_that_goes_without_a_word_breaks_the_exchange_off() {
    let (bell, waker) = Bell::new();
    let (near, far) = link();
    assert!(commands(&near, &waker).is_pending());
    far.write(Content::Bytes(b"half".to_vec()));
    drop(far);
    assert_eq!(bell.rung(), 1);
    let Poll::Ready(Ok(half)) = commands(&near, &waker) else { panic!("there is a command") };
    assert_eq!(half.len(), 1);
    assert!(matches!(commands(&near, &waker), Poll::Ready(Err(Over::Aborted))));
}

#[test]
fn an_application_that_is_done_may_go() {
    for end in [|far: Far| far.finish(), |far: Far| far.done(), |far: Far| far.close()] {
        let (bell, waker) = Bell::new();
        let (near, far) = link();
        far.write(Content::Bytes(b"whole".to_vec()));
        end(far);
        let Poll::Ready(Ok(first)) = commands(&near, &waker) else { panic!("there are commands") };
        assert_eq!(first.len(), 2);
        assert!(matches!(commands(&near, &waker), Poll::Ready(Err(Over::Left))));
        assert_eq!(bell.rung(), 0);
    }
}

#[test]
fn the_end_and_the_leave_are_one_wake_up() {
    let (bell, waker) = Bell::new();
    let (near, far) = link();
    assert!(commands(&near, &waker).is_pending());
    far.finish();
    assert_eq!(bell.rung(), 1);
}
