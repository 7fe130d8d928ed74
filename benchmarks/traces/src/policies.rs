//! What is compared: each is asked for one object after another, and says whether it had it.

use std::collections::BTreeSet;
use std::sync::Arc;

use penstock_engine::store::{Eviction, Item, Rules};

use crate::workloads::Trace;

pub trait Policy {
    /// Whether `object` was in. It is afterwards, if the policy keeps it.
    fn ask(&mut self, place: usize, second: u32, object: u32) -> bool;
}

/// The engine's own.
pub struct Own<'a> {
    eviction: Eviction<u32>,
    costs: &'a [u64],
    items: Vec<Option<Arc<Item<u32>>>>,
    budget: u64,
}

impl<'a> Own<'a> {
    pub fn new(trace: &'a Trace, budget: u64, rules: Rules) -> Self {
        let items = vec![None; trace.costs.len()];
        Self {
            eviction: Eviction::with_rules(budget, rules),
            costs: &trace.costs,
            items,
            budget,
        }
    }
}

impl Policy for Own<'_> {
    fn ask(&mut self, _place: usize, second: u32, object: u32) -> bool {
        if let Some(item) = &self.items[object as usize] {
            item.hit(second);
            return true;
        }
        let item = Item::new(u64::from(object), object);
        self.eviction
            .insert(&item, self.costs[object as usize], None, second);
        self.items[object as usize] = Some(item);
        while let Some(evicted) = self.eviction.evict(second, self.budget) {
            self.items[*evicted.value() as usize] = None;
        }
        false
    }
}

/// Evicts what is lowest in an order: that of coming (FIFO), of last use (LRU), or of next use (Belady).
pub struct Ordered<'a> {
    order: Order<'a>,
    costs: &'a [u64],
    ranks: Vec<Option<u64>>,
    lowest: BTreeSet<(u64, u32)>,
    bytes: u64,
    budget: u64,
}

pub enum Order<'a> {
    Fifo,
    Lru,
    /// With, for each request, the place in the trace of the next one for its object.
    Belady(&'a [usize]),
}

impl<'a> Ordered<'a> {
    pub fn new(trace: &'a Trace, budget: u64, order: Order<'a>) -> Self {
        let ranks = vec![None; trace.costs.len()];
        Self {
            order,
            costs: &trace.costs,
            ranks,
            lowest: BTreeSet::new(),
            bytes: 0,
            budget,
        }
    }
}

impl Policy for Ordered<'_> {
    fn ask(&mut self, place: usize, _second: u32, object: u32) -> bool {
        let slot = &mut self.ranks[object as usize];
        let rank = match &self.order {
            Order::Fifo => slot.unwrap_or(place as u64),
            Order::Lru => place as u64,
            Order::Belady(next) => u64::MAX - next[place] as u64,
        };
        let before = slot.replace(rank);
        match before {
            Some(before) => drop(self.lowest.remove(&(before, object))),
            None => self.bytes += self.costs[object as usize],
        }
        self.lowest.insert((rank, object));
        // The newest is not spared: Belady does not keep what it would evict next.
        while self.bytes > self.budget {
            let (_, object) = self
                .lowest
                .pop_first()
                .expect("bytes are those of what is in");
            self.ranks[object as usize] = None;
            self.bytes -= self.costs[object as usize];
        }
        before.is_some()
    }
}

/// For each request, the place of the next one for the same object; `usize::MAX` without one.
pub fn next_uses(trace: &Trace) -> Vec<usize> {
    let mut seen = vec![usize::MAX; trace.costs.len()];
    let mut next = vec![usize::MAX; trace.requests.len()];
    for (place, (_, object)) in trace.requests.iter().enumerate().rev() {
        next[place] = std::mem::replace(&mut seen[*object as usize], place);
    }
    next
}
