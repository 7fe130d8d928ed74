use std::sync::Arc as Plain;
use std::sync::atomic::AtomicUsize as PlainCount;
use std::task::Wake;

use super::*;

mod stress;

fn config(budget: usize) -> PoolConfig {
    PoolConfig { caches: 4, ..super::testing::config(budget) }
}

struct Woken(PlainCount);

impl Wake for Woken {
    fn wake(self: Plain<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Woken {
    fn pair() -> (Plain<Self>, Waker) {
        let woken = Plain::new(Self(PlainCount::new(0)));
        (Plain::clone(&woken), Waker::from(woken))
    }
}

fn pool(budget: usize) -> Pool {
    Pool::new(config(budget)).unwrap()
}

fn fill(pool: &Pool, size: usize) -> Vec<Writer> {
    std::iter::from_fn(|| pool.writer(size, Purpose::Bulk).ok()).collect()
}

const BUDGET: usize = 8 * REGION;

#[test]
#[should_panic(expected = "handed out twice")]
fn a_slab_that_is_given_back_while_it_is_held_is_not_handed_out() {
    let pool = pool(REGION);
    let held = pool.writer(REGION, Purpose::Bulk).unwrap().commit(REGION);
    // As a mistake in the pool would have it.
    pool.shared.recycle(held.slab().0);
    let _ = pool.writer(1, Purpose::Bulk);
}

#[test]
fn a_free_region_is_recut_for_any_class() {
    let pool = pool(BUDGET);
    let mut classes = CLASSES.to_vec();
    classes.extend(CLASSES.iter().rev());
    for class in classes {
        let writers = fill(&pool, class);
        assert_eq!(writers.len(), BUDGET / class, "the whole budget is usable in slabs of {class}");
        assert_eq!(pool.stats().live_bytes, BUDGET);
        drop(writers);
        assert_eq!(pool.stats().live_bytes, 0);
    }
}

#[test]
fn a_large_object_is_one_contiguous_run() {
    let pool = pool(BUDGET);
    let mut writer = pool.writer(3 * REGION + 1, Purpose::Bulk).unwrap();
    assert_eq!(writer.capacity(), 4 * REGION);
    writer.spare().fill(7);
    let all = writer.commit(4 * REGION);
    // Miri takes a microsecond for every byte that is looked at.
    assert!(all.iter().step_by(if cfg!(miri) { 997 } else { 1 }).all(|&byte| byte == 7));
    assert_eq!(pool.stats().live_runs, 1);
    assert_eq!(pool.writer(5 * REGION, Purpose::Bulk).unwrap_err().code(), Code::PoolFull);
    drop(writer);
    drop(all);
    assert_eq!(pool.writer(BUDGET, Purpose::Bulk).unwrap().capacity(), BUDGET);
    assert_eq!(pool.writer(BUDGET + 1, Purpose::Bulk).unwrap_err().code(), Code::ObjectTooLarge);
}

#[test]
fn the_slab_comes_back_with_the_last_handle() {
    let pool = pool(BUDGET);
    let mut writer = pool.writer(100, Purpose::Bulk).unwrap();
    writer.spare()[..4].copy_from_slice(b"abcd");
    let mut slice = writer.commit(4);
    drop(writer);
    let front = slice.split_to(1);
    let tail = slice.slice(1..3);
    drop(slice);
    assert_eq!((&*front, &*tail), (&b"a"[..], &b"cd"[..]));
    drop(front);
    assert_eq!(pool.stats().live_bytes, CLASSES[0]);
    drop(tail);
    assert_eq!(pool.stats().live_bytes, 0);
}

#[test]
fn only_adjacent_slices_of_one_slab_join() {
    let pool = pool(BUDGET);
    let mut writer = pool.writer(100, Purpose::Bulk).unwrap();
    writer.spare()[..6].copy_from_slice(b"abcdef");
    let (mut first, second, third) = (writer.commit(2), writer.commit(2), writer.commit(2));
    let third = first.join(third).unwrap_err();
    first.join(second).unwrap();
    first.join(third).unwrap();
    assert_eq!(&*first, b"abcdef");
    first.truncate(3);
    assert_eq!(&*first, b"abc");
}

#[test]
fn a_writer_reclaims_its_slab_only_when_no_slice_is_left() {
    let pool = pool(BUDGET);
    let mut writer = pool.writer(100, Purpose::Bulk).unwrap();
    let slice = writer.commit(10);
    assert!(!writer.reclaim());
    assert_eq!(writer.filled(), 10);
    drop(slice);
    assert!(writer.reclaim());
    assert_eq!(writer.filled(), 0);
}

#[test]
fn refusals_are_counted_and_room_wakes_who_waits() {
    let pool = pool(REGION);
    let held = pool.writer(REGION, Purpose::Bulk).unwrap();
    let (woken, waker) = Woken::pair();
    let mut context = Context::from_waker(&waker);
    assert!(pool.poll_room(&mut context, 1, Purpose::Bulk).is_pending());
    assert!(pool.stats().refusals >= 1);
    drop(held);
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    assert!(pool.poll_room(&mut context, 1, Purpose::Bulk).is_ready());
}

/// Every region cut into slabs of 64 KiB, one of which is free.
fn pinned(pool: &Pool) -> Vec<Slice> {
    let mut held: Vec<_> = fill(pool, 64 * 1024).iter_mut().map(|writer| writer.commit(1)).collect();
    held.sort_by_key(|slice| slice.as_ptr());
    held.chunks(4).flat_map(|region| region[..3].to_vec()).collect()
}

#[test]
fn a_small_request_gets_a_larger_slab_where_no_region_can_be_cut() {
    let pool = pool(BUDGET);
    let held = pinned(&pool);
    let small = fill(&pool, 4 * 1024);
    assert_eq!(small.len(), BUDGET / REGION, "each region had one slab free");
    assert!(small.iter().all(|writer| writer.capacity() == 64 * 1024));
    let stats = pool.stats();
    assert_eq!((stats.live_bytes, stats.classes[0].live), (BUDGET, 0), "a slab counts as what it is");
    assert_eq!((stats.classes[2].live, stats.classes[2].total), (BUDGET / 65536, BUDGET / 65536));
    drop(small);
    let joined = pool.gather([&b"ab"[..], b"cd"], 4, Purpose::Control, CopyReason::FrameJoin).unwrap();
    assert_eq!(&*joined, b"abcd");
    drop((held, joined));
    assert_eq!(pool.stats().live_bytes, 0);
    assert_eq!(fill(&pool, 4 * 1024).len(), BUDGET / 4096);
}

#[test]
fn a_read_takes_a_smaller_slab_where_no_region_can_be_cut() {
    let pool = pool(BUDGET);
    // One slab of 4 KiB is held in every region.
    let mut all: Vec<_> = fill(&pool, CLASSES[0]).iter_mut().map(|writer| writer.commit(1)).collect();
    all.sort_by_key(|slice| slice.as_ptr());
    let held: Vec<_> = all.chunks(REGION / CLASSES[0]).map(|region| region[0].clone()).collect();
    drop(all);
    assert_eq!(pool.stats().live_bytes, held.len() * CLASSES[0]);
    let (_, waker) = Woken::pair();
    let mut context = Context::from_waker(&waker);
    let mut some = |size| match pool.poll_some(&mut context, size, Purpose::Bulk) {
        Poll::Ready(writer) => writer.unwrap().capacity(),
        Poll::Pending => panic!("waits beside free memory"),
    };
    assert_eq!(some(REGION), CLASSES[0]);
    drop(held);
    assert_eq!(some(REGION), REGION, "the whole of it where a region is free");
}

#[test]
fn a_read_waits_for_all_it_wants_where_the_budget_is_spent() {
    let pool = pool(REGION);
    let mut held = fill(&pool, 64 * 1024);
    held.pop();
    let (woken, waker) = Woken::pair();
    let mut context = Context::from_waker(&waker);
    assert!(pool.poll_some(&mut context, REGION, Purpose::Bulk).is_pending());
    held.clear();
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    assert!(pool.poll_some(&mut context, REGION, Purpose::Bulk).is_ready());
}

#[test]
fn a_larger_slab_that_the_reserve_forbids_wakes_nobody() {
    // Bulk may have one page more than is held.
    let pool = Pool::new(PoolConfig { reserve: 60 * 1024, ..config(REGION) }).unwrap();
    let held: Vec<_> = (0..3).map(|_| pool.writer(64 * 1024, Purpose::Bulk).unwrap()).collect();
    let (woken, waker) = Woken::pair();
    assert!(pool.poll_room(&mut Context::from_waker(&waker), 1, Purpose::Bulk).is_pending());
    assert_eq!(woken.0.load(Ordering::Relaxed), 0, "it would ask again at once, for ever");
    assert_eq!(pool.writer(1, Purpose::Control).unwrap().capacity(), 64 * 1024);
    drop(held);
}

#[test]
fn the_reserve_is_for_control_only() {
    let pool = Pool::new(PoolConfig { reserve: REGION, ..config(2 * REGION) }).unwrap();
    let bulk = fill(&pool, REGION);
    assert_eq!(bulk.len(), 1);
    assert!(pool.writer(1, Purpose::Control).is_ok());
}

#[test]
fn the_state_relaxes_with_hysteresis() {
    let pool = pool(100 * REGION);
    let mut held: Vec<_> = (0..95).map(|_| pool.writer(REGION, Purpose::Bulk).unwrap()).collect();
    assert_eq!(pool.state(), PoolState::Full);
    held.truncate(86);
    assert_eq!(pool.state(), PoolState::Full);
    held.truncate(84);
    assert_eq!(pool.state(), PoolState::Pressed);
    held.truncate(66);
    assert_eq!(pool.state(), PoolState::Pressed);
    held.truncate(64);
    assert_eq!(pool.state(), PoolState::Open);
}

#[test]
fn gathering_counts_the_copy_by_reason() {
    let pool = pool(BUDGET);
    let slice = pool.gather([&b"ab"[..], b"cd"], 4, Purpose::Control, CopyReason::FrameJoin).unwrap();
    assert_eq!(&*slice, b"abcd");
    let stats = pool.stats();
    assert_eq!(stats.bytes_copied[CopyReason::FrameJoin as usize], 4);
    assert_eq!(stats.bytes_copied.iter().sum::<usize>(), 4);
}

#[test]
fn slabs_dropped_on_other_threads_come_back() {
    let pool = pool(BUDGET);
    let rounds = if cfg!(miri) { 4 } else { 2000 };
    let (sender, receiver) = std::sync::mpsc::sync_channel::<Slice>(64);
    let receiver = std::sync::Mutex::new(receiver);
    let receiver = &receiver;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(move || {
                while let Ok(slice) = { receiver.lock().unwrap().recv() } {
                    let copy = slice.clone();
                    assert!(slice.iter().all(|&byte| byte == slice[0]), "another slab's bytes");
                    drop(slice);
                    drop(copy);
                }
            });
        }
        for number in 0..2_usize {
            let (pool, sender) = (pool.clone(), sender.clone());
            scope.spawn(move || {
                for round in 0..rounds {
                    let size = CLASSES[(round + number) % CLASSES.len()].min(64 * 1024);
                    let Ok(mut writer) = pool.writer(size, Purpose::Bulk) else { continue };
                    writer.spare()[..64].fill(u8::try_from(round % 251).unwrap());
                    sender.send(writer.commit(64)).unwrap();
                }
            });
        }
        drop(sender);
    });
    let stats = pool.stats();
    assert_eq!(stats.live_bytes, 0);
    assert!(stats.classes.iter().all(|class| class.live == 0));
    assert_eq!(fill(&pool, REGION).len(), BUDGET / REGION);
}

#[test]
fn new_work_waits_while_the_pool_is_full_and_is_woken_by_what_comes_back() {
    let pool = pool(BUDGET);
    let (woken, waker) = Woken::pair();
    let is_open = || pool.poll_open(&Context::from_waker(&waker)).is_ready();
    let mut held = fill(&pool, REGION);
    assert!(!is_open());
    assert_eq!((pool.waiting(), woken.0.load(Ordering::Relaxed)), (1, 0));
    held.pop();
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    assert!(!is_open(), "seven of eight are above the threshold less the hysteresis");
    held.pop();
    assert!(is_open());
}

#[test]
fn what_is_stored_is_not_on_its_way() {
    let pool = pool(BUDGET);
    let held = fill(&pool, REGION);
    assert_eq!(pool.in_transit(), BUDGET);
    let stored = pool.stored().clone();
    stored.add(3 * REGION);
    assert_eq!(pool.in_transit(), BUDGET - 3 * REGION);
    drop(held);
    assert_eq!(pool.in_transit(), 0, "what is stored is counted before it is given back");
    stored.remove(3 * REGION);
    assert_eq!(pool.stored().bytes(), 0);
}
