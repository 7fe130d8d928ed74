//! Keys, one by one and in sets.

use super::*;

const ALL: [Algorithm; 4] = [Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa, Algorithm::Hs256];

const X: &str = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU";
const Y: &str = "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0";

fn set(keys: &[&str]) -> Result<Set> {
    read_set(format!(r#"{{"keys":[{}]}}"#, keys.join(",")).as_bytes(), &ALL, 8)
}

fn counts(keys: &[&str]) -> (usize, usize) {
    let set = set(keys).unwrap();
    (set.keys.len(), set.skipped)
}

fn p256(more: &str) -> String {
    format!(r#"{{"kty":"EC","crv":"P-256","x":"{X}","y":"{Y}"{more}}}"#)
}

#[test]
fn what_can_verify_is_taken_and_the_rest_is_passed_over() {
    assert_eq!(counts(&[]), (0, 0));
    assert_eq!(counts(&[&p256(""), &p256(r#","use":"sig","alg":"ES256","kid":"a","x5c":["MII"]"#)]), (2, 0));
    assert_eq!(counts(&[&p256(r#","key_ops":["sign","verify"]"#)]), (1, 0));
    for unusable in [
        p256(r#","use":"enc""#),
        p256(r#","key_ops":["sign"]"#),
        p256(r#","key_ops":"verify""#),
        p256(r#","alg":"ES384""#),
        p256(r#","alg":"HS256""#),
        p256(r#","kid":7"#),
        p256(r#","kty":"EC""#),
        format!(r#"{{"kty":"EC","crv":"P-521","x":"{X}","y":"{Y}"}}"#),
        format!(r#"{{"kty":"EC","crv":"P-256","x":"{X}"}}"#),
        format!(r#"{{"kty":"EC","crv":"P-256","x":"{X}A","y":"{Y}"}}"#),
        format!(r#"{{"kty":"EC","crv":"P-256","x":"AA","y":"{Y}"}}"#),
        format!(r#"{{"kty":"EC","crv":"P-256","x":"{X}=","y":"{Y}"}}"#),
        // A key that any client can fetch is no secret.
        format!(r#"{{"kty":"oct","alg":"HS256","k":"{X}"}}"#),
        // Below 2048 bits.
        format!(r#"{{"kty":"RSA","n":"{X}","e":"AQAB"}}"#),
        r#"{"kty":"OKP","crv":"X25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#.to_owned(),
        r#"{"kty":"OKP","crv":"Ed25519","x":"11qY"}"#.to_owned(),
        r#"{"kty":"new"}"#.to_owned(),
        "{}".to_owned(),
        "7".to_owned(),
    ] {
        assert_eq!(counts(&[&unusable, &p256("")]), (1, 1), "{unusable}");
    }
}

#[test]
fn what_is_no_set_or_too_large_is_refused() {
    for none in ["", "[]", "{}", r#"{"keys":{}}"#, r#"{"keys":[],"keys":[]}"#, r#"{"keys":[]"#] {
        assert_eq!(read_set(none.as_bytes(), &ALL, 8).unwrap_err().code(), Code::BadConfiguration, "{none}");
    }
    let key = p256("");
    assert_eq!(counts(&[key.as_str(); 8]), (8, 0));
    assert_eq!(set(&[key.as_str(); 9]).unwrap_err().code(), Code::BadConfiguration);
}

#[test]
fn one_key_that_is_configured_may_be_a_secret() {
    read_key(format!(r#"{{"kty":"oct","alg":"HS256","k":"{X}"}}"#).as_bytes(), &ALL).unwrap();
    read_key(p256("").as_bytes(), &ALL).unwrap();
    for none in ["", "{}", &p256(r#","use":"enc""#), r#"{"kty":"oct","alg":"HS256","k":"c2hvcnQ"}"#] {
        assert_eq!(read_key(none.as_bytes(), &ALL).unwrap_err().code(), Code::BadConfiguration, "{none}");
    }
}

#[test]
fn a_secret_is_as_long_as_its_hash() {
    for (algorithm, least) in [(Algorithm::Hs256, 32), (Algorithm::Hs384, 48), (Algorithm::Hs512, 64)] {
        Key::secret(None, algorithm, &vec![1; least]).unwrap();
        let error = Key::secret(None, algorithm, &vec![1; least - 1]).unwrap_err();
        assert_eq!(error.code(), Code::BadConfiguration);
    }
    assert_eq!(Key::secret(None, Algorithm::Rs256, &[1; 64]).unwrap_err().code(), Code::BadConfiguration);
}

#[test]
fn a_key_in_pem_is_the_one_of_its_algorithm() {
    let keys = [
        (Algorithm::Rs256, include_str!("keys/rsa.pem")),
        (Algorithm::Es256, include_str!("keys/p256.pem")),
        (Algorithm::Es384, include_str!("keys/p384.pem")),
        (Algorithm::EdDsa, include_str!("keys/ed25519.pem")),
    ];
    for (algorithm, text) in keys {
        Key::pem(None, algorithm, text).unwrap();
        for (other, _) in keys.iter().filter(|(other, _)| *other != algorithm) {
            assert_eq!(Key::pem(None, *other, text).unwrap_err().code(), Code::BadConfiguration);
        }
        assert_eq!(Key::pem(None, Algorithm::Hs256, text).unwrap_err().code(), Code::BadConfiguration);
        // A key that lacks a byte, or has one too many, is no key.
        let body: String = text.lines().filter(|line| !line.starts_with('-')).collect();
        for wrong in [&body[4..], &body[..body.len() - 4], &format!("AAAA{body}")] {
            let wrong = format!("-----BEGIN PUBLIC KEY-----\n{wrong}\n-----END PUBLIC KEY-----");
            assert_eq!(Key::pem(None, algorithm, &wrong).unwrap_err().code(), Code::BadConfiguration);
        }
    }
}

#[test]
fn a_key_in_pem_verifies_what_the_same_key_in_json_does() {
    let token = b"eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290\
                  Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
    for key in [
        Key::pem(None, Algorithm::Es256, include_str!("keys/p256.pem")).unwrap(),
        read_key(p256("").as_bytes(), &ALL).unwrap(),
    ] {
        super::super::jwt::authentic(&Keys::new(vec![key]), &claims(), token).unwrap();
    }
}

/// As an environment variable may have it. The PEM of `rustls-pki-types` must begin a line and end one, which is why ours stays.
#[test]
fn a_key_in_pem_may_be_one_line() {
    use rustls_pki_types::SubjectPublicKeyInfoDer;
    use rustls_pki_types::pem::PemObject as _;

    let text = include_str!("keys/p256.pem");
    SubjectPublicKeyInfoDer::from_pem_slice(text.as_bytes()).unwrap();
    for line in [text.replace('\n', ""), text.replace('\n', " ")] {
        Key::pem(None, Algorithm::Es256, &line).unwrap();
        SubjectPublicKeyInfoDer::from_pem_slice(line.as_bytes()).unwrap_err();
    }
}

#[test]
fn what_is_no_public_key_in_pem_is_refused() {
    let text = include_str!("keys/p256.pem");
    for wrong in [
        "",
        "a secret",
        &text.replace("PUBLIC", "PRIVATE"),
        &text.replace("PUBLIC", "RSA PUBLIC"),
        &format!("{text}{text}"),
        &format!("# a comment\n{text}"),
    ] {
        assert_eq!(
            Key::pem(None, Algorithm::Es256, wrong).unwrap_err().code(),
            Code::BadConfiguration,
            "{wrong}"
        );
    }
}

#[test]
fn what_a_key_is_made_of_is_in_no_log() {
    let key = Key::secret(Some("a".to_owned()), Algorithm::Hs256, SECRET).unwrap();
    let secret = Secret::new(Some("a".to_owned()), SECRET);
    for text in [format!("{key:?}"), format!("{:?}", Keys::new(vec![key])), format!("{secret:?}")] {
        assert!(!text.contains("two and thirty") && !text.contains("116, 119, 111"), "{text}");
    }
}
