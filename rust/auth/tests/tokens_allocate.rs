//! What a token that is refused costs in memory: nothing that is ours.
//!
//! Beside the unit tests because it counts what the whole program allocates.

use penstock_auth::access::{Asked, Grant, Verifier};
use penstock_auth::tokens::{
    Algorithm, Claims, Jwt, Key, Keys, PathRule, Places, Secret, SignedUrl, read_key,
};
use penstock_error::{Code, Result};
use penstock_http::wire::Fields;

const NOW: u64 = 1_764_000_000;

/// Of RFC 7520, section 3.3.
const RSA: &str = r#"{"kty":"RSA","n":"n4EPtAOCc9AlkeQHPzHStgAbgs7bTZLwUBZdR8_KuKPEHLd4rHVTeT-O-XV2jRojdNhxJWTDvNd7nqQ0VEiZQHz_AJmSCpMaJMRBSFKrKb2wqVwGU_NsYOYL-QtiWN2lbzcEe6XC0dApr5ydQLrHqkHHig3RBordaZ6Aj-oBHqFEHYpPe7Tpe-OfVfHd1E6cS6M1FZcD1NNLYD5lFHpPI9bTwJlsde3uhGqC0ZCuEHg8lhzwOHrtIQbS0FVbb9k3-tVTU4fg_3L_vniUFAKwuCLqKnS2BYwdq_mzSnbLY7h_qixoR7jig3__kRhuaxwUkRz5iaiQkqgc5gHdrNP5zw","e":"AQAB"}"#;

/// Of RFC 7515, appendix A.3.
const P256: &str = r#"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#;

/// Of RFC 8037, appendix A.2.
const ED25519: &str = r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;

fn places() -> Places {
    Places { name: "token".to_owned(), path: true, query: true, bearer: true, cookie: true, forward: false }
}

fn jwt(key: Key) -> Jwt {
    let claims = Claims {
        issuers: vec!["a".to_owned()],
        audiences: Vec::new(),
        kind: None,
        leeway: 0,
        required: vec!["exp".to_owned()],
        tenant: Some("sub".to_owned()),
        paths: PathRule::All,
    };
    Jwt::new(Keys::new(vec![key]), claims, places(), 8192)
}

/// A request with its token in one of four places.
fn request(token: &str, place: usize) -> (String, Fields) {
    let mut headers = Fields::default();
    let plain = "/vod/7/a.m4s?a=1";
    let target = match place {
        0 => format!("/vod/token={token}/7/a.m4s?a=1"),
        1 => format!("{plain}&token={token}"),
        2 => {
            headers.push(b"Authorization", format!("Bearer {token}").as_bytes());
            plain.into()
        }
        _ => {
            headers.push(b"Cookie", format!("a=1; token={token}").as_bytes());
            plain.into()
        }
    };
    (target, headers)
}

/// The allocations of a request with `token`, and its result.
fn cost(
    verifier: &dyn Verifier,
    token: &str,
    place: usize,
) -> (allocation_counter::AllocationInfo, Result<Grant>) {
    let (target, headers) = request(token, place);
    let asked = Asked {
        method: "GET",
        target: &target,
        prefix: "/vod/",
        authority: "a.example",
        remote: Some("203.0.113.7"),
        headers: &headers,
    };
    let mut result = None;
    let info = allocation_counter::measure(|| {
        let remembered = verifier.remembered_by(&asked);
        std::hint::black_box(remembered);
        result = Some(verifier.verify(&asked, NOW));
    });
    (info, result.expect("it was asked"))
}

fn check(verifier: &dyn Verifier, token: &str, expected: Code) {
    for place in 0..4 {
        let (info, result) = cost(verifier, token, place);
        let code = result.expect_err("it is refused").code();
        assert_eq!(code, expected, "{token}");
        assert_eq!(info.count_total, 0, "{token} in place {place} costs {info:?}");
    }
}

/// Base64url of headers that name an algorithm, and a payload that is never decoded.
fn token(header: &str, signature: usize) -> String {
    format!("{header}.e30.{}", "A".repeat(signature))
}

const HS256: &str = "eyJhbGciOiJIUzI1NiJ9";
const ES256: &str = "eyJhbGciOiJFUzI1NiJ9";
const EDDSA: &str = "eyJhbGciOiJFZERTQSJ9";
const RS256: &str = "eyJhbGciOiJSUzI1NiJ9";
const NONE: &str = "eyJhbGciOiJub25lIn0";
/// `{"\u0061lg":"HS256","kid":"\u0061"}`: names and values that are escaped.
const ESCAPED: &str = "eyJcdTAwNjFsZyI6IkhTMjU2Iiwia2lkIjoiXHUwMDYxIn0";

#[test]
fn a_bad_web_token_allocates_nothing() {
    let secret = jwt(Key::secret(Some("b".to_owned()), Algorithm::Hs256, &[7; 32]).expect("a key"));
    check(&secret, "", Code::TokenMalformed);
    check(&secret, "a.b", Code::TokenMalformed);
    check(&secret, &"a".repeat(9000), Code::TokenMalformed);
    check(
        &secret,
        &format!("{}.{}.{}", "a".repeat(2000), "a".repeat(2000), "a".repeat(2000)),
        Code::TokenMalformed,
    );
    check(&secret, &token(NONE, 0), Code::TokenWrongAlgorithm);
    check(&secret, &token(RS256, 342), Code::TokenWrongAlgorithm);
    check(&secret, &token(HS256, 43), Code::TokenWrongSignature);
    check(&secret, &token(ESCAPED, 43), Code::TokenUnknownKey);
    let p256 = jwt(read_key(P256.as_bytes(), &[Algorithm::Es256]).expect("a key"));
    check(&p256, &token(ES256, 86), Code::TokenWrongSignature);
    let ed25519 = jwt(read_key(ED25519.as_bytes(), &[Algorithm::EdDsa]).expect("a key"));
    check(&ed25519, &token(EDDSA, 86), Code::TokenWrongSignature);
}

#[test]
fn an_rsa_signature_allocates_where_ring_computes_and_keeps_nothing() {
    let rsa = jwt(read_key(RSA.as_bytes(), &[Algorithm::Rs256]).expect("a key"));
    // One of another length than the key's cannot be a signature, and is not computed with.
    check(&rsa, &token(RS256, 340), Code::TokenWrongSignature);
    let (info, result) = cost(&rsa, &token(RS256, 342), 2);
    assert_eq!(result.expect_err("it is refused").code(), Code::TokenWrongSignature);
    assert!(info.count_total > 0, "ring allocates no more: RSA belongs to the others");
    assert_eq!(info.bytes_current, 0, "{info:?}");
    assert!(info.bytes_max < 16 * 1024, "{info:?}");
}

#[test]
fn a_bad_signed_url_allocates_nothing() {
    let verifier = SignedUrl::new(
        vec![Secret::new(Some("a".to_owned()), &[7; 32]), Secret::new(None, &[8; 32])],
        places(),
    );
    let digits = "0".repeat(64);
    check(&verifier, "", Code::TokenMalformed);
    check(&verifier, &"a".repeat(9000), Code::TokenMalformed);
    check(&verifier, &"%61".repeat(3000), Code::TokenMalformed);
    check(&verifier, &format!("exp=1764000100~acl=%2Fvod%2F*~hmac={digits}"), Code::TokenWrongSignature);
    check(
        &verifier,
        &format!("exp=1764000100~acl=%2Fvod%2F*~ip=1.2.3.4~id=x~kid=b~hmac={digits}"),
        Code::TokenUnknownKey,
    );
}

#[test]
fn a_request_without_a_token_allocates_nothing() {
    let verifier = jwt(Key::secret(None, Algorithm::Hs256, &[7; 32]).expect("a key"));
    let headers = Fields::default();
    let asked = Asked {
        method: "GET",
        target: "/vod/7/a.m4s?a=1",
        prefix: "/vod/",
        authority: "a.example",
        remote: None,
        headers: &headers,
    };
    let info = allocation_counter::measure(|| {
        let code = verifier.verify(&asked, NOW).map(drop).map_err(|error| error.code());
        assert_eq!(code, Err(Code::TokenMissing));
    });
    assert_eq!(info.count_total, 0, "{info:?}");
}
