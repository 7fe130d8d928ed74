use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use super::*;
use crate::error::Code;
use crate::framing::Framing;
use crate::pool::testing::config;
use crate::pool::{Pool, Purpose, Slice};

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Count {
    fn pair() -> (Arc<Self>, Waker) {
        let count = Arc::new(Self::default());
        (Arc::clone(&count), Waker::from(count))
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

const FLOW: FlowConfig = FlowConfig { floor: 1000, ceiling: 2000 };

fn pool() -> Pool {
    Pool::new(config(4 * crate::pool::REGION)).unwrap()
}

fn slice(pool: &Pool, bytes: &[u8]) -> Slice {
    let mut writer = pool.writer(bytes.len(), Purpose::Bulk).unwrap();
    writer.spare()[..bytes.len()].copy_from_slice(bytes);
    writer.commit(bytes.len())
}

struct Pair {
    pool: Pool,
    feed: Feed,
    stream: Stream,
    meter: Arc<Meter>,
}

fn pair() -> Pair {
    let (pool, meter) = (pool(), Arc::new(Meter::default()));
    let (feed, stream) = channel(&pool, FLOW, &Framing::Raw, &meter);
    Pair { pool, feed, stream, meter }
}

fn next(stream: &Stream, waker: &Waker) -> Poll<Option<crate::error::Result<Delivery>>> {
    stream.poll_next(&mut Context::from_waker(waker))
}

fn take(stream: &Stream) -> Delivery {
    match next(stream, Waker::noop()) {
        Poll::Ready(Some(Ok(delivery))) => delivery,
        other => panic!("expected a frame, got {other:?}"),
    }
}

fn code(poll: &Poll<Option<crate::error::Result<Delivery>>>) -> Code {
    match poll {
        Poll::Ready(Some(Err(error))) => error.code(),
        other => panic!("expected an error, got {other:?}"),
    }
}

#[test]
fn frames_arrive_in_order_and_the_end_follows_them() {
    let Pair { pool, feed, stream, meter } = pair();
    for text in ["a", "b"] {
        feed.push_raw(slice(&pool, text.as_bytes())).unwrap();
    }
    feed.finish(Ending::default());
    assert_eq!(&*take(&stream), b"a");
    assert_eq!(meter.live(), 1);
    assert!(!stream.is_over());
    assert_eq!(&*take(&stream), b"b");
    assert!(stream.is_over());
    assert!(matches!(next(&stream, Waker::noop()), Poll::Ready(None)));
    assert!(matches!(next(&stream, Waker::noop()), Poll::Ready(None)));
    assert_eq!(pool.stats().live_bytes, 0);
    assert_eq!((meter.live(), meter.started(), meter.bytes()), (0, 1, 2));
}

#[test]
fn a_waiting_consumer_is_woken_once_by_a_burst() {
    let Pair { pool, feed, stream, .. } = pair();
    let (count, waker) = Count::pair();
    assert!(next(&stream, &waker).is_pending());
    for text in ["a", "b", "c"] {
        feed.push_raw(slice(&pool, text.as_bytes())).unwrap();
    }
    assert_eq!(count.get(), 1);
}

#[test]
fn an_error_follows_the_frames_before_it_and_repeats() {
    let Pair { pool, feed, stream, .. } = pair();
    feed.push_raw(slice(&pool, b"a")).unwrap();
    feed.fail(Code::BodyTruncated.error("cut short"));
    drop(take(&stream));
    for _ in 0..2 {
        assert_eq!(code(&next(&stream, Waker::noop())), Code::BodyTruncated);
    }
}

#[test]
fn a_feed_that_is_dropped_is_never_a_clean_end() {
    let Pair { feed, stream, .. } = pair();
    let (count, waker) = Count::pair();
    assert!(next(&stream, &waker).is_pending());
    drop(feed);
    assert_eq!(count.get(), 1);
    assert_eq!(code(&next(&stream, &waker)), Code::EngineClosed);
}

#[test]
fn the_producer_waits_while_the_window_is_held_and_is_woken_by_its_return() {
    let Pair { pool, feed, stream, .. } = pair();
    let (count, waker) = Count::pair();
    let mut context = Context::from_waker(&waker);
    for _ in 0..2 {
        feed.push_raw(slice(&pool, &[0; 1000])).unwrap();
    }
    assert!(feed.poll_room(&mut context).is_pending());
    let held = [take(&stream), take(&stream)];
    assert!(feed.poll_room(&mut context).is_pending());
    drop(held);
    assert_eq!(count.get(), 1);
    assert!(feed.poll_room(&mut context).is_ready());
}

#[test]
fn a_consumer_that_holds_its_whole_window_and_awaits_more_is_told() {
    let Pair { pool, feed, stream, .. } = pair();
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..2 {
        feed.push_raw(slice(&pool, &[0; 1500])).unwrap();
    }
    let held = [take(&stream), take(&stream)];
    let (count, waker) = Count::pair();
    assert!(next(&stream, &waker).is_pending(), "the producer may still have something");
    assert!(feed.poll_room(&mut context).is_pending());
    assert_eq!(count.get(), 1, "the consumer must look again");
    assert_eq!(code(&next(&stream, &waker)), Code::WindowHeld);
    assert_eq!(code(&next(&stream, &waker)), Code::WindowHeld);
    drop(held);
    assert!(next(&stream, &waker).is_pending(), "the stream goes on");
    assert!(feed.poll_room(&mut context).is_ready());
}

#[test]
fn whoever_holds_one_frame_can_await_the_next_however_large_it_is() {
    let Pair { pool, feed, stream, .. } = pair();
    let mut context = Context::from_waker(Waker::noop());
    feed.push_raw(slice(&pool, &vec![0; 100_000])).unwrap();
    assert!(feed.poll_room(&mut context).is_pending(), "queued is not held");
    let held = take(&stream);
    assert!(feed.poll_room(&mut context).is_ready());
    drop(held);
}

#[test]
fn a_read_may_bring_what_the_window_has_room_for() {
    const KIB: usize = 1024;
    let (pool, meter) = (pool(), Arc::new(Meter::default()));
    let flow = FlowConfig { floor: 128 * KIB, ceiling: 512 * KIB };
    let (feed, stream) = channel(&pool, flow, &Framing::Raw, &meter);
    assert_eq!(feed.credit(), 512 * KIB, "a consumer that keeps up is held to no window yet");
    let mut left = 128 * KIB;
    // Rounded up to what a slab is taken for in any case, and that is never as much as 64 KiB.
    for (least, expected) in [(65, 128), (64, 64), (17, 64), (16, 16), (5, 16), (1, 4)] {
        let charged = left - least * KIB;
        feed.push_raw(slice(&pool, &vec![0; charged - 64])).unwrap();
        left -= charged;
        assert_eq!(feed.credit(), expected * KIB, "with {least} KiB left");
    }
    feed.push_raw(slice(&pool, &vec![0; KIB - 65])).unwrap();
    assert_eq!((stream.held(), feed.credit()), ((128 * KIB - 1, 128 * KIB), 4 * KIB));
    let first = take(&stream);
    assert_eq!(feed.credit(), 4 * KIB, "taking gives nothing back");
    let mut rest: Vec<_> = std::iter::from_fn(|| stream.take_ready()).collect();
    assert_eq!(feed.credit(), 512 * KIB, "what was taken last does not count");
    drop((first, rest.pop()));
    feed.push_raw(slice(&pool, &[0; 1])).unwrap();
    assert!(feed.credit() <= 128 * KIB);
}

#[test]
fn the_window_grows_when_the_consumer_runs_dry_behind_a_stopped_producer() {
    let Pair { pool, feed, stream, .. } = pair();
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(stream.held().1, FLOW.floor);
    for _ in 0..2 {
        feed.push_raw(slice(&pool, &[0; 700])).unwrap();
    }
    let held = [take(&stream), take(&stream)];
    assert!(feed.poll_room(&mut context).is_pending());
    let (_, waker) = Count::pair();
    assert!(next(&stream, &waker).is_pending(), "growing made room");
    assert_eq!(stream.held().1, FLOW.ceiling);
    assert!(feed.poll_room(&mut context).is_ready());
    drop(held);
}

#[test]
fn a_consumer_that_leaves_cancels_the_producer_and_frees_the_frames() {
    let Pair { pool, feed, stream, .. } = pair();
    let (count, waker) = Count::pair();
    feed.push_raw(slice(&pool, &[0; 2000])).unwrap();
    assert!(feed.poll_room(&mut Context::from_waker(&waker)).is_pending());
    let mut closed = std::pin::pin!(feed.closed());
    let (left, leaving) = Count::pair();
    assert!(closed.as_mut().poll(&mut Context::from_waker(&leaving)).is_pending());
    stream.close();
    assert_eq!((count.get(), left.get()), (1, 1));
    assert_eq!(pool.stats().live_bytes, 0);
    assert!(closed.as_mut().poll(&mut Context::from_waker(&leaving)).is_ready());
    assert!(matches!(feed.poll_room(&mut Context::from_waker(&waker)), Poll::Ready(Err(_))));
    assert_eq!(code(&next(&stream, &waker)), Code::StreamClosed);
}

#[test]
fn what_is_queued_raw_is_cut_anew() {
    let Pair { pool, feed, stream, .. } = pair();
    for text in ["fir", "st\nsec", "ond\nthi"] {
        feed.push_raw(slice(&pool, text.as_bytes())).unwrap();
    }
    let lines = Framing::Lines { max_frame: 100 };
    stream.set_framing(&lines).unwrap();
    assert_eq!(&*take(&stream), b"first");
    stream.set_framing(&lines).expect("the same again changes nothing");
    feed.push_raw(slice(&pool, b"rd")).unwrap();
    feed.finish(Ending::default());
    assert_eq!(&*take(&stream), b"second");
    assert_eq!(&*take(&stream), b"third");
    assert!(matches!(next(&stream, Waker::noop()), Poll::Ready(None)));
}

#[test]
fn what_another_framing_has_cut_is_not_cut_anew() {
    let (pool, meter) = (pool(), Arc::new(Meter::default()));
    let lines = Framing::Lines { max_frame: 100 };
    let (feed, stream) = channel(&pool, FLOW, &lines, &meter);
    feed.push_raw(slice(&pool, b"one\ntwo\nth")).unwrap();
    for framing in [Framing::Raw, Framing::Fixed { size: 4 }, Framing::Lines { max_frame: 5 }] {
        assert_eq!(stream.set_framing(&framing).unwrap_err().code(), Code::AlreadyFramed, "{framing:?}");
    }
    feed.finish(Ending::default());
    for line in ["one", "two", "th"] {
        assert_eq!(&*take(&stream), line.as_bytes(), "a refusal changes nothing");
    }
    assert!(matches!(next(&stream, Waker::noop()), Poll::Ready(None)));
}

#[test]
fn a_consumer_in_the_task_of_its_producer_is_not_woken_and_still_tells_it_of_room() {
    let Pair { pool, feed, stream, .. } = pair();
    stream.fed_by_own_task();
    let (consumer, waker) = Count::pair();
    assert!(next(&stream, &waker).is_pending());
    feed.push_raw(slice(&pool, &[0; 1500])).unwrap();
    let (producer, room) = Count::pair();
    assert!(feed.poll_room(&mut Context::from_waker(&room)).is_pending());
    let Poll::Ready(Some(Ok(delivery))) = next(&stream, &waker) else { panic!("it looks by itself") };
    assert_eq!((consumer.get(), producer.get()), (0, 0));
    drop(delivery);
    assert_eq!((consumer.get(), producer.get()), (0, 1));
    feed.finish(Ending::default());
    assert!(matches!(next(&stream, &waker), Poll::Ready(None)));
    assert_eq!(consumer.get(), 0);
}

#[test]
fn many_streams_share_half_the_budget() {
    let (pool, meter) = (pool(), Arc::new(Meter::default()));
    let flow = FlowConfig { floor: 256 * 1024, ceiling: 1024 * 1024 };
    let streams: Vec<_> = (0..16).map(|_| channel(&pool, flow, &Framing::Raw, &meter)).collect();
    assert_eq!(streams[0].1.held().1, pool.budget() / 2 / 16);
    let credit = streams[0].0.credit();
    assert!(credit <= pool.budget() / 2 / 16, "a read of {credit} bytes exceeds the share");
}

/// Takes memory until the pool has none. The first is a page, and what is given back then is no more.
fn exhaust(pool: &Pool) -> Vec<crate::pool::Writer> {
    std::iter::from_fn(|| pool.writer(1, Purpose::Control).ok()).collect()
}

/// A stream whose consumer waits for the pool: it has taken the first frame, and the second lies across two slabs.
/// A third one is pending, and only its end is missing.
fn waiting_for_the_pool(waker: &Waker) -> (Pair, Vec<crate::pool::Writer>) {
    const SIZE: usize = 3000;
    let (pool, meter) = (pool(), Arc::new(Meter::default()));
    let (feed, stream) = channel(&pool, FLOW, &Framing::Fixed { size: SIZE }, &meter);
    let slices = [slice(&pool, &[1; SIZE + 100]), slice(&pool, &[2; 2 * SIZE - 101])];
    let held = exhaust(&pool);
    for slice in slices {
        feed.push_raw(slice).unwrap();
    }
    drop(take(&stream));
    assert!(next(&stream, waker).is_pending());
    (Pair { pool, feed, stream, meter }, held)
}

#[test]
fn a_consumer_that_waits_for_the_pool_waits_for_one_frame() {
    let (count, waker) = Count::pair();
    let (Pair { feed: _feed, stream, .. }, mut held) = waiting_for_the_pool(&waker);
    // A page holds the frame that has to be joined, but not all that is pending.
    held.swap_remove(0);
    assert_eq!(count.get(), 1);
    assert_eq!(take(&stream).len(), 3000);
}

#[test]
fn a_consumer_that_waits_for_the_pool_is_told_of_a_failure() {
    let (count, waker) = Count::pair();
    let (Pair { pool, feed, stream, .. }, held) = waiting_for_the_pool(&waker);
    feed.fail(Code::IoTimeout.error("nothing came"));
    assert_eq!(count.get(), 1);
    for _ in 0..2 {
        assert_eq!(code(&next(&stream, &waker)), Code::IoTimeout);
    }
    assert!(stream.is_over());
    drop(held);
    assert_eq!(pool.stats().live_bytes, 0, "what could not be joined is freed");
}

#[test]
fn a_consumer_that_waits_for_the_pool_is_woken_by_a_frame_that_the_producer_cuts() {
    let (count, waker) = Count::pair();
    let (Pair { feed, stream, .. }, mut held) = waiting_for_the_pool(&waker);
    let more = held.pop().unwrap().commit(1);
    held.swap_remove(0);
    let woken = count.get();
    feed.push_raw(more).unwrap();
    assert!(count.get() > woken, "the room went to the producer");
    assert_eq!(take(&stream).len(), 3000);
}

#[test]
fn a_producer_that_waits_for_the_pool_is_told_when_the_consumer_leaves() {
    let (pool, meter) = (pool(), Arc::new(Meter::default()));
    let (feed, stream) = channel(&pool, FLOW, &Framing::Fixed { size: 200 }, &meter);
    let slices = [slice(&pool, &[1; 300]), slice(&pool, &[2; 100])];
    let _held = exhaust(&pool);
    let [first, second] = slices;
    let other = second.clone();
    feed.push_raw(first).unwrap();
    let (count, waker) = Count::pair();
    let mut context = Context::from_waker(&waker);
    // Another future of the same producer, which only wants to know this, and is told by its own waker.
    let (left, leaving) = Count::pair();
    let mut closed = std::pin::pin!(feed.closed());
    assert!(closed.as_mut().poll(&mut Context::from_waker(&leaving)).is_pending());
    let mut push = std::pin::pin!(feed.push(second));
    assert!(push.as_mut().poll(&mut context).is_pending());
    // Leaving gives nothing back to the pool, because both slabs are held here.
    let frame = take(&stream);
    stream.close();
    assert_eq!((count.get(), left.get()), (1, 1));
    assert!(push.as_mut().poll(&mut context).is_ready());
    drop((frame, other));
}
