//! Models of two threads that use the pool, in every order.

use std::future::poll_fn;

use loom::future::block_on;
use loom::thread;

use super::testing::{config, model};
use super::*;

const QUARTER: usize = REGION / 4;

fn pool(reserve: usize) -> Pool {
    let pool = Pool::new(PoolConfig { reserve, caches: 2, ..config(REGION) }).unwrap();
    pool.shared.memory.prepare(0);
    pool
}

/// A thread that uses the cache with this number.
fn spawn(cache: usize, body: impl FnOnce() + 'static) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        MINE.with(|mine| mine.set(cache));
        body();
    })
}

fn filled(pool: &Pool, size: usize, byte: u8) -> Slice {
    let mut writer = pool.writer(size, Purpose::Bulk).unwrap();
    writer.spare()[0] = byte;
    writer.commit(1)
}

fn room(pool: &Pool, size: usize, purpose: Purpose) -> Writer {
    block_on(poll_fn(|context| pool.poll_room(context, size, purpose))).unwrap()
}

#[test]
fn clones_dropped_on_two_threads_recycle_the_slab_once() {
    model(3, || {
        let pool = pool(0);
        let slice = filled(&pool, REGION, 7);
        let other = slice.clone();
        let thread = spawn(1, move || {
            let third = other.clone();
            drop(other);
            assert_eq!(third[0], 7);
        });
        assert_eq!(slice[0], 7);
        drop(slice);
        thread.join().unwrap();
        let stats = pool.stats();
        assert_eq!((stats.live_bytes, stats.classes[3].live), (0, 0));
        // A slab that is recycled twice could be handed out twice.
        let _only = pool.writer(REGION, Purpose::Bulk).unwrap();
        assert_eq!(pool.writer(1, Purpose::Bulk).unwrap_err().code(), Code::PoolFull);
    });
}

#[test]
fn a_reader_is_done_before_the_next_writer_begins() {
    model(3, || {
        let pool = pool(0);
        let slice = filled(&pool, REGION, 7);
        let other = slice.clone();
        let thread = spawn(1, move || assert_eq!(other[0], 7));
        assert_eq!(slice[0], 7);
        drop(slice);
        // There is one slab: a write here must come after the reads of both handles.
        room(&pool, REGION, Purpose::Bulk).spare()[0] = 8;
        thread.join().unwrap();
    });
}

#[test]
fn a_writer_reclaims_only_what_was_read() {
    model(3, || {
        let pool = pool(0);
        let mut writer = pool.writer(REGION, Purpose::Bulk).unwrap();
        writer.spare()[0] = 7;
        let slice = writer.commit(1);
        let thread = spawn(1, move || assert_eq!(slice[0], 7));
        if writer.reclaim() {
            writer.spare()[0] = 8;
        }
        thread.join().unwrap();
        assert!(writer.reclaim());
    });
}

#[test]
fn the_pool_outlives_its_owner_while_a_slice_lives() {
    model(3, || {
        let pool = pool(0);
        let slice = filled(&pool, REGION, 7);
        let thread = spawn(1, move || assert_eq!(slice[0], 7));
        drop(pool);
        thread.join().unwrap();
    });
}

#[test]
fn no_slab_is_handed_out_twice() {
    for caches in [[0, 0], [0, 1]] {
        model(2, move || {
            let pool = pool(0);
            let threads = caches.map(|cache| {
                let pool = pool.clone();
                spawn(cache, move || {
                    for byte in 0..2 {
                        // Two holders of one slab would be two writers of it.
                        let slice = filled(&pool, QUARTER, byte);
                        assert_eq!(slice[0], byte);
                    }
                })
            });
            for thread in threads {
                thread.join().unwrap();
            }
            assert_eq!(pool.stats().live_bytes, 0);
            assert!(pool.writer(REGION, Purpose::Bulk).is_ok(), "the region is free again");
        });
    }
}

#[test]
fn there_is_room_for_whoever_the_budget_has_room_for() {
    model(3, || {
        let pool = pool(0);
        let first = filled(&pool, QUARTER, 1);
        let thread = {
            let pool = pool.clone();
            // Two of four slabs: the first thread cuts slabs for its cache, and the second must find them
            // there.
            spawn(1, move || drop(filled(&pool, QUARTER, 2)))
        };
        drop(filled(&pool, QUARTER, 3));
        thread.join().unwrap();
        drop(first);
    });
}

#[test]
fn whoever_waits_for_room_is_woken_by_a_recycled_slab() {
    for cache in [0, 1] {
        model(3, move || {
            let pool = pool(0);
            let slice = filled(&pool, REGION, 7);
            let thread = spawn(cache, move || drop(slice));
            // A class other than the class of the slab that comes back.
            room(&pool, 1, Purpose::Bulk);
            thread.join().unwrap();
        });
    }
}

#[test]
fn whoever_waits_for_a_small_slab_takes_a_larger_one() {
    for cache in [0, 1] {
        model(3, move || {
            let pool = pool(0);
            // The region cannot be cut again while these are held.
            let _held = [1, 2, 3].map(|byte| filled(&pool, QUARTER, byte));
            let last = filled(&pool, QUARTER, 4);
            let thread = spawn(cache, move || drop(last));
            assert_eq!(room(&pool, 1, Purpose::Bulk).capacity(), QUARTER);
            thread.join().unwrap();
        });
    }
}

#[test]
fn whoever_can_do_with_less_is_woken_once_the_budget_has_room() {
    for cache in [0, 1] {
        model(3, move || {
            let pool = pool(0);
            // The region is never free to be cut, and the whole size fits only after the last slab has come back.
            let _held = filled(&pool, QUARTER, 1);
            let others = [2, 3, 4].map(|byte| filled(&pool, QUARTER, byte));
            let thread = spawn(cache, move || drop(others));
            let some = block_on(poll_fn(|context| pool.poll_some(context, 3 * QUARTER, Purpose::Bulk)));
            assert_eq!(some.unwrap().capacity(), QUARTER);
            thread.join().unwrap();
        });
    }
}

#[test]
fn two_waiters_both_get_their_turn() {
    model(3, || {
        let pool = pool(0);
        let slice = filled(&pool, REGION, 7);
        let thread = {
            let pool = pool.clone();
            spawn(1, move || drop(room(&pool, REGION, Purpose::Bulk)))
        };
        drop(slice);
        drop(room(&pool, REGION, Purpose::Bulk));
        thread.join().unwrap();
    });
}

#[test]
fn a_request_that_is_refused_does_not_strand_one_that_fits() {
    model(3, || {
        let pool = pool(QUARTER);
        let thread = {
            let pool = pool.clone();
            // More than remains beside the reserve, so it is always refused.
            spawn(1, move || assert!(pool.writer(REGION, Purpose::Bulk).is_err()))
        };
        // Nothing is held, so no return would wake this task later.
        room(&pool, QUARTER, Purpose::Bulk);
        thread.join().unwrap();
    });
}

#[test]
fn new_work_that_waits_while_the_pool_is_full_is_woken() {
    for cache in [0, 1] {
        model(3, move || {
            let pool = pool(0);
            let slice = filled(&pool, REGION, 7);
            let thread = spawn(cache, move || drop(slice));
            block_on(poll_fn(|context| pool.poll_open(context)));
            thread.join().unwrap();
        });
    }
}
