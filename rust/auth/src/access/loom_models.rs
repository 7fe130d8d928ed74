//! Asking, answering and revoking at the same time, in every order.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Waker;
use std::time::{Duration, Instant};

use loom::future::block_on;
use loom::thread;

use super::*;
use penstock_http::wire::Fields;
use penstock_memory::pool::testing::model;
use penstock_memory::sync::Arc;

const LIFETIME: Duration = Duration::from_secs(3600);

fn decisions() -> Arc<Decisions> {
    let requests = Limits { concurrency: None, rate: None, burst: 1.0 };
    let tenant_limits = TenantLimits { requests, bandwidth: None, total: None };
    let config =
        AccessConfig { decisions: 4, denials: 4, questions: 4, timeout: LIFETIME, tenants: 4, tenant_limits };
    let decisions = Arc::new(Decisions::new(&config));
    decisions.listen(Waker::noop());
    decisions
}

fn key() -> Key {
    Key::new([1; Key::LENGTH])
}

fn request() -> Request {
    Request {
        route: String::new(),
        method: String::new(),
        target: String::new(),
        authority: String::new(),
        remote: None,
        headers: Fields::default(),
        key: Vec::new(),
    }
}

fn allow(tenant: &str) -> Verdict {
    Verdict::Allow(Grant { tenant: Some(tenant.into()), ..Grant::default() })
}

/// Asks until there is a decision, as a request does.
fn decided(decisions: &Decisions) -> Arc<Decision> {
    loop {
        match decisions.join(&key(), Instant::now(), request).unwrap() {
            Joined::Decided(decision, _) => return decision,
            Joined::Waiting(mut waiting) => {
                match block_on(poll_fn(|context| Pin::new(&mut waiting).poll(context))) {
                    Outcome::Decided(decision, _) => return decision,
                    Outcome::Void => {}
                    Outcome::Failed(error) => panic!("{error}"),
                }
            }
        }
    }
}

#[test]
fn two_who_ask_at_once_get_one_answer() {
    model(3, || {
        let decisions = decisions();
        let asking = [(); 2].map(|()| {
            let decisions = Arc::clone(&decisions);
            thread::spawn(move || decided(&decisions).tenant().map(str::to_owned))
        });
        let mut answered = 0;
        while answered == 0 {
            match Decisions::take(&decisions) {
                Some(posed) => {
                    answered += 1;
                    posed.answer(allow("a"), LIFETIME);
                }
                None => thread::yield_now(),
            }
        }
        for one in asking {
            assert_eq!(one.join().unwrap().as_deref(), Some("a"));
        }
        assert!(Decisions::take(&decisions).is_none());
        assert_eq!(decisions.stats().counted.asked, 1);
    });
}

#[test]
fn who_looks_behind_a_revocation_sees_nothing_from_before() {
    model(3, || {
        let decisions = decisions();
        let Joined::Waiting(waiting) = decisions.join(&key(), Instant::now(), request).unwrap() else {
            panic!("it was decided");
        };
        let posed = Decisions::take(&decisions).unwrap();
        let answering = thread::spawn(move || posed.answer(allow("before"), LIFETIME));
        decisions.revoke(Whose::All, true);
        let found = decisions.look(&key(), Instant::now());
        assert!(found.is_none(), "what was decided before counts");
        answering.join().unwrap();
        assert!(decisions.look(&key(), Instant::now()).is_none(), "it was remembered after all");
        drop(waiting);
    });
}

#[test]
fn what_begins_to_run_beside_a_revocation_is_cut_or_does_not_begin() {
    model(3, || {
        let decisions = decisions();
        decisions.remember(key(), allow("a"), LIFETIME).unwrap();
        let running = {
            let decisions = Arc::clone(&decisions);
            thread::spawn(move || {
                let (decision, revocations) = decisions.look(&key(), Instant::now())?;
                Decisions::hold(&decisions, key(), decision, revocations)
            })
        };
        decisions.revoke(Whose::Tenant("a"), true);
        if let Some(permit) = running.join().unwrap() {
            let context = std::task::Context::from_waker(Waker::noop());
            assert!(permit.poll_cut(&context).is_ready());
        }
        assert_eq!(decisions.stats().running, 0);
    });
}

#[test]
fn who_waits_is_woken_whatever_becomes_of_the_question() {
    model(3, || {
        let decisions = decisions();
        let Joined::Waiting(mut waiting) = decisions.join(&key(), Instant::now(), request).unwrap() else {
            panic!("it was decided");
        };
        let posed = Decisions::take(&decisions).unwrap();
        let dropping = thread::spawn(move || drop(posed));
        let revoking = {
            let decisions = Arc::clone(&decisions);
            thread::spawn(move || decisions.revoke(Whose::Key(key()), true))
        };
        block_on(poll_fn(|context| Pin::new(&mut waiting).poll(context)));
        dropping.join().unwrap();
        revoking.join().unwrap();
        assert_eq!(decisions.stats().open, 0);
    });
}
