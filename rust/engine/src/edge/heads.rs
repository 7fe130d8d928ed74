//! The memory of bytes that wait: incomplete heads, and bytes after the request that is being answered.
//!
//! It has a small budget, so that clients that never finish a head cannot take the memory of the others. Over budget, the
//! client that has held the most bytes for the longest is evicted. The invariant: the budget is never exceeded by more
//! than one read.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::time::Instant;

use crate::pool::{CLASSES, Pool, REGION};
use crate::sync::{Arc, Mutex, lock};

/// All of an engine's.
#[derive(Debug)]
pub struct Heads {
    budget: usize,
    state: Mutex<State>,
    evicted: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    used: usize,
    next: u64,
    /// By the size of the slab, the oldest first: of each size only the oldest can be the next to go, so that nothing is
    /// searched however many there are.
    by_class: [BTreeMap<Key, Arc<Entry>>; CLASSES.len()],
}

/// When it began, and its number.
type Key = (Instant, u64);

#[derive(Debug, Default)]
struct Entry {
    bytes: AtomicU64,
    evicted: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

/// Bytes of one client that wait. Dropping it takes them off the account.
#[derive(Debug)]
pub(super) struct Waiting<'a> {
    heads: &'a Heads,
    entry: Arc<Entry>,
    key: Key,
    class: Option<usize>,
}

impl Heads {
    /// Of an engine whose memory is `pool`. Half of what only heads may take: the other half is for heads that come in one
    /// read. At least one region, which is four of the largest heads that are allowed by default.
    pub fn new(pool: &Pool) -> Self {
        Self { budget: (pool.heads() / 2).max(REGION), state: Mutex::default(), evicted: AtomicU64::new(0) }
    }

    /// How many have been evicted so far.
    pub(super) fn evicted(&self) -> u64 {
        // Relaxed: a count.
        self.evicted.load(Ordering::Relaxed)
    }

    /// For a client that begins to wait now.
    pub(super) fn enter(&self) -> Waiting<'_> {
        let mut state = lock(&self.state);
        state.next += 1;
        Waiting { heads: self, entry: Arc::default(), key: (Instant::now(), state.next), class: None }
    }
}

impl State {
    fn remove(&mut self, class: usize, key: &Key) {
        if let Some(entry) = self.by_class[class].remove(key) {
            self.used -= entry.bytes();
        }
    }

    /// Takes out the one that has held the most for the longest, unless it is the only one.
    fn evict(&mut self) -> Option<Arc<Entry>> {
        if self.by_class.iter().map(BTreeMap::len).sum::<usize>() < 2 {
            return None;
        }
        let now = Instant::now();
        let cost = |(key, entry): (&Key, &Arc<Entry>)| {
            // At least a microsecond: of the heads that have just begun, the largest is evicted.
            let age = now.saturating_duration_since(key.0).max(Duration::from_micros(1));
            age.as_micros() * entry.bytes() as u128
        };
        let oldest = self.by_class.iter().enumerate();
        let oldest = oldest.filter_map(|(class, entries)| Some((cost(entries.first_key_value()?), class)));
        let (_, class) = oldest.max_by_key(|(cost, _)| *cost)?;
        let (_, entry) = self.by_class[class].pop_first()?;
        self.used -= entry.bytes();
        Some(entry)
    }
}

impl Entry {
    #[expect(clippy::cast_possible_truncation, reason = "bytes of a slab")]
    fn bytes(&self) -> usize {
        // Relaxed, as all of this: it is written under the lock.
        self.bytes.load(Ordering::Relaxed) as usize
    }
}

impl Waiting<'_> {
    /// It holds a slab of so many `bytes` from now on. Others, or this one, are evicted where that is too much.
    pub(super) fn hold(&mut self, bytes: usize) {
        if self.class.is_some() && self.entry.bytes() == bytes {
            return;
        }
        let evicted: Vec<_> = {
            let mut state = lock(&self.heads.state);
            if let Some(class) = self.class {
                state.remove(class, &self.key);
            }
            let class = CLASSES.iter().position(|class| bytes <= *class).unwrap_or(CLASSES.len() - 1);
            self.class = Some(class);
            // Relaxed: see `Entry::bytes`.
            if self.entry.evicted.load(Ordering::Relaxed) {
                return;
            }
            self.entry.bytes.store(bytes as u64, Ordering::Relaxed);
            state.used += bytes;
            state.by_class[class].insert(self.key, Arc::clone(&self.entry));
            let mut evicted = Vec::new();
            while state.used > self.heads.budget {
                let Some(entry) = state.evict() else { break };
                entry.evicted.store(true, Ordering::Relaxed);
                evicted.push(entry);
            }
            evicted
        };
        self.heads.evicted.fetch_add(evicted.len() as u64, Ordering::Relaxed);
        for entry in evicted {
            // Taken under the lock after the flag was set: a task that registers later sees the
            // flag.
            let waker = lock(&entry.waker).take();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    /// Ready when it has been evicted.
    pub(super) async fn evicted(&self) {
        poll_fn(|context| {
            let mut waker = lock(&self.entry.waker);
            if self.entry.evicted.load(Ordering::Relaxed) {
                return Poll::Ready(());
            }
            *waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(class) = self.class {
            lock(&self.heads.state).remove(class, &self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::testing::config;

    const LARGE: usize = CLASSES[2];

    fn heads() -> Heads {
        // Half of that is one region: four of the largest here.
        Heads::new(&Pool::new(crate::pool::PoolConfig { heads: 2 * REGION, ..config(8 * REGION) }).unwrap())
    }

    async fn is_evicted(waiting: &Waiting<'_>) -> bool {
        poll_fn(|context| Poll::Ready(std::pin::pin!(waiting.evicted()).poll(context).is_ready())).await
    }

    fn waiting(heads: &Heads, bytes: usize) -> Waiting<'_> {
        let mut waiting = heads.enter();
        waiting.hold(bytes);
        waiting
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_of_one_size_goes_first_and_no_more_than_must() {
        let heads = heads();
        let mut all = Vec::new();
        for _ in 0..6 {
            all.push(waiting(&heads, LARGE));
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        for (at, waiting) in all.iter().enumerate() {
            assert_eq!(is_evicted(waiting).await, at < 2, "{at}");
        }
        assert_eq!((heads.evicted(), lock(&heads.state).used), (2, REGION));
        drop(all);
        assert_eq!(lock(&heads.state).used, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_small_one_outlives_large_ones_that_began_a_little_later() {
        let heads = heads();
        let small = waiting(&heads, CLASSES[0]);
        tokio::time::advance(Duration::from_millis(100)).await;
        let mut large: Vec<_> = (0..3).map(|_| waiting(&heads, LARGE)).collect();
        tokio::time::advance(Duration::from_millis(50)).await;
        large.push(waiting(&heads, LARGE));
        assert!(!is_evicted(&small).await, "4 KiB for 150 ms are less than 64 KiB for 50");
        assert!(is_evicted(&large[0]).await);
        tokio::time::advance(Duration::from_secs(60)).await;
        drop(large);
        let large: Vec<_> = (0..4).map(|_| waiting(&heads, LARGE)).collect();
        assert!(is_evicted(&small).await, "no other has waited for longer");
        assert!(!is_evicted(&large[0]).await);
    }

    #[tokio::test]
    async fn the_only_one_stays_however_large_and_what_grows_counts_as_what_it_is() {
        let heads = heads();
        let mut only = waiting(&heads, CLASSES[0]);
        only.hold(2 * REGION);
        assert!(!is_evicted(&only).await);
        assert_eq!(lock(&heads.state).used, 2 * REGION);
        only.hold(CLASSES[1]);
        assert_eq!(lock(&heads.state).used, CLASSES[1]);
        drop(only);
        assert_eq!(lock(&heads.state).used, 0);
    }

    #[tokio::test]
    async fn whoever_waits_is_woken_by_its_eviction() {
        let heads = Arc::new(heads());
        let first = Arc::clone(&heads);
        let evicted = tokio::spawn(async move { waiting(&first, LARGE).evicted().await });
        tokio::task::yield_now().await;
        let others: Vec<_> = (0..4).map(|_| waiting(&heads, LARGE)).collect();
        tokio::time::timeout(Duration::from_secs(20), evicted).await.unwrap().unwrap();
        assert_eq!(heads.evicted(), 1);
        drop(others);
    }
}
