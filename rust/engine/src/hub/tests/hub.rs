//! A hub and its topics, without subscribers.

use std::time::Duration;

use super::pool;
use crate::error::Code;
use crate::hub::{Event, History, Hub, HubConfig, Id};

fn config() -> HubConfig {
    HubConfig {
        memory: 1 << 20,
        topics: 3,
        history: History { events: 10, bytes: 1 << 16, age: None },
        finished_age: Duration::ZERO,
        external: false,
    }
}

fn hub(config: HubConfig) -> Hub {
    Hub::new(pool(4), config)
}

fn event(data: &str) -> Event<'_> {
    Event { data: data.as_bytes(), ..Event::default() }
}

#[test]
fn ids_rise_over_all_topics() {
    let hub = hub(config());
    let mut last = Id::default();
    for number in 0..100 {
        let id = hub.publish(["a", "b", "c"][number % 3], &event("x")).unwrap().now().unwrap();
        assert!(id > last);
        last = id;
    }
}

#[test]
fn topics_are_limited_and_those_of_no_use_make_room() {
    let hub = hub(config());
    hub.publish("a", &event("x")).unwrap();
    hub.finish("b").unwrap();
    hub.publish("c", &event("x")).unwrap();
    assert_eq!(hub.names().len(), 3);
    hub.publish("d", &event("x")).unwrap();
    let mut names = hub.names();
    names.sort();
    assert_eq!(names, ["a", "c", "d"], "the finished one has gone");
    assert_eq!(hub.publish("e", &event("x")).unwrap_err().code(), Code::TooManyTopics);
    let counted = hub.stats().counted;
    assert_eq!((counted.events, hub.stats().topics), (3, 3));
}

#[test]
fn names_that_no_path_could_have_are_refused() {
    let hub = hub(config());
    for name in ["", "a\nb", "a\u{7f}", &"x".repeat(513)] {
        assert_eq!(hub.publish(name, &event("x")).unwrap_err().code(), Code::BadTopic, "{name}");
    }
    hub.publish(&"x".repeat(512), &event("x")).unwrap();
}

#[test]
fn a_finished_topic_takes_nothing_and_is_forgotten_in_time() {
    let hub = hub(HubConfig { finished_age: Duration::from_secs(3600), ..config() });
    hub.publish("a", &event("x")).unwrap();
    assert!(hub.finish("a").unwrap().now().unwrap());
    assert!(!hub.finish("a").unwrap().now().unwrap(), "no news");
    assert_eq!(hub.publish("a", &event("x")).unwrap_err().code(), Code::TopicFinished);
    hub.tend();
    assert!(hub.topic_stats("a").unwrap().is_finished, "it is known for an hour");
}

#[test]
fn a_closed_hub_gives_its_memory_back_and_takes_nothing() {
    let hub = hub(config());
    hub.publish("a", &event("x")).unwrap();
    assert!(hub.stats().used > 0);
    hub.close();
    assert_eq!((hub.stats().used, hub.stats().topics), (0, 0));
    assert_eq!(hub.publish("a", &event("x")).unwrap_err().code(), Code::HubClosed);
    assert_eq!(hub.stats().counted.events, 1);
}
