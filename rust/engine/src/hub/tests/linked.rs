//! A hub that two processes have: here two hubs with a socket between them.

use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::pool;
use crate::error::Code;
use crate::hub::link::{Link, Stage};
use crate::hub::mirroring::serve;
use crate::hub::{Event, History, Hub, HubConfig, Id};
use crate::runtime::Threads;
use crate::sync::Arc;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// With room for all that is published here, however long the ids are: those of one millisecond are numbered.
const CONFIG: HubConfig = HubConfig {
    memory: 1 << 21,
    topics: 100,
    history: History { events: 10_000, bytes: 1 << 20, age: None },
    finished_age: Duration::from_secs(60),
    external: false,
};

fn hub(config: HubConfig) -> Arc<Hub> {
    Arc::new(Hub::new(pool(8), config))
}

fn event(data: &str) -> Event<'_> {
    Event { data: data.as_bytes(), ..Event::default() }
}

/// A leader and a follower, and the threads that serve their link.
struct Pair {
    before: Arc<Hub>,
    next: Arc<Hub>,
    leading: Arc<Link>,
    following: Arc<Link>,
    threads: Threads,
}

impl Pair {
    /// Two hubs of which the second follows.
    fn new(before: Arc<Hub>, next: Arc<Hub>) -> Self {
        let (one, other) = UnixStream::pair().unwrap();
        let threads = Threads::start(2).unwrap();
        let (leading, following) = (Arc::new(Link::new(true)), Arc::new(Link::new(false)));
        next.follow(&following);
        before.lead(&leading);
        for (number, (hub, link, socket)) in
            [(&before, &leading, one), (&next, &following, other)].into_iter().enumerate()
        {
            let (hub, link) = (Arc::downgrade(hub), Arc::clone(link));
            threads.spawn(number, move || serve(hub, link, socket.into()));
        }
        assert_eq!(following.wait_while(Stage::Joining, PATIENCE), Stage::InStep);
        assert_eq!(leading.wait_while(Stage::Joining, PATIENCE), Stage::InStep);
        Self { before, next, leading, following, threads }
    }

    /// The second leads from now on.
    fn turn(&self) {
        let link = self.before.hand_over().unwrap();
        assert_eq!(link.wait_while(Stage::InStep, PATIENCE), Stage::Follows);
        assert_eq!(self.following.stage(), Stage::Leads);
    }

    /// Waits until both have the same of `topic`, and returns that.
    fn same(&self, topic: &str) -> Vec<(Id, String)> {
        let until = Instant::now() + PATIENCE;
        loop {
            let [one, other] = [&self.before, &self.next].map(|hub| hub.kept(topic));
            if one == other {
                return one;
            }
            assert!(Instant::now() < until, "{} and {} events", one.len(), other.len());
            std::thread::yield_now();
        }
    }
}

fn publish(hub: &Hub, topic: &str, event: &Event<'_>) -> crate::Result<Id> {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(hub.publish(topic, event)?.wait())
}

fn finish(hub: &Hub, topic: &str) -> crate::Result<bool> {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(hub.finish(topic)?.wait())
}

#[test]
fn a_follower_has_the_history_and_what_follows_as_it_stands_on_the_wire() {
    let before = hub(CONFIG);
    let full = Event {
        data: b"one\r\ntwo\n",
        name: Some("kind"),
        id: Some("own-1"),
        key: Some("k"),
        retry: Some(70),
        nameless: false,
    };
    for topic in ["a", "b"] {
        before.publish(topic, &full).unwrap();
        before.publish(topic, &event("")).unwrap();
    }
    before.finish("b").unwrap();
    let pair = Pair::new(before, hub(CONFIG));
    assert_eq!(pair.same("a").len(), 2);
    assert_eq!(pair.same("b").len(), 2);
    pair.before.publish("a", &event("later")).unwrap();
    let kept = pair.same("a");
    assert!(kept.last().unwrap().1.contains("data: later"));
    assert!(
        kept[0].1.starts_with("id: own-1\nevent: kind\nretry: 70\ndata: one\ndata: two\ndata: \n"),
        "{kept:?}"
    );
    assert!(pair.next.topic_stats("b").unwrap().is_finished);
    let error = publish(&pair.next, "b", &event("x")).unwrap_err();
    assert_eq!(error.code(), Code::TopicFinished);
}

#[test]
fn what_a_follower_publishes_has_the_leaders_order() {
    let pair = Pair::new(hub(CONFIG), hub(CONFIG));
    let first = publish(&pair.before, "a", &event("1")).unwrap();
    let second = publish(&pair.next, "a", &event("2")).unwrap();
    let third = publish(&pair.before, "a", &event("3")).unwrap();
    assert!(first < second && second < third);
    let ids: Vec<_> = pair.same("a").into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, [first, second, third]);
    assert!(finish(&pair.next, "a").unwrap());
    assert!(!finish(&pair.next, "a").unwrap() && !finish(&pair.before, "a").unwrap());
    assert_eq!(publish(&pair.next, "", &event("x")).unwrap_err().code(), Code::BadTopic);
    let large = "x".repeat(CONFIG.history.bytes + 1);
    assert_eq!(publish(&pair.next, "c", &event(&large)).unwrap_err().code(), Code::BadEvent);
}

#[test]
fn while_the_turn_comes_no_event_is_lost_doubled_or_without_its_place() {
    const EACH: usize = 2000;
    let pair = Pair::new(hub(CONFIG), hub(CONFIG));
    let given = std::thread::scope(|scope| {
        let publishers: Vec<_> = [&pair.before, &pair.next, &pair.before, &pair.next]
            .into_iter()
            .enumerate()
            .map(|(publisher, hub)| {
                scope.spawn(move || {
                    let one = |number| publish(hub, "a", &event(&format!("{publisher}/{number}"))).unwrap();
                    (0..EACH).map(one).collect::<Vec<_>>()
                })
            })
            .collect();
        while pair.before.kept("a").len() < EACH {
            std::thread::yield_now();
        }
        pair.turn();
        publishers.into_iter().map(|publisher| publisher.join().unwrap()).collect::<Vec<_>>()
    });
    let kept = pair.same("a");
    assert_eq!(kept.len(), 4 * EACH);
    assert!(kept.is_sorted_by(|one, other| one.0 < other.0));
    for (publisher, ids) in given.iter().enumerate() {
        assert!(ids.is_sorted());
        for (number, id) in ids.iter().enumerate() {
            let at = kept.binary_search_by_key(id, |(id, _)| *id).expect("its id is there");
            assert!(kept[at].1.contains(&format!("data: {publisher}/{number}\n")));
        }
    }
}

#[test]
fn when_the_leader_dies_the_follower_goes_on_with_what_was_not_answered() {
    let pair = Pair::new(hub(CONFIG), hub(CONFIG));
    publish(&pair.before, "a", &event("1")).unwrap();
    pair.same("a");
    let waiting: Vec<_> = (2..50).map(|number| pair.next.publish("a", &event(&number.to_string()))).collect();
    pair.threads.stop();
    pair.threads.join();
    // Its tasks are gone, as with a process that is killed.
    pair.next.end_link(&pair.following);
    pair.before.end_link(&pair.leading);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for answer in waiting {
        runtime.block_on(answer.unwrap().wait()).unwrap();
    }
    let kept = pair.next.kept("a");
    let texts: Vec<_> = kept.iter().map(|(_, lines)| lines.rsplit("data: ").next().unwrap().trim()).collect();
    assert_eq!(texts, (1..50).map(|number| number.to_string()).collect::<Vec<_>>());
    assert!(pair.next.publish("a", &event("own")).unwrap().now().is_some());
}

#[test]
fn what_was_published_before_a_process_followed_comes_after_the_history() {
    let (before, next) = (hub(CONFIG), hub(CONFIG));
    before.publish("a", &event("old")).unwrap();
    next.publish("a", &event("startup")).unwrap();
    let pair = Pair::new(before, next);
    while pair.same("a").len() < 2 {
        std::thread::yield_now();
    }
    let texts: Vec<_> = pair.same("a").into_iter().map(|(_, lines)| lines).collect();
    assert!(texts[0].contains("old") && texts[1].contains("startup"), "{texts:?}");
}

#[test]
fn a_topic_is_fed_by_one_process_and_dropped_when_that_dies() {
    let pair = Pair::new(hub(CONFIG), hub(CONFIG));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let claim = |hub: &Arc<Hub>, topic| runtime.block_on(hub.begin_feed(topic)?.wait());
    let first = claim(&pair.next, "a").unwrap();
    assert_eq!(pair.before.begin_feed("a").unwrap_err().code(), Code::Busy);
    assert_eq!(claim(&pair.next, "a").unwrap_err().code(), Code::Busy);
    drop(first);
    while pair.before.begin_feed("a").is_err() {
        std::thread::yield_now();
    }
    let fed = pair.before.begin_feed("b").unwrap().now().unwrap();
    publish(&pair.before, "b", &event("1")).unwrap();
    assert_eq!(claim(&pair.next, "b").unwrap_err().code(), Code::Busy);
    pair.same("b");
    pair.turn();
    assert_eq!(claim(&pair.next, "b").unwrap_err().code(), Code::Busy);
    pair.following.end();
    while pair.next.topic_stats("b").is_some() {
        std::thread::yield_now();
    }
    drop(fed);
}

#[test]
fn an_event_that_has_left_before_it_was_told_is_announced_as_missing() {
    let small = HubConfig { history: History { events: 5, ..CONFIG.history }, ..CONFIG };
    let (before, next) = (hub(small), hub(CONFIG));
    let id = |number: u64| Id::Time { milliseconds: number, sequence: 0 };
    for number in 1..=3 {
        let text = number.to_string();
        next.mirror_event("a", (id(number - 1), id(number)), &event(&text), Duration::ZERO);
    }
    next.mirror_event("a", (id(3), id(4)), &event("4"), Duration::ZERO);
    next.mirror_event("a", (id(3), id(4)), &event("again"), Duration::ZERO);
    assert_eq!(next.kept("a").len(), 4);
    next.mirror_event("a", (id(8), id(9)), &event("9"), Duration::ZERO);
    let ids: Vec<_> = next.kept("a").into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, [id(9)], "what is before the hole is not known to be all");
    for number in 0..20 {
        before.publish("b", &event(&number.to_string())).unwrap();
    }
    let pair = Pair::new(before, hub(CONFIG));
    assert_eq!(pair.same("b").len(), 5);
    let stats = [&pair.before, &pair.next].map(|hub| hub.topic_stats("b").unwrap().floor);
    assert_eq!(stats[0], stats[1]);
}
