//! The ring against a list: the same events, in the same order, however they lie in slabs and whatever has left.

use std::time::Duration;

use proptest::prelude::*;

use super::room;
use crate::error::Code;
use crate::hub::log::{Found, Log, NAMES_READ};
use crate::hub::{Event, History, Id};
use crate::sync::Arc;

fn history(events: usize, bytes: usize) -> History {
    History { events, bytes, age: None }
}

fn id(sequence: u64) -> Id {
    Id::Time { milliseconds: 7, sequence }
}

/// An event as it must stand on the wire.
#[derive(Debug, Clone)]
struct Written {
    id: Id,
    name: String,
    block: String,
    key: Option<String>,
    at: Duration,
}

impl Written {
    fn chunk(&self) -> String {
        format!("{:x}\r\n{}\r\n", self.block.len(), self.block)
    }
}

/// All that is there from `place` on.
fn read(log: &Log, mut place: u64, chunked: bool, conflate: bool) -> (Vec<u8>, u64) {
    let (mut bytes, mut skipped) = (Vec::new(), 0);
    loop {
        match log.read(place, chunked, conflate) {
            Found::Run(run) => {
                assert!(run.next > place && run.events > 0);
                assert_eq!(run.next - place, run.events + run.conflated);
                bytes.extend_from_slice(&run.bytes);
                (place, skipped) = (run.next, skipped + run.conflated);
            }
            Found::Nothing => return (bytes, skipped + log.tail() - place),
            Found::Evicted => panic!("{place} has left"),
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Publish { data: usize, key: Option<u8>, named: bool },
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let publish = (0_usize..3000, proptest::option::of(0_u8..3), any::<bool>());
    prop_oneof![
        4 => publish.prop_map(|(data, key, named)| Step::Publish { data, key, named }),
        1 => (0_u64..1500).prop_map(Step::Wait),
    ]
}

proptest! {
    #[test]
    fn the_ring_is_the_end_of_the_list(
        steps in proptest::collection::vec(step(), 1..60),
        events in 1_usize..20,
        bytes in 100_usize..20_000,
        age in proptest::option::of(500_u64..3000),
    ) {
        let limits = History { events, bytes, age: age.map(Duration::from_millis) };
        let room = room(limits, 1 << 20);
        let budget = Arc::clone(&room.budget);
        let mut log = Log::new(room, id(0));
        let (mut all, mut now): (Vec<Written>, _) = (Vec::new(), Duration::ZERO);
        // Of the list, what is there.
        let mut first = 0;
        let mut position = 0;
        for step in steps {
            match step {
                Step::Wait(milliseconds) => {
                    now += Duration::from_millis(milliseconds);
                    log.expire(now);
                }
                Step::Publish { data, key, named } => {
                    position += 1;
                    let data = "x".repeat(data);
                    let key = key.map(|key| key.to_string());
                    let name = if named { format!("n{position}") } else { id(position).to_string() };
                    let event = Event {
                        data: data.as_bytes(),
                        id: Some(name.as_str()).filter(|_| named),
                        key: key.as_deref(),
                        ..Event::default()
                    };
                    let block = format!("id: {name}\ndata: {data}\n\n");
                    let written = Written { id: id(position), name: name.clone(), block, key: key.clone(), at: now };
                    let appended = log.append(written.id, &event, now);
                    if written.chunk().len() > bytes {
                        prop_assert_eq!(appended.unwrap_err().code(), Code::BadEvent);
                        continue;
                    }
                    prop_assert_eq!(appended.unwrap(), written.chunk().len());
                    all.push(written);
                }
            }
            let too_old = |event: &Written| age.is_some_and(|age| now.saturating_sub(event.at) > Duration::from_millis(age));
            let too_much = |first: usize| {
                all.len() - first > events || all[first..].iter().map(|event| event.chunk().len()).sum::<usize>() > bytes
            };
            while first < all.len() && (too_old(&all[first]) || too_much(first)) {
                first += 1;
            }
            let there = &all[first..];
            prop_assert_eq!((log.first(), log.tail()), (first as u64, all.len() as u64));
            prop_assert_eq!(log.bytes(), there.iter().map(|event| event.chunk().len()).sum::<usize>());
            let chunks: String = there.iter().map(Written::chunk).collect();
            prop_assert_eq!(read(&log, log.first(), true, false).0, chunks.as_bytes());
            for (at, _) in there.iter().enumerate() {
                let place = (first + at) as u64;
                let rest: String = there[at..].iter().map(|event| event.block.as_str()).collect();
                prop_assert_eq!(read(&log, place, false, false).0, rest.as_bytes());
                let behind: usize = there[at..].iter().map(|event| event.chunk().len()).sum();
                prop_assert_eq!(log.behind(place), behind as u64);
                let newest = |event: &&Written| {
                    event.key.is_none() || there.iter().rfind(|other| other.key == event.key).unwrap().id == event.id
                };
                let kept: String = there[at..].iter().filter(newest).map(Written::chunk).collect();
                let (bytes, skipped) = read(&log, place, true, true);
                prop_assert_eq!(bytes, kept.as_bytes());
                let outdated = there[at..].iter().filter(|event| !newest(event)).count();
                prop_assert_eq!(skipped, outdated as u64);
            }
            for (at, event) in all.iter().enumerate() {
                let place = (at + 1 >= first).then_some(at as u64 + 1);
                prop_assert_eq!(log.place_after(&event.name), place, "{}", event.name);
                if let Some(place) = place {
                    prop_assert_eq!(log.name_before(place), event.name.clone());
                }
            }
            if first > 0 {
                prop_assert!(matches!(log.read(first as u64 - 1, true, false), Found::Evicted));
            }
        }
        log.clear();
        prop_assert_eq!(budget.used(), 0);
    }
}

#[test]
fn a_name_that_is_not_there_is_not_searched_for_in_the_history() {
    let room = room(history(1000, 1 << 20), 1 << 20);
    let budget = Arc::clone(&room.budget);
    let mut log = Log::new(room, id(0));
    let name = |number: u64| format!("own {}", number % 1500);
    for number in 1..=2000 {
        let name = name(number);
        let event = Event { data: b"a", id: Some(&name), ..Event::default() };
        log.append(id(number), &event, Duration::ZERO).unwrap();
    }
    NAMES_READ.set(0);
    for number in 0..100 {
        assert_eq!(log.place_after(&format!("unknown {number}")), None);
    }
    assert_eq!(NAMES_READ.get(), 0);
    for number in [1001, 1500, 2000] {
        assert_eq!(log.place_after(&name(number)), Some(number), "the newest of that name");
    }
    assert_eq!(NAMES_READ.get(), 3);
    log.clear();
    assert_eq!(budget.used(), 0);
}

#[test]
fn events_that_lie_side_by_side_are_one_slice() {
    let mut log = Log::new(room(history(1000, 1 << 20), 1 << 20), id(0));
    for number in 1..=20 {
        log.append(id(number), &Event { data: b"a", ..Event::default() }, Duration::ZERO).unwrap();
    }
    let Found::Run(run) = log.read(5, true, false) else { panic!("there is something") };
    assert_eq!((run.next, run.events), (20, 15));
    assert!(matches!(log.read(20, true, false), Found::Nothing));
}

#[test]
fn slabs_grow_with_the_rate_and_shrink_again() {
    let room = room(history(100_000, 4 << 20), 4 << 20);
    let pool = room.pool.clone();
    let taken = || pool.stats().live_bytes / 1024;
    let mut log = Log::new(room, id(0));
    let data = [b'x'; 1000];
    let event = Event { data: &data, ..Event::default() };
    let mut costs = Vec::new();
    let mut publish = |log: &mut Log, number: u64, now: Duration| {
        let before = taken();
        log.append(id(number), &event, now).unwrap();
        if taken() > before {
            costs.push(taken() - before);
        }
    };
    for number in 1..=200 {
        publish(&mut log, number, Duration::from_millis(number));
    }
    for number in 201..=300 {
        publish(&mut log, number, Duration::from_secs(2 * number));
    }
    assert_eq!(costs[..4], [4, 16, 64, 64], "{costs:?}");
    assert_eq!(costs[costs.len() - 2..], [4, 4], "{costs:?}");
}

#[test]
fn a_quiet_topic_costs_one_small_slab_however_long_it_goes_on() {
    let room = room(history(2, 1 << 20), 1 << 20);
    let budget = Arc::clone(&room.budget);
    let mut log = Log::new(room, id(0));
    for number in 1..=1000 {
        log.append(id(number), &Event { data: b"a", ..Event::default() }, Duration::from_secs(60 * number))
            .unwrap();
        assert!(budget.used() <= 8192, "{number}: {}", budget.used());
    }
}

#[test]
fn where_the_hub_is_full_the_oldest_of_the_topic_leaves_and_then_nothing_is_taken() {
    let shared = room(history(1000, 1 << 20), 8192);
    let (mut one, mut other) = (Log::new(shared.clone(), id(0)), Log::new(shared.clone(), id(0)));
    let data = [b'x'; 3000];
    let event = Event { data: &data, ..Event::default() };
    let now = Duration::ZERO;
    one.append(id(1), &event, now).unwrap();
    one.append(id(2), &event, now).unwrap();
    assert_eq!(other.append(id(1), &event, now).unwrap_err().code(), Code::PoolFull);
    assert_eq!((one.first(), one.tail()), (0, 2), "another topic's history stays");
    one.append(id(3), &event, now).unwrap();
    assert_eq!((one.first(), one.tail(), one.floor()), (1, 3, id(1)));
    // Bytes that are being sent are still taken after their event was dropped.
    let Found::Run(held) = one.read(1, true, false) else { panic!("there is something") };
    let Found::Run(more) = one.read(held.next, true, false) else { panic!("there is something") };
    assert_eq!(one.append(id(4), &event, now).unwrap_err().code(), Code::PoolFull);
    assert_eq!((one.first(), one.tail()), (1, 3), "nothing has left in vain");
    drop((held, more));
    one.append(id(4), &event, now).unwrap();
    one.clear();
    other.append(id(5), &event, now).unwrap();
    other.clear();
    assert_eq!(shared.budget.used(), 0);
}

#[test]
fn tiny_events_cost_what_their_list_takes() {
    const MEMORY: usize = 256 << 10;
    let shared = room(history(1 << 20, 64 << 20), MEMORY);
    let mut log = Log::new(shared.clone(), id(0));
    for number in 1..=20_000 {
        log.append(id(number), &Event::default(), Duration::ZERO).unwrap();
        assert!(shared.budget.used() <= MEMORY);
    }
    let there = usize::try_from(log.tail() - log.first()).unwrap();
    // An id alone takes 16 bytes of an entry, and what lies in slabs comes on top.
    assert!(there * 64 + log.bytes() <= MEMORY, "{there} events");
    assert!(there > 1000, "{there} events");
    // A list that is used for less takes less.
    let large = [b'x'; 2000];
    for number in 20_001..=20_200 {
        log.append(id(number), &Event { data: &large, ..Event::default() }, Duration::ZERO).unwrap();
    }
    let few = usize::try_from(log.tail() - log.first()).unwrap();
    assert!(few < 200, "{few} events");
    assert!(log.bytes() > MEMORY / 2, "what the list took is there for events");
    log.clear();
    assert_eq!(shared.budget.used(), 0);
}

#[test]
fn keys_cost_what_they_take() {
    const MEMORY: usize = 256 << 10;
    let shared = room(history(1 << 20, 64 << 20), MEMORY);
    let mut log = Log::new(shared.clone(), id(0));
    let text = "k".repeat(1000);
    for number in 1..=1000 {
        let key = format!("{number} {text}");
        log.append(id(number), &Event { key: Some(&key), ..Event::default() }, Duration::ZERO).unwrap();
    }
    assert!(log.tail() - log.first() < 256, "of each key there is one text");
    for number in 1001..=2000 {
        log.append(id(number), &Event { key: Some(&text), ..Event::default() }, Duration::ZERO).unwrap();
    }
    assert!(log.tail() - log.first() > 900, "those of one key share it");
    log.clear();
    assert_eq!(shared.budget.used(), 0);
}
