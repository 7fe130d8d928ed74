//! Tickets: under a clock that the tests turn, under other policies, and when they were tampered with.

use std::collections::HashSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use rustls::HandshakeKind;
use rustls::server::ProducesTickets;

use super::support::{Authority, PERIOD, connect, settings};
use crate::tickets::file::parse;
use crate::tickets::keys::{GivenSecret, Ring, own_secrets, take_secrets};
use crate::tickets::{PERIODS, Policy, Ticketer};
use crate::{TlsServer, TlsSettings};

const CLIENTS: [u8; 32] = [7; 32];
const POLICY: Policy<'_> = Policy { site: "site", clients: &CLIENTS };

fn start() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)
}

/// Whatever the times between looks are: what a ticket's lifetime promises is kept, and what is older than three periods is
/// never opened.
fn check_turns(steps: &[u64]) -> Result<(), TestCaseError> {
    let mut now = start();
    let mut ring = Ring::random(now, PERIOD).unwrap();
    let mut tickets: Vec<(SystemTime, Vec<u8>)> = Vec::new();
    let mut names = HashSet::new();
    for step in steps {
        now += Duration::from_secs(*step);
        ring.turn(now, PERIOD).unwrap();
        prop_assert!((1..=PERIODS as usize + 1).contains(&ring.secrets().len()));
        let ticketer = Ticketer::new(&ring, POLICY, PERIOD);
        let lifetime = Duration::from_secs(ticketer.lifetime().into());
        for (made, ticket) in &tickets {
            let age = now.duration_since(*made).unwrap();
            let opened = ticketer.open(ticket, now);
            if age <= lifetime {
                prop_assert_eq!(opened.as_deref(), Some(&b"session"[..]), "after {:?}", age);
            } else if age > PERIOD * PERIODS {
                prop_assert_eq!(opened, None, "after {:?}", age);
            }
        }
        let ticket = ticketer.seal(b"session", now).unwrap();
        names.insert(ticket[..16].to_vec());
        tickets.push((now, ticket));
    }
    // A new key each period, and no more often.
    let most = 1 + now.duration_since(start()).unwrap().as_secs() / PERIOD.as_secs();
    prop_assert!(names.len() as u64 <= most, "{} keys in {most} periods", names.len());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_ticket_is_opened_for_its_lifetime_and_never_after_three_periods(
        steps in prop::collection::vec(0..PERIOD.as_secs() * 2, 1..24)
    ) {
        check_turns(&steps)?;
    }

    #[test]
    fn a_ticket_that_was_tampered_with_is_not_opened(position in any::<prop::sample::Index>(), bit in 0..8_u8, cut: bool) {
        let ticketer = Ticketer::new(&Ring::random(start(), PERIOD).unwrap(), POLICY, PERIOD);
        let mut ticket = ticketer.seal(b"session", start()).unwrap();
        let position = position.index(ticket.len());
        if cut {
            ticket.truncate(position);
        } else {
            ticket[position] ^= 1 << bit;
        }
        prop_assert_eq!(ticketer.open(&ticket, start()), None);
    }

    #[test]
    fn no_file_of_keys_is_too_strange(text in prop::collection::vec(any::<u8>(), 0..256)) {
        let _ = parse(&text);
    }
}

#[test]
fn a_ticket_is_opened_under_its_policy_alone() {
    let ring = Ring::of_file(vec![vec![1; 48]]);
    let ticket = Ticketer::new(&ring, POLICY, PERIOD).seal(b"session", start()).unwrap();
    // Another node with the same keys.
    assert!(Ticketer::new(&ring, POLICY, PERIOD).open(&ticket, start()).is_some());
    for other in [Policy { site: "other", ..POLICY }, Policy { clients: &[8; 32], ..POLICY }] {
        assert_eq!(Ticketer::new(&ring, other, PERIOD).open(&ticket, start()), None, "{other:?}");
    }
    assert_eq!(Ticketer::new(&Ring::of_file(vec![vec![2; 48]]), POLICY, PERIOD).open(&ticket, start()), None);
}

#[test]
fn tickets_of_one_key_do_not_show_that_they_hold_the_same() {
    let ticketer = Ticketer::new(&Ring::random(start(), PERIOD).unwrap(), POLICY, PERIOD);
    let tickets: HashSet<Vec<u8>> =
        (0..64).map(|_| ticketer.seal(b"session", start()).unwrap()[32..].to_vec()).collect();
    assert_eq!(tickets.len(), 64);
}

#[test]
fn a_clock_that_is_set_back_costs_no_key() {
    let mut ring = Ring::random(start(), PERIOD).unwrap();
    let before = ring.clone();
    assert!(!ring.turn(start() - Duration::from_secs(86_400), PERIOD).unwrap());
    assert_eq!(ring, before);
}

#[test]
fn a_key_of_a_file_opens_as_long_as_it_is_there_but_no_ticket_of_three_periods() {
    let mut ring = Ring::of_file(vec![vec![1; 48], vec![2; 80]]);
    let ticketer = Ticketer::new(&ring, POLICY, PERIOD);
    let ticket = ticketer.seal(b"session", start()).unwrap();
    assert!(!ring.turn(start() + PERIOD * 10, PERIOD).unwrap());
    assert!(ticketer.open(&ticket, start() + PERIOD * PERIODS).is_some());
    assert!(ticketer.open(&ticket, start() + PERIOD * PERIODS + Duration::from_secs(1)).is_none());
    // The second key opens what it sealed as the first one of the other node.
    let other = Ticketer::new(&Ring::of_file(vec![vec![2; 80]]), POLICY, PERIOD);
    assert!(ticketer.open(&other.seal(b"session", start()).unwrap(), start()).is_some());
}

#[test]
fn lines_of_keys_are_taken_strictly() {
    let line = |length: usize, byte: u8| STANDARD.encode(vec![byte; length]);
    let text = format!("{}\n\n  {}\r\n", line(48, 1), line(80, 2));
    assert_eq!(parse(text.as_bytes()).unwrap(), [vec![1; 48], vec![2; 80]]);
    let many: Vec<String> = (0..65).map(|number| line(48, number)).collect();
    for (text, why) in [
        (String::new(), "holds no key"),
        (line(32, 1), "line 1 a key of 32 bytes"),
        (format!("{}\nno base64!", line(48, 1)), "line 2 no base64"),
        (format!("{}\n{}", line(48, 1), line(48, 1)), "line 2 a key that an earlier line has"),
        (many.join("\n"), "64th"),
    ] {
        let error = parse(text.as_bytes()).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn nodes_with_one_file_resume_each_others_sessions_until_the_key_is_gone() {
    let authority = Authority::new();
    let keys = authority.path("keys");
    let write = |bytes: &[u8]| {
        let lines: Vec<String> = bytes.iter().map(|byte| STANDARD.encode([*byte; 48])).collect();
        fs::write(&keys, lines.join("\n")).unwrap();
        fs::set_permissions(&keys, Permissions::from_mode(0o600)).unwrap();
    };
    write(&[1]);
    let pairs = vec![authority.write("a", &["a.example"])];
    let node = || {
        TlsServer::new(TlsSettings { ticket_keys: Some(keys.clone()), ..settings(pairs.clone()) }).unwrap()
    };
    let (one, other) = (node(), node());
    let client = Arc::new(authority.client(None));
    let kind = |node: &TlsServer| {
        connect(node.config(&[]), &client, "a.example").unwrap().server.handshake_kind().unwrap()
    };
    assert_eq!(kind(&one), HandshakeKind::Full);
    assert_eq!(kind(&other), HandshakeKind::Resumed);
    write(&[2, 1]);
    assert_eq!(other.look(), []);
    assert_eq!(kind(&other), HandshakeKind::Resumed, "the old key opens");
    write(&[3]);
    assert_eq!(other.look(), []);
    assert_eq!(kind(&other), HandshakeKind::Full, "it is gone");
}

#[test]
fn a_file_of_keys_that_others_may_read_is_refused() {
    let authority = Authority::new();
    let keys = authority.path("keys");
    fs::write(&keys, STANDARD.encode([1; 48])).unwrap();
    fs::set_permissions(&keys, Permissions::from_mode(0o604)).unwrap();
    let pairs = vec![authority.write("a", &["a.example"])];
    let error =
        TlsServer::new(TlsSettings { ticket_keys: Some(keys), ..settings(pairs) }).unwrap_err().to_string();
    assert!(error.contains("mode 0600"), "{error}");
}

#[test]
fn a_process_turns_its_own_keys_and_goes_on_resuming() {
    let authority = Authority::new();
    // No other test has it: the secrets are those of the process.
    let period = PERIOD + Duration::from_secs(1);
    let pairs = vec![authority.write("a", &["a.example"])];
    let server = TlsServer::new(TlsSettings { ticket_period: period, ..settings(pairs) }).unwrap();
    let client = Arc::new(authority.client(None));
    let kind = || connect(server.config(&[]), &client, "a.example").unwrap().server.handshake_kind().unwrap();
    assert_eq!(kind(), HandshakeKind::Full);
    let now = SystemTime::now();
    // A key of the past opens nothing now: it is the look that is early, and not the handshake.
    assert_eq!(server.look_at(now + period + Duration::from_secs(60), false), []);
    assert_eq!(server.counts().reloads, 1);
    assert_eq!(kind(), HandshakeKind::Resumed);
    assert_eq!(server.look_at(now + period + Duration::from_secs(61), false), []);
    assert_eq!(server.counts().reloads, 1, "nothing is due");
}

/// One test: the secrets are those of the process.
#[test]
fn another_process_goes_on_resuming_and_takes_nothing_that_is_no_secret() {
    let period = PERIOD + Duration::from_secs(2);
    let now = SystemTime::now();
    let before = Ring::own(now, period).unwrap();
    let given = own_secrets().into_iter().filter(|secret| secret.period == period).collect::<Vec<_>>();
    assert_eq!(given.len(), 1);
    // As another process would have them.
    let other = period + Duration::from_secs(1);
    let moved = given.iter().cloned().map(|secret| GivenSecret { period: other, ..secret });
    let short = GivenSecret { period: other, bytes: vec![1; 47], ..given[0].clone() };
    take_secrets(moved.chain([short]).collect());
    let after = Ring::own(now, other).unwrap();
    let bytes = |ring: &Ring| ring.secrets().iter().map(|secret| secret.bytes().to_vec()).collect::<Vec<_>>();
    assert_eq!(bytes(&after), bytes(&before));
    assert!(!format!("{given:?}").contains("bytes"), "no secret is shown");
}
