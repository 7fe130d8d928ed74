//! What one filler and its followers do to a body at once, in every order. A lost wake-up is a deadlock, which loom
//! reports.

use std::future::poll_fn;

use loom::future::block_on;
use loom::thread;

use super::*;
use crate::pool::testing::{config, model};
use crate::pool::{Pool, Purpose, REGION};

fn pool() -> Pool {
    let pool = Pool::new(config(REGION)).unwrap();
    // Makes the headers before there are threads: loom does not see the OnceLock that orders this.
    drop(pool.writer(REGION, Purpose::Bulk).unwrap());
    pool
}

fn slice(pool: &Pool, bytes: &[u8]) -> Slice {
    let mut writer = pool.writer(bytes.len(), Purpose::Bulk).unwrap();
    writer.spare()[..bytes.len()].copy_from_slice(bytes);
    writer.commit(bytes.len())
}

fn read(mut follower: Follower) -> (Vec<u8>, Option<Code>) {
    let mut bytes = Vec::new();
    loop {
        match block_on(poll_fn(|context| follower.poll_next(context))) {
            Some(Ok(slice)) => bytes.extend_from_slice(&slice),
            Some(Err(error)) => return (bytes, Some(error.code())),
            None => return (bytes, None),
        }
    }
}

#[test]
fn every_follower_gets_every_byte_and_the_end() {
    model(2, || {
        let pool = pool();
        let (body, filler) = Body::new(&Plain::new(CacheBudget::new(REGION, &StoredBytes::default())));
        let pieces = [slice(&pool, b"a"), slice(&pool, b"b")];
        let filling = thread::spawn(move || {
            for piece in pieces {
                filler.push(piece);
            }
            filler.finish(Ending::default());
        });
        let other = Body::follow(&body, 0..u64::MAX);
        let reading = thread::spawn(move || read(other));
        assert_eq!(read(Body::follow(&body, 0..u64::MAX)), (b"ab".to_vec(), None));
        assert_eq!(reading.join().unwrap(), (b"ab".to_vec(), None));
        filling.join().unwrap();
    });
}

#[test]
fn a_filler_that_is_dropped_ends_every_wait() {
    model(3, || {
        let (body, filler) = Body::new(&Plain::new(CacheBudget::new(REGION, &StoredBytes::default())));
        let follower = Body::follow(&body, 0..u64::MAX);
        let reading = thread::spawn(move || read(follower));
        drop(filler);
        assert_eq!(reading.join().unwrap(), (Vec::new(), Some(Code::EngineClosed)));
    });
}

#[test]
fn a_filler_that_waits_for_the_last_to_leave_is_told() {
    model(3, || {
        let (body, filler) = Body::new(&Plain::new(CacheBudget::new(REGION, &StoredBytes::default())));
        let followers = [Body::follow(&body, 0..1), Body::follow(&body, 0..1)];
        let leaving = followers.map(|follower| thread::spawn(move || drop(follower)));
        block_on(poll_fn(|context| filler.poll_abandoned(context)));
        for thread in leaving {
            thread.join().unwrap();
        }
    });
}

#[test]
fn a_filler_that_waits_for_the_slowest_is_told() {
    model(3, || {
        let pool = pool();
        let (body, filler) = Body::new(&Plain::new(CacheBudget::new(REGION, &StoredBytes::default())));
        let follower = Body::follow(&body, 0..u64::MAX);
        filler.push(slice(&pool, b"a"));
        filler.stop_retaining(1);
        let next = slice(&pool, b"b");
        let reading = thread::spawn(move || read(follower));
        block_on(poll_fn(|context| filler.poll_room(context)));
        filler.push(next);
        filler.finish(Ending::default());
        assert_eq!(reading.join().unwrap(), (b"ab".to_vec(), None));
    });
}
