//! Only a signed token lets a request in, wherever it stands, and it is read as a full parser reads it.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use penstock_engine::access::{Asked, Verifier};
use penstock_engine::tokens::{
    Algorithm, Claims, Jwt, Key, Keys, PathRule, Pattern, Places, Secret, SignedUrl, read_key, read_set,
};
use penstock_engine::wire::Fields;
use serde_json::Value;

const NOW: u64 = 1_764_000_000;

const P256: &str = r#"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#;

/// What the signer of the seeds has signed, with a secret that the fuzzer could not find out.
const SIGNED: [&str; 1] = [concat!(
    "exp=4102444800~acl=/vod/7/*~id=acme",
    "~hmac=2584493b74bc3fe8a360aad1c1fc6e7e0cec9c5feddabf5be35ef7da3bf90c30"
)];

fn places() -> Places {
    Places { name: "token".to_owned(), path: true, query: true, bearer: true, cookie: true, forward: false }
}

fn claims(paths: PathRule) -> Claims {
    Claims {
        issuers: Vec::new(),
        audiences: vec!["a".to_owned()],
        kind: None,
        leeway: 0,
        required: vec!["exp".to_owned()],
        tenant: Some("sub".to_owned()),
        paths,
    }
}

static URLS: LazyLock<SignedUrl> =
    LazyLock::new(|| SignedUrl::new(vec![Secret::new(None, b"a secret that is in no input")], places()));

static TOKENS: LazyLock<Jwt> = LazyLock::new(|| {
    let keys = vec![
        Key::secret(Some("a".to_owned()), Algorithm::Hs256, &[7; 32]).expect("it is long enough"),
        read_key(P256.as_bytes(), &[Algorithm::Es256]).expect("it is a key"),
    ];
    Jwt::new(Keys::new(keys), claims(PathRule::Claim("paths".to_owned())), places(), 8192)
});

fn decoded(token: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let mut bytes = Vec::new();
    let mut at = 0;
    while at < token.len() {
        let pair = token.get(at + 1..at + 3).and_then(|pair| digit(pair[0]).zip(digit(pair[1])));
        let (byte, length) = match pair.filter(|_| token[at] == b'%') {
            Some((high, low)) => (high << 4 | low, 3),
            None => (token[at], 1),
        };
        bytes.push(byte);
        at += length;
    }
    bytes
}

// Lines, so that what the dictionary has stays in one piece: a request's target, Authorization and Cookie; a pattern; a set of
// keys; and all that follows is claims.
fuzz_target!(|input: &[u8]| {
    let mut lines = input.splitn(6, |byte| *byte == b'\n');
    let mut line = || lines.next().unwrap_or_default();
    let (target, authorization, cookie) = (line(), line(), line());
    let (template, keys, claimed) = (line(), line(), line());
    let mut headers = Fields::default();
    headers.push(b"Authorization", authorization);
    headers.push(b"Cookie", cookie);
    if let Some(target) = std::str::from_utf8(target).ok().filter(|target| target.starts_with('/')) {
        let asked = Asked {
            method: "GET",
            target,
            prefix: "/vod/",
            authority: "a.example",
            remote: Some("203.0.113.7"),
            headers: &headers,
        };
        assert!(TOKENS.verify(&asked, NOW).is_err(), "no signer has signed it");
        let _ = TOKENS.remembered_by(&asked);
        if URLS.verify(&asked, NOW).is_ok() {
            let somewhere = |bytes: &[u8]| {
                let bytes = decoded(bytes);
                SIGNED.iter().any(|token| bytes.windows(token.len()).any(|window| window == token.as_bytes()))
            };
            let places = [target.as_bytes(), authorization, cookie];
            assert!(places.into_iter().any(somewhere), "no signer has signed it");
        }
        if let Some(left) = URLS.stripped(&asked) {
            assert!(left.len() < target.len());
            let (_, query) = left.split_once('?').unwrap_or((&left, ""));
            assert!(!query.split('&').any(|parameter| parameter.starts_with("token=")));
        }
    }
    if let Ok(template) = std::str::from_utf8(template) {
        let _ = Pattern::parse(template);
    }
    if let Ok(set) = read_set(keys, &[Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa], 8) {
        let whole: Value = serde_json::from_slice(keys).unwrap_or_default();
        // It reads half of a surrogate pair, an enormous number or the last level of nesting as none.
        if let Some(keys) = whole["keys"].as_array() {
            assert_eq!(set.keys.len() + set.skipped, keys.len());
        }
    }
    if let Ok(grant) = claims(PathRule::Claim("paths".to_owned())).grant(claimed, NOW, &["/vod/7/a"]) {
        if let Ok(whole) = serde_json::from_slice::<Value>(claimed) {
            assert!(whole["exp"].as_f64().expect("a number") > NOW as f64);
            assert!(
                whole["aud"] == "a"
                    || whole["aud"].as_array().is_some_and(|all| all.iter().any(|one| one == "a"))
            );
            let tenant = grant.tenant.expect("it is asked for");
            assert!(whole["sub"].as_str().map_or(whole["sub"].is_number(), |sub| sub == &*tenant));
            assert!(!grant.paths.is_empty());
        }
    }
});
