//! Signed URLs.

use proptest::prelude::*;

use super::*;

fn verifier() -> SignedUrl {
    SignedUrl::new(vec![Secret::new(None, SECRET)], places())
}

fn sign_with(secret: &[u8], fields: &str) -> String {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), fields.as_bytes());
    let digits = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
    format!("{fields}~hmac={digits}")
}

fn sign(fields: &str) -> String {
    sign_with(SECRET, fields)
}

fn verify(fields: &str) -> std::result::Result<Grant, Code> {
    verify_from(fields, Some("203.0.113.7"))
}

fn verify_from(fields: &str, remote: Option<&str>) -> std::result::Result<Grant, Code> {
    ask(&verifier(), &format!("/vod/7/a.m4s?token={}", sign(fields)), &[], remote)
        .map_err(|error| error.code())
}

#[test]
fn the_signature_is_that_of_the_one_line_of_the_guide() {
    // python: hmac.new(b"a secret of two and thirty bytes", b"exp=1764000100~acl=/vod/7/*", "sha256").hexdigest()
    let token =
        "exp=1764000100~acl=/vod/7/*~hmac=a2f0f93d3292dbbc24aca7b1b53bf842031046622741f6892137199dbe41cbed";
    assert_eq!(sign("exp=1764000100~acl=/vod/7/*"), token);
    ask(&verifier(), &format!("/vod/7/a.m4s?token={token}"), &[], None).unwrap();
}

#[test]
fn a_token_is_good_in_a_path_a_query_and_a_cookie_however_it_is_encoded() {
    let token = sign("exp=1764000100~acl=/vod/7/*");
    let encoded = token.replace('/', "%2F").replace('*', "%2a");
    let all = token.bytes().map(|byte| format!("%{byte:02X}")).collect::<Vec<_>>().concat();
    for token in [&token, &encoded, &all] {
        ask(&verifier(), &format!("/vod/7/a.m4s?token={token}"), &[], None).unwrap();
        ask(&verifier(), "/vod/7/a.m4s", &[("Cookie", &format!("token={token}"))], None).unwrap();
    }
    for token in [&encoded, &all] {
        ask(&verifier(), &format!("/vod/token={token}/7/a.m4s"), &[], None).unwrap();
    }
}

#[test]
fn what_a_token_says_is_held_to() {
    let grant = verify("exp=1764000100~acl=/vod/7/*~id=acme~data=whatever").unwrap();
    assert_eq!((grant.tenant.as_deref(), grant.expires), (Some("acme"), Some(NOW + 100)));
    for (fields, expected) in [
        ("exp=1764000000~acl=*", Err(Code::TokenExpired)),
        ("exp=1764000001~acl=*", Ok(())),
        ("exp=1764000001~acl=*~st=1764000001", Err(Code::TokenNotYetValid)),
        ("exp=1764000001~acl=*~st=1764000000", Ok(())),
        ("exp=1764000001~acl=/vod/8/*", Err(Code::TokenPathNotCovered)),
        ("exp=1764000001~acl=/vod/8/*!/vod/7/*", Ok(())),
        ("exp=1764000001~acl=/vod/7/a.m4s", Ok(())),
        ("exp=1764000001~acl=/vod/7/", Err(Code::TokenPathNotCovered)),
        ("exp=1764000001~acl=", Err(Code::TokenPathNotCovered)),
        ("exp=1764000001~acl=*~ip=203.0.113.7", Ok(())),
        ("exp=1764000001~acl=*~ip=203.0.113.8", Err(Code::TokenWrongAddress)),
        // What lacks a field, has it twice, or has one that might forbid something.
        ("acl=*", Err(Code::TokenMalformed)),
        ("exp=1764000001", Err(Code::TokenMalformed)),
        ("exp=1764000001~acl=*~acl=*", Err(Code::TokenMalformed)),
        ("exp=1764000001~acl=*~exp=1764000001", Err(Code::TokenMalformed)),
        ("exp=1764000001~acl=*~country=de", Err(Code::TokenMalformed)),
        ("exp=1764000001~acl=*~", Err(Code::TokenMalformed)),
        ("exp=+1764000001~acl=*", Err(Code::TokenMalformed)),
        ("exp=1764000001.0~acl=*", Err(Code::TokenMalformed)),
        ("exp=~acl=*", Err(Code::TokenMalformed)),
        ("exp=9999999999999~acl=*", Err(Code::TokenMalformed)),
        ("exp=253402300800~acl=*", Err(Code::TokenMalformed)),
    ] {
        assert_eq!(verify(fields).map(drop), expected, "{fields}");
    }
}

#[test]
fn an_address_or_a_network_is_the_clients() {
    let from = |remote, network| verify_from(&format!("exp=1764000001~acl=*~ip={network}"), remote).is_ok();
    for (remote, network, is_within) in [
        ("203.0.113.7", "203.0.113.0/24", true),
        ("203.0.114.7", "203.0.113.0/24", false),
        ("203.0.113.7", "0.0.0.0/0", true),
        ("203.0.113.7", "203.0.113.7/32", true),
        ("203.0.113.6", "203.0.113.7/32", false),
        ("203.0.113.7", "203.0.113.7/33", false),
        ("203.0.113.7", "203.0.113.7/", false),
        ("203.0.113.7", "::/0", false),
        ("::ffff:203.0.113.7", "203.0.113.7", true),
        ("2001:db8::1", "2001:db8::/32", true),
        ("2001:db9::1", "2001:db8::/32", false),
        ("fe80::1%eth0", "fe80::1", true),
        ("2001:db8::1", "::/0", true),
        ("203.0.113.7", "", false),
        ("203.0.113.7", "here", false),
    ] {
        assert_eq!(from(Some(remote), network), is_within, "{remote} in {network}");
    }
    assert!(!from(None, "0.0.0.0/0"), "a client on a Unix socket has no address");
}

#[test]
fn keys_rotate() {
    let (old, new) = ([1; 32], [2; 32]);
    let verifier = SignedUrl::new(
        vec![Secret::new(Some("new".to_owned()), &new), Secret::new(Some("old".to_owned()), &old)],
        places(),
    );
    let verify = |secret: &[u8], fields: &str| {
        let target = format!("/vod/7/a.m4s?token={}", sign_with(secret, fields));
        ask(&verifier, &target, &[], None).map_err(|error| error.code()).map(drop)
    };
    for secret in [&old, &new] {
        assert_eq!(verify(secret, "exp=1764000001~acl=*"), Ok(()));
    }
    assert_eq!(verify(&old, "exp=1764000001~acl=*~kid=old"), Ok(()));
    assert_eq!(verify(&old, "exp=1764000001~acl=*~kid=new"), Err(Code::TokenWrongSignature));
    assert_eq!(verify(&old, "exp=1764000001~acl=*~kid=none"), Err(Code::TokenUnknownKey));
    assert_eq!(verify(&[3; 32], "exp=1764000001~acl=*"), Err(Code::TokenWrongSignature));
}

#[test]
fn nothing_that_is_not_the_whole_token_is_accepted() {
    let token = sign("exp=1764000100~acl=/vod/7/*~id=acme").into_bytes();
    // A cookie may have bytes that no target has.
    let refused = |token: &[u8], what: &str| {
        let mut headers = Fields::default();
        headers.push(b"Cookie", &[b"token=", token].concat());
        let asked = Asked {
            method: "GET",
            target: "/vod/7/a.m4s",
            prefix: "/vod/",
            authority: "a.example",
            remote: None,
            headers: &headers,
        };
        assert!(verifier().verify(&asked, NOW).is_err(), "{what} is accepted");
    };
    for end in 0..token.len() {
        refused(&token[..end], &format!("its first {end} bytes"));
    }
    for at in 0..token.len() {
        for bit in 0..8 {
            let mut flipped = token.clone();
            flipped[at] ^= 1 << bit;
            refused(&flipped, &format!("it with bit {bit} of byte {at} flipped"));
        }
    }
    let upper = String::from_utf8(token.clone()).unwrap();
    let (fields, digits) = upper.rsplit_once('=').unwrap();
    refused(format!("{fields}={}", digits.to_uppercase()).as_bytes(), "it with capital digits");
    refused(&[token.as_slice(), b"0"].concat(), "it with a digit more");
    refused(&[token.as_slice(), b"~exp=1764000200"].concat(), "it with a field behind the signature");
    refused(&vec![b'a'; 10_000], "what is too long");
    refused(&[b"%61".repeat(10_000), token].concat(), "what is too long once it is decoded");
}

proptest! {
    /// A text without a valid signature is refused, however like a token it is.
    #[test]
    fn what_nobody_has_signed_is_refused(fields in "(exp=1764000100|acl=[*/a-z]{0,4}|~|ip=|=|%[0-9a-f]{2}){0,6}", digits in "[0-9a-f]{64}") {
        let target = format!("/vod/7?token={fields}~hmac={digits}");
        let known = [Code::TokenMalformed, Code::TokenWrongSignature];
        prop_assert!(known.contains(&code(ask(&verifier(), &target, &[], None))));
    }
}
