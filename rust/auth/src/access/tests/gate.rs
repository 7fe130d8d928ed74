//! What a gate makes of decisions, and of what is verified.

use super::*;
use penstock_error::{Code, Result};

/// Lets in who has the header `Token`, and counts.
#[derive(Debug)]
struct Tokens {
    remembers: bool,
    grant: Grant,
    verified: AtomicUsize,
}

impl Verifier for Tokens {
    fn remembered_by<'a>(&self, asked: &Asked<'a>) -> Option<&'a [u8]> {
        let mut token = None;
        asked.headers.each("token", &mut |value| token = Some(value));
        token.filter(|_| self.remembers)
    }

    fn verify(&self, asked: &Asked<'_>, _: u64) -> Result<Grant> {
        self.verified.fetch_add(1, Ordering::Relaxed);
        let mut count = 0;
        asked.headers.each("token", &mut |_| count += 1);
        if count == 1 { Ok(self.grant.clone()) } else { Err(Code::AccessDenied.error("there is no token")) }
    }

    fn stripped(&self, asked: &Asked<'_>) -> Option<String> {
        asked.target.strip_prefix("/secret").map(str::to_owned)
    }
}

fn verifying(remembers: bool, grant: Grant) -> (Gate, Arc<Tokens>, Arc<Decisions>) {
    let (decisions, _) = listened(CONFIG);
    let tokens = Arc::new(Tokens { remembers, grant, verified: AtomicUsize::new(0) });
    let decider = Decider::Verify(Arc::clone(&tokens) as Arc<dyn Verifier>);
    let secret = Secret::new(&[7; 64]);
    let lifetime = Duration::from_secs(60);
    (
        Gate::new("r", "r".into(), Vec::new(), decider, lifetime, Arc::clone(&decisions), secret),
        tokens,
        decisions,
    )
}

fn asked<'a>(target: &'a str, headers: &'a Fields) -> Asked<'a> {
    Asked { method: "GET", target, prefix: "/", authority: "a", remote: Some("10.0.0.1"), headers }
}

fn token(value: &[u8]) -> Fields {
    let mut fields = Fields::default();
    fields.push(b"Token", value);
    fields
}

#[test]
fn what_is_dear_to_verify_is_verified_once_and_what_is_cheap_each_time() {
    for remembers in [true, false] {
        let (gate, tokens, decisions) = verifying(remembers, Grant::default());
        let headers = token(b"t");
        for _ in 0..3 {
            let pass = gate.look(&asked("/secret/a", &headers)).unwrap().unwrap();
            assert_eq!(pass.target.as_deref(), Some("/a"));
            assert!(gate.hold(&pass).is_some());
        }
        let other = token(b"other");
        gate.look(&asked("/", &other)).unwrap().unwrap();
        let verified = tokens.verified.load(Ordering::Relaxed);
        assert_eq!((verified, decisions.stats().allowed), if remembers { (2, 2) } else { (4, 0) });
    }
}

#[test]
fn a_refusal_of_what_verifies_is_not_remembered() {
    let (gate, tokens, decisions) = verifying(true, Grant::default());
    let headers = Fields::default();
    for _ in 0..3 {
        assert_eq!(gate.look(&asked("/", &headers)).unwrap_err().error.code(), Code::AccessDenied);
    }
    assert_eq!((tokens.verified.load(Ordering::Relaxed), decisions.stats().denied), (3, 0));
}

#[test]
fn a_grant_is_remembered_no_longer_than_it_is_one() {
    let (gate, tokens, _) = verifying(true, Grant { expires: Some(unix_seconds()), ..Grant::default() });
    let headers = token(b"t");
    for count in 1..=2 {
        gate.look(&asked("/", &headers)).unwrap().unwrap();
        assert_eq!(tokens.verified.load(Ordering::Relaxed), count);
    }
}

#[test]
fn a_remembered_grant_is_for_its_paths_and_its_address_alone() {
    let grant = Grant { paths: vec!["/a/*".into()], address: Some("10.0.0.1".into()), ..Grant::default() };
    let (gate, tokens, _) = verifying(true, grant);
    let headers = token(b"t");
    let passes = |target, remote| gate.look(&Asked { remote, ..asked(target, &headers) }).is_ok();
    let here = Some("10.0.0.1");
    assert!(passes("/a/1?x", here) && passes("/secret/a/1", here));
    assert!(!passes("/b/1", here) && !passes("/a", here) && !passes("/secret/b/a/", here));
    assert!(!passes("/a/1", Some("10.0.0.2")) && !passes("/a/1", None));
    assert_eq!(tokens.verified.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_gate_asks_and_lets_in_or_refuses_by_the_answer() {
    let (decisions, _) = listened(CONFIG);
    let parts = vec![Part::Header("token".into())];
    let lifetime = Duration::from_secs(60);
    let gate = Gate::new(
        "r",
        "r".into(),
        parts,
        Decider::Ask,
        lifetime,
        Arc::clone(&decisions),
        Secret::new(&[7; 64]),
    );
    let (good, bad) = (token(b"good"), token(b"bad"));
    assert!(gate.look(&asked("/", &good)).unwrap().is_none());
    let answers = async {
        for _ in 0..2 {
            let posed = loop {
                match Decisions::take(&decisions) {
                    Some(posed) => break posed,
                    None => tokio::task::yield_now().await,
                }
            };
            assert_eq!((posed.request.target.as_str(), posed.request.headers.len()), ("/film", 1));
            let is_good = posed.request.key == [Some(b"good".to_vec())];
            posed.answer(if is_good { allow("a") } else { deny() }, lifetime);
        }
    };
    let (good_asked, bad_asked) = (asked("/film", &good), asked("/film", &bad));
    let (pass, refusal, ()) = tokio::join!(gate.ask(&good_asked), gate.ask(&bad_asked), answers);
    assert_eq!(pass.unwrap().decision().tenant(), Some("a"));
    assert_eq!(refusal.unwrap_err().denial().map(|denial| denial.status), Some(403));
    assert!(gate.look(&asked("/other", &good)).unwrap().is_some());
    assert_eq!(gate.revoke(&[Some(b"good".to_vec())], true), (1, 0));
    assert!(gate.look(&asked("/other", &good)).unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_longer_than_the_limit_is_refused() {
    let (decisions, _) = listened(CONFIG);
    let lifetime = Duration::from_secs(60);
    let parts = vec![Part::Address];
    let gate = Gate::new("r", "r".into(), parts, Decider::Ask, lifetime, decisions, Secret::new(&[7; 64]));
    let headers = Fields::default();
    let refusal = gate.ask(&asked("/", &headers)).await.unwrap_err();
    assert_eq!((refusal.error.code(), refusal.denial()), (Code::AccessTimeout, None));
}
