//! A hub whose events are kept elsewhere.

use std::task::Waker;
use std::time::Duration;

use super::pool;
use crate::error::Code;
use crate::hub::log::Found;
use crate::hub::topic::Phase;
use crate::hub::{Event, History, Hub, HubConfig, Id, Join, Published, Resumption};

const CONFIG: HubConfig = HubConfig {
    memory: 1 << 20,
    topics: 3,
    history: History { events: 10, bytes: 1 << 12, age: None },
    finished_age: Duration::ZERO,
    external: true,
};

fn id(milliseconds: u64) -> Id {
    Id::Time { milliseconds, sequence: 0 }
}

fn published(milliseconds: u64, data: &str) -> Published<'_> {
    let event = Event { data: data.as_bytes(), ..Event::default() };
    Published { id: id(milliseconds), event: Some(event) }
}

/// A hub whose topic "a" has been loaded with an event at 20, behind 10.
fn loaded() -> Hub {
    let hub = Hub::new(pool(4), CONFIG);
    hub.topic("a", true).unwrap();
    assert_eq!(hub.wanted(Waker::noop()), ["a"]);
    assert!(hub.load("a", id(10), &[published(20, "x")]).unwrap().is_some());
    hub
}

/// The place and the resumption of one that had `after`, and goes at once.
fn resume(hub: &Hub, after: &str) -> (u64, Resumption) {
    let topic = hub.topic("a", true).unwrap();
    let beginning = topic.enter(Some(after), Join::Now, None, Duration::ZERO).unwrap().unwrap().beginning;
    topic.leave();
    (beginning.place, beginning.resumption)
}

/// What all that is there is on the wire.
fn text(hub: &Hub) -> String {
    let topic = hub.topic("a", true).unwrap();
    let mut place = topic.oldest().0;
    let mut text = String::new();
    while let (Found::Run(run), _) = topic.read(place, false, false) {
        text += std::str::from_utf8(&run.bytes).unwrap();
        place = run.next;
    }
    text
}

#[test]
fn nothing_is_taken_before_what_was_published_before_is_there() {
    let hub = Hub::new(pool(4), CONFIG);
    assert!(hub.take("a", &[published(1, "x")]).unwrap().is_none(), "there is no such topic");
    assert!(hub.load("a", id(0), &[]).unwrap().is_none());
    assert!(hub.names().is_empty());
    hub.topic("a", true).unwrap();
    assert!(hub.take("a", &[published(1, "x")]).unwrap().is_none());
    assert!(!hub.interrupt("a", id(1)).unwrap());
    assert!(hub.load("a", id(1), &[published(2, "x")]).unwrap().is_some());
    assert!(hub.load("a", id(3), &[]).unwrap().is_none(), "once");
    let stats = hub.topic_stats("a").unwrap();
    assert_eq!((stats.events, stats.floor, stats.newest), (1, id(1), id(2)));
}

#[test]
fn what_is_there_already_is_taken_once() {
    let hub = loaded();
    let taken =
        hub.take("a", &[published(20, "x"), published(30, "y"), published(30, "y")]).unwrap().unwrap();
    assert_eq!(taken.count, 3);
    assert_eq!(text(&hub), "id: 20-0\ndata: x\n\nid: 30-0\ndata: y\n\n");
}

#[test]
fn an_end_ends_the_topic_and_what_follows_is_another_one() {
    let hub = loaded();
    let end = Published { id: id(30), event: None };
    assert_eq!(hub.take("a", &[published(25, "y"), end]).unwrap().unwrap().count, 2);
    assert!(hub.topic_stats("a").unwrap().is_finished);
    assert!(hub.interrupt("a", Id::default()).unwrap());
    assert_eq!(hub.take("a", &[published(5, "new")]).unwrap().unwrap().count, 1);
    assert!(!hub.topic_stats("a").unwrap().is_finished);
    assert_eq!(text(&hub), "id: 5-0\ndata: new\n\n", "without a gap event");
    assert_eq!(resume(&hub, "25-0").1, Resumption::Gap);
    let hub = Hub::new(pool(4), CONFIG);
    hub.topic("a", true).unwrap();
    assert!(hub.load("a", id(1), &[published(2, "x"), end]).unwrap().is_some());
    assert!(hub.topic_stats("a").unwrap().is_finished);
}

#[test]
fn subscribers_are_told_that_something_is_missing() {
    let hub = loaded();
    let topic = hub.topic("a", true).unwrap();
    topic.enter(None, Join::Now, None, Duration::ZERO).unwrap().unwrap();
    assert!(hub.interrupt("a", id(40)).unwrap());
    hub.take("a", &[published(50, "y")]).unwrap().unwrap();
    let gap = "event: penstock-gap\ndata: {\"after\": \"20-0\", \"resumed\": \"40-0\"}\n\n";
    assert_eq!(text(&hub), format!("id: 40-0\n{gap}id: 50-0\ndata: y\n\n"));
    assert_eq!(resume(&hub, "20-0").1, Resumption::Gap);
    assert_eq!(resume(&hub, "40-0").1, Resumption::Full);
    topic.leave();
}

#[test]
fn an_event_that_the_log_does_not_have_keeps_what_is_there_and_is_not_sent_again() {
    let hub = loaded();
    let topic = hub.topic("a", true).unwrap();
    topic.enter(None, Join::Now, None, Duration::ZERO).unwrap().unwrap();
    let local = Event { data: b"local", id: Some("not used"), ..Event::default() };
    assert!(hub.deliver("a", &local).unwrap());
    assert!(!hub.deliver("b", &local).unwrap());
    assert!(hub.interrupt("a", id(20)).unwrap());
    hub.take("a", &[published(21, "y")]).unwrap().unwrap();
    let gap = "event: penstock-gap\ndata: {\"after\": \"20-0\", \"resumed\": \"20-0\"}\n\n";
    let expected = format!("id: 20-0\ndata: x\n\ndata: local\n\nid: 20-0\n{gap}id: 21-0\ndata: y\n\n");
    assert_eq!(text(&hub), expected);
    let place = topic.oldest().0 + 3;
    assert_eq!(resume(&hub, "20-0"), (place, Resumption::Full));
    topic.leave();
}

#[test]
fn what_can_never_be_kept_is_missing_and_what_can_be_later_is_not() {
    let hub = loaded();
    let large = "x".repeat(5000);
    let taken = hub.take("a", &[published(30, &large), published(40, "y")]).unwrap().unwrap();
    assert_eq!((taken.count, taken.full.is_none()), (2, true));
    assert_eq!((taken.refused.count, taken.refused.error.unwrap().code()), (1, Code::BadEvent));
    assert_eq!(text(&hub), "id: 40-0\ndata: y\n\n");
    assert_eq!(resume(&hub, "20-0").1, Resumption::Gap);

    let hub = Hub::new(pool(4), HubConfig { memory: 4096, ..CONFIG });
    for name in ["a", "b"] {
        hub.topic(name, true).unwrap();
        assert!(hub.load(name, id(1), &[]).unwrap().is_some());
    }
    assert!(hub.take("b", &[published(2, "x")]).unwrap().unwrap().full.is_none());
    let taken = hub.take("a", &[published(2, "x")]).unwrap().unwrap();
    assert_eq!((taken.count, taken.full.unwrap().code()), (0, Code::PoolFull));
    assert_eq!(hub.topic_stats("a").unwrap().newest, id(1), "it comes again");
}

#[test]
fn what_is_refused_is_counted_with_the_first_reason() {
    let hub = Hub::new(pool(4), CONFIG);
    hub.topic("a", true).unwrap();
    let wrong =
        |at, name| Published { event: Some(Event { name: Some(name), ..Event::default() }), id: id(at) };
    let refused =
        hub.load("a", id(1), &[wrong(2, "a\nb"), published(3, "x"), wrong(4, "")]).unwrap().unwrap();
    let first = refused.error.unwrap().to_string();
    assert_eq!((refused.count, first.contains("line end")), (2, true), "{first}");
    assert_eq!(hub.topic_stats("a").unwrap().floor, id(4));
    let taken = hub.take("a", &[published(5, "y"), wrong(6, "a\nb"), published(7, "z")]).unwrap().unwrap();
    assert_eq!((taken.count, taken.refused.count), (3, 1));
    assert_eq!(taken.refused.error.unwrap().code(), Code::BadEvent);
    let taken = hub.take("a", &[published(7, "z"), published(8, "z")]).unwrap().unwrap();
    assert_eq!((taken.count, taken.refused.count), (2, 0));
}

#[test]
fn subscribers_end_where_there_is_no_room_to_tell_them() {
    let hub = Hub::new(pool(4), HubConfig { memory: 4096, ..CONFIG });
    for name in ["a", "b"] {
        hub.topic(name, true).unwrap();
        assert!(hub.load(name, id(1), &[]).unwrap().is_some());
    }
    hub.take("b", &[published(2, "x")]).unwrap().unwrap();
    let topic = hub.topic("a", true).unwrap();
    topic.enter(None, Join::Now, None, Duration::ZERO).unwrap().unwrap();
    assert!(!hub.interrupt("a", id(5)).unwrap());
    assert_eq!(topic.read(topic.oldest().0, false, false).1, Phase::Gone);
    assert_eq!(hub.names(), ["b"]);
    topic.leave();
}

#[test]
fn nobody_who_had_an_unknown_id_is_let_in_before_the_log_was_asked() {
    let hub = loaded();
    let topic = hub.topic("a", true).unwrap();
    let (follower, _) = topic.follow();
    assert!(!topic.is_to_be_checked("20-0"));
    assert!(topic.is_loaded(follower, Waker::noop()));
    assert!(topic.is_to_be_checked("30-0"));
    assert!(!topic.is_loaded(follower, Waker::noop()));
    hub.take("a", &[published(30, "y")]).unwrap().unwrap();
    hub.checked("a").unwrap();
    assert!(topic.is_loaded(follower, Waker::noop()));
    assert!(!topic.is_to_be_checked("30-0"));
}
