//! Tokens that are right, and all that is not.

mod jwks;
mod jwt;
mod oracle;
mod patterns;
mod places;
mod signed;
mod vectors;
mod wycheproof;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;

use super::*;
use crate::access::{Asked, Grant, Verifier, is_on};
use penstock_error::{Code, Result};
use penstock_http::wire::Fields;

/// What tokens are verified at.
const NOW: u64 = 1_764_000_000;

const SECRET: &[u8] = b"a secret of two and thirty bytes";

fn places() -> Places {
    Places { name: "token".to_owned(), path: true, query: true, bearer: true, cookie: true, forward: false }
}

fn claims() -> Claims {
    Claims {
        issuers: Vec::new(),
        audiences: Vec::new(),
        kind: None,
        leeway: 0,
        required: vec!["exp".to_owned()],
        tenant: None,
        paths: PathRule::All,
    }
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A token of these parts, signed with `SECRET`.
fn token_of(header: &str, payload: impl AsRef<[u8]>) -> String {
    let signed = format!("{}.{}", encode(header), encode(payload));
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET);
    let signature = hmac::sign(&key, signed.as_bytes());
    format!("{signed}.{}", encode(signature))
}

fn token(payload: &str) -> String {
    token_of(r#"{"alg":"HS256"}"#, payload)
}

fn secret_keys() -> Keys {
    Keys::new(vec![Key::secret(None, Algorithm::Hs256, SECRET).unwrap()])
}

/// What `rules` make of a token on the path `/vod/7/a.m4s`.
fn check(rules: Claims, token: &str) -> Result<Grant> {
    Jwt::new(secret_keys(), rules, places(), 8192).verify_token(token.as_bytes(), &["/vod/7/a.m4s"], NOW)
}

/// What a verifier makes of a request for `target` on a route below `/vod/`.
fn ask(
    verifier: &dyn Verifier,
    target: &str,
    fields: &[(&str, &str)],
    remote: Option<&str>,
) -> Result<Grant> {
    let headers: Fields = fields.iter().copied().collect();
    let asked =
        Asked { method: "GET", target, prefix: "/vod/", authority: "a.example", remote, headers: &headers };
    verifier.verify(&asked, NOW)
}

fn code(result: Result<Grant>) -> Code {
    result.expect_err("it is refused").code()
}
