//! Compares the order with a list of its items, for random operations.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Insert { item: usize, cost: u64, until: Option<u32> },
    Hit { item: usize, times: u32 },
    Renew { item: usize, until: Option<u32> },
    Remove { item: usize },
    Evict { room: u64 },
    Wait { seconds: u32 },
}

const ITEMS: usize = 24;

fn step() -> impl Strategy<Value = Step> {
    let until = || prop::option::of(0u32..300);
    prop_oneof![
        6 => (0..ITEMS, 1..BUDGET / 4, until()).prop_map(|(item, cost, until)| Step::Insert { item, cost, until }),
        1 => (0..ITEMS, BUDGET..BUDGET * 2).prop_map(|(item, cost)| Step::Insert { item, cost, until: None }),
        4 => (0..ITEMS, 1u32..10).prop_map(|(item, times)| Step::Hit { item, times }),
        1 => (0..ITEMS, until()).prop_map(|(item, until)| Step::Renew { item, until }),
        2 => (0..ITEMS).prop_map(|item| Step::Remove { item }),
        6 => prop_oneof![Just(BUDGET), 0..BUDGET].prop_map(|room| Step::Evict { room }),
        2 => (0u32..60).prop_map(|seconds| Step::Wait { seconds }),
    ]
}

proptest! {
    #[test]
    fn agrees_with_a_list(steps in prop::collection::vec(step(), 1..150)) {
        let items: Vec<_> = (0..ITEMS as u64).map(|key| Item::new(key, ())).collect();
        // The cost and expiry of each item.
        let mut list: Vec<Option<(u64, Option<u32>)>> = vec![None; ITEMS];
        let mut eviction = Eviction::new(BUDGET);
        let mut now = 0;
        for step in steps {
            match step {
                Step::Insert { item, cost, until } => {
                    prop_assert_eq!(eviction.insert(&items[item], cost, until, now), cost <= BUDGET);
                    list[item] = (cost <= BUDGET).then_some((cost, until));
                }
                Step::Hit { item, times } => hit(&items[item], times, now),
                Step::Renew { item, until } => {
                    prop_assert_eq!(eviction.renew(&items[item], until), list[item].is_some());
                    list[item] = list[item].map(|(cost, _)| (cost, until));
                }
                Step::Remove { item } => {
                    prop_assert_eq!(eviction.remove(&items[item]), list[item].take().is_some());
                }
                Step::Evict { room } => {
                    while let Some(gone) = eviction.evict(now, room) {
                        let number = usize::try_from(gone.key()).unwrap();
                        let before: u64 = list.iter().flatten().map(|(cost, _)| cost).sum();
                        prop_assert!(before > room, "evicted while there was room");
                        let (_, until) = list[number].take().expect("evicted what was not in");
                        let expired = |until: &Option<u32>| until.is_some_and(|until| until <= now);
                        if !expired(&until) {
                            prop_assert!(!list.iter().flatten().any(|(_, until)| expired(until)));
                        }
                    }
                    prop_assert!(eviction.bytes() <= room);
                }
                Step::Wait { seconds } => now += seconds,
            }
            eviction.check();
            prop_assert_eq!(eviction.bytes(), list.iter().flatten().map(|(cost, _)| cost).sum::<u64>());
            prop_assert_eq!(eviction.len(), list.iter().flatten().count());
            for (item, listed) in items.iter().zip(&list) {
                prop_assert_eq!(number(item).is_some(), listed.is_some());
                prop_assert_eq!(Arc::strong_count(item), 1 + usize::from(listed.is_some()));
            }
        }
    }
}

impl<T> Eviction<T> {
    /// The invariants of the parts.
    fn check(&self) {
        let numbers = self.queues.check();
        for number in &numbers {
            let slot = self.queues.look(*number).unwrap();
            assert_eq!(super::number(&slot.item), Some(*number));
            assert!(slot.until.is_none_or(|until| self.expiries.contains(&(until, *number))));
        }
        let ending = numbers.iter().filter(|number| self.queues.look(**number).unwrap().until.is_some());
        assert_eq!(self.expiries.len(), ending.count());
        let (least, most) = self.rules.small_percent;
        assert!((percent(self.budget, least)..=percent(self.budget, most)).contains(&self.queues.small));
        self.failed.check();
        self.left.check();
    }
}
