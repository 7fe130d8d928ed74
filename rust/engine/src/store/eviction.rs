//! Evicts items from memory or disk: S3-FIFO (Yang et al., SOSP 2023) by bytes, with two rules of its own for live
//! segments.
//!
//! A new item is on trial in the small queue. If it was hit by the time it is the oldest there, it moves to the main
//! queue; otherwise it is evicted, but remembered, and goes to the main queue at once if it comes back. At the end of
//! the main queue an item that was hit goes round again. The two rules of its own: the small queue grows when trials
//! prove too short, and an item that was hit often and is now idle is evicted first.
//!
//! One lock guards it all. A hit does not take the lock: the reader holds the [`Item`] and calls [`Item::hit`]. The
//! invariants: an item is in one queue or in none, and the bytes of a queue are the sum of its items. There is no clock
//! and no tombstone: memory is bounded by the largest number of items at once.

mod ghost;
mod queues;

use std::collections::BTreeSet;
use std::fmt;

use crate::sync::{Arc, AtomicU32, Ordering};
use ghost::Ghost;
use queues::{NO_SLOT, Queue, Queues, Slot};

/// A hit gives an item one more round of the main queue, up to this number: S3-FIFO's two bits.
const MAX_ROUNDS_OWED: u32 = 3;

/// The limit of items that one eviction sends round, so that the lock is held for microseconds even if every item of a
/// large cache was hit. Without it, hit ratios on the traces are the same.
const MAX_ROUNDS: u32 = 64;

/// The number of items that one eviction checks, in turn, for an idle one. 16 gain another 0.2 % of hits at most, and
/// would be 16 cache misses.
const IDLE_CHECKS: u32 = 4;

/// An item is idle after this many of the mean gaps between its hits...
const IDLE_GAPS: u64 = 16;
/// ...which are known from this many hits on. A steady demand pauses for so long by chance once in (1 + 16 / 4)^4 = 625
/// times with 4 hits, once in 9,000,000 with ever more.
const IDLE_HITS: u32 = 4;
/// ...and after this many seconds: the window of a live playlist, in which viewers come in bursts.
const IDLE_SECONDS: u32 = 30;

/// The first share of the small queue in the budget, in percent.
const SMALL_PERCENT: u64 = 10;
/// A trial was too short if a small queue larger by this percentage of the budget would have made a hit of the item
/// that came back.
const MARGIN_PERCENT: u64 = 5;

/// An item that can be evicted. It belongs to one [`Eviction`].
pub struct Item<T> {
    value: T,
    key: u64,
    // All three are Relaxed without a partner, because nothing else is read on the strength of them: `slot` is used
    // under the lock of the `Eviction`, and the others are hints. There is no protocol for loom to check.
    hits: AtomicU32,
    last_hit: AtomicU32,
    slot: AtomicU32,
}

/// The rules of eviction. They are no settings: `benchmarks/eviction.py` found [`Rules::CHOSEN`], and compares it with
/// others.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// The bounds of the share of the small queue in the budget, in percent.
    pub small_percent: (u64, u64),
    /// The number of hits with which an item on trial moves to the main queue.
    pub hits_to_stay: u32,
    /// Whether an item that was hit often and is now idle is evicted first.
    pub idle_first: bool,
}

/// The items of a tier, in the order of their eviction.
pub struct Eviction<T> {
    rules: Rules,
    budget: u64,
    queues: Queues<T>,
    /// Items that were evicted from the small queue.
    failed: Ghost,
    /// Items that were evicted from the main queue lately.
    left: Ghost,
    /// The seconds in which items expire, with their slots.
    expiries: BTreeSet<(u32, u32)>,
    /// The slot that was last checked for an idle item.
    hand: u32,
}

impl Rules {
    /// The rules in use.
    pub const CHOSEN: Self = Self { small_percent: (5, 90), hits_to_stay: 1, idle_first: true };
    /// S3-FIFO as it was published.
    pub const PUBLISHED: Self =
        Self { small_percent: (SMALL_PERCENT, SMALL_PERCENT), hits_to_stay: 2, idle_first: false };

    /// Whether an item is idle for good. Live segments are hit a thousand times while they are in their playlist, and
    /// never again: for these hits they would stay longest in the main queue.
    fn is_idle<T>(&self, slot: &Slot<T>, now: u32) -> bool {
        let hits = slot.item.hits.load(Ordering::Relaxed);
        let last_hit = slot.item.last_hit.load(Ordering::Relaxed).max(slot.inserted);
        let (interest, idle) = (u64::from(last_hit - slot.inserted), now.saturating_sub(last_hit));
        self.idle_first
            && hits >= IDLE_HITS
            && idle > IDLE_SECONDS
            && u64::from(idle) * u64::from(hits) > IDLE_GAPS * interest
    }
}

impl<T> Item<T> {
    /// An item in no queue. `key`: a hash by which it is remembered after its eviction.
    pub fn new(key: u64, value: T) -> Arc<Self> {
        let slot = AtomicU32::new(NO_SLOT);
        Arc::new(Self { value, key, hits: AtomicU32::new(0), last_hit: AtomicU32::new(0), slot })
    }

    /// Counts a hit in the second `now`, also while the item is still being filled.
    pub fn hit(&self, now: u32) {
        self.hits.fetch_add(1, Ordering::Relaxed);
        self.last_hit.store(now, Ordering::Relaxed);
    }

    /// The number of hits.
    pub fn hits(&self) -> u32 {
        self.hits.load(Ordering::Relaxed)
    }

    /// The argument of [`Item::new`].
    pub fn key(&self) -> u64 {
        self.key
    }

    /// The argument of [`Item::new`].
    pub fn value(&self) -> &T {
        &self.value
    }
}

impl<T> Eviction<T> {
    /// An empty order for items of `budget` bytes.
    pub fn new(budget: u64) -> Self {
        Self::with_rules(budget, Rules::CHOSEN)
    }

    /// An empty order with other rules, to compare them.
    pub fn with_rules(budget: u64, rules: Rules) -> Self {
        let small = percent(budget, SMALL_PERCENT);
        let adapts = rules.small_percent.0 < rules.small_percent.1;
        Self {
            rules,
            budget,
            queues: Queues::new(small),
            failed: Ghost::new(budget - small),
            left: Ghost::new(if adapts { percent(budget, MARGIN_PERCENT) } else { 0 }),
            expiries: BTreeSet::new(),
            hand: 0,
        }
    }

    /// Adds an item of `cost` bytes that expires in the second `until` (`None`: never). An item that is in already
    /// keeps its place, with the new cost and expiry. False, and not in, if it costs more than the whole budget. The
    /// caller calls [`Eviction::evict`] next.
    pub fn insert(&mut self, item: &Arc<Item<T>>, cost: u64, until: Option<u32>, now: u32) -> bool {
        if cost > self.budget {
            self.remove(item);
            return false;
        }
        let number = if let Some(number) = number(item) {
            self.queues.change_cost(number, cost);
            number
        } else {
            let queue = self.queue_for(item.key, cost);
            let slot = Slot { item: Arc::clone(item), cost, inserted: now, until: None, spent: 0 };
            let number = self.queues.add(slot, queue);
            item.slot.store(number, Ordering::Relaxed);
            number
        };
        self.expire(number, until);
        true
    }

    /// Changes when an item expires, after a validation or a soft purge. False if it is in no queue.
    pub fn renew(&mut self, item: &Arc<Item<T>>, until: Option<u32>) -> bool {
        let number = number(item);
        if let Some(number) = number {
            self.expire(number, until);
        }
        number.is_some()
    }

    /// Removes an item that was purged or replaced. False if it was in no queue.
    pub fn remove(&mut self, item: &Arc<Item<T>>) -> bool {
        let number = number(item);
        if let Some(number) = number {
            self.take(number);
        }
        number.is_some()
    }

    /// Evicts the next item, while the items cost more than `room` bytes: the budget, less bytes that are counted
    /// elsewhere (growing bodies, and evicted bodies that still have readers). Called until `None`.
    pub fn evict(&mut self, now: u32, room: u64) -> Option<Arc<Item<T>>> {
        if self.bytes() <= room {
            return None;
        }
        if let Some(number) = self.expired(now).or_else(|| self.idle(now)) {
            return Some(self.take(number));
        }
        let mut rounds = 0;
        loop {
            let (queue, number) = self.queues.next()?;
            let slot = self.queues.get_mut(number);
            let hits = slot.item.hits.load(Ordering::Relaxed);
            let owed = hits.wrapping_sub(slot.spent).min(MAX_ROUNDS_OWED);
            let still_owed = match queue {
                Queue::Small if owed >= self.rules.hits_to_stay => 0,
                Queue::Main if owed > 0 => owed - 1,
                Queue::Small | Queue::Main => return Some(self.retire(queue, number)),
            };
            if rounds == MAX_ROUNDS {
                return Some(self.retire(queue, number));
            }
            slot.spent = hits.wrapping_sub(still_owed);
            self.queues.renew(number);
            rounds += 1;
        }
    }

    /// The cost of all items.
    pub fn bytes(&self) -> u64 {
        self.queues.bytes()
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        self.queues.len()
    }

    /// Whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The queue of a new item. An item that comes back shows which queue was too short for it, and that queue grows by
    /// its bytes at the cost of the other.
    fn queue_for(&mut self, key: u64, cost: u64) -> Queue {
        let (least, most) = self.rules.small_percent;
        if let Some(since) = self.failed.take(key) {
            if since <= percent(self.budget, MARGIN_PERCENT) {
                self.queues.small = (self.queues.small + cost).min(percent(self.budget, most));
            }
            Queue::Main
        } else if self.left.take(key).is_some() {
            self.queues.small = self.queues.small.saturating_sub(cost).max(percent(self.budget, least));
            Queue::Main
        } else {
            Queue::Small
        }
    }

    fn expired(&self, now: u32) -> Option<u32> {
        self.expiries.first().filter(|(until, _)| *until <= now).map(|(_, number)| *number)
    }

    fn idle(&mut self, now: u32) -> Option<u32> {
        (0..IDLE_CHECKS).find_map(|_| {
            self.hand = self.queues.following(self.hand);
            let slot = self.queues.look(self.hand);
            slot.filter(|slot| self.rules.is_idle(slot, now)).map(|_| self.hand)
        })
    }

    fn expire(&mut self, number: u32, until: Option<u32>) {
        let slot = self.queues.get_mut(number);
        if let Some(before) = std::mem::replace(&mut slot.until, until) {
            self.expiries.remove(&(before, number));
        }
        self.expiries.extend(until.map(|until| (until, number)));
    }

    fn take(&mut self, number: u32) -> Arc<Item<T>> {
        self.expire(number, None);
        let item = self.queues.take(number).item;
        item.slot.store(NO_SLOT, Ordering::Relaxed);
        item
    }

    /// Evicts the oldest item of a queue, and remembers it.
    fn retire(&mut self, queue: Queue, number: u32) -> Arc<Item<T>> {
        let cost = self.queues.get_mut(number).cost;
        let item = self.take(number);
        match queue {
            Queue::Small => self.failed.add(item.key, cost),
            Queue::Main => self.left.add(item.key, cost),
        }
        item
    }
}

fn percent(bytes: u64, percent: u64) -> u64 {
    bytes / 100 * percent
}

/// The slot of an item, if it is in a queue.
fn number<T>(item: &Item<T>) -> Option<u32> {
    Some(item.slot.load(Ordering::Relaxed)).filter(|number| *number != NO_SLOT)
}

impl<T> fmt::Debug for Item<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Item").field("key", &self.key).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Eviction<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Eviction")
            .field("bytes", &self.bytes())
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
