//! Which item leaves the memory tier when room is needed: S3-FIFO (Yang et al., SOSP 2023) by bytes, with two rules of
//! its own for live segments.
//!
//! A new item is on trial in a small queue. If it was asked for again by the time it gets to the end of it, it goes on to
//! the main queue; if not it leaves, but is remembered, and goes to the main queue at once when it comes back. At the end
//! of the main queue an item that was hit goes round again. The rules of its own: the small queue grows while trials turn
//! out too short, and what was asked for often and no longer is leaves first.
//!
//! One lock guards it all. A hit does not take it: whoever serves one holds the [`Item`] and calls [`Item::hit`].
//! The invariants: an item is in one queue or in none, and the queues cost the sum of their items. There is no clock and
//! no tombstone here: memory is bounded by the most items that were in at once.

mod ghost;
mod queues;

use std::collections::BTreeSet;
use std::fmt;

use crate::sync::{Arc, AtomicU32, Ordering};
use ghost::Ghost;
use queues::{NO_SLOT, Queue, Queues, Slot};

/// A hit is good for one more round of the main queue, up to so many: S3-FIFO's two bits.
const MAX_ROUNDS_OWED: u32 = 3;

/// One eviction lets at most so many items go round, so that the lock is held for microseconds even where every item of a
/// large cache was hit. Without it, hit ratios on the traces are the same.
const MAX_ROUNDS: u32 = 64;

/// One eviction looks at so many items, in turn, for one that is over. 16 gain another 0.2 % of hits at
/// most, and would be 16 cache misses.
const IDLE_CHECKS: u32 = 4;

/// An item is over when it has been idle for so many of the mean gaps between its hits...
const IDLE_GAPS: u64 = 16;
/// ...which are known from at least so many. A steady demand pauses for so long by chance once in (1 + 16 / 4)^4 = 625
/// times with 4 hits, once in 9,000,000 with ever more.
const IDLE_HITS: u32 = 4;
/// ...and for so many seconds: the window of a live playlist, within which viewers come in bursts.
const IDLE_SECONDS: u32 = 30;

/// The small queue's part of the budget at first, in percent.
const SMALL_PERCENT: u64 = 10;
/// A trial was too short if another so many percent of the budget would have made a hit of what came back.
const MARGIN_PERCENT: u64 = 5;

/// What can be evicted. It is of use to one [`Eviction`] only.
pub struct Item<T> {
    value: T,
    key: u64,
    // All three are Relaxed and have no partner: nothing else is read on the strength of what they say. `slot` is used
    // under the lock of the `Eviction` only, and the others are hints. There is no protocol here for loom to check.
    hits: AtomicU32,
    last_hit: AtomicU32,
    slot: AtomicU32,
}

/// How items are chosen. No settings: `benchmarks/eviction.py` found [`Rules::CHOSEN`], and compares it with others.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// The small queue's part of the budget at least and at most, in percent.
    pub small_percent: (u64, u64),
    /// With so many hits an item on trial goes on to the main queue.
    pub hits_to_stay: u32,
    /// Whether what was asked for often and no longer is leaves first.
    pub idle_first: bool,
}

/// What is in memory, and in what order it will leave.
pub struct Eviction<T> {
    rules: Rules,
    budget: u64,
    queues: Queues<T>,
    /// What failed its trial.
    failed: Ghost,
    /// What left the main queue of late.
    left: Ghost,
    /// Those that are of no use from some second on, with their slots.
    expiries: BTreeSet<(u32, u32)>,
    /// The slot that was looked at last for an item that is over.
    hand: u32,
}

impl Rules {
    /// Those in use.
    pub const CHOSEN: Self = Self { small_percent: (5, 90), hits_to_stay: 1, idle_first: true };
    /// S3-FIFO as it was published.
    pub const PUBLISHED: Self =
        Self { small_percent: (SMALL_PERCENT, SMALL_PERCENT), hits_to_stay: 2, idle_first: false };

    /// Whether nobody will ask for an item any more. Live segments are asked for a thousand times while they are in their
    /// playlist, and never again: for their hits they would go round the main queue longest.
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
    /// One that is in no queue yet. `key` is a hash of what it is found by: to be remembered by when it has left.
    pub fn new(key: u64, value: T) -> Arc<Self> {
        let slot = AtomicU32::new(NO_SLOT);
        Arc::new(Self { value, key, hits: AtomicU32::new(0), last_hit: AtomicU32::new(0), slot })
    }

    /// Notes that it was asked for, in the second `now`. Hits of an item that is still being filled count as well.
    pub fn hit(&self, now: u32) {
        self.hits.fetch_add(1, Ordering::Relaxed);
        self.last_hit.store(now, Ordering::Relaxed);
    }

    /// How often it was asked for.
    pub fn hits(&self) -> u32 {
        self.hits.load(Ordering::Relaxed)
    }

    /// What was given to [`Item::new`].
    pub fn key(&self) -> u64 {
        self.key
    }

    /// What was given to [`Item::new`].
    pub fn value(&self) -> &T {
        &self.value
    }
}

impl<T> Eviction<T> {
    /// An empty one for items that cost `budget` bytes together.
    pub fn new(budget: u64) -> Self {
        Self::with_rules(budget, Rules::CHOSEN)
    }

    /// One that other rules are tried on.
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

    /// Adds an item that is whole. It occupies `cost` bytes, all in all, and from the second `until` on is of no use
    /// (`None`: there is no such second). What is in already keeps its place, with the new cost and `until`. False, and
    /// not in, if it costs more than the whole budget. [`Eviction::evict`] is to be called next.
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

    /// Changes until when an item is of use, after a validation or a soft purge. False if it is in no queue.
    pub fn renew(&mut self, item: &Arc<Item<T>>, until: Option<u32>) -> bool {
        let number = number(item);
        if let Some(number) = number {
            self.expire(number, until);
        }
        number.is_some()
    }

    /// Takes out an item that was purged or replaced. False if it was in no queue.
    pub fn remove(&mut self, item: &Arc<Item<T>>) -> bool {
        let number = number(item);
        if let Some(number) = number {
            self.take(number);
        }
        number.is_some()
    }

    /// Takes out the item that is missed least, while those that are in cost more than `room` bytes: the budget, less
    /// what is counted elsewhere (bodies on their way, and evicted ones that are still read). To be called until `None`.
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

    /// What all items cost together.
    pub fn bytes(&self) -> u64 {
        self.queues.bytes()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.queues.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where what comes anew belongs. What comes back tells which of the queues it was that was too short for it, and
    /// that one gets its bytes from the other.
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

    /// Takes out what is at the end of a queue, to be remembered.
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

/// The slot that an item is in.
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
