//! The bounded pool: one budget of memory, cut into slabs, which holds every byte on its way through penstock.
//!
//! [`Pool::writer`] hands out a slab to fill; filled parts become [`Slice`]s; the drop of the last handle gives
//! the slab back, on any thread. Nothing here blocks: a pool without room refuses at once, and a task can wait by
//! [`Pool::poll_room`]. Slabs pass through a small cache per thread, so that the common case takes one
//! uncontended lock; the regions below the caches are cut under the one lock of `regions`.

mod holdings;
mod regions;
mod slab;
mod stats;
mod stored_bytes;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::task::{Context, Poll, Waker};

pub use regions::{CLASSES, REGION};
pub use slab::{Slice, Writer};
pub use stats::{ClassStats, CopyReason, PoolState, PoolStats};
pub use stored_bytes::StoredBytes;

use crate::holder;
use crate::sync::{Arc, AtomicU8, AtomicUsize, Mutex, Ordering, lock};
use crate::sys::fork;
use crate::sys::memory::Memory;
use holdings::Taken;
use penstock_error::{Code, Result};
use regions::{Regions, class_of};
use stats::Counters;

/// The settings of a pool. Python declares and validates them; there are no defaults here.
#[derive(Debug, Clone)]
pub struct PoolConfig {
    /// Bytes of data, rounded down to whole regions; at least one region.
    pub memory: usize,
    /// Bytes that only [`Purpose::Control`] and [`Purpose::Head`] may take.
    pub reserve: usize,
    /// Bytes that only [`Purpose::Head`] may take, besides the reserve. The percentages below are of the
    /// rest.
    pub heads: usize,
    /// The share of the budget at which the pool is pressed, in percent.
    pub pressed_percent: usize,
    /// The share of the budget at which the pool is full, in percent.
    pub full_percent: usize,
    /// How far below a threshold the use must fall before the state relaxes, in percent.
    pub hysteresis_percent: usize,
    /// Bytes that a background thread makes present in advance; 0 for no thread.
    pub prefault: usize,
    /// Ask the operating system for transparent huge pages.
    pub huge_pages: bool,
    /// Ask the operating system to lock the pages that are touched.
    pub lock: bool,
    /// Number of thread caches.
    pub caches: usize,
}

/// What memory is for: it decides which reserve may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Response heads and joined frames: what an established stream needs to go on.
    Control,
    /// Request heads: without one, a client cannot be told that there is no room for its request.
    Head,
    /// Everything else.
    Bulk,
}

/// A handle to the pool. Cloning it shares the pool.
#[derive(Debug, Clone)]
pub struct Pool {
    shared: Arc<Shared>,
}

/// What all handles share. It keeps the memory alive while a slab lives.
#[derive(Debug)]
struct Shared {
    memory: Memory,
    config: PoolConfig,
    generation: u32,
    regions: Mutex<Regions>,
    /// The class of each region. Written under the lock of `regions`, before a slab of it is handed out.
    classes: Box<[AtomicU8]>,
    caches: Box<[Cache]>,
    counters: Counters,
    taken: Taken,
    stored: StoredBytes,
    waiting: AtomicUsize,
    waiters: Mutex<Waiters>,
    notices: Vec<String>,
    prefault: prefault::Signal,
}

/// The tasks that wait for room, each once: thousands of clients may wait, and each looks again when a slab comes back.
#[derive(Debug, Default)]
struct Waiters {
    wakers: Vec<Waker>,
    /// The index of each task, by the pointers of its waker.
    known: HashMap<(usize, usize), usize>,
}

impl Waiters {
    fn register(&mut self, waker: &Waker) {
        let parts = (waker.data().addr(), std::ptr::from_ref(waker.vtable()).addr());
        match self.known.entry(parts) {
            Entry::Occupied(at) => self.wakers[*at.get()].clone_from(waker),
            Entry::Vacant(place) => {
                place.insert(self.wakers.len());
                self.wakers.push(waker.clone());
            }
        }
    }
}

/// The free slabs that a thread keeps, by class. Padded, so that two threads' locks do not share a cache
/// line.
#[derive(Debug)]
#[repr(align(128))]
struct Cache(Mutex<[Vec<usize>; CLASSES.len()]>);

mod prefault;

/// A thread keeps at most this many bytes of each class: enough for a burst of reads, and at most 2 MiB in all.
const CACHE_BYTES: usize = 512 * 1024;

fn cache_limit(class: usize) -> usize {
    (CACHE_BYTES / CLASSES[class]).min(32)
}

#[cfg(not(loom))]
fn cache_index(caches: usize) -> usize {
    use std::sync::atomic::AtomicUsize as Plain;
    static NEXT: Plain = Plain::new(0);
    thread_local! {
        static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    MINE.with(|mine| *mine) % caches
}

#[cfg(loom)]
loom::thread_local! {
    /// The cache of a model's thread, so that the model decides which threads share one.
    static MINE: std::cell::Cell<usize> = std::cell::Cell::new(0);
}

#[cfg(loom)]
fn cache_index(caches: usize) -> usize {
    MINE.with(std::cell::Cell::get) % caches
}

impl Pool {
    /// Reserves the budget. If the operating system refuses an optional setting, [`Pool::notices`] says so.
    pub fn new(config: PoolConfig) -> Result<Self> {
        let count = config.memory / REGION;
        if count == 0 || config.caches == 0 {
            return Err(
                Code::BadConfiguration.error(format!("a pool needs at least {REGION} bytes and one cache"))
            );
        }
        fork::watch();
        let memory = Memory::new(count * REGION).map_err(|error| {
            Code::MappingFailed.error(format!("cannot map {} bytes: {error}", count * REGION))
        })?;
        let mut notices = Vec::new();
        if config.huge_pages {
            if let Err(error) = memory.mapping().use_huge_pages() {
                notices.push(format!("huge pages were refused ({error}); the pool uses pages of 4 KiB"));
            }
        }
        if config.lock {
            if let Err(error) = memory.mapping().lock() {
                notices.push(format!(
                    "locking the pool into memory was refused ({error}); raise RLIMIT_MEMLOCK above the budget"
                ));
            }
        }
        let shared = Arc::new(Shared {
            memory,
            generation: fork::generation(),
            regions: Mutex::new(Regions::new(count)),
            classes: (0..count).map(|_| AtomicU8::new(0)).collect(),
            caches: (0..config.caches).map(|_| Cache(Mutex::new(Default::default()))).collect(),
            counters: Counters::default(),
            taken: Taken::new(),
            stored: StoredBytes::default(),
            waiting: AtomicUsize::new(0),
            waiters: Mutex::default(),
            notices,
            prefault: prefault::Signal::new(),
            config,
        });
        let pool = Self { shared };
        prefault::start(&pool.shared);
        Ok(pool)
    }

    /// A slab of the smallest class that holds `size` bytes, or a run of whole regions above the largest class. If
    /// there is no slab of that class, it is one of the next larger class that has a free one, and counts as such.
    ///
    /// # Errors
    /// `POOL_FULL` when the budget has no room now, `OBJECT_TOO_LARGE` when it never can, `POOL_DEAD` after a fork.
    pub fn writer(&self, size: usize, purpose: Purpose) -> Result<Writer> {
        let shared = &self.shared;
        if shared.dead() {
            return Err(
                Code::PoolDead.error("this pool was made before a fork; make a new engine in the child")
            );
        }
        let class = class_of(size);
        let bytes = class.map_or(size.div_ceil(REGION).max(1) * REGION, |class| CLASSES[class]);
        if bytes > shared.budget() {
            return Err(Code::ObjectTooLarge.error(format!(
                "an object of {size} bytes does not fit into a pool of {} bytes",
                shared.budget()
            )));
        }
        let limit = self.limit(purpose);
        if !shared.counters.fits(bytes, limit) {
            return Err(shared.refuse(size));
        }
        let taken = match class {
            Some(class) => shared.take_slab(class, limit).map(|(class, offset)| (Some(class), offset)),
            None => shared.take_run(bytes / REGION).map(|offset| (None, offset)),
        };
        let Some((class, offset)) = taken else { return Err(shared.refuse(size)) };
        let bytes = class.map_or(bytes, |class| CLASSES[class]);
        // Counted only after it has been found: a count without a slab would refuse other requests, and no
        // return would wake them.
        if !shared.counters.take(class, bytes, limit) {
            shared.put_back(class, offset);
            return Err(shared.refuse(size));
        }
        let holder = holder::current();
        shared.taken.count(holder, bytes);
        Ok(Writer::new(shared, offset, bytes, holder))
    }

    /// One contiguous slice of the bytes of `parts`, counted under `reason`.
    pub fn gather<'a, I>(
        &self,
        parts: I,
        length: usize,
        purpose: Purpose,
        reason: CopyReason,
    ) -> Result<Slice>
    where
        I: IntoIterator<Item = &'a [u8]>,
    {
        let mut writer = self.writer(length, purpose)?;
        let mut at = 0;
        for part in parts {
            writer.spare()[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        self.count_copy(reason, at);
        Ok(writer.commit(at))
    }

    /// Ready when a slab has come back since the last refusal. A wake-up is a hint: try again, then wait again.
    pub fn poll_room(
        &self,
        context: &mut Context<'_>,
        size: usize,
        purpose: Purpose,
    ) -> Poll<Result<Writer>> {
        self.poll_until(context, || self.writer(size, purpose))
    }

    /// As [`Pool::poll_room`], for a read, for which less than `size` is enough: if the budget has room and no region
    /// is free to be cut, it gets the largest smaller slab that is free. A task that waits for a region could wait for
    /// ever beside free memory, because each region may have one small slab that is never dropped.
    pub fn poll_some(
        &self,
        context: &mut Context<'_>,
        size: usize,
        purpose: Purpose,
    ) -> Poll<Result<Writer>> {
        self.poll_until(context, || {
            let whole = self.writer(size, purpose);
            if !is_full(&whole) || !self.shared.counters.fits(size, self.limit(purpose)) {
                return whole;
            }
            let smaller = CLASSES.into_iter().rev().filter(|&class| class < size);
            smaller.map(|class| self.writer(class, purpose)).find(|part| !is_full(part)).unwrap_or(whole)
        })
    }

    /// Ready with the result of `attempt`. It is tried again after the caller has been registered as waiting: memory
    /// that came back between the two would not wake the caller.
    fn poll_until(
        &self,
        context: &mut Context<'_>,
        attempt: impl Fn() -> Result<Writer>,
    ) -> Poll<Result<Writer>> {
        let first = attempt();
        if !is_full(&first) {
            return Poll::Ready(first);
        }
        self.expect_return(context);
        let second = attempt();
        if is_full(&second) { Poll::Pending } else { Poll::Ready(second) }
    }

    /// Has the task of `context` woken when memory comes back. What the caller looks at afterwards is not older than that.
    fn expect_return(&self, context: &Context<'_>) {
        let mut waiters = lock(&self.shared.waiters);
        waiters.register(context.waker());
        // Relaxed: ordered by what follows. A thread that gives memory back either locks what the caller finds empty after
        // this, or counts after `expect_return`, and then sees that we wait.
        self.shared.waiting.store(waiters.wakers.len(), Ordering::Relaxed);
        drop(waiters);
        self.shared.counters.expect_return();
    }

    /// Ready when new work may start: the pool is not full. A wake-up is a hint, as in [`Pool::poll_room`].
    pub fn poll_open(&self, context: &Context<'_>) -> Poll<()> {
        if self.state() == PoolState::Full {
            self.expect_return(context);
            if self.state() == PoolState::Full {
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    }

    /// The limit of live bytes for an allocation for `purpose`.
    fn limit(&self, purpose: Purpose) -> usize {
        let PoolConfig { reserve, heads, .. } = self.shared.config;
        let kept = match purpose {
            Purpose::Bulk => reserve + heads,
            Purpose::Control => heads,
            Purpose::Head => 0,
        };
        self.shared.budget().saturating_sub(kept)
    }

    /// Whether new work may start. `Full` and `Pressed` end only below the threshold less the hysteresis.
    pub fn state(&self) -> PoolState {
        self.shared.counters.state(self.shared.shareable(), &self.shared.config)
    }

    /// Bytes that have to come back before new work is taken; 0 unless the pool is full.
    pub fn excess(&self) -> usize {
        if self.state() != PoolState::Full {
            return 0;
        }
        let config = &self.shared.config;
        let open = config.full_percent.saturating_sub(config.hysteresis_percent);
        // One more, because the state falls back below the threshold.
        (self.shared.counters.live_bytes() + 1).saturating_sub(self.shared.shareable() / 100 * open)
    }

    /// What counts the bytes that are kept for later.
    pub fn stored(&self) -> &StoredBytes {
        &self.shared.stored
    }

    /// Bytes that are live and not kept for later: what comes, and what waits to be sent.
    pub fn in_transit(&self) -> usize {
        self.shared.counters.live_bytes().saturating_sub(self.shared.stored.bytes())
    }

    /// An upper bound of the number of tasks that wait for room.
    pub fn waiting(&self) -> usize {
        // Relaxed: a count.
        self.shared.waiting.load(Ordering::Relaxed)
    }

    /// Bytes that only request heads may take.
    pub fn heads(&self) -> usize {
        self.shared.config.heads
    }

    /// A snapshot of the counters.
    pub fn stats(&self) -> PoolStats {
        let cut = lock(&self.shared.regions).slabs_by_class();
        self.shared.counters.snapshot(self.shared.budget(), self.state(), &cut)
    }

    /// Bytes of data that the pool may hold at most.
    pub fn budget(&self) -> usize {
        self.shared.budget()
    }

    /// Gives memory that nothing holds back to the system, until it is needed. How many bytes: 0 where the system refuses, as for
    /// locked memory.
    pub fn release_free(&self) -> usize {
        if self.dead() { 0 } else { self.shared.discard_free() }
    }

    /// Sentences about optional wishes that the operating system refused.
    pub fn notices(&self) -> &[String] {
        &self.shared.notices
    }

    /// First address and length of the mapping. Buffers of receive calls must lie in it.
    pub fn address_range(&self) -> (usize, usize) {
        (self.shared.memory.mapping().base().addr().get(), self.shared.budget())
    }

    /// Adds to `bytes_copied`.
    pub fn count_copy(&self, reason: CopyReason, bytes: usize) {
        self.shared.counters.copied(reason, bytes);
    }

    /// Whether this process is a child of the one that made the pool.
    pub fn dead(&self) -> bool {
        self.shared.dead()
    }
}

impl Shared {
    fn memory(&self) -> &Memory {
        &self.memory
    }

    fn budget(&self) -> usize {
        self.classes.len() * REGION
    }

    /// The bytes that all purposes but request heads share.
    fn shareable(&self) -> usize {
        self.budget().saturating_sub(self.config.heads).max(1)
    }

    fn dead(&self) -> bool {
        self.generation != fork::generation()
    }

    fn refuse(&self, size: usize) -> penstock_error::Error {
        self.counters.refused();
        Code::PoolFull.error(format!(
            "no room for {size} bytes: {} of {} are in use",
            self.counters.live_bytes(),
            self.budget()
        ))
    }

    // Slabs move between the regions and a cache under the lock of the regions only, which is taken before a
    // cache's. So a thread that holds this lock and finds a slab in neither place knows that the slab is held,
    // or that the thread that gives it back has not looked for waiters yet.

    /// A slab of `class`, or else of a larger one that is within `limit`; and its class.
    fn take_slab(&self, class: usize, limit: usize) -> Option<(usize, usize)> {
        let cache = &self.caches[cache_index(self.caches.len())].0;
        if let Some(offset) = lock(cache)[class].pop() {
            return Some((class, offset));
        }
        let mut batch = Vec::new();
        let mut regions = lock(&self.regions);
        self.refill(&mut regions, class, &mut batch);
        if batch.is_empty() {
            // The caches of threads may hold whole regions of another class.
            self.flush_caches(&mut regions);
            self.refill(&mut regions, class, &mut batch);
        }
        let Some(offset) = batch.pop() else { return self.take_larger(&mut regions, class, limit) };
        if !batch.is_empty() {
            lock(cache)[class].append(&mut batch);
        }
        Some((class, offset))
    }

    /// A slab of the next class above `class` that has a free one: no region is free, so a wait for one of `class`
    /// could last for ever. A slab that would exceed `limit` is not taken: to take it and put it back would wake all
    /// waiters, the caller too, for nothing.
    fn take_larger(&self, regions: &mut Regions, class: usize, limit: usize) -> Option<(usize, usize)> {
        (class + 1..CLASSES.len())
            .filter(|&larger| self.counters.fits(CLASSES[larger], limit))
            .find_map(|larger| regions.take_cut(larger).map(|offset| (larger, offset)))
    }

    fn refill(&self, regions: &mut Regions, class: usize, batch: &mut Vec<usize>) {
        regions.take(class, cache_limit(class).div_ceil(2), batch, |region| {
            // Relaxed: a thread gets a slab of the region through a lock that is taken after this
            // store.
            self.classes[region].store(u8::try_from(class).expect("few classes"), Ordering::Relaxed);
        });
        self.prefault.announce(regions.reach());
    }

    fn take_run(&self, count: usize) -> Option<usize> {
        let mut regions = lock(&self.regions);
        let first = regions.take_run(count).or_else(|| {
            self.flush_caches(&mut regions);
            regions.take_run(count)
        })?;
        // Relaxed: as in `refill`.
        self.classes[first].store(RUN, Ordering::Relaxed);
        Some(first * REGION)
    }

    /// Gives the pages of free regions back to the system, [`AT_ONCE`] regions under the lock at a time. How many bytes.
    fn discard_free(&self) -> usize {
        let (mut first, mut discarded) = (0, 0);
        loop {
            let mut regions = lock(&self.regions);
            self.flush_caches(&mut regions);
            // A free region is cut under the lock, so nothing is claimed in it meanwhile.
            let some: Vec<_> = regions.free_from(first).take(AT_ONCE).collect();
            let Some(last) = some.last() else { return discarded * REGION };
            first = last + 1;
            discarded += some.iter().filter(|region| self.memory.discard(*region * REGION)).count();
        }
    }

    fn flush_caches(&self, regions: &mut Regions) {
        for cache in &self.caches {
            for (class, offsets) in lock(&cache.0).iter_mut().enumerate() {
                regions.give(class, offsets.drain(..));
            }
        }
    }

    /// The class of a held slab (`None` for a run of regions), and its length in bytes.
    fn measure(&self, offset: usize) -> (Option<usize>, usize) {
        // Relaxed: stored before the slab was handed out, see `refill`.
        match self.classes[offset / REGION].load(Ordering::Relaxed) {
            RUN => (None, lock(&self.regions).run_length(offset / REGION) * REGION),
            class => (Some(usize::from(class)), CLASSES[usize::from(class)]),
        }
    }

    /// Takes a slab back from its last handle, on any thread. Memory safety does not depend on the caller: after a
    /// slab has been given back while it is held, or twice, the next [`Writer`] of these pages panics.
    fn recycle(&self, offset: usize) {
        if self.dead() {
            // In a child, the locks may be held by threads that exist only in the parent.
            return;
        }
        let (class, bytes) = self.measure(offset);
        // Counted before another thread can find it, so that the count of live bytes never exceeds
        // the budget.
        self.counters.returned(class, bytes);
        self.put_back(class, offset);
    }

    fn put_back(&self, class: Option<usize>, offset: usize) {
        match class {
            Some(class) => self.cache(class, offset),
            None => lock(&self.regions).give_run(offset / REGION),
        }
        // Relaxed: see `poll_room`.
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.wake_waiters();
        }
    }

    fn cache(&self, class: usize, offset: usize) {
        let limit = cache_limit(class);
        let mut surplus = Vec::new();
        {
            let mut slabs = lock(&self.caches[cache_index(self.caches.len())].0);
            slabs[class].push(offset);
            if slabs[class].len() > limit {
                // The oldest half leaves the cache; the newest, whose cache lines are warm, stay.
                surplus.extend(slabs[class].drain(..limit.div_ceil(2)));
            }
        }
        if !surplus.is_empty() {
            lock(&self.regions).give(class, surplus.into_iter());
        }
    }

    fn wake_waiters(&self) {
        let woken = {
            let mut waiters = lock(&self.waiters);
            self.waiting.store(0, Ordering::Relaxed);
            std::mem::take(&mut *waiters).wakers
        };
        for waker in woken {
            waker.wake();
        }
    }
}

fn is_full(result: &Result<Writer>) -> bool {
    matches!(result, Err(error) if error.code() == Code::PoolFull)
}

/// Regions that are given back under the lock at once: 4 MiB, some 0.1 ms (arbitrary).
const AT_ONCE: usize = 16;

/// In `classes`: the region is the first of a run.
const RUN: u8 = u8::MAX;

impl Drop for Shared {
    fn drop(&mut self) {
        self.prefault.stop();
    }
}

#[cfg(all(test, loom))]
mod loom_models;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(all(test, not(loom)))]
mod tests;
