//! Model checks of a topic that publishers, followers and a thread that drops it use at once.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use loom::future::block_on;
use loom::thread;

use super::budget::HistoryBudget;
use super::log::{Found, Log, Name, Room};
use super::topic::{Gone, Mark, Phase, Topic};
use super::{Event, History, Id, Join};
use crate::error::Result;
use crate::pool::testing::{config, model};
use crate::pool::{Pool, REGION};
use crate::sync::Arc;

const NOW: Duration = Duration::ZERO;

fn topic() -> Arc<Topic> {
    let history = History { events: 8, bytes: 4096, age: None };
    let pool = Pool::new(config(REGION)).unwrap();
    let budget = Arc::new(HistoryBudget::new(REGION, pool.stored()));
    let room = Room { pool, budget, history };
    Arc::new(Topic::new("news", room, Id::default(), Phase::Open))
}

fn publish(topic: &Topic, number: u8) -> std::result::Result<(), Gone> {
    let choose = |log: &Log| -> Result<Option<Id>> { Ok(Some(log.newest().next())) };
    let event = Event { data: &[number], ..Event::default() };
    topic.append(&event, NOW, choose).map(|appended| assert!(appended.is_ok()))
}

/// Follows until the topic is finished, and returns the ids of all events from `place` on. Their bytes lie in a slab that
/// is still written, of which loom knows as a whole.
fn follow(topic: &Topic, mut place: u64, follower: u64, mut seen: Mark) -> Vec<u64> {
    let mut ids = Vec::new();
    loop {
        while let Found::Run(run) = topic.read(place, false, false).0 {
            let Name::Id(Id::Time { sequence, .. }) = run.last else { panic!("it has no own name") };
            ids.push(sequence);
            place = run.next;
        }
        if matches!(seen.1, Phase::Finished(_)) {
            return ids;
        }
        seen = block_on(poll_fn(|context| {
            topic.changed(follower, seen, context.waker()).map_or(Poll::Pending, Poll::Ready)
        }));
    }
}

#[test]
fn one_that_joins_while_others_publish_gets_all_behind_its_place_in_order() {
    model(2, || {
        let topic = topic();
        let publisher = {
            let topic = Arc::clone(&topic);
            thread::spawn(move || {
                assert!(publish(&topic, b'a').is_ok());
                assert!(publish(&topic, b'b').is_ok());
                assert!(topic.finish(NOW).is_ok_and(|news| news));
            })
        };
        let entered = topic.enter(None, Join::Now, None, NOW);
        let Ok(Ok(entered)) = entered else { panic!("the topic is not full, and stays") };
        if !entered.is_over {
            let place = entered.beginning.place;
            let (follower, seen) = topic.follow();
            let ids = follow(&topic, place, follower, seen);
            assert_eq!(ids, (place + 1..=2).collect::<Vec<_>>());
            topic.leave();
        }
        publisher.join().unwrap();
    });
}

#[test]
fn what_was_published_to_a_topic_is_never_dropped_with_it_unread() {
    model(2, || {
        let topic = topic();
        let keeper = {
            let topic = Arc::clone(&topic);
            thread::spawn(move || topic.tend(NOW, NOW))
        };
        let published = publish(&topic, b'a');
        let goes = keeper.join().unwrap();
        // One of the two was first: either the event is there, or the publisher knows that it has to look again.
        assert_eq!(published.is_err(), goes);
        if !goes {
            assert_eq!(topic.fullness().events, 1);
        }
    });
}

#[test]
fn one_that_joins_a_topic_keeps_it_or_is_told_that_it_has_gone() {
    model(2, || {
        let topic = topic();
        let keeper = {
            let topic = Arc::clone(&topic);
            thread::spawn(move || topic.tend(NOW, NOW))
        };
        let entered = topic.enter(None, Join::Now, None, NOW).is_ok();
        let goes = keeper.join().unwrap();
        assert_eq!(entered, !goes);
        if entered {
            topic.leave();
            assert!(topic.tend(NOW, NOW), "the last has left");
        }
    });
}
