//! The small and the main queue: items in the order of their arrival, each in a slot whose number does not change while
//! it is in.
//!
//! Slots are linked by their numbers, so that an item is removed from the middle in constant time.

use super::Item;
use crate::sync::Arc;

/// The number of no slot.
pub(super) const NO_SLOT: u32 = u32::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Queue {
    Small,
    Main,
}

pub(super) struct Slot<T> {
    pub(super) item: Arc<Item<T>>,
    pub(super) cost: u64,
    /// The second in which it was added.
    pub(super) inserted: u32,
    pub(super) until: Option<u32>,
    /// The number of its hits that have been used up for trials and rounds.
    pub(super) spent: u32,
}

pub(super) struct Queues<T> {
    /// The bytes from which on the small queue evicts.
    pub(super) small: u64,
    nodes: Vec<Node<T>>,
    free: Vec<u32>,
    ends: [Ends; 2],
}

struct Node<T> {
    slot: Option<Slot<T>>,
    queue: Queue,
    older: u32,
    newer: u32,
}

struct Ends {
    oldest: u32,
    newest: u32,
    bytes: u64,
}

impl<T> Queues<T> {
    pub(super) fn new(small: u64) -> Self {
        let ends = || Ends { oldest: NO_SLOT, newest: NO_SLOT, bytes: 0 };
        Self { small, nodes: Vec::new(), free: Vec::new(), ends: [ends(), ends()] }
    }

    /// Adds an item and returns the number of its slot.
    pub(super) fn add(&mut self, slot: Slot<T>, queue: Queue) -> u32 {
        // An item that is larger than the small queue would end all other trials: it stays while there is
        // room, and is evicted first. If it comes back, it will be in the main queue.
        let first = queue == Queue::Small && slot.cost > self.small;
        let node = Node { slot: Some(slot), queue, older: NO_SLOT, newer: NO_SLOT };
        let number = if let Some(number) = self.free.pop() {
            self.nodes[number as usize] = node;
            number
        } else {
            self.nodes.push(node);
            u32::try_from(self.nodes.len() - 1).expect("fewer items than bytes that they cost")
        };
        let ends = &self.ends[queue as usize];
        let (older, newer) = if first { (NO_SLOT, ends.oldest) } else { (ends.newest, NO_SLOT) };
        self.link(number, older, newer);
        number
    }

    /// Makes an item the newest of the main queue.
    pub(super) fn renew(&mut self, number: u32) {
        self.unlink(number);
        self.node(number).queue = Queue::Main;
        self.link(number, self.ends[Queue::Main as usize].newest, NO_SLOT);
    }

    pub(super) fn take(&mut self, number: u32) -> Slot<T> {
        self.unlink(number);
        self.free.push(number);
        self.node(number).slot.take().expect(OCCUPIED)
    }

    pub(super) fn change_cost(&mut self, number: u32, cost: u64) {
        let node = self.node(number);
        let (queue, slot) = (node.queue, node.slot.as_mut().expect(OCCUPIED));
        let before = std::mem::replace(&mut slot.cost, cost);
        let bytes = &mut self.ends[queue as usize].bytes;
        *bytes = *bytes - before + cost;
    }

    /// The queue that evicts next, and its oldest item.
    pub(super) fn next(&self) -> Option<(Queue, u32)> {
        let [small, main] = &self.ends;
        let queue =
            if small.bytes > self.small || main.oldest == NO_SLOT { Queue::Small } else { Queue::Main };
        let oldest = self.ends[queue as usize].oldest;
        (oldest != NO_SLOT).then_some((queue, oldest))
    }

    /// The slot after `number`, or the first.
    pub(super) fn following(&self, number: u32) -> u32 {
        if number as usize + 1 < self.nodes.len() { number + 1 } else { 0 }
    }

    /// The content of a slot, if it is in use.
    pub(super) fn look(&self, number: u32) -> Option<&Slot<T>> {
        self.nodes.get(number as usize)?.slot.as_ref()
    }

    pub(super) fn get_mut(&mut self, number: u32) -> &mut Slot<T> {
        self.node(number).slot.as_mut().expect(OCCUPIED)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.ends.iter().map(|ends| ends.bytes).sum()
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    fn node(&mut self, number: u32) -> &mut Node<T> {
        &mut self.nodes[number as usize]
    }

    fn link(&mut self, number: u32, older: u32, newer: u32) {
        let (queue, cost) = self.of(number);
        self.ends[queue as usize].bytes += cost;
        self.join(queue, older, number);
        self.join(queue, number, newer);
    }

    fn unlink(&mut self, number: u32) {
        let (queue, cost) = self.of(number);
        let Node { older, newer, .. } = self.nodes[number as usize];
        self.ends[queue as usize].bytes -= cost;
        self.join(queue, older, newer);
    }

    /// Makes two items neighbours. If one is no slot, the other is at that end.
    fn join(&mut self, queue: Queue, older: u32, newer: u32) {
        match self.nodes.get_mut(older as usize) {
            Some(node) => node.newer = newer,
            None => self.ends[queue as usize].oldest = newer,
        }
        match self.nodes.get_mut(newer as usize) {
            Some(node) => node.older = older,
            None => self.ends[queue as usize].newest = older,
        }
    }

    fn of(&self, number: u32) -> (Queue, u64) {
        (self.nodes[number as usize].queue, self.look(number).expect(OCCUPIED).cost)
    }
}

#[cfg(all(test, not(loom)))]
impl<T> Queues<T> {
    pub(super) fn queue(&self, number: u32) -> Queue {
        self.nodes[number as usize].queue
    }

    /// Checks that both lists are linked in both directions, cost what they say and share no slot; returns all slots in
    /// them.
    pub(super) fn check(&self) -> std::collections::BTreeSet<u32> {
        let mut seen = std::collections::BTreeSet::new();
        for queue in [Queue::Small, Queue::Main] {
            let ends = &self.ends[queue as usize];
            let (mut older, mut number, mut bytes) = (NO_SLOT, ends.oldest, 0);
            while number != NO_SLOT {
                let node = &self.nodes[number as usize];
                assert!(seen.insert(number) && node.queue == queue && node.older == older);
                bytes += self.look(number).expect(OCCUPIED).cost;
                (older, number) = (number, node.newer);
            }
            assert_eq!((ends.newest, ends.bytes), (older, bytes));
        }
        assert_eq!(seen.len(), self.len());
        seen
    }
}

const OCCUPIED: &str = "the number of an item that is in";
