use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc as Plain;

use super::*;
use crate::cache::Answer;
use crate::pool::StoredBytes;
use crate::store::body::Body;
use crate::store::body::CacheBudget;
use crate::store::disk::tests::{key, part, stored_file};
use crate::stream::Ending;
use crate::wire::Spans;

const LENGTH: u64 = 12;

fn item(place: u64) -> Arc<Item<Key>> {
    Item::new(place, key())
}

fn in_memory(start: u64, end: u64) -> Object {
    let (body, filler) = Body::new(&Plain::new(CacheBudget::new(1 << 20, &StoredBytes::default())));
    filler.finish(Ending::default());
    let span = Span::new(start, end).unwrap();
    Object::part(part(start, end, LENGTH), item(0), item(start), span, body)
}

fn on_disk(name: u64, start: u64, end: u64) -> Object {
    let stored_file = stored_file(name, end - start);
    Object::on_disk(part(start, end, LENGTH), b"OK".as_slice().into(), Box::default(), item, stored_file)
}

fn joined(objects: &[Object]) -> Object {
    let mut joined = objects[0].clone();
    for other in &objects[1..] {
        joined.join(other);
    }
    joined
}

fn spans(object: &Object) -> Vec<(u64, u64)> {
    object.parts.iter().map(|part| (part.start, part.end)).collect()
}

#[test]
fn the_same_bytes_in_memory_and_on_disk_are_one_part() {
    for objects in [[in_memory(0, 4), on_disk(1, 0, 4)], [on_disk(1, 0, 4), in_memory(0, 4)]] {
        let object = joined(&objects);
        assert_eq!((spans(&object), object.files().count()), (vec![(0, 4)], 1));
        assert!(object.is_in_memory());
        assert_eq!(object.in_memory_alone().count(), 0);
        let memory = objects.iter().find(|object| object.is_in_memory()).unwrap();
        assert!(object.has_item(&memory.parts[0].item), "it leaves memory by the way by which it came");
    }
}

#[test]
fn a_response_has_no_more_tiny_parts_than_can_be_walked() {
    const ALL: u64 = 1 << 32;
    let tiny = |start: u64, end: u64| {
        let mut object = in_memory(0, 1);
        object.parts[0] = Part { start, end, item: item(start), ..object.parts[0].clone() };
        object.with_parts(object.parts.clone())
    };
    let mut object = tiny(0, 1 << 20);
    let mut gone = 0;
    for number in 1..=3000 {
        let new = tiny((1 << 20) + number * 4, (1 << 20) + number * 4 + 1);
        gone += object.join(&new).len();
        assert!(object.has_item(&new.parts[0].item), "the newest is there");
    }
    assert_eq!((object.parts.len(), gone), (1024 + 4, 3001 - 1028), "four more for 1 MiB");
    assert_eq!(object.reaches_from(0), Some(1 << 20), "the largest is still there");
    for start in (1 << 24..ALL).step_by(1 << 20) {
        assert_eq!(object.join(&tiny(start, start + (1 << 20))).len(), 0, "slices are not too many");
    }
    assert_eq!(object.parts.len(), 1028 + 4096 - 16);
}

#[test]
fn a_second_file_of_the_same_bytes_is_of_no_use() {
    let mut object = on_disk(1, 0, 4);
    let other = on_disk(2, 0, 4);
    let useless = object.join(&other);
    assert_eq!(
        useless
            .iter()
            .filter_map(Part::stored_file)
            .map(|stored_file| stored_file.layout.name)
            .collect::<Vec<_>>(),
        [2]
    );
    assert_eq!(object.files().map(|stored_file| stored_file.layout.name).collect::<Vec<_>>(), [1]);
}

#[test]
fn what_comes_while_a_disk_hangs_takes_the_place_of_what_is_there() {
    let mut object = on_disk(1, 0, 8);
    let useless = object.join(&in_memory(2, 4));
    assert_eq!((spans(&object), useless.len()), (vec![(2, 4)], 1));
}

#[test]
fn without_the_disk_there_is_what_is_in_memory() {
    let object = joined(&[on_disk(1, 0, 4), in_memory(4, 8), on_disk(2, 8, 12)]);
    assert!(!object.is_readable_now(&Answer::Full, "GET") && object.is_readable_now(&Answer::Full, "HEAD"));
    let middle = Answer::Partial(vec![Span::new(4, 8).unwrap()]);
    assert!(object.is_readable_now(&middle, "GET"));
    assert!(object.on_disk_at(5).is_none());
    let (stored_file, place) = object.on_disk_at(9).unwrap();
    assert_eq!((stored_file.layout.name, place), (2, 1));
    assert_eq!(spans(&object.in_memory().unwrap()), [(4, 8)]);
    assert!(on_disk(1, 0, 4).in_memory().is_none());
}

#[derive(Debug, Clone)]
enum Change {
    KeyNotes(u64, u64),
    Disk(u64, u64),
    LeavesMemory(prop::sample::Index),
    LeavesDisk(prop::sample::Index),
}

fn change() -> impl Strategy<Value = Change> {
    let span = || (0..LENGTH).prop_flat_map(|start| (Just(start), start + 1..=LENGTH));
    prop_oneof![
        span().prop_map(|(start, end)| Change::KeyNotes(start, end)),
        span().prop_map(|(start, end)| Change::Disk(start, end)),
        any::<prop::sample::Index>().prop_map(Change::LeavesMemory),
        any::<prop::sample::Index>().prop_map(Change::LeavesDisk),
    ]
}

fn names(parts: &[Part]) -> impl Iterator<Item = u64> {
    parts.iter().filter_map(Part::stored_file).map(|stored_file| stored_file.layout.name)
}

proptest! {
    /// Parts are in order and none lies within another; the spans are those of the parts; no part is without bytes;
    /// each file is in use, or was returned once.
    #[test]
    fn whatever_comes_and_leaves_parts_are_in_order_and_no_file_is_lost(
        changes in prop::collection::vec(change(), 1..40),
    ) {
        let mut object = in_memory(0, 1);
        let (mut made, mut gone) = (BTreeSet::new(), Vec::new());
        for (name, change) in (1..).zip(changes) {
            let before: Spans = object.parts.iter().filter_map(|part| Span::new(part.start, part.end)).collect();
            match change {
                Change::KeyNotes(start, end) => gone.extend(names(&object.join(&in_memory(start, end)))),
                Change::Disk(start, end) => {
                    made.insert(name);
                    gone.extend(names(&object.join(&on_disk(name, start, end))));
                    let mut all = before;
                    all.insert(Span::new(start, end).unwrap());
                    prop_assert_eq!(&object.stored.content, &Content::Parts(all, Some(LENGTH)));
                }
                Change::LeavesMemory(index) if !object.is_empty() => {
                    let place = index.index(object.parts.len());
                    let mut bytes = None;
                    if !object.parts[place].drop_from_memory(&mut bytes) {
                        object.remove(place);
                    }
                }
                Change::LeavesDisk(index) if !object.is_empty() => {
                    let place = index.index(object.parts.len());
                    if let Some(stored_file) = object.parts[place].stored_file.clone() {
                        if !object.parts[place].drop_from_disk() {
                            object.remove(place);
                        }
                        gone.push(stored_file.layout.name);
                    }
                }
                Change::LeavesMemory(_) | Change::LeavesDisk(_) => {}
            }
            prop_assert!(object.parts.is_sorted_by(|one, next| one.start < next.start && one.end < next.end));
            prop_assert!(object.parts.iter().all(|part| part.bytes.is_some() || part.stored_file.is_some()));
            let there = object.parts.iter().filter_map(|part| Span::new(part.start, part.end)).collect();
            prop_assert_eq!(&object.stored.content, &Content::Parts(there, Some(LENGTH)));
            for place in 0..LENGTH {
                let reach = |part: &Part| (part.start <= place && place < part.end).then_some(part.end);
                prop_assert_eq!(object.reaches_from(place), object.parts.iter().filter_map(reach).max());
            }
            let used: Vec<_> = names(&object.parts).chain(gone.iter().copied()).collect();
            prop_assert_eq!(used.len(), made.len());
            prop_assert_eq!(used.into_iter().collect::<BTreeSet<_>>(), made.clone());
        }
    }
}
