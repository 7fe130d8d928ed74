//! An upstream without sockets. What it does with them is tested from Python, where all ways of a request are.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::origin::{Endpoint, Scheme};

const LONG: Duration = Duration::from_secs(3600);

fn member(number: u16, weight: u32) -> Member {
    let endpoint = Endpoint::new(Scheme::Http, "127.0.0.1", number, None).unwrap();
    Member {
        authority: format!("127.0.0.1:{number}").into(),
        endpoint,
        weight,
        backup: false,
        max_requests: None,
    }
}

pub(super) fn policy(balance: Balance) -> UpstreamPolicy {
    UpstreamPolicy {
        balance,
        health: HealthPolicy {
            failures: Some(2),
            failure_percent: None,
            least_requests: 1,
            window: LONG,
            statuses: vec![500],
            eject: LONG,
            max_eject: LONG,
            slow_start: Duration::ZERO,
            panic_percent: 0,
        },
        check: None,
        retries: RetryPolicy {
            tries: 3,
            statuses: vec![500],
            try_timeout: None,
            hedge: None,
            resume: true,
            budget_percent: 100,
            budget_per_second: 0,
        },
    }
}

fn upstream(balance: Balance, members: Vec<Member>) -> Arc<Upstream> {
    Arc::new(Upstream::new("http://upstream".into(), policy(balance), members))
}

fn port(turn: &Turn) -> u16 {
    turn.member.endpoint.port()
}

#[test]
fn a_turn_is_counted_until_it_is_dropped_and_told_once() {
    let upstream = upstream(Balance::RoundRobin, vec![member(1, 1)]);
    let mut turn = upstream.choose(0, &[], Reason::First).unwrap();
    turn.fail();
    turn.fail();
    turn.succeed();
    assert_eq!((upstream.stats().members[0].active, upstream.stats().members[0].failures), (1, 1));
    drop(turn);
    assert_eq!(upstream.stats().members[0].active, 0);
}

#[test]
fn one_that_goes_and_comes_back_while_it_is_asked_is_another() {
    let upstream = upstream(Balance::RoundRobin, vec![member(1, 1), member(2, 1)]);
    let mut turn = upstream.choose(0, &[], Reason::First).unwrap();
    assert_eq!(port(&turn), 1);
    upstream.set(vec![member(2, 1)]);
    upstream.set(vec![member(2, 1), member(1, 1)]);
    turn.fail();
    drop(turn);
    let stats = upstream.stats();
    assert!(stats.members.iter().all(|seat| seat.active == 0 && seat.failures == 0));
}

#[test]
fn one_that_is_declared_anew_keeps_what_is_known() {
    let upstream = upstream(Balance::RoundRobin, vec![member(1, 1), member(2, 1)]);
    let mut turn = upstream.choose(0, &[], Reason::First).unwrap();
    upstream.set(vec![member(2, 1), member(1, 9)]);
    assert_eq!(upstream.stats().members[1].active, 1);
    turn.fail();
    drop(turn);
    let seat = &upstream.stats().members[1];
    assert_eq!((seat.active, seat.failures, seat.member.weight), (0, 1, 9));
}

#[test]
fn a_retry_costs_budget_and_goes_elsewhere() {
    let upstream = upstream(Balance::RoundRobin, vec![member(1, 1), member(2, 1)]);
    let first = upstream.choose(0, &[], Reason::First).unwrap();
    let second = upstream.choose(0, &[first.seat], Reason::Retry).unwrap();
    assert_ne!(port(&first), port(&second));
    assert!(upstream.choose(0, &[first.seat, second.seat], Reason::Retry).is_none(), "there is no third");
    assert!(upstream.choose(0, &[first.seat], Reason::Hedge).is_none(), "one request allows one retry");
    let counts = upstream.stats().counts;
    assert_eq!((counts.requests, counts.retries, counts.hedges, counts.over_budget), (1, 1, 0, 1));
}

#[test]
fn threads_that_choose_and_change_at_once_count_each_turn() {
    let upstream = upstream(Balance::LeastLoaded, vec![member(1, 1), member(2, 2)]);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let upstream = &upstream;
            scope.spawn(move || {
                for round in 0..2000 {
                    let mut turn = upstream.choose(0, &[], Reason::First).unwrap();
                    if (round + thread) % 3 == 0 {
                        turn.fail();
                    } else {
                        turn.succeed();
                    }
                }
            });
        }
        for round in 0..200 {
            upstream.set(vec![member(1, 1 + round % 2), member(2, 2)]);
        }
    });
    let stats = upstream.stats();
    assert_eq!(stats.members.iter().map(|seat| seat.active).sum::<usize>(), 0);
    assert_eq!(stats.members.iter().map(|seat| seat.requests).sum::<u64>(), 6000);
    assert_eq!(stats.members.iter().map(|seat| seat.failures).sum::<u64>(), 2000);
}

proptest! {
    /// Whatever has happened, a request finds an origin as long as there is one with room; and a retry never finds one that
    /// was tried.
    #[test]
    fn ejections_leave_no_request_without_an_origin(
        balance in prop_oneof![
            Just(Balance::RoundRobin), Just(Balance::LeastLoaded), Just(Balance::Hash(HashKey::Path))
        ],
        weights in prop::collection::vec((1..5_u32, any::<bool>()), 1..6),
        events in prop::collection::vec((any::<u64>(), any::<bool>()), 0..60),
    ) {
        let mut members: Vec<_> = (1..)
            .zip(weights)
            .map(|(number, (weight, backup))| Member { backup, ..member(number, weight) })
            .collect();
        members[0].backup = false;
        let count = members.len();
        let upstream = upstream(balance, members);
        for (key, fails) in events {
            let mut turn = upstream.choose(key, &[], Reason::First).expect("there is an origin");
            if fails {
                turn.fail();
            } else {
                turn.succeed();
            }
            let mut tried = vec![turn.seat];
            while let Some(turn) = upstream.choose(key, &tried, Reason::Retry) {
                prop_assert!(!tried.contains(&turn.seat));
                tried.push(turn.seat);
            }
            prop_assert!(tried.len() <= count);
        }
    }

    /// With a cap, never more are under way than it says, and it is used up before a request is refused.
    #[test]
    fn no_origin_has_more_than_it_may(caps in prop::collection::vec(1..4_usize, 1..5), asked in 0..20_usize) {
        let members: Vec<_> = (1..)
            .zip(&caps)
            .map(|(number, cap)| Member { max_requests: Some(*cap), ..member(number, 1) })
            .collect();
        let upstream = upstream(Balance::RoundRobin, members);
        let turns: Vec<_> = (0..asked).filter_map(|_| upstream.choose(0, &[], Reason::First)).collect();
        prop_assert_eq!(turns.len(), asked.min(caps.iter().sum()));
        for (seat, cap) in upstream.stats().members.iter().zip(&caps) {
            prop_assert!(seat.active <= *cap);
        }
    }
}
