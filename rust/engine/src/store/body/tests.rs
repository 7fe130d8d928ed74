use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use proptest::prelude::*;

use super::*;
use crate::pool::testing::config;
use crate::pool::{CLASSES, Pool, Purpose, REGION};

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn budget() -> Plain<CacheBudget> {
    Plain::new(CacheBudget::new(REGION, &StoredBytes::default()))
}

fn slice(pool: &Pool, bytes: &[u8]) -> Slice {
    let mut writer = pool.writer(bytes.len(), Purpose::Bulk).unwrap();
    writer.spare()[..bytes.len()].copy_from_slice(bytes);
    writer.commit(bytes.len())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Waits,
    Ends,
    Fails(Code),
}
use Then::{Ends, Fails, Waits};

/// The bytes that the follower can read now, and what comes after them.
fn read(follower: &mut Follower) -> (Vec<u8>, Then) {
    let mut bytes = Vec::new();
    loop {
        match follower.poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(Ok(slice))) => bytes.extend_from_slice(&slice),
            Poll::Ready(Some(Err(error))) => return (bytes, Fails(error.code())),
            Poll::Ready(None) => return (bytes, Ends),
            Poll::Pending => return (bytes, Waits),
        }
    }
}

#[test]
fn a_late_follower_reads_from_the_first_byte_and_then_the_live_tail() {
    let pool = Pool::new(config(REGION)).unwrap();
    let (body, filler) = Body::new(&budget());
    let mut first = Body::follow(&body, 0..u64::MAX);
    filler.push(slice(&pool, b"abc"));
    assert_eq!(read(&mut first), (b"abc".to_vec(), Waits));
    let mut second = Body::follow(&body, 0..u64::MAX);
    assert_eq!(read(&mut second), (b"abc".to_vec(), Waits));
    filler.push(slice(&pool, b"de"));
    filler.finish(Ending::default());
    for follower in [&mut first, &mut second] {
        assert_eq!(read(follower), (b"de".to_vec(), Ends));
    }
    assert_eq!(read(&mut Body::follow(&body, 0..u64::MAX)), (b"abcde".to_vec(), Ends));
    assert!(!body.is_growing() && body.ending().is_some());
}

#[test]
fn only_followers_that_wait_are_woken_by_a_piece_and_by_the_end() {
    let pool = Pool::new(config(REGION)).unwrap();
    let (body, filler) = Body::new(&budget());
    let counts: [std::sync::Arc<Count>; 3] = Default::default();
    let mut followers = [0; 3].map(|start| Body::follow(&body, start..u64::MAX));
    let mut wait = |number: usize| {
        let waker = Waker::from(std::sync::Arc::clone(&counts[number]));
        followers[number].poll_next(&mut Context::from_waker(&waker)).is_pending()
    };
    let woken = || counts.each_ref().map(|count| count.0.load(Ordering::Relaxed));
    assert!(wait(0) && wait(0) && wait(1));
    filler.push(slice(&pool, b"a"));
    assert_eq!(woken(), [1, 1, 0]);
    assert!(!wait(0) && wait(0) && !wait(1));
    filler.push(slice(&pool, b"b"));
    assert_eq!(woken(), [2, 1, 0]);
    assert!(!wait(0) && wait(0));
    filler.finish(Ending::default());
    assert_eq!(woken(), [3, 1, 0]);
}

#[test]
fn an_error_follows_the_last_byte_that_came() {
    let pool = Pool::new(config(REGION)).unwrap();
    let (body, filler) = Body::new(&budget());
    filler.push(slice(&pool, b"abc"));
    filler.fail(Code::BodyTruncated.error("cut short"));
    assert_eq!(read(&mut Body::follow(&body, 0..u64::MAX)), (b"abc".to_vec(), Fails(Code::BodyTruncated)));
    assert_eq!(read(&mut Body::follow(&body, 0..2)), (b"ab".to_vec(), Ends), "the range is whole");
    assert!(body.ending().is_none());
}

#[test]
fn a_filler_that_is_dropped_leaves_no_body_that_looks_whole() {
    let (body, filler) = Body::new(&budget());
    drop(filler);
    assert_eq!(read(&mut Body::follow(&body, 0..u64::MAX)), (Vec::new(), Fails(Code::EngineClosed)));
}

#[test]
fn the_filler_learns_that_the_last_follower_has_left() {
    let (body, filler) = Body::new(&budget());
    let count = std::sync::Arc::<Count>::default();
    let waker = Waker::from(std::sync::Arc::clone(&count));
    let mut context = Context::from_waker(&waker);
    let (first, second) = (Body::follow(&body, 0..1), Body::follow(&body, 0..1));
    assert!(filler.poll_abandoned(&mut context).is_pending());
    drop(first);
    assert_eq!(count.0.load(Ordering::Relaxed), 0);
    drop(second);
    assert_eq!(count.0.load(Ordering::Relaxed), 1);
    assert!(filler.poll_abandoned(&mut context).is_ready());
    let late = Body::follow(&body, 0..1);
    assert!(filler.poll_abandoned(&mut context).is_pending(), "a follower has come");
    drop(late);
}

#[test]
fn what_a_follower_holds_outlives_the_body() {
    let pool = Pool::new(config(REGION)).unwrap();
    let (body, filler) = Body::new(&budget());
    filler.push(slice(&pool, b"abc"));
    let mut follower = Body::follow(&body, 1..3);
    let held = follower.poll_next(&mut Context::from_waker(Waker::noop()));
    drop((body, filler, follower));
    assert!(matches!(&held, Poll::Ready(Some(Ok(slice))) if **slice == *b"bc"));
    assert!(pool.stats().live_bytes > 0);
    drop(held);
    assert_eq!(pool.stats().live_bytes, 0);
}

#[test]
fn a_body_costs_its_slabs_once_and_as_long_as_it_is_held() {
    let pool = Pool::new(config(2 * REGION)).unwrap();
    let budget = budget();
    let (body, filler) = Body::new(&budget);
    let [small, medium, ..] = CLASSES;
    let mut writer = pool.writer(small, Purpose::Bulk).unwrap();
    filler.push(writer.commit(10));
    filler.push(writer.commit(20));
    filler.push(pool.writer(medium, Purpose::Bulk).unwrap().commit(1));
    let cost = small + medium + 3 * PIECE;
    assert_eq!((body.cost(), budget.used()), (cost, cost));
    let follower = Body::follow(&body, 0..1);
    drop((body, filler));
    assert_eq!(budget.used(), cost, "it is still read");
    drop(follower);
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_body_that_is_thinned_out_keeps_what_its_slowest_reader_lacks() {
    let pool = Pool::new(config(2 * REGION)).unwrap();
    let budget = budget();
    let (body, filler) = Body::new(&budget);
    let count = std::sync::Arc::<Count>::default();
    let waker = Waker::from(std::sync::Arc::clone(&count));
    let mut context = Context::from_waker(&waker);
    let (mut quick, mut slow) = (Body::follow(&body, 0..u64::MAX), Body::follow(&body, 0..u64::MAX));
    filler.push(slice(&pool, b"abc"));
    filler.stop_retaining(4);
    assert!(filler.poll_room(&mut context).is_ready());
    filler.push(slice(&pool, b"de"));
    assert_eq!(read(&mut quick), (b"abcde".to_vec(), Waits));
    assert!(filler.poll_room(&mut context).is_pending(), "the slow one has five bytes before it");
    assert!(matches!(slow.poll_next(&mut Context::from_waker(Waker::noop())), Poll::Ready(Some(Ok(_)))));
    assert_eq!(count.0.load(Ordering::Relaxed), 1);
    assert!(filler.poll_room(&mut context).is_ready());
    assert_eq!(budget.used(), CLASSES[0] + PIECE, "of two slabs one is left");
    filler.push(slice(&pool, b"f"));
    filler.finish(Ending::default());
    assert_eq!(read(&mut slow), (b"def".to_vec(), Ends));
    assert_eq!(read(&mut quick), (b"f".to_vec(), Ends));
    drop((quick, slow, body));
    assert_eq!((budget.used(), pool.stats().live_bytes), (0, 0));
}

proptest! {
    /// A follower reads each byte of its range once, for all pieces, ranges and times at which it comes.
    #[test]
    fn any_range_of_any_pieces_is_read_as_the_bytes_it_covers(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..12),
        start in 0_u64..120,
        length in 0_u64..120,
        comes_at in 0_usize..12,
        looks in any::<u16>(),
    ) {
        let pool = Pool::new(config(REGION)).unwrap();
        let (body, filler) = Body::new(&budget());
        let mut follower = None;
        let mut found = Vec::new();
        for (number, piece) in pieces.iter().enumerate() {
            if number == comes_at {
                follower = Some(Body::follow(&body, start..start + length));
            }
            if !piece.is_empty() {
                filler.push(slice(&pool, piece));
            }
            if let Some(follower) = follower.as_mut().filter(|_| looks >> number & 1 == 1) {
                found.extend(read(follower).0);
            }
        }
        filler.finish(Ending::default());
        let mut follower = follower.unwrap_or_else(|| Body::follow(&body, start..start + length));
        let (rest, end) = read(&mut follower);
        found.extend(rest);
        let whole: Vec<u8> = pieces.concat();
        let bound = |place: u64| usize::try_from(place).unwrap().min(whole.len());
        prop_assert_eq!(&found, &whole[bound(start)..bound(start + length)]);
        prop_assert_eq!(end, Ends);
    }
}
