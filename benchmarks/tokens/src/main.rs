//! JSON Web Tokens verified by penstock and by `jsonwebtoken`, both over ring: what each token costs in time and
//! allocations, and which tokens and keys each accepts that RFC 7515, 7517, 7518 and 8725 refuse.
//!
//! `cargo run --release` prints two tables. docs/decisions/044 says what follows from them.

use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::signature::{Error, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, Validation};
use penstock_engine::tokens::{self, Claims, Jwt, Key, Keys, PathRule, Places, read_key, read_set};
use ring::{hmac, signature};
use serde_json::Value;

const SECRET: &[u8] = b"a secret of two and thirty bytes";

/// Runs for each figure, of which the best is printed, and tokens in each.
const RUNS: usize = 7;
const TOKENS: u32 = 10_000;

/// ring as a provider of jsonwebtoken, whose own are aws-lc-rs and RustCrypto.
struct Ring(Algorithm, DecodingKey);

impl Verifier<Vec<u8>> for Ring {
    fn verify(&self, message: &[u8], bytes: &Vec<u8>) -> Result<(), Error> {
        let DecodingKeyKind::SecretOrDer(key) = self.1.kind() else { return Err(Error::new()) };
        let result = match self.0 {
            Algorithm::HS256 => hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, key), message, bytes),
            Algorithm::ES256 => {
                signature::UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, key).verify(message, bytes)
            }
            _ => return Err(Error::new()),
        };
        result.map_err(|_| Error::new())
    }
}

impl JwtVerifier for Ring {
    fn algorithm(&self) -> Algorithm {
        self.0
    }
}

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| unreachable!("nothing is signed by it"),
    verifier_factory: |algorithm, key| Ok(Box::new(Ring(*algorithm, key.clone()))),
    key_utils: KeyUtils::new_unimplemented(),
};

fn encode(text: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(text)
}

fn signed(header: &str, payload: &str) -> String {
    let text = format!("{}.{}", encode(header), encode(payload));
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), text.as_bytes());
    format!("{text}.{}", encode(signature))
}

/// A token whose signature is of nothing.
fn unsigned(header: &str) -> String {
    format!("{}.{}.{}", encode(header), "A".repeat(400), "A".repeat(43))
}

fn ours(keys: Vec<Key>, issuers: &[&str]) -> Jwt {
    let claims = Claims {
        issuers: issuers.iter().map(|issuer| (*issuer).to_owned()).collect(),
        audiences: Vec::new(),
        kind: None,
        leeway: 0,
        required: vec!["exp".to_owned()],
        tenant: None,
        paths: PathRule::All,
    };
    let places =
        Places { name: "token".to_owned(), path: false, query: false, bearer: true, cookie: false, forward: false };
    Jwt::new(Keys::new(keys), claims, places, 16 * 1024)
}

fn theirs(issuers: &[&str]) -> Validation {
    let mut validation = Validation::new(Algorithm::HS256);
    (validation.leeway, validation.validate_nbf) = (0, true);
    if !issuers.is_empty() {
        validation.set_issuer(issuers);
        validation.set_required_spec_claims(&["exp", "iss"]);
    }
    validation
}

fn measure(verify: &dyn Fn() -> bool) -> String {
    let info = allocation_counter::measure(|| {
        std::hint::black_box(verify());
    });
    let run = |_| {
        let start = Instant::now();
        (0..TOKENS).for_each(|_| {
            std::hint::black_box(verify());
        });
        start.elapsed().as_secs_f64() * 1e6 / f64::from(TOKENS)
    };
    let best = (0..RUNS).map(run).fold(f64::MAX, f64::min);
    let verdict = if verify() { "accepted" } else { "refused" };
    format!("{verdict:8} {best:7.2} µs {:4} allocations {:7} bytes", info.count_total, info.bytes_max)
}

fn costs(now: u64) {
    let exp = now + 10_000;
    let header = r#"{"alg":"HS256","typ":"JWT","kid":"a"}"#;
    let good = signed(header, &format!(r#"{{"iss":"i","sub":"acme","exp":{exp},"iat":{now}}}"#));
    let members: String = (0..200).map(|index| format!(r#","m{index}":"{index}""#)).collect();
    let chain = vec![r#""""#; 1500].join(",");
    let key = || Key::secret(Some("a".to_owned()), tokens::Algorithm::Hs256, SECRET).expect("a key");
    let (penstock, validation) = (ours(vec![key()], &["i"]), theirs(&["i"]));
    let secret = DecodingKey::from_secret(SECRET);
    for (name, token) in [
        ("a good token", good.clone()),
        ("a wrong signature", unsigned(header)),
        ("a key that is not known", signed(r#"{"alg":"HS256","kid":"b"}"#, "{}")),
        ("another algorithm", unsigned(r#"{"alg":"RS256","kid":"a"}"#)),
        ("a header of 200 members", unsigned(&format!(r#"{{"alg":"HS256"{members}}}"#))),
        ("a header with 1,500 certificates", unsigned(&format!(r#"{{"alg":"HS256","x5c":[{chain}]}}"#))),
        ("no token", "a.b".to_owned()),
        ("an expired token", signed(header, r#"{"iss":"i","exp":1}"#)),
    ] {
        let penstock = || penstock.verify_token(token.as_bytes(), &["/"], now).is_ok();
        let jsonwebtoken = || {
            jsonwebtoken::decode_header(&token).is_ok_and(|header| header.kid.as_deref() == Some("a"))
                && jsonwebtoken::decode::<Value>(&token, &secret, &validation).is_ok()
        };
        println!("{name:34} penstock     {}", measure(&penstock));
        println!("{:34} jsonwebtoken {}", "", measure(&jsonwebtoken));
    }
}

fn verdicts(now: u64) {
    let exp = now + 10_000;
    let verdict = |accepted: bool| if accepted { "accepted" } else { "refused" };
    let tell = |name: &str, penstock: bool, jsonwebtoken: bool| {
        println!("{name:60} penstock {:8}  jsonwebtoken {}", verdict(penstock), verdict(jsonwebtoken));
    };
    let key = Key::secret(None, tokens::Algorithm::Hs256, SECRET).expect("a key");
    let (penstock, validation) = (ours(vec![key], &[]), theirs(&[]));
    let secret = DecodingKey::from_secret(SECRET);
    let payload = format!(r#"{{"exp":{exp}}}"#);
    let plain = r#"{"alg":"HS256"}"#;
    let tokens = [
        (plain, payload.clone()),
        (r#"{"alg":"HS256","crit":["exp"]}"#, payload.clone()),
        (r#"{"alg":"HS256","b64":false,"crit":["b64"]}"#, payload.clone()),
        (r#"{"alg":"HS256","zip":"DEF"}"#, payload.clone()),
        (r#"{"alg":"HS256","a":1,"a":2}"#, payload),
        (plain, format!(r#"{{"exp":{exp},"org":"a","org":"b"}}"#)),
        (plain, format!(r#"{{"exp":{exp},"iat":99999999999}}"#)),
        (plain, format!(r#"{{"exp":{exp},"iat":"x"}}"#)),
        (plain, format!(r#"{{"exp":{exp},"aud":{{"x":"x"}}}}"#)),
        (plain, r#"{"exp":1e18}"#.to_owned()),
        (plain, r#"{"exp":9007199254740993}"#.to_owned()),
    ];
    for (header, payload) in tokens {
        let token = signed(header, &payload);
        tell(
            &format!("{header} {payload}"),
            penstock.verify_token(token.as_bytes(), &["/"], now).is_ok(),
            jsonwebtoken::decode::<Value>(&token, &secret, &validation).is_ok(),
        );
    }
    let all = [tokens::Algorithm::Rs256, tokens::Algorithm::Es256, tokens::Algorithm::Hs256];
    for key in [
        r#"{"kty":"oct","k":"AA"}"#,
        r#"{"kty":"RSA","n":"AQAB","e":"AQAB"}"#,
        r#"{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}"#,
        r#"{"kty":"oct","k":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","use":"enc"}"#,
    ] {
        let parsed = serde_json::from_str::<jsonwebtoken::jwk::Jwk>(key);
        let jsonwebtoken = parsed.is_ok_and(|key| DecodingKey::from_jwk(&key).is_ok());
        tell(&format!("key {key}"), read_key(key.as_bytes(), &all).is_ok(), jsonwebtoken);
    }
    let set = r#"{"keys":[{"kty":"EC","crv":"secp256k1","x":"AA","y":"AA"},{"kty":7}]}"#;
    let jsonwebtoken = serde_json::from_str::<jsonwebtoken::jwk::JwkSet>(set).is_ok();
    tell(&format!("set {set}"), read_set(set.as_bytes(), &all, 8).is_ok(), jsonwebtoken);
}

fn main() {
    PROVIDER.install_default().expect("it is the first");
    // jsonwebtoken knows the time of the machine and no other.
    let now = jsonwebtoken::get_current_timestamp();
    costs(now);
    println!();
    verdicts(now);
}
