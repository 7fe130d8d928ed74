//! Where a subscriber begins, case by case.

use std::time::Duration;

use super::room;
use crate::hub::log::Log;
use crate::hub::resume::{Resumption, begin};
use crate::hub::{Event, History, Id, Join};

fn id(milliseconds: u64) -> Id {
    Id::Time { milliseconds, sequence: 0 }
}

/// Events 10-0, 20-0 (named "b"), 30-0 and 40-0, of which the last three are there.
fn log() -> Log {
    let history = History { events: 3, bytes: 1 << 20, age: None };
    let mut log = Log::new(room(history, 1 << 20), id(5));
    for (milliseconds, name) in [(10, None), (20, Some("b")), (30, None), (40, None)] {
        log.append(id(milliseconds), &Event { id: name, ..Event::default() }, Duration::ZERO).unwrap();
    }
    log
}

#[test]
fn who_comes_back_goes_on_behind_what_it_had_or_is_told_of_a_gap() {
    let log = log();
    let cases = [
        ("10-0", 1, Resumption::Full, "the newest that has left: nothing is missing behind it"),
        ("b", 2, Resumption::Full, "a name of the publisher's"),
        ("20-0", 2, Resumption::Full, "the position of one that has a name"),
        ("30-0", 3, Resumption::Full, "in the midst"),
        ("40-0", 4, Resumption::Full, "the newest: it lacks nothing"),
        ("9-0", 1, Resumption::Gap, "older than what is known"),
        ("5-0", 1, Resumption::Gap, "the beginning of the topic, of which something has left"),
        ("25-0", 1, Resumption::Gap, "no event of this topic"),
        ("41-0", 1, Resumption::Gap, "in the future"),
        ("x", 1, Resumption::Gap, "no id at all"),
        ("040-0", 1, Resumption::Gap, "another text is another id"),
    ];
    for (after, place, resumption, why) in cases {
        let beginning = begin(&log, Some(after), Join::Now);
        assert_eq!((beginning.place, beginning.resumption), (place, resumption), "{after}: {why}");
    }
}

#[test]
fn who_comes_anew_begins_where_its_route_says() {
    let log = log();
    let cases = [
        (Join::Now, 4),
        (Join::Start, 1),
        (Join::Last(0), 4),
        (Join::Last(2), 2),
        (Join::Last(3), 1),
        (Join::Last(usize::MAX), 1),
    ];
    for (join, place) in cases {
        let beginning = begin(&log, None, join);
        assert_eq!((beginning.place, beginning.resumption), (place, Resumption::Fresh), "{join:?}");
    }
}

#[test]
fn the_floor_of_a_new_topic_and_the_name_of_the_last_that_has_left_are_known() {
    let history = History { events: 1, bytes: 1 << 20, age: None };
    let mut log = Log::new(room(history, 1 << 20), id(5));
    assert_eq!(begin(&log, Some("5-0"), Join::Now).resumption, Resumption::Full);
    for (milliseconds, name) in [(10, "a"), (20, "b")] {
        log.append(id(milliseconds), &Event { id: Some(name), ..Event::default() }, Duration::ZERO).unwrap();
    }
    assert_eq!(begin(&log, Some("a"), Join::Now).resumption, Resumption::Full);
    assert_eq!(begin(&log, Some("10-0"), Join::Now).resumption, Resumption::Full);
    assert_eq!(log.name_before(1), "a");
    log.restart(id(7));
    assert_eq!(begin(&log, Some("b"), Join::Now).resumption, Resumption::Gap);
    assert_eq!(begin(&log, Some("7-0"), Join::Now).resumption, Resumption::Full);
}

#[test]
fn one_who_comes_back_is_not_sent_events_without_a_name_again() {
    let history = History { events: 9, bytes: 1 << 20, age: None };
    let mut log = Log::new(room(history, 1 << 20), id(5));
    let nameless = Event { nameless: true, ..Event::default() };
    log.append(id(5), &nameless, Duration::ZERO).unwrap();
    log.append(id(10), &Event { id: Some("a"), ..Event::default() }, Duration::ZERO).unwrap();
    log.append(id(10), &nameless, Duration::ZERO).unwrap();
    log.append(id(20), &Event::default(), Duration::ZERO).unwrap();
    for (after, place) in [("5-0", 1), ("a", 3), ("10-0", 3), ("20-0", 4)] {
        let beginning = begin(&log, Some(after), Join::Now);
        assert_eq!((beginning.place, beginning.resumption), (place, Resumption::Full), "{after}");
    }
}

#[test]
fn an_offset_without_an_event_is_a_place_as_well_but_no_other_partition_is() {
    let offset = |partition, next| Id::Offset { partition, next };
    let history = History { events: 2, bytes: 1 << 20, age: None };
    let mut log = Log::new(room(history, 1 << 20), offset(3, 0));
    assert_eq!(begin(&log, Some("3:-1"), Join::Now).resumption, Resumption::Full);
    // At the offsets 4, 8 and 9, of which the first leaves.
    for next in [5, 9, 10] {
        log.append(offset(3, next), &Event::default(), Duration::ZERO).unwrap();
    }
    let cases = [
        ("3:4", 1, Resumption::Full, "the newest that has left"),
        ("3:6", 1, Resumption::Full, "an offset that was compacted, or is a mark of a transaction"),
        ("3:8", 2, Resumption::Full, "in the midst"),
        ("3:9", 3, Resumption::Full, "the newest: it lacks nothing"),
        ("3:3", 1, Resumption::Gap, "older than what is known"),
        ("3:-1", 1, Resumption::Gap, "the beginning, of which something has left"),
        ("3:10", 1, Resumption::Gap, "in the future"),
        ("2:8", 1, Resumption::Gap, "another partition"),
        ("4:8", 1, Resumption::Gap, "another partition"),
        ("3-8", 1, Resumption::Gap, "an id of another kind"),
    ];
    for (after, place, resumption, why) in cases {
        let beginning = begin(&log, Some(after), Join::Now);
        assert_eq!((beginning.place, beginning.resumption), (place, resumption), "{after}: {why}");
    }
    assert_eq!(log.name_before(1), "3:4");
}
