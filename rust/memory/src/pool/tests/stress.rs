//! Threads that take, share and drop slabs of every class and runs, while a table notes the owner of each
//! page.

use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use super::*;
use crate::sys::mapping::PAGE;

const THREADS: usize = 4;
/// The distance in bytes between two words of a slab that no other slab has.
const STEP: usize = if cfg!(miri) { 16 * 1024 } else { 256 };

/// The holder of each page of the mapping; zero if the page is free.
struct Owners {
    first: usize,
    pages: Vec<AtomicU64>,
}

/// A slice of a whole slab, stamped by the thread that took it.
struct Held {
    slice: Slice,
    token: u64,
}

impl Owners {
    fn of(pool: &Pool) -> Self {
        let (first, length) = pool.address_range();
        Self { first, pages: (0..length / PAGE).map(|_| AtomicU64::new(0)).collect() }
    }

    fn change(&self, slice: &Slice, from: u64, to: u64) {
        let first = (slice.as_ptr() as usize - self.first) / PAGE;
        for page in &self.pages[first..first + slice.len() / PAGE] {
            // Relaxed: the table must not order accesses that the pool has to order.
            assert_eq!(page.swap(to, Ordering::Relaxed), from, "a page had another owner");
        }
    }

    fn take(&self, pool: &Pool, size: usize, token: u64) -> Option<Held> {
        let mut writer = pool.writer(size, Purpose::Bulk).ok()?;
        let length = writer.capacity();
        for (at, word) in writer.spare().chunks_mut(STEP).enumerate() {
            word[..8].copy_from_slice(&(token ^ at as u64).to_le_bytes());
        }
        let slice = writer.commit(length);
        self.change(&slice, 0, token);
        Some(Held { slice, token })
    }

    fn give_back(&self, held: Held) {
        let Held { slice, token } = held;
        for (at, word) in slice.chunks(STEP).enumerate() {
            assert_eq!(word[..8], (token ^ at as u64).to_le_bytes(), "another slab's bytes");
        }
        self.change(&slice, token, 0);
        drop(slice);
    }
}

/// Numbers without a pattern, the same in every run (Marsaglia's xorshift64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 32).unwrap() % bound
    }
}

fn work(pool: &Pool, owners: &Owners, number: usize, next: &SyncSender<Held>, received: &Receiver<Held>) {
    let rounds: u64 = if cfg!(miri) { 30 } else { 10_000 };
    let mut random = Random(0x9E37_79B9_7F4A_7C15 ^ number as u64);
    let mut kept = Vec::new();
    for round in 0..rounds {
        let size = match random.below(16) {
            0 => REGION + 1 + random.below(2 * REGION),
            1..4 => REGION,
            other => CLASSES[other % 3],
        };
        let token = ((number as u64 + 1) << 48) | (round + 1);
        match owners.take(pool, size, token) {
            Some(held) if round % 3 == 0 => {
                if let Err(TrySendError::Full(held) | TrySendError::Disconnected(held)) = next.try_send(held)
                {
                    owners.give_back(held);
                }
            }
            Some(held) => kept.push(held),
            None if kept.is_empty() => {}
            None => owners.give_back(kept.swap_remove(random.below(kept.len()))),
        }
        while kept.len() > 8 {
            owners.give_back(kept.swap_remove(random.below(kept.len())));
        }
        if let Ok(held) = received.try_recv() {
            owners.give_back(held);
        }
    }
    for held in kept {
        owners.give_back(held);
    }
}

#[test]
fn no_page_ever_has_two_owners() {
    let pool = pool(12 * REGION);
    let owners = Owners::of(&pool);
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| sync_channel(16)).unzip();
    std::thread::scope(|scope| {
        for (number, received) in receivers.into_iter().enumerate() {
            let (pool, owners, next) = (&pool, &owners, senders[(number + 1) % THREADS].clone());
            scope.spawn(move || {
                work(pool, owners, number, &next, &received);
                drop(next);
                // Waits for the other thread to end too.
                for held in received {
                    owners.give_back(held);
                }
            });
        }
        drop(senders);
    });
    let stats = pool.stats();
    assert_eq!((stats.live_bytes, stats.live_runs), (0, 0));
    assert!(stats.classes.iter().all(|class| class.live == 0));
    assert!(stats.peak_bytes <= stats.budget);
    assert_eq!(fill(&pool, REGION).len(), stats.budget / REGION);
}
