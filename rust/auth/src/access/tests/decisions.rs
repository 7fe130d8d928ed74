//! What is remembered, asked, answered and revoked.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use super::*;
use penstock_error::Code;

const LIFETIME: Duration = Duration::from_secs(60);

fn poll(waiting: &mut Waiting) -> Poll<Outcome> {
    Pin::new(waiting).poll(&mut Context::from_waker(Waker::noop()))
}

fn wait(decisions: &Decisions, key: Key) -> Waiting {
    match decisions.join(&key, Instant::now(), request).unwrap() {
        Joined::Waiting(waiting) => waiting,
        Joined::Decided(decision, _) => panic!("{decision:?} was decided"),
    }
}

fn look(decisions: &Decisions, key: Key) -> Option<Arc<Decision>> {
    decisions.look(&key, Instant::now()).map(|(decision, _)| decision)
}

fn decided(poll: Poll<Outcome>) -> Arc<Decision> {
    match poll {
        Poll::Ready(Outcome::Decided(decision, _)) => decision,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_first_of_a_key_asks_and_all_get_the_answer() {
    let (decisions, bell) = listened(CONFIG);
    let mut all: Vec<_> = (0..1000).map(|_| wait(&decisions, key(1))).collect();
    for waiting in &mut all {
        assert!(poll(waiting).is_pending());
    }
    let posed = Decisions::take(&decisions).unwrap();
    assert!(Decisions::take(&decisions).is_none(), "one question");
    assert_eq!(bell.0.load(Ordering::Relaxed), 1);
    posed.answer(allow("a"), LIFETIME);
    for waiting in &mut all {
        assert_eq!(decided(poll(waiting)).tenant(), Some("a"));
    }
    assert_eq!(look(&decisions, key(1)).unwrap().tenant(), Some("a"));
    assert!(look(&decisions, key(2)).is_none());
    let stats = decisions.stats();
    assert_eq!((stats.allowed, stats.open, stats.counted.asked, stats.counted.joined), (1, 0, 1, 999));
}

#[test]
fn the_answer_is_remembered_though_all_have_left() {
    let (decisions, _) = listened(CONFIG);
    drop(wait(&decisions, key(1)));
    Decisions::take(&decisions).unwrap().answer(deny(), LIFETIME);
    assert!(look(&decisions, key(1)).unwrap().grant().is_none());
}

#[test]
fn so_many_are_asked_at_a_time_and_as_many_wait_and_who_joins_is_not_too_many() {
    let (decisions, bell) = listened(CONFIG);
    let all: Vec<_> = (1..=8).map(|number| wait(&decisions, key(number))).collect();
    let refused = |number| decisions.join(&key(number), Instant::now(), request).unwrap_err().code();
    assert_eq!(refused(9), Code::AccessBusy);
    drop(wait(&decisions, key(1)));
    let mut posed: Vec<_> = (0..4).map(|_| Decisions::take(&decisions).unwrap()).collect();
    assert!(Decisions::take(&decisions).is_none(), "more are asked at a time");
    assert_eq!((refused(9), decisions.stats().open), (Code::AccessBusy, 8));
    let rung = bell.0.load(Ordering::Relaxed);
    posed.pop().unwrap().answer(allow("a"), LIFETIME);
    assert_eq!(bell.0.load(Ordering::Relaxed), rung + 1, "the listener is woken when it may have another");
    posed.push(Decisions::take(&decisions).unwrap());
    assert!(Decisions::take(&decisions).is_none());
    drop(wait(&decisions, key(9)));
    drop((posed, all));
}

fn join_from(decisions: &Decisions, number: u8, remote: &str) -> penstock_error::Result<Joined> {
    let request = || Request { remote: Some(remote.to_owned()), ..request() };
    decisions.join(&key(number), Instant::now(), request)
}

#[test]
fn an_address_that_asks_for_much_gives_way_to_one_that_asks_for_little() {
    for (many, few) in [
        (["192.0.2.1", "192.0.2.1", "::ffff:192.0.2.1", "192.0.2.1"], "192.0.2.2"),
        (["2001:db8::1", "2001:db8::2", "2001:db8:0:0:ffff::", "2001:db8::"], "2001:db8:0:1::1"),
        (["192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.1"], "2001:db8::1"),
    ] {
        let (decisions, _) = listened(AccessConfig { questions: 2, ..CONFIG });
        let busy = |outcome: penstock_error::Result<Joined>| {
            let Err(error) = outcome else { panic!("{many:?} ask for one more") };
            assert_eq!(error.code(), Code::AccessBusy);
        };
        let mut flood: Vec<_> = Vec::new();
        for (number, remote) in (1..).zip(many) {
            match join_from(&decisions, number, remote).unwrap() {
                Joined::Waiting(waiting) => flood.push(waiting),
                Joined::Decided(..) => panic!("it was decided"),
            }
        }
        busy(join_from(&decisions, 5, many[0]));
        let Joined::Waiting(mut first) = join_from(&decisions, 6, few).unwrap() else {
            panic!("it was decided")
        };
        let Joined::Waiting(_second) = join_from(&decisions, 7, few).unwrap() else {
            panic!("it was decided")
        };
        // The two that came last have given way, and none more: both have as many now.
        let failed: Vec<_> = flood.iter_mut().map(|waiting| poll(waiting).is_ready()).collect();
        assert_eq!(failed, [false, false, true, true]);
        busy(join_from(&decisions, 8, few));
        busy(join_from(&decisions, 9, many[0]));
        assert_eq!((decisions.stats().open, decisions.stats().counted.failed), (4, 2));
        // They take turns: it is the second that is asked about.
        Decisions::take(&decisions).unwrap().answer(deny(), LIFETIME);
        Decisions::take(&decisions).unwrap().answer(allow("a"), LIFETIME);
        assert_eq!(decided(poll(&mut first)).tenant(), Some("a"));
    }
}

#[test]
fn a_question_that_is_over_leaves_the_inbox_by_itself() {
    const COUNT: usize = 4;
    let (decisions, _) = listened(AccessConfig { questions: COUNT, ..CONFIG });
    let waiting: Vec<_> =
        (0..u8::try_from(COUNT).unwrap()).map(|number| wait(&decisions, key(number))).collect();
    assert_eq!(decisions.stats().open, COUNT);
    decisions.expire(&waiting[0]);
    assert_eq!(decisions.stats().open, COUNT - 1, "without another that looks for room");
    decisions.expire(&waiting[0]);
    assert_eq!(decisions.stats().open, COUNT - 1);
    let posed = Decisions::take(&decisions).unwrap();
    decisions.revoke(Whose::All, false);
    assert_eq!(decisions.stats().open, 1, "the one in the hands of who answers");
    drop(posed);
    assert_eq!(decisions.stats().open, 0);
    let _next = wait(&decisions, key(1));
    assert!(Decisions::take(&decisions).is_some());
}

#[test]
fn who_has_given_up_takes_nobody_s_place() {
    let (decisions, _) = listened(AccessConfig { questions: 2, ..CONFIG });
    let all: Vec<_> = (1..=4).map(|number| wait(&decisions, key(number))).collect();
    for waiting in &all {
        decisions.expire(waiting);
    }
    drop(wait(&decisions, key(5)));
    assert_eq!(decisions.stats().open, 1);
}

#[test]
fn nobody_is_asked_where_nobody_listens() {
    let decisions = Arc::new(Decisions::new(&CONFIG));
    let refused = || decisions.join(&key(1), Instant::now(), request).unwrap_err().code();
    assert_eq!(refused(), Code::AccessUnavailable);
    decisions.listen(Waker::noop());
    let mut waiting = wait(&decisions, key(1));
    decisions.close();
    let Poll::Ready(Outcome::Failed(error)) = poll(&mut waiting) else { panic!("it waits") };
    assert_eq!((error.code(), refused()), (Code::AccessUnavailable, Code::AccessUnavailable));
    assert_eq!(decisions.stats().open, 0);
}

#[test]
fn a_question_that_fails_is_not_remembered() {
    let (decisions, _) = listened(CONFIG);
    let mut waiting = wait(&decisions, key(1));
    drop(Decisions::take(&decisions).unwrap());
    let Poll::Ready(Outcome::Failed(error)) = poll(&mut waiting) else { panic!("it waits") };
    assert_eq!(error.code(), Code::AccessFailed);
    let mut waiting = wait(&decisions, key(1));
    Decisions::take(&decisions).unwrap().fail(Code::AccessTimeout.error("late"));
    assert!(matches!(poll(&mut waiting), Poll::Ready(Outcome::Failed(_))));
    assert_eq!((decisions.stats().counted.failed, decisions.stats().open), (2, 0));
}

#[test]
fn who_has_waited_for_too_long_is_refused_and_the_late_answer_counts_for_nobody() {
    let (decisions, _) = listened(AccessConfig { timeout: Duration::ZERO, ..CONFIG });
    let (mut first, mut second) = (wait(&decisions, key(1)), wait(&decisions, key(1)));
    assert!(matches!(poll(&mut first), Poll::Ready(Outcome::Failed(_))), "the second asks anew");
    let late = Decisions::take(&decisions).unwrap();
    assert!(Decisions::take(&decisions).is_none(), "no request waits for the first");
    decisions.expire(&second);
    assert!(matches!(poll(&mut second), Poll::Ready(Outcome::Failed(_))));
    late.answer(allow("a"), LIFETIME);
    assert_eq!(decisions.stats().open, 0);
    let (decisions, _) = listened(CONFIG);
    let mut waiting = wait(&decisions, key(1));
    let posed = Decisions::take(&decisions).unwrap();
    decisions.expire(&waiting);
    posed.answer(allow("a"), LIFETIME);
    let Poll::Ready(Outcome::Failed(error)) = poll(&mut waiting) else { panic!("it waits") };
    assert_eq!(error.code(), Code::AccessTimeout);
    assert!(look(&decisions, key(1)).is_none());
}

#[test]
fn what_is_revoked_is_asked_anew() {
    let (decisions, _) = listened(CONFIG);
    for (number, tenant) in [(1, "a"), (2, "b"), (3, "a")] {
        decisions.remember(key(number), allow(tenant), LIFETIME).unwrap();
    }
    decisions.remember(key(4), deny(), LIFETIME).unwrap();
    let known = || (1..=4).filter(|number| look(&decisions, key(*number)).is_some()).collect::<Vec<_>>();
    assert_eq!(decisions.revoke(Whose::Key(key(1)), true), (1, 0));
    assert_eq!(known(), [2, 3, 4]);
    assert_eq!(decisions.revoke(Whose::Tenant("a"), true), (1, 0));
    assert_eq!(known(), [2, 4]);
    assert_eq!(decisions.revoke(Whose::All, true), (2, 0));
    assert!(known().is_empty());
    assert_eq!(decisions.stats().counted.revoked, 4);
}

#[test]
fn what_happens_to_a_key_is_counted_under_its_route() {
    let (decisions, _) = listened(AccessConfig { decisions: 1, ..CONFIG });
    let (live, vod) = (decisions.route("live"), decisions.route("vod"));
    let of =
        |name: &str| decisions.stats_by_route().into_iter().find(|(known, _)| **known == *name).unwrap().1;
    let (first, second) = (key(1).on(live), key(2).on(vod));
    decisions.remember(second, allow("a"), LIFETIME).unwrap();
    let (_waiting, mut joined) = (wait(&decisions, first), wait(&decisions, first));
    let (asked, open) = (Counted { asked: 1, joined: 1, ..Counted::default() }, 1);
    assert_eq!(of("live"), DecisionStats { open, counted: asked, ..DecisionStats::default() });
    assert_eq!(of("vod"), DecisionStats { allowed: 1, ..DecisionStats::default() });
    Decisions::take(&decisions).unwrap().answer(allow("a"), LIFETIME);
    let Poll::Ready(Outcome::Decided(decision, revocations)) = poll(&mut joined) else { panic!("it waits") };
    let permit = Decisions::hold(&decisions, first, decision, revocations).unwrap();
    look(&decisions, first).unwrap();
    let counted = Counted { allowed: 1, ..asked };
    assert_eq!(of("live"), DecisionStats { allowed: 1, running: 1, counted, ..DecisionStats::default() });
    let evicted = Counted { evicted: 1, ..Counted::default() };
    assert_eq!(of("vod"), DecisionStats { counted: evicted, ..DecisionStats::default() });
    decisions.remember(second, deny(), LIFETIME).unwrap();
    look(&decisions, second).unwrap();
    drop(permit);
    decisions.revoke(Whose::All, true);
    assert_eq!(of("live").counted, Counted { revoked: 1, ..counted });
    assert_eq!(of("vod").counted, Counted { denied: 1, revoked: 1, ..evicted });
    let questions: Vec<_> = decisions
        .answer_times()
        .iter()
        .map(|(name, took)| (name.clone(), took.counts.iter().sum()))
        .collect();
    assert_eq!(questions, [("live".into(), 1_u64), ("vod".into(), 0)]);
    let all = decisions.stats();
    assert_eq!((all.allowed, all.denied, all.running, all.open), (0, 0, 0, 0));
    assert_eq!((all.counted.revoked, all.counted.asked, all.counted.evicted), (2, 1, 1));
}

#[test]
fn an_answer_to_what_was_asked_before_a_revocation_counts_for_nobody() {
    for whose in [Whose::Key(key(1)), Whose::Tenant("any"), Whose::All] {
        let (decisions, _) = listened(CONFIG);
        let mut waiting = wait(&decisions, key(1));
        let before = Decisions::take(&decisions).unwrap();
        decisions.revoke(whose, true);
        assert!(matches!(poll(&mut waiting), Poll::Ready(Outcome::Void)), "it asks anew");
        let mut again = wait(&decisions, key(1));
        before.answer(allow("a"), LIFETIME);
        assert!(look(&decisions, key(1)).is_none());
        assert!(poll(&mut again).is_pending());
        Decisions::take(&decisions).unwrap().answer(deny(), LIFETIME);
        assert!(decided(poll(&mut again)).grant().is_none());
    }
}

#[test]
fn a_revocation_of_another_key_disturbs_no_question() {
    let (decisions, _) = listened(CONFIG);
    let mut waiting = wait(&decisions, key(1));
    decisions.revoke(Whose::Key(key(2)), true);
    Decisions::take(&decisions).unwrap().answer(allow("a"), LIFETIME);
    decided(poll(&mut waiting));
}

#[test]
fn what_runs_is_cut_though_its_decision_has_been_forgotten() {
    let (decisions, bell) = listened(CONFIG);
    let waker = Waker::from(std::sync::Arc::clone(&bell));
    let context = Context::from_waker(&waker);
    let hold = |number, tenant| {
        let (decision, revocations) = decisions.remember(key(number), allow(tenant), Duration::ZERO).unwrap();
        Decisions::hold(&decisions, key(number), decision, revocations).unwrap()
    };
    let (one, other) = (hold(1, "a"), hold(2, "b"));
    assert!(one.poll_cut(&context).is_pending() && other.poll_cut(&context).is_pending());
    assert_eq!(decisions.revoke(Whose::Tenant("a"), false), (0, 0), "it may go on");
    assert!(one.poll_cut(&context).is_pending());
    assert_eq!(decisions.revoke(Whose::Tenant("a"), true), (0, 1));
    assert_eq!(bell.0.load(Ordering::Relaxed), 1);
    assert!(one.poll_cut(&context).is_ready() && other.poll_cut(&context).is_pending());
    assert_eq!(decisions.stats().running, 2);
    drop((one, other));
    assert_eq!(decisions.stats().running, 0);
}

#[test]
fn what_was_found_before_a_revocation_begins_to_run_no_more() {
    let (decisions, _) = listened(CONFIG);
    let (decision, revocations) = decisions.remember(key(1), allow("a"), LIFETIME).unwrap();
    decisions.revoke(Whose::Key(key(1)), false);
    assert!(Decisions::hold(&decisions, key(1), decision, revocations).is_none());
}

#[test]
fn a_flood_of_denials_pushes_out_nobody_who_may() {
    let (decisions, _) = listened(CONFIG);
    for number in 0..8 {
        decisions.remember(key(number), allow("a"), LIFETIME).unwrap();
    }
    for number in 8..=255 {
        decisions.remember(key(number), deny(), LIFETIME).unwrap();
    }
    let stats = decisions.stats();
    assert_eq!((stats.allowed, stats.denied, stats.counted.evicted), (8, 4, 244));
    assert!((0..8).all(|number| look(&decisions, key(number)).is_some()));
}

#[test]
fn a_new_answer_takes_the_place_of_the_other_kind() {
    let (decisions, _) = listened(CONFIG);
    decisions.remember(key(1), allow("a"), LIFETIME).unwrap();
    decisions.remember(key(1), deny(), LIFETIME).unwrap();
    assert!(look(&decisions, key(1)).unwrap().grant().is_none());
    decisions.remember(key(1), allow("a"), LIFETIME).unwrap();
    assert!(look(&decisions, key(1)).unwrap().grant().is_some());
    assert_eq!((decisions.stats().allowed, decisions.stats().denied), (1, 0));
}

#[test]
fn what_is_decided_for_no_time_is_given_and_not_remembered() {
    let (decisions, _) = listened(CONFIG);
    let mut waiting = wait(&decisions, key(1));
    Decisions::take(&decisions).unwrap().answer(allow("a"), Duration::ZERO);
    decided(poll(&mut waiting));
    assert!(look(&decisions, key(1)).is_none());
}
