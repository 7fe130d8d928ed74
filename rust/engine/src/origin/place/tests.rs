use std::io::Write;

use proptest::prelude::*;
use tokio::net::TcpListener;

use super::*;
use crate::net::Watch;
use crate::origin::{Roots, Scheme, Timeouts, Tls, connect};
use crate::stream::Timings;
use crate::wire::{BodyLimits, HeadLimits};

const LONG: Duration = Duration::from_secs(600);

const NO_TIMEOUTS: Timeouts = Timeouts::each(None);

fn place(host: &str, name_lifetime: Duration) -> Arc<Place> {
    let limits = OriginLimits {
        connections: 4,
        waiting: 4,
        upload_part: 0,
        upload_wait: None,
        upload_percent: 75,
        idle_timeout: LONG,
        requests_per_connection: 100,
        connection_age: LONG,
        name_lifetime,
        log_interval: LONG,
        head: HeadLimits { head_bytes: 4096, head_fields: 16, interim_responses: 1 },
        body: BodyLimits { chunk_extension_bytes: 16, trailer_bytes: 16 },
    };
    let endpoint = Endpoint::new(Scheme::Http, host, 80, None).unwrap();
    let name = Plain::<str>::from(endpoint.to_string());
    let notices = Plain::new(crate::origin::Notices::new(LONG));
    let tally = Arc::new(Tally::new(Plain::clone(&name), notices));
    Arc::new(Place::new(name, endpoint, tally, limits, None))
}

fn lease(place: &Arc<Place>) -> Lease {
    match place.ask(false, false).unwrap() {
        Answer::Granted(lease) => lease,
        Answer::Wait(_) | Answer::Retired => panic!("there is room"),
    }
}

async fn opened(place: &Arc<Place>) -> Lease {
    let mut lease = lease(place);
    let tls = Tls::new(Roots::WebPki, Vec::new()).unwrap();
    let connection = connect::open(place, &tls, false, &NO_TIMEOUTS, &mut Timings::default()).await.unwrap();
    lease.begin(true, true);
    lease.put(Box::new(connection));
    lease
}

/// A place with one connection, and the origin's end of it.
async fn connected() -> (Arc<Place>, Lease, std::net::TcpStream) {
    let origin = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let place = place("origin.example", LONG);
    place.learn(Some(vec![origin.local_addr().unwrap()]));
    let lease = opened(&place).await;
    let (accepted, _) = origin.accept().unwrap();
    (place, lease, accepted)
}

fn idle(place: &Place) -> usize {
    place.stats().idle
}

#[tokio::test]
async fn connections_to_addresses_that_a_name_has_no_more_are_not_used_again() {
    let (old, new) =
        (TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.2:0").await.unwrap());
    let place = place("origin.example", LONG);
    place.learn(Some(vec![old.local_addr().unwrap()]));
    let (mut first, mut second) = (opened(&place).await, opened(&place).await);
    first.give_back(Watch::default());
    drop(first);
    assert_eq!(idle(&place), 1);
    place.learn(Some(vec![new.local_addr().unwrap()]));
    assert_eq!(idle(&place), 0, "what was idle is closed");
    second.give_back(Watch::default());
    drop(second);
    assert_eq!(idle(&place), 0, "what was in use is closed when it is given back");
    let mut third = opened(&place).await;
    assert_eq!(third.connection().peer, Some(new.local_addr().unwrap()));
    third.give_back(Watch::default());
    drop(third);
    assert_eq!(idle(&place), 1);
}

#[tokio::test]
async fn only_a_request_that_may_be_repeated_believes_the_runtime_about_a_connection() {
    let (place, mut first, mut accepted) = connected().await;
    first.give_back(Watch::default());
    drop(first);
    // The runtime has looked at the connection; what comes then, it has not heard of.
    tokio::task::yield_now().await;
    accepted.write_all(b"HTTP/1.1 200 OK\r\n").unwrap();
    let mut next = lease(&place);
    assert_eq!(next.connection().unrest(true), None);
    assert_eq!(next.connection().unrest(false), Some(Unrest::Bytes));
    next.connection.as_mut().expect("the idle one").idle_since = Some(runtime::turn() + 1);
    assert!(!next.begin(true, false), "the kernel was not asked");
}

#[tokio::test]
async fn a_connection_that_became_idle_in_this_turn_is_asked_about() {
    let (place, mut first, mut accepted) = connected().await;
    accepted.write_all(b"HTTP/1.1 200 OK\r\n").unwrap();
    first.give_back(Watch::default());
    drop(first);
    let mut next = lease(&place);
    assert_eq!(next.connection().idle_since, Some(runtime::turn()));
    assert!(!next.begin(true, true), "the kernel was not asked");
}

#[tokio::test]
async fn a_name_that_is_in_use_is_resolved_again_when_it_is_due() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = place("localhost", Duration::from_millis(1));
    let here = listener.local_addr().unwrap();
    // Not what localhost is: that it is asked for shows in that being gone.
    place.learn(Some(vec![here]));
    let mut first = opened(&place).await;
    first.give_back(Watch::default());
    drop(first);
    let refreshed = async {
        loop {
            drop(lease(&place));
            if place.addresses().is_some_and(|addresses| !addresses.contains(&here)) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), refreshed).await.expect("the name is resolved again");
    assert_eq!(idle(&place), 0);
}

#[tokio::test]
async fn addresses_that_cannot_be_reached_are_forgotten() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let place = place("origin.example", LONG);
    place.learn(Some(vec![gone]));
    let tls = Tls::new(Roots::WebPki, Vec::new()).unwrap();
    connect::open(&place, &tls, false, &NO_TIMEOUTS, &mut Timings::default()).await.unwrap_err();
    assert!(place.addresses().is_none());
}

#[tokio::test]
async fn a_lifetime_of_nothing_keeps_nothing() {
    let place = place("origin.example", Duration::ZERO);
    place.learn(Some(vec!["127.0.0.1:1".parse().unwrap()]));
    assert!(place.addresses().is_none());
}

fn waiting(answer: Answer) -> Turn {
    match answer {
        Answer::Wait(turn) => turn,
        Answer::Granted(_) | Answer::Retired => panic!("there is no room"),
    }
}

/// Who of `turns` has been given a lease, which is kept.
fn served(turns: &mut [Turn], leases: &mut Vec<Lease>) -> Vec<usize> {
    let given = turns.iter_mut().enumerate();
    let given = given.filter_map(|(at, turn)| turn.granted.try_recv().ok().map(|lease| (at, lease)));
    given
        .map(|(at, lease)| {
            leases.push(lease);
            at
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn uploads_have_their_share_and_leave_the_rest_to_others() {
    let place = place("origin.example", LONG);
    let upload = || place.ask(true, false).unwrap();
    let mut leases: Vec<Lease> = Vec::new();
    for _ in 0..3 {
        match upload() {
            Answer::Granted(lease) => leases.push(lease),
            Answer::Wait(_) | Answer::Retired => panic!("three of four are their share"),
        }
    }
    let mut uploads = [waiting(upload()), waiting(upload())];
    let other = lease(&place);
    let mut plain = [waiting(place.ask(false, false).unwrap())];
    let third = waiting(upload());
    let error = place.ask(true, false).map(|_| ()).unwrap_err();
    assert_eq!(error.code(), Code::QueueFull, "three of four may wait: {error}");
    let mut kept = Vec::new();
    drop(other);
    assert_eq!(served(&mut uploads, &mut kept), Vec::<usize>::new(), "they have their share");
    assert_eq!(served(&mut plain, &mut kept), [0]);
    drop(leases.pop());
    assert_eq!(served(&mut uploads, &mut kept), [0], "one of theirs is free");
    drop((uploads, third));
    drop((kept, leases));
    let free: Vec<Lease> = (0..4).map(|_| lease(&place)).collect();
    drop(free);
    let state = lock(&place.state);
    assert_eq!((state.leased, state.uploads), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_line_that_stands_is_served_from_both_ends_and_has_room_for_a_new_request() {
    let place = place("origin.example", LONG);
    let mut leases: Vec<Lease> = (0..4).map(|_| lease(&place)).collect();
    let mut line: Vec<_> = (0..4).map(|_| waiting(place.ask(false, false).unwrap())).collect();
    assert_eq!(place.ask(false, false).map(|_| ()).unwrap_err().code(), Code::QueueFull);
    let mut kept = Vec::new();
    drop(leases.pop());
    assert_eq!(served(&mut line, &mut kept), [0], "first come, first served");
    line.push(waiting(place.ask(false, false).unwrap()));
    tokio::time::advance(STANDING).await;
    assert_eq!(
        [1, 2, 100].map(|looks| place.wanted(looks)),
        [3, 1, 1],
        "three quarters of what stalls meanwhile"
    );
    line.push(waiting(place.ask(false, false).unwrap()));
    let displaced = wait(line.remove(1), None).await.map(|_| ()).unwrap_err();
    assert_eq!(displaced.code(), Code::QueueFull);
    drop(leases.pop());
    assert_eq!(served(&mut line, &mut kept), [4], "the newest");
    drop(leases.pop());
    assert_eq!(served(&mut line, &mut kept), [1], "and the oldest, in turn");
    drop(line);
    drop((kept, leases));
    assert!(lock(&place.state).crowded_since.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_gives_up_leaves_the_line_by_itself() {
    let place = place("origin.example", LONG);
    let leases: Vec<Lease> = (0..4).map(|_| lease(&place)).collect();
    let mut line: Vec<_> = (0..4).map(|_| waiting(place.ask(false, false).unwrap())).collect();
    let in_line = || lock(&place.state).waiting();
    assert_eq!(in_line(), 4);
    drop(line.remove(2));
    assert_eq!(in_line(), 3, "without another request that looks for it");
    line.push(waiting(place.ask(false, false).unwrap()));
    assert_eq!(place.ask(false, false).map(|_| ()).unwrap_err().code(), Code::QueueFull);
    let late = wait(line.remove(0), Some(Duration::from_secs(1))).await.map(|_| ()).unwrap_err();
    assert_eq!((late.code(), in_line()), (Code::QueueTimeout, 3), "so does one that has waited for too long");
    let taken = tokio::spawn(wait(line.remove(0), None));
    tokio::task::yield_now().await;
    taken.abort();
    assert!(taken.await.unwrap_err().is_cancelled());
    assert_eq!(in_line(), 2);
    drop(leases);
    drop(line);
    assert_eq!((in_line(), lock(&place.state).leased), (0, 0), "what was granted to it goes back");
    assert!(lock(&place.state).crowded_since.is_none());
}

#[tokio::test(start_paused = true)]
async fn proven_clients_and_all_others_take_turns_and_the_longer_line_gives_way() {
    let place = place("origin.example", LONG);
    let mut leases: Vec<Lease> = (0..4).map(|_| lease(&place)).collect();
    let ask = |is_proven| place.ask(false, is_proven).map(waiting);
    let mut others: Vec<_> = (0..4).map(|_| ask(false).unwrap()).collect();
    let mut proven: Vec<_> = (0..2).map(|_| ask(true).unwrap()).collect();
    for _ in 0..2 {
        let displaced = wait(others.remove(0), None).await.map(|_| ()).unwrap_err();
        assert_eq!(displaced.code(), Code::QueueFull);
    }
    for is_proven in [true, false] {
        assert_eq!(ask(is_proven).unwrap_err().code(), Code::QueueFull, "each line has two");
    }
    assert_eq!(place.wanted(100), 3, "one for each that is proven");
    let mut kept = Vec::new();
    let mut order = Vec::new();
    for _ in 0..4 {
        drop(leases.pop());
        order.push((served(&mut others, &mut kept), served(&mut proven, &mut kept)));
    }
    let others_first = |at| (vec![at], vec![]);
    let proven_first = |at| (vec![], vec![at]);
    assert_eq!(order, [others_first(0), proven_first(0), others_first(1), proven_first(1)]);
    drop((kept, others, proven));
    let state = lock(&place.state);
    assert_eq!((state.leased, state.waiting(), state.crowded_since), (0, 0, None));
}

fn place_of(connections: usize, waiting: usize) -> Arc<Place> {
    let mut place = Arc::into_inner(place("origin.example", LONG)).unwrap();
    (place.limits.connections, place.limits.waiting) = (connections, waiting);
    Arc::new(place)
}

#[tokio::test(start_paused = true)]
async fn the_last_connections_are_kept_for_proven_clients() {
    let place = place_of(32, 1);
    drop(place.ask(false, true).unwrap());
    let mut others: Vec<Lease> = (0..30).map(|_| lease(&place)).collect();
    let mut line = [waiting(place.ask(false, false).unwrap())];
    let error = place.ask(false, false).map(|_| ()).unwrap_err();
    assert!(error.detail().contains("all but 2 of 32 connections"), "{error}");
    let proven: Vec<Lease> = (0..2)
        .map(|_| match place.ask(false, true).unwrap() {
            Answer::Granted(lease) => lease,
            Answer::Wait(_) | Answer::Retired => panic!("two are kept for them"),
        })
        .collect();
    let mut kept = Vec::new();
    drop(proven);
    assert_eq!(served(&mut line, &mut kept), Vec::<usize>::new(), "all others have their share");
    drop(others.pop());
    assert_eq!(served(&mut line, &mut kept), [0]);
    drop((kept, others));
    let state = lock(&place.state);
    assert_eq!((state.leased, state.unproven, state.crowded_since), (0, 0, None));
}

#[tokio::test(start_paused = true)]
async fn new_clients_have_all_connections_while_no_proven_client_asks() {
    let place = place_of(32, 1);
    let all: Vec<Lease> = (0..32).map(|_| lease(&place)).collect();
    drop(all);
    drop(place.ask(false, true).unwrap());
    tokio::time::advance(KEPT_FOR).await;
    drop((0..32).map(|_| lease(&place)).collect::<Vec<_>>());
}

#[derive(Debug, Clone)]
enum Step {
    Ask { upload: bool, is_proven: bool },
    End(usize),
    GiveUp(usize),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => any::<(bool, bool)>().prop_map(|(upload, is_proven)| Step::Ask { upload, is_proven }),
        3 => any::<usize>().prop_map(Step::End),
        1 => any::<usize>().prop_map(Step::GiveUp),
        1 => (0..700u64).prop_map(Step::Pass),
    ];
    proptest::collection::vec(step, 0..150)
}

proptest! {
    /// Whatever comes: no more leases than connections, none lost; and no request waits for which there is a connection.
    #[test]
    fn no_connection_is_lost_or_granted_twice(
        steps in steps(),
        connections in prop_oneof![1..6usize, 16..20usize],
    ) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().start_paused(true).build().unwrap().block_on(async {
            let place = place_of(connections, 8);
            let (mut leases, mut line) = (Vec::<Lease>::new(), Vec::<Turn>::new());
            for step in steps {
                match step {
                    Step::Ask { upload, is_proven } => match place.ask(upload, is_proven) {
                        Ok(Answer::Granted(lease)) => leases.push(lease),
                        Ok(Answer::Wait(turn)) => line.push(turn),
                        Ok(Answer::Retired) => panic!("it is in use"),
                        Err(error) => prop_assert_eq!(error.code(), Code::QueueFull),
                    },
                    Step::End(at) if !leases.is_empty() => drop(leases.swap_remove(at % leases.len())),
                    Step::GiveUp(at) if !line.is_empty() => drop(line.swap_remove(at % line.len())),
                    Step::End(_) | Step::GiveUp(_) => {}
                    Step::Pass(time) => tokio::time::advance(Duration::from_millis(time)).await,
                }
                line.retain_mut(|turn| match turn.granted.try_recv() {
                    Ok(lease) => {
                        leases.push(lease);
                        false
                    }
                    Err(error) => error == oneshot::error::TryRecvError::Empty,
                });
                let mut state = lock(&place.state);
                prop_assert_eq!(state.leased, leases.len());
                prop_assert!(leases.len() <= connections);
                prop_assert_eq!(state.waiting(), line.len());
                prop_assert_eq!(state.uploads, leases.iter().filter(|lease| lease.purpose.upload).count());
                prop_assert_eq!(
                    state.unproven,
                    leases.iter().filter(|lease| !lease.purpose.is_proven).count()
                );
                prop_assert!(place.next(&mut state).is_none(), "a request waits although it may be served");
            }
            Ok(())
        })?;
    }
}
