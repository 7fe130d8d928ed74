//! The vectors of Wycheproof for JSON Web Signatures and Keys: `make wycheproof WYCHEPROOF=its checkout`.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

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

/// The keys of a group, as they are configured, or fetched if it is a set. None where there is none for an algorithm here.
fn keys(group: &Value) -> Option<Keys> {
    let key = group.get("public").or(group.get("private")).expect("a group has a key");
    if key.get("keys").is_some() {
        return Some(read_set(key.to_string().as_bytes(), &ALL, 32).expect("it is a set").keys);
    }
    read_key(key.to_string().as_bytes(), &ALL).ok().map(|key| Keys::new(vec![key]))
}

#[test]
#[ignore = "needs a checkout of Wycheproof: make wycheproof"]
fn no_vector_that_is_invalid_is_accepted_and_every_valid_one_is() {
    let directory = std::env::var("WYCHEPROOF").expect("WYCHEPROOF names a checkout");
    let mut outcomes = BTreeMap::new();
    let mut wrong = Vec::new();
    for name in ["json_web_signature_test.json", "json_web_key_test.json", "json_web_crypto_test.json"] {
        let path = Path::new(&directory).join("testvectors_v1").join(name);
        let text = std::fs::read_to_string(&path).expect("the vectors are there");
        let file: Value = serde_json::from_str(&text).expect("they are JSON");
        for group in file["testGroups"].as_array().expect("a list") {
            let keys = keys(group);
            for test in group["tests"].as_array().expect("a list") {
                let what = format!("{name} {} {}: {}", test["tcId"], group["comment"], test["comment"]);
                let Some(token) = test["jws"].as_str() else {
                    *outcomes.entry("not in compact form").or_insert(0) += 1;
                    continue;
                };
                let accepted = keys.as_ref().is_some_and(|keys| authentic(keys, &claims(), token.as_bytes()).is_ok());
                let outcome = match (test["result"].as_str(), accepted) {
                    (Some("valid"), true) => "valid, accepted",
                    (Some("invalid"), false) => "invalid, refused",
                    (Some("valid"), false) if keys.is_none() => "valid, of a key that is not served",
                    _ => {
                        wrong.push(what);
                        continue;
                    }
                };
                *outcomes.entry(outcome).or_insert(0) += 1;
            }
        }
    }
    assert!(wrong.is_empty(), "{outcomes:?}, and wrong: {wrong:#?}");
    assert!(outcomes["valid, accepted"] > 20 && outcomes["invalid, refused"] > 100, "{outcomes:?}");
}
