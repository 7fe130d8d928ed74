//! Decisions and totals that one process gives to the next.

use std::time::Instant;

use super::*;
use penstock_error::Code;

const LIFETIME: Duration = Duration::from_secs(60);

/// Decisions about the route `r`, on which all keys here are.
fn of_a_route(config: AccessConfig) -> Decisions {
    let decisions = Decisions::new(&config);
    assert_eq!(decisions.route("r"), 0);
    decisions
}

/// Has `to` take what `from` remembers. How many it took.
fn give(from: &Decisions, to: &Decisions) -> usize {
    let mut taken = 0;
    from.each(|remembered| {
        taken += usize::from(to.take_over(remembered).unwrap());
        true
    });
    taken
}

fn look(decisions: &Decisions, number: u8) -> Option<Arc<Decision>> {
    decisions.look(&key(number), Instant::now()).map(|(decision, _)| decision)
}

#[test]
fn what_one_process_remembers_the_other_one_remembers_for_as_long() {
    let (from, to) = (of_a_route(CONFIG), of_a_route(CONFIG));
    from.remember(key(1), allow("a"), LIFETIME).unwrap();
    from.remember(key(2), deny(), LIFETIME).unwrap();
    from.remember(key(3), allow("b"), Duration::ZERO).unwrap();
    assert_eq!(give(&from, &to), 2);
    let allowed = look(&to, 1).unwrap();
    assert_eq!(allowed.tenant(), Some("a"));
    let left = allowed.until.duration_since(Instant::now());
    assert!(left <= LIFETIME && left > LIFETIME / 2, "{left:?}");
    assert_eq!(look(&to, 2).unwrap().denial().unwrap().status, 403);
    assert!(look(&to, 3).is_none());
    let tenants: Vec<_> = to.tenants().into_iter().map(|(name, _)| name).collect();
    assert_eq!(tenants, ["a".into()]);
    assert_eq!((to.stats().allowed, to.stats().denied), (1, 1));
}

#[test]
fn a_decision_of_the_process_that_takes_is_not_replaced() {
    let (from, to) = (of_a_route(CONFIG), of_a_route(CONFIG));
    from.remember(key(1), allow("a"), LIFETIME).unwrap();
    from.remember(key(2), deny(), LIFETIME).unwrap();
    to.remember(key(1), deny(), LIFETIME).unwrap();
    to.remember(key(2), allow("b"), LIFETIME).unwrap();
    assert_eq!(give(&from, &to), 0);
    assert!(look(&to, 1).unwrap().denial().is_some());
    assert!(look(&to, 2).unwrap().grant().is_some());
}

#[test]
fn nothing_is_taken_after_a_revocation() {
    let of_key = Whose::Key(key(1));
    for (whose, tenant) in [(of_key, "a"), (Whose::Tenant("a"), "a"), (Whose::All, "b")] {
        let (from, to) = (of_a_route(CONFIG), of_a_route(CONFIG));
        from.remember(key(1), allow(tenant), LIFETIME).unwrap();
        assert_eq!(to.revoke(whose, true), (0, 0));
        assert_eq!(give(&from, &to), 0);
        assert!(look(&to, 1).is_none());
        assert_eq!(to.tenants(), [], "no tenant is known by it");
    }
}

#[test]
fn what_a_process_has_no_route_or_no_room_for_is_left_out() {
    let from = of_a_route(CONFIG);
    for number in 1..=8 {
        from.remember(key(number), allow(&(number % 2).to_string()), LIFETIME).unwrap();
    }
    let routes = Decisions::new(&CONFIG);
    routes.route("s");
    assert_eq!(give(&from, &routes), 0);
    let to = of_a_route(AccessConfig { decisions: 3, ..CONFIG });
    to.remember(key(100), allow("own"), LIFETIME).unwrap();
    assert_eq!(give(&from, &to), 2);
    assert!(look(&to, 100).is_some(), "its own stays");
    let few = of_a_route(AccessConfig { tenants: 1, ..CONFIG });
    let mut refused = Vec::new();
    from.each(|remembered| {
        refused.extend(few.take_over(remembered).err().map(|error| error.code()));
        true
    });
    assert_eq!((few.stats().allowed, refused), (4, vec![Code::TooManyTenants; 4]));
}

#[test]
fn totals_are_told_once_and_add_up() {
    let (from, to) = (of_a_route(CONFIG), of_a_route(CONFIG));
    let (decision, _) = from.remember(key(1), allow("a"), LIFETIME).unwrap();
    let tenant = &decision.allotment.as_ref().unwrap().tenant;
    tenant.count(10);
    to.count("a", 5).unwrap();
    // To a process that did not come to serve.
    assert_eq!(from.tell_totals(true), [("a".into(), 10)]);
    for (more, anew) in [(0, true), (7, false)] {
        tenant.count(more);
        for (name, bytes) in from.tell_totals(anew) {
            to.count(&name, bytes).unwrap();
        }
    }
    assert_eq!(from.tell_totals(false), []);
    assert_eq!(to.tenants(), [("a".into(), TenantCounts { bytes: 22, ..TenantCounts::default() })]);
    assert!(from.renew("a"));
    tenant.count(1);
    assert_eq!(from.tell_totals(false), [("a".into(), 1)]);
}
