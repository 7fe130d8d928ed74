//! What ring signs is accepted, whatever it says, and nothing that is like it.

use proptest::prelude::*;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair,
};
use serde_json::json;

use super::super::jwt::authentic;
use super::*;

type Sign = Box<dyn Fn(&[u8]) -> Vec<u8>>;

/// A key, and what signs with it.
struct Signer {
    algorithm: Algorithm,
    key: Key,
    sign: Sign,
}

fn on_curve(algorithm: Algorithm) -> Signer {
    let (ring, curve, half) = match algorithm {
        Algorithm::Es256 => (&ECDSA_P256_SHA256_FIXED_SIGNING, "P-256", 32),
        _ => (&ECDSA_P384_SHA384_FIXED_SIGNING, "P-384", 48),
    };
    let random = SystemRandom::new();
    let pair = EcdsaKeyPair::generate_pkcs8(ring, &random).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(ring, pair.as_ref(), &random).unwrap();
    let point = pair.public_key().as_ref().to_vec();
    let (x, y) = (encode(&point[1..=half]), encode(&point[half + 1..]));
    let jwk = json!({"kty": "EC", "crv": curve, "x": x, "y": y}).to_string();
    let sign: Sign = Box::new(move |message| pair.sign(&random, message).unwrap().as_ref().to_vec());
    Signer { algorithm, key: read_key(jwk.as_bytes(), &[algorithm]).unwrap(), sign }
}

fn signers() -> Vec<Signer> {
    let seed = [9; 32];
    let pair = Ed25519KeyPair::from_seed_unchecked(&seed).unwrap();
    let jwk = json!({"kty": "OKP", "crv": "Ed25519", "x": encode(pair.public_key())}).to_string();
    let edwards = Signer {
        algorithm: Algorithm::EdDsa,
        key: read_key(jwk.as_bytes(), &[Algorithm::EdDsa]).unwrap(),
        sign: Box::new(move |message| pair.sign(message).as_ref().to_vec()),
    };
    let mut signers = vec![on_curve(Algorithm::Es256), on_curve(Algorithm::Es384), edwards];
    for algorithm in [Algorithm::Hs256, Algorithm::Hs384, Algorithm::Hs512] {
        let secret = [5; 64];
        let key = hmac::Key::new(algorithm.hmac().unwrap(), &secret);
        signers.push(Signer {
            algorithm,
            key: Key::secret(None, algorithm, &secret).unwrap(),
            sign: Box::new(move |message| hmac::sign(&key, message).as_ref().to_vec()),
        });
    }
    signers
}

thread_local! {
    /// Once for all cases, because a key takes longer than most of them.
    static SIGNERS: Vec<Signer> = signers();
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(|value| json!(value)),
        any::<i64>().prop_map(|value| json!(value)),
        "\\PC{0,8}".prop_map(|value| json!(value)),
    ];
    leaf.prop_recursive(2, 8, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|values| json!(values)),
            prop::collection::hash_map("[a-z]{1,3}", inner, 0..4).prop_map(|values| json!(values)),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_signed_is_authentic_and_what_is_changed_is_not(
        which in 0_usize..6,
        more in prop::collection::hash_map("[b-z]{1,6}", any_json(), 0..4),
        payload in prop::collection::vec(any::<u8>(), 0..200),
        at in any::<prop::sample::Index>(),
        bit in 0_u8..8,
    ) {
        let reserved = ["crit", "zip", "enc", "kid", "typ"];
        prop_assume!(more.keys().all(|name| !reserved.contains(&name.as_str())));
        SIGNERS.with(|signers| {
            let signer = &signers[which];
            let mut header: serde_json::Map<_, _> = more.into_iter().collect();
            header.insert("alg".to_owned(), json!(signer.algorithm.name()));
            let signed = format!("{}.{}", encode(serde_json::to_string(&header).unwrap()), encode(&payload));
            let mut token = format!("{signed}.{}", encode((signer.sign)(signed.as_bytes()))).into_bytes();
            let keys = Keys::new(vec![signer.key.clone()]);
            if signed.len() < 1024 {
                let found = authentic(&keys, &claims(), &token).unwrap().to_vec();
                prop_assert_eq!(found, encode(&payload).into_bytes());
            }
            let at = at.index(token.len());
            token[at] ^= 1 << bit;
            prop_assert!(authentic(&keys, &claims(), &token).is_err());
            Ok(())
        })?;
    }

    /// Whatever comes, it is refused and not stumbled over.
    #[test]
    fn what_nobody_has_signed_is_refused(token in "([A-Za-z0-9_=-]{0,40}\\.?){0,5}", bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        SIGNERS.with(|signers| {
            let keys = Keys::new(signers.iter().map(|signer| signer.key.clone()).collect());
            prop_assert!(authentic(&keys, &claims(), token.as_bytes()).is_err());
            prop_assert!(authentic(&keys, &claims(), &bytes).is_err());
            Ok(())
        })?;
    }

    /// As `serde_json` has it, where it has no duplicates.
    #[test]
    fn claims_are_those_of_a_parser(claims_of in prop::collection::hash_map("[a-z]{1,3}", any_json(), 0..4), exp in prop_oneof![any::<i64>(), -2..=i64::try_from(END).unwrap() + 2], iss in "\\PC{0,6}") {
        let mut map: serde_json::Map<_, _> = claims_of.into_iter().filter(|(name, _)| !["exp", "iss", "aud", "nbf", "iat"].contains(&name.as_str())).collect();
        map.insert("exp".to_owned(), json!(exp));
        map.insert("iss".to_owned(), json!(iss));
        let rules = Claims { issuers: vec!["a".to_owned(), iss.clone()], tenant: Some("iss".to_owned()), ..claims() };
        let result = check(rules, &token(&serde_json::to_string(&map).unwrap()));
        let is_date = u64::try_from(exp).is_ok_and(|exp| exp <= END);
        let lives = is_date && u64::try_from(exp).is_ok_and(|exp| exp > NOW);
        let refused = if !is_date { Code::TokenMalformed } else if lives { Code::TokenClaimMissing } else { Code::TokenExpired };
        match result {
            Ok(grant) => {
                prop_assert!(lives);
                prop_assert_eq!(grant.tenant.as_deref(), Some(iss.as_str()));
            }
            Err(error) => prop_assert_eq!(error.code(), refused),
        }
    }
}
