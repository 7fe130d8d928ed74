mod model;

use super::*;

const BUDGET: u64 = 1000;
const SMALL: u64 = 100;

/// Items of `cost` that fill the budget, all in the main queue, because each came back; the small queue is empty. Their
/// keys begin with 1000.
fn with_main(rules: Rules, cost: u64) -> (Eviction<()>, Vec<Arc<Item<()>>>) {
    let mut eviction = Eviction::with_rules(BUDGET, rules);
    let items: Vec<_> = (0..BUDGET / cost).map(|number| Item::new(1000 + number, ())).collect();
    for item in &items {
        eviction.failed.add(item.key, 1);
        add(&mut eviction, item, cost);
    }
    eviction.queues.small = SMALL;
    assert!(items.iter().all(|item| queue(&eviction, item) == Some(Queue::Main)));
    (eviction, items)
}

fn fresh(eviction: &mut Eviction<()>, key: u64, cost: u64) -> Arc<Item<()>> {
    let item = Item::new(key, ());
    add(eviction, &item, cost);
    item
}

fn add(eviction: &mut Eviction<()>, item: &Arc<Item<()>>, cost: u64) {
    assert!(eviction.insert(item, cost, None, 0));
}

fn queue(eviction: &Eviction<()>, item: &Item<()>) -> Option<Queue> {
    number(item).map(|number| eviction.queues.queue(number))
}

fn hit(item: &Item<()>, times: u32, second: u32) {
    (0..times).for_each(|_| item.hit(second));
}

fn hit_all(items: &[Arc<Item<()>>], times: u32, second: u32) {
    for item in items {
        hit(item, times, second);
    }
}

/// The keys that are evicted, in order, until the others fit.
fn evict(eviction: &mut Eviction<()>, now: u32) -> Vec<u64> {
    std::iter::from_fn(|| eviction.evict(now, BUDGET)).map(|item| item.key).collect()
}

#[test]
fn nothing_leaves_while_there_is_room() {
    let mut eviction = Eviction::new(BUDGET);
    for key in 0..10 {
        fresh(&mut eviction, key, 100);
    }
    assert!(evict(&mut eviction, 0).is_empty());
    assert_eq!((eviction.bytes(), eviction.len()), (1000, 10));
}

#[test]
fn the_small_queue_gives_its_oldest_until_it_has_its_part() {
    let (mut eviction, items) = with_main(Rules::CHOSEN, 90);
    for key in 0..11 {
        fresh(&mut eviction, key, 10);
    }
    hit(&items[0], 1, 0);
    // Then the main queue evicts, and its oldest goes round.
    assert_eq!(evict(&mut eviction, 0), [0, 1001]);
}

#[test]
fn the_main_queue_gives_while_the_small_one_has_no_more_than_its_part() {
    let (mut eviction, _items) = with_main(Rules::CHOSEN, 100);
    let new = fresh(&mut eviction, 1, SMALL);
    assert_eq!(evict(&mut eviction, 0), [1000]);
    assert_eq!(queue(&eviction, &new), Some(Queue::Small));
}

#[test]
fn a_hit_on_trial_leads_to_the_main_queue_and_is_spent() {
    let (mut eviction, _items) = with_main(Rules::CHOSEN, 100);
    let (hot, _cold) = (fresh(&mut eviction, 1, 60), fresh(&mut eviction, 2, 60));
    hit(&hot, 3, 0);
    // The hot item moves on; then the small queue has no more than its share, and the main queue evicts.
    assert_eq!(evict(&mut eviction, 0), [1000, 1001]);
    assert_eq!(queue(&eviction, &hot), Some(Queue::Main));
    // After the eight that are left in the main queue, and without a round owed.
    eviction.failed.add(3, 1);
    fresh(&mut eviction, 3, 1);
    let left = std::iter::from_fn(|| eviction.evict(0, 0)).map(|item| item.key);
    assert_eq!(left.collect::<Vec<_>>(), [1002, 1003, 1004, 1005, 1006, 1007, 1008, 1009, 1, 3, 2]);
}

#[test]
fn by_the_published_rules_one_hit_on_trial_is_not_enough() {
    for (rules, stays) in [(Rules::PUBLISHED, false), (Rules::CHOSEN, true)] {
        let (mut eviction, _items) = with_main(rules, 100);
        let hot = fresh(&mut eviction, 1, SMALL);
        hit(&hot, 1, 0);
        fresh(&mut eviction, 2, 10);
        evict(&mut eviction, 0);
        assert_eq!(number(&hot).is_some(), stays);
    }
}

#[test]
fn what_failed_its_trial_is_remembered_and_comes_back_into_the_main_queue() {
    let mut eviction = Eviction::new(BUDGET);
    for key in 0..11 {
        fresh(&mut eviction, key, 100);
    }
    assert_eq!(evict(&mut eviction, 0), [0]);
    let back = fresh(&mut eviction, 0, 100);
    assert_eq!(queue(&eviction, &back), Some(Queue::Main));
}

#[test]
fn it_is_forgotten_when_as_much_as_the_main_queue_has_left_after_it() {
    let mut eviction = Eviction::new(BUDGET);
    for key in 0..20 {
        fresh(&mut eviction, key, 100);
        evict(&mut eviction, 0);
    }
    let [forgotten, remembered] = [0, 1].map(|key| fresh(&mut eviction, key, 100));
    assert_eq!(queue(&eviction, &forgotten), Some(Queue::Small));
    assert_eq!(queue(&eviction, &remembered), Some(Queue::Main));
}

#[test]
fn what_left_twice_is_remembered_from_the_second_time_on() {
    let mut ghost = Ghost::new(100);
    ghost.add(1, 40);
    assert_eq!(ghost.take(1), Some(40));
    ghost.add(1, 40);
    // Now the first eviction is forgotten, and the second is not.
    ghost.add(2, 40);
    assert_eq!(ghost.take(1), Some(80));
    assert_eq!(ghost.take(1), None);
}

#[test]
fn what_left_the_main_queue_of_late_comes_back_into_it_and_takes_from_the_small_one() {
    let (mut eviction, _items) = with_main(Rules::CHOSEN, 20);
    fresh(&mut eviction, 1, 20);
    assert_eq!(evict(&mut eviction, 0), [1000]);
    let back = fresh(&mut eviction, 1000, 20);
    assert_eq!(queue(&eviction, &back), Some(Queue::Main));
    assert_eq!(eviction.queues.small, SMALL - 20);
}

#[test]
fn each_hit_is_good_for_one_more_round_of_the_main_queue_up_to_three() {
    let (mut eviction, items) = with_main(Rules::CHOSEN, 500);
    let [often, once] = [&items[0], &items[1]];
    hit(often, 1000, 0);
    hit(once, 1, 0);
    let leaving = |eviction: &mut Eviction<()>, key| {
        eviction.failed.add(key, 1);
        fresh(eviction, key, 500);
        evict(eviction, 0)
    };
    let leaving: Vec<u64> = (1..=6).flat_map(|key| leaving(&mut eviction, key)).collect();
    assert_eq!(leaving, [1, 1001, 2, 3, 4, 1000]);
}

#[test]
fn an_eviction_ends_though_everything_was_hit() {
    let (mut eviction, items) = with_main(Rules::CHOSEN, 1);
    hit_all(&items, 3, 0);
    let gone = eviction.evict(0, BUDGET - 1).unwrap();
    assert_eq!(gone.key, 1000 + u64::from(MAX_ROUNDS));
}

#[test]
fn what_is_of_no_use_any_more_leaves_first_the_longest_first() {
    let mut eviction = Eviction::new(BUDGET);
    let items: Vec<_> = (0..5).map(|key| Item::new(key, ())).collect();
    for (item, until) in items.iter().zip([None, Some(30), Some(20), Some(40), Some(10)]) {
        hit(item, 3, 5);
        assert!(eviction.insert(item, 200, until, 5));
    }
    // A validation has made one fresh for longer, and a purge has made another stale.
    assert!(eviction.renew(&items[4], None));
    assert!(eviction.renew(&items[3], Some(25)));
    let leaving: Vec<u64> = std::iter::from_fn(|| eviction.evict(30, 400)).map(|item| item.key).collect();
    assert_eq!(leaving, [2, 3, 1]);
    assert!(eviction.expiries.is_empty());
}

#[test]
fn what_was_asked_for_often_and_no_longer_is_leaves_first() {
    let hits = IDLE_HITS;
    // Hits, the second of the last hit, and the first second in which the item is idle.
    for (hits, last, over) in [(hits, 4, 35), (hits, 20, 101), (4000, 3600, 3631), (hits - 1, 4, u32::MAX)] {
        for now in [over - 1, over] {
            let (mut eviction, items) = with_main(Rules::CHOSEN, 250);
            for (place, item) in items.iter().enumerate() {
                let (hits, second) = if place == 2 { (hits, last) } else { (3, now) };
                hit(item, hits, second);
            }
            fresh(&mut eviction, 1, 1);
            let first = eviction.evict(now, BUDGET).unwrap().key;
            assert_eq!(
                first == 1002,
                now == over && over != u32::MAX,
                "{hits} hits, last at {last}, at {now}"
            );
        }
    }
}

#[test]
fn by_the_published_rules_idleness_is_nothing() {
    let (mut eviction, items) = with_main(Rules::PUBLISHED, 250);
    hit_all(&items, 100, 1);
    fresh(&mut eviction, 1, 1);
    assert!(items.iter().all(|item| !Rules::PUBLISHED.is_idle(slot(&eviction, item), 100_000)));
    assert!(items.iter().all(|item| Rules::CHOSEN.is_idle(slot(&eviction, item), 100_000)));
}

fn slot<'a>(eviction: &'a Eviction<()>, item: &Item<()>) -> &'a Slot<()> {
    eviction.queues.look(number(item).unwrap()).unwrap()
}

#[test]
fn the_small_queue_grows_when_trials_were_too_short_and_shrinks_when_rounds_were() {
    let mut eviction = Eviction::new(BUDGET);
    eviction.failed.add(1, 40);
    fresh(&mut eviction, 1, 40);
    assert_eq!(eviction.queues.small, SMALL + 40);
    // Longer ago than a queue larger by 5 % would have kept it.
    eviction.failed.add(2, 40);
    eviction.failed.add(3, 40);
    fresh(&mut eviction, 2, 40);
    assert_eq!(eviction.queues.small, SMALL + 40);
    eviction.left.add(4, 30);
    let back = fresh(&mut eviction, 4, 30);
    assert_eq!(eviction.queues.small, SMALL + 10);
    assert_eq!(queue(&eviction, &back), Some(Queue::Main));
}

#[test]
fn the_small_queue_keeps_within_its_bounds() {
    let mut eviction = Eviction::new(BUDGET);
    for key in 0..2000 {
        let ghost = if key < 1000 { &mut eviction.failed } else { &mut eviction.left };
        ghost.add(key, 40);
        let item = fresh(&mut eviction, key, 40);
        eviction.remove(&item);
        let bound = [(999, 900), (1999, 50)].into_iter().find(|(last, _)| *last == key);
        assert!(bound.is_none_or(|(_, small)| eviction.queues.small == small));
    }
    let mut published = Eviction::with_rules(BUDGET, Rules::PUBLISHED);
    published.failed.add(1, 40);
    fresh(&mut published, 1, 40);
    assert_eq!(published.queues.small, SMALL);
}

#[test]
fn what_is_larger_than_the_small_queue_ends_no_trial_but_its_own() {
    let (mut eviction, _items) = with_main(Rules::CHOSEN, 100);
    evict(&mut eviction, 0);
    let trials = [1, 2, 3].map(|key| fresh(&mut eviction, key, 30));
    let large = fresh(&mut eviction, 4, 3 * SMALL);
    evict(&mut eviction, 0);
    assert!(number(&large).is_none());
    assert!(trials.iter().all(|item| queue(&eviction, item) == Some(Queue::Small)));
    // It still has its chance: if there is room, and if it comes back.
    let back = fresh(&mut eviction, 4, 3 * SMALL);
    evict(&mut eviction, 0);
    assert_eq!(queue(&eviction, &back), Some(Queue::Main));
}

#[test]
fn what_is_larger_than_the_budget_is_not_kept() {
    let mut eviction = Eviction::new(BUDGET);
    let item = fresh(&mut eviction, 1, BUDGET);
    assert!(!eviction.insert(&item, BUDGET + 1, Some(1), 0));
    assert_eq!((eviction.bytes(), number(&item)), (0, None));
    assert!(!eviction.insert(&item, BUDGET + 1, Some(1), 0));
}

#[test]
fn what_has_grown_keeps_its_place_at_its_new_cost() {
    let mut eviction = Eviction::new(BUDGET);
    let items: Vec<_> = (0..10).map(|key| fresh(&mut eviction, key, 100)).collect();
    assert!(eviction.insert(&items[0], 300, None, 1));
    assert_eq!(eviction.bytes(), 1200);
    assert_eq!(evict(&mut eviction, 1), [0]);
}

#[test]
fn what_was_removed_does_not_come_out_and_is_not_held() {
    let mut eviction = Eviction::new(BUDGET);
    let item = fresh(&mut eviction, 1, 100);
    assert!(eviction.remove(&item));
    assert_eq!(Arc::strong_count(&item), 1);
    assert!(!eviction.remove(&item) && !eviction.renew(&item, Some(1)));
    assert!(eviction.evict(0, 0).is_none());
    // A purge says nothing about demand.
    let again = fresh(&mut eviction, 1, 100);
    assert_eq!(queue(&eviction, &again), Some(Queue::Small));
}

#[test]
fn less_room_than_the_budget_makes_more_leave() {
    let mut eviction = Eviction::new(BUDGET);
    for key in 0..10 {
        fresh(&mut eviction, key, 100);
    }
    while eviction.evict(0, 250).is_some() {}
    assert_eq!(eviction.bytes(), 200);
}
