//! Models of a producer and a consumer of one stream, in every order.
//!
//! Each side is a future on a thread of its own, so that a wake-up that is lost is a deadlock, which loom reports.

use std::future::poll_fn;
use std::sync::Arc as Plain;

use loom::future::block_on;
use loom::thread;

use super::*;
use crate::error::{Code, Result};
use crate::framing::Framing;
use crate::pool::testing::{config, model};
use crate::pool::{Pool, Purpose, REGION, Slice};
use crate::wire::{HeadLimits, parse_head};

/// A window that one byte fills.
const NARROW: FlowConfig = FlowConfig { floor: 1, ceiling: 1 };
/// A window that no model fills.
const WIDE: FlowConfig = FlowConfig { floor: 1 << 16, ceiling: 1 << 16 };

fn pool(regions: usize) -> Pool {
    let pool = Pool::new(config(regions * REGION)).unwrap();
    // Makes the headers before there are threads: loom does not see the OnceLock that orders their making.
    let whole: Vec<_> = (0..regions).map(|_| pool.writer(REGION, Purpose::Bulk).unwrap()).collect();
    drop(whole);
    pool
}

fn slice(pool: &Pool, bytes: &[u8]) -> Slice {
    let mut writer = pool.writer(bytes.len(), Purpose::Bulk).unwrap();
    writer.spare()[..bytes.len()].copy_from_slice(bytes);
    writer.commit(bytes.len())
}

/// Each text in a slab of its own, a quarter of a region.
fn quarters<const COUNT: usize>(pool: &Pool, texts: [&[u8]; COUNT]) -> [Slice; COUNT] {
    texts.map(|text| {
        let mut writer = pool.writer(REGION / 4, Purpose::Bulk).unwrap();
        writer.spare()[..text.len()].copy_from_slice(text);
        writer.commit(text.len())
    })
}

fn pair(pool: &Pool, config: FlowConfig, framing: &Framing) -> (Feed, Stream) {
    channel(pool, config, framing, &Plain::new(Meter::default()))
}

fn next(stream: &Stream) -> Option<Result<Delivery>> {
    block_on(poll_fn(|context| stream.poll_next(context)))
}

/// Takes frames until the stream has no more, and drops each before it waits for the next.
fn drain(stream: &Stream) -> (Vec<Vec<u8>>, Option<Code>) {
    let mut frames = Vec::new();
    loop {
        match next(stream) {
            Some(Ok(frame)) => frames.push(frame.to_vec()),
            Some(Err(error)) => return (frames, Some(error.code())),
            None => return (frames, None),
        }
    }
}

#[test]
fn every_frame_and_the_end_arrive() {
    model(3, || {
        let pool = pool(1);
        let (feed, stream) = pair(&pool, WIDE, &Framing::Raw);
        let slices = [slice(&pool, b"a"), slice(&pool, b"b")];
        let producer = thread::spawn(move || {
            for slice in slices {
                feed.push_raw(slice).unwrap();
            }
            feed.finish(Ending::default());
        });
        assert_eq!(drain(&stream), (vec![b"a".to_vec(), b"b".to_vec()], None));
        producer.join().unwrap();
        assert_eq!(pool.stats().live_bytes, 0);
    });
}

#[test]
fn a_producer_that_waits_for_room_gets_it() {
    model(3, || {
        let pool = pool(1);
        let (feed, stream) = pair(&pool, NARROW, &Framing::Raw);
        let slices = [slice(&pool, b"a"), slice(&pool, b"b")];
        let producer = thread::spawn(move || {
            for slice in slices {
                block_on(feed.room()).unwrap();
                feed.push_raw(slice).unwrap();
            }
            feed.finish(Ending::default());
        });
        assert_eq!(drain(&stream), (vec![b"a".to_vec(), b"b".to_vec()], None));
        producer.join().unwrap();
    });
}

#[test]
fn a_frame_let_go_on_a_third_thread_makes_room() {
    model(3, || {
        let pool = pool(1);
        let (feed, stream) = pair(&pool, NARROW, &Framing::Raw);
        feed.push_raw(slice(&pool, b"a")).unwrap();
        feed.push_raw(slice(&pool, b"b")).unwrap();
        let held = [next(&stream).unwrap().unwrap(), next(&stream).unwrap().unwrap()];
        let third = thread::spawn(move || drop(held));
        block_on(feed.room()).unwrap();
        third.join().unwrap();
    });
}

#[test]
fn a_consumer_that_holds_the_window_is_told_or_served() {
    model(3, || {
        let pool = pool(1);
        let (feed, stream) = pair(&pool, NARROW, &Framing::Raw);
        feed.push_raw(slice(&pool, b"a")).unwrap();
        feed.push_raw(slice(&pool, b"b")).unwrap();
        let held = [next(&stream).unwrap().unwrap(), next(&stream).unwrap().unwrap()];
        let producer = thread::spawn(move || block_on(feed.room()).is_ok());
        // It waits for a frame that cannot come while it holds these; only a wake-up lets it
        // continue.
        match next(&stream) {
            Some(Err(error)) => assert_eq!(error.code(), Code::WindowHeld),
            other => panic!("expected to be told, got {other:?}"),
        }
        drop(held);
        assert!(producer.join().unwrap());
    });
}

/// Two frames that fill the window, and a loan of each.
fn lent(pool: &Pool, feed: &Feed, stream: &Stream) -> ([Plain<Delivery>; 2], [Loan; 2]) {
    let held = [b"a", b"b"].map(|bytes| {
        feed.push_raw(slice(pool, bytes)).unwrap();
        Plain::new(next(stream).unwrap().unwrap())
    });
    let loans = held.each_ref().map(Delivery::lend);
    (held, loans)
}

#[test]
fn a_consumer_waits_for_what_the_engine_sends() {
    model(2, || {
        let pool = pool(1);
        let (feed, stream) = pair(&pool, NARROW, &Framing::Raw);
        let (held, loans) = lent(&pool, &feed, &stream);
        drop(held);
        let last = slice(&pool, b"c");
        let engine = thread::spawn(move || drop(loans));
        let producer = thread::spawn(move || {
            block_on(feed.room()).unwrap();
            feed.push_raw(last).unwrap();
            feed.finish(Ending::default());
        });
        assert_eq!(drain(&stream), (vec![b"c".to_vec()], None));
        engine.join().unwrap();
        producer.join().unwrap();
        assert_eq!(pool.stats().live_bytes, 0);
    });
}

#[test]
fn a_consumer_that_holds_what_the_engine_has_sent_is_told() {
    model(2, || {
        let pool = pool(1);
        let (feed, stream) = pair(&pool, NARROW, &Framing::Raw);
        let (held, loans) = lent(&pool, &feed, &stream);
        let engine = thread::spawn(move || drop(loans));
        let producer = thread::spawn(move || block_on(feed.room()).is_ok());
        match next(&stream) {
            Some(Err(error)) => assert_eq!(error.code(), Code::WindowHeld),
            other => panic!("expected to be told, got {other:?}"),
        }
        engine.join().unwrap();
        drop(held);
        assert!(producer.join().unwrap());
    });
}

#[test]
fn a_frame_that_consumer_and_engine_let_go_together_makes_room() {
    model(3, || {
        let pool = pool(1);
        let (feed, stream) = pair(&pool, NARROW, &Framing::Raw);
        let (held, loans) = lent(&pool, &feed, &stream);
        let engine = thread::spawn(move || drop(loans));
        drop(held);
        block_on(feed.room()).unwrap();
        engine.join().unwrap();
        assert_eq!(stream.held().0, 0);
    });
}

#[test]
fn frames_left_uncut_for_want_of_room_are_not_lost() {
    model(3, || {
        let pool = pool(1);
        let (feed, stream) = pair(&pool, NARROW, &Framing::Fixed { size: 1 });
        let both = slice(&pool, b"ab");
        let producer = thread::spawn(move || {
            feed.push_raw(both).unwrap();
            let room = block_on(feed.room());
            feed.finish(Ending::default());
            room.unwrap();
        });
        assert_eq!(drain(&stream), (vec![b"a".to_vec(), b"b".to_vec()], None));
        producer.join().unwrap();
    });
}

#[test]
fn a_body_that_ends_with_frames_uncut_ends_behind_them() {
    model(3, || {
        let pool = pool(1);
        let (feed, stream) = pair(&pool, NARROW, &Framing::Fixed { size: 1 });
        let both = slice(&pool, b"ab");
        let producer = thread::spawn(move || {
            feed.push_raw(both).unwrap();
            feed.finish(Ending::default());
        });
        assert_eq!(drain(&stream), (vec![b"a".to_vec(), b"b".to_vec()], None));
        producer.join().unwrap();
    });
}

#[test]
fn a_join_that_waits_for_the_pool_is_made_when_there_is_room() {
    model(3, || {
        let pool = pool(2);
        let (feed, stream) = pair(&pool, WIDE, &Framing::Fixed { size: 2 });
        let [first, second, held, more] = quarters(&pool, [b"a", b"b", b"-", b"-"]);
        // The rest of their region, which would be enough for the joined frame, and the other region,
        // which will be.
        let held = [held, more];
        let rest = pool.writer(REGION, Purpose::Bulk).unwrap();
        let producer = thread::spawn(move || {
            block_on(feed.push(first)).unwrap();
            block_on(feed.push(second)).unwrap();
            feed.finish(Ending::default());
        });
        let other = thread::spawn(move || drop(rest));
        assert_eq!(drain(&stream), (vec![b"ab".to_vec()], None));
        producer.join().unwrap();
        other.join().unwrap();
        drop(held);
        assert_eq!(pool.stats().live_bytes, 0);
    });
}

#[test]
fn a_join_that_both_sides_wait_for_is_made_and_found() {
    model(2, || {
        let pool = pool(1);
        let (feed, stream) = pair(&pool, NARROW, &Framing::Fixed { size: 2 });
        let [first, second, held, rest] = quarters(&pool, [b"abc", b"d", b"-", b"-"]);
        let producer = thread::spawn(move || {
            feed.push_raw(first).unwrap();
            block_on(feed.push(second)).unwrap();
            feed.finish(Ending::default());
        });
        let other = thread::spawn(move || drop(rest));
        assert_eq!(drain(&stream), (vec![b"ab".to_vec(), b"cd".to_vec()], None));
        producer.join().unwrap();
        other.join().unwrap();
        drop(held);
        assert_eq!(pool.stats().live_bytes, 0);
    });
}

#[test]
fn a_join_waits_for_room_for_its_frame_and_not_for_all_that_is_pending() {
    const SIZE: usize = 40_000;
    model(3, || {
        let pool = pool(1);
        let (feed, stream) = pair(&pool, NARROW, &Framing::Fixed { size: SIZE });
        let bytes = vec![0; 3 * SIZE];
        let (first, second) = bytes.split_at(REGION / 4);
        let [first, second, held, rest] = quarters(&pool, [first, second, b"-", b"-"]);
        for slice in [first, second] {
            feed.push_raw(slice).unwrap();
        }
        feed.finish(Ending::default());
        // This comes back also between the refusal and the wait: room for one frame, and not for the two pending
        // ones.
        let other = thread::spawn(move || drop(rest));
        let (frames, end) = drain(&stream);
        assert_eq!((frames.iter().map(Vec::len).collect::<Vec<_>>(), end), (vec![SIZE; 3], None));
        other.join().unwrap();
        drop(held);
    });
}

#[test]
fn a_failure_reaches_a_consumer_that_waits_for_the_pool() {
    model(3, || {
        let pool = pool(1);
        let (feed, stream) = pair(&pool, NARROW, &Framing::Fixed { size: 2 });
        let [first, second, held, more] = quarters(&pool, [b"abc", b"d", b"-", b"-"]);
        let producer = thread::spawn(move || {
            feed.push_raw(first).unwrap();
            // Refused if the consumer has taken the first frame meanwhile: it is cut here then.
            let _ = feed.push_raw(second);
            feed.fail(Code::BodyTruncated.error("cut short"));
        });
        assert_eq!(drain(&stream), (vec![b"ab".to_vec()], Some(Code::BodyTruncated)));
        producer.join().unwrap();
        drop((held, more, stream));
        assert_eq!(pool.stats().live_bytes, 0);
    });
}

#[test]
fn a_feed_dropped_while_the_consumer_waits_is_an_error() {
    model(3, || {
        let pool = pool(1);
        let (feed, stream) = pair(&pool, WIDE, &Framing::Raw);
        let producer = thread::spawn(move || drop(feed));
        assert_eq!(drain(&stream), (vec![], Some(Code::EngineClosed)));
        producer.join().unwrap();
    });
}

#[test]
fn an_error_follows_the_frames_before_it() {
    model(3, || {
        let pool = pool(1);
        let (feed, stream) = pair(&pool, NARROW, &Framing::Fixed { size: 1 });
        let both = slice(&pool, b"ab");
        let producer = thread::spawn(move || {
            feed.push_raw(both).unwrap();
            feed.fail(Code::BodyTruncated.error("cut short"));
        });
        assert_eq!(drain(&stream), (vec![b"a".to_vec(), b"b".to_vec()], Some(Code::BodyTruncated)));
        producer.join().unwrap();
    });
}

#[test]
fn whoever_waits_for_the_head_gets_it() {
    const LIMITS: HeadLimits = HeadLimits { head_bytes: 100, head_fields: 1, interim_responses: 0 };
    model(3, || {
        let pool = pool(1);
        let (feed, stream) = pair(&pool, WIDE, &Framing::Raw);
        let producer = thread::spawn(move || {
            let head = parse_head(b"HTTP/1.1 204 No Content\r\n\r\n", &LIMITS).unwrap();
            feed.set_head(ResponseHead { head, timings: Timings::default(), reused: false });
            feed.finish(Ending::default());
        });
        let status =
            block_on(poll_fn(|context| stream.poll_head(context).map(|head| head.unwrap().head.status)));
        assert_eq!(status, 204);
        assert!(next(&stream).is_none());
        producer.join().unwrap();
    });
}

#[test]
fn a_consumer_that_leaves_frees_what_is_pushed_meanwhile() {
    model(3, || {
        let pool = pool(1);
        let (feed, stream) = pair(&pool, WIDE, &Framing::Raw);
        let slice = slice(&pool, b"a");
        let producer = thread::spawn(move || {
            // Refused or taken and dropped, but never an end of the producer.
            let _ = feed.push_raw(slice);
            feed
        });
        stream.close();
        let feed = producer.join().unwrap();
        assert_eq!(pool.stats().live_bytes, 0, "a closed stream holds no memory, though its feed lives");
        drop(feed);
    });
}

#[test]
fn a_consumer_that_leaves_releases_the_producer() {
    model(3, || {
        let pool = pool(1);
        let (feed, stream) = pair(&pool, NARROW, &Framing::Raw);
        feed.push_raw(slice(&pool, b"a")).unwrap();
        feed.push_raw(slice(&pool, b"b")).unwrap();
        let consumer = thread::spawn(move || drop(stream));
        assert_eq!(block_on(feed.room()).unwrap_err().code(), Code::StreamClosed);
        block_on(feed.closed());
        consumer.join().unwrap();
        assert_eq!(pool.stats().live_bytes, 0);
    });
}

#[test]
fn a_change_of_framing_loses_nothing() {
    model(3, || {
        let pool = pool(1);
        let (feed, stream) = pair(&pool, WIDE, &Framing::Raw);
        let both = slice(&pool, b"ab");
        let producer = thread::spawn(move || {
            feed.push_raw(both).unwrap();
            feed.finish(Ending::default());
        });
        stream.set_framing(&Framing::Fixed { size: 1 }).unwrap();
        assert_eq!(drain(&stream), (vec![b"a".to_vec(), b"b".to_vec()], None));
        producer.join().unwrap();
    });
}
