//! The vectors of Wycheproof for JSON Web Signatures and Keys: `make wycheproof WYCHEPROOF=its checkout`.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::super::decode::base64url_vec;
use super::super::jwt::authentic;
use super::*;

const ALL: [Algorithm; 12] = [
    Algorithm::Hs256,
    Algorithm::Hs384,
    Algorithm::Hs512,
    Algorithm::Rs256,
    Algorithm::Rs384,
    Algorithm::Rs512,
    Algorithm::Ps256,
    Algorithm::Ps384,
    Algorithm::Ps512,
    Algorithm::Es256,
    Algorithm::Es384,
    Algorithm::EdDsa,
];

/// Where we differ from what the vectors say, and why.
const DIFFERENT: [(&str, u64, &str); 9] = [
    ("signature", 346, "the key says PS256 and the token PS384: a key is for its own algorithm"),
    ("signature", 350, "the same"),
    ("signature", 367, "called a wrong padding, and has none: it is what the HMAC of its text encodes to"),
    ("signature", 370, "the same"),
    ("signature", 372, "has a ? within its Base64url, which some decoders pass over"),
    ("signature", 373, "the same"),
    ("key", 4, "two keys of one id, both of which are tried"),
    ("key", 7, "the modulus is one of Infineon's chips (ROCA), which is not checked for here"),
    ("crypto", 46, "the same"),
];

/// The keys of a group: a set of secrets as if it were configured, another set as if it were fetched. `None` if no algorithm
/// is supported.
fn keys(group: &Value) -> Option<Keys> {
    let key = group.get("public").or(group.get("private")).expect("a group has a key");
    let configured = |key: &Value| read_key(key.to_string().as_bytes(), &ALL).ok();
    match key.get("keys").and_then(Value::as_array) {
        None => configured(key).map(|key| Keys::new(vec![key])),
        Some(keys) if keys.iter().all(|key| key["kty"] == "oct") => {
            Some(Keys::new(keys.iter().filter_map(configured).collect()))
        }
        Some(_) => Some(read_set(key.to_string().as_bytes(), &ALL, 32).expect("it is a set").keys),
    }
}

fn is_accepted(keys: &Keys, token: &str) -> bool {
    authentic(keys, &claims(), token.as_bytes()).is_ok_and(|payload| base64url_vec(payload).is_some())
}

#[test]
#[ignore = "needs a checkout of Wycheproof: make wycheproof"]
fn no_vector_that_is_invalid_is_accepted_and_every_valid_one_is() {
    let directory = std::env::var("WYCHEPROOF").expect("WYCHEPROOF names a checkout");
    let mut outcomes = BTreeMap::new();
    let mut wrong = Vec::new();
    for name in ["signature", "key", "crypto"] {
        let path = Path::new(&directory).join(format!("testvectors_v1/json_web_{name}_test.json"));
        let text = std::fs::read_to_string(&path).expect("the vectors are there");
        let file: Value = serde_json::from_str(&text).expect("they are JSON");
        for group in file["testGroups"].as_array().expect("a list") {
            let keys = keys(group);
            for test in group["tests"].as_array().expect("a list") {
                let number = test["tcId"].as_u64().expect("a number");
                let accepted = match (test["jws"].as_str(), &keys) {
                    (Some(token), Some(keys)) => is_accepted(keys, token),
                    // Not in compact form.
                    (None, _) => continue,
                    (Some(_), None) => false,
                };
                let is_different = DIFFERENT.iter().any(|(file, other, _)| (*file, *other) == (name, number));
                let outcome = match (test["result"].as_str(), accepted) {
                    _ if is_different => "otherwise, and said why",
                    (Some("valid"), true) => "valid, accepted",
                    (Some("invalid"), false) => "invalid, refused",
                    (Some("valid"), false) if keys.is_none() => "valid, of a key that is not served",
                    _ => {
                        wrong.push(format!("{name} {number} {}: {}", group["comment"], test["comment"]));
                        continue;
                    }
                };
                *outcomes.entry(outcome).or_insert(0) += 1;
            }
        }
    }
    assert!(wrong.is_empty(), "{outcomes:?}, and wrong: {wrong:#?}");
    assert!(outcomes["valid, accepted"] > 20 && outcomes["invalid, refused"] > 100, "{outcomes:?}");
    assert_eq!(outcomes["otherwise, and said why"], DIFFERENT.len(), "{outcomes:?}");
}
