//! Keys, each for one algorithm, and the choice of the one that a token names.

use std::fmt;

use ring::hmac;
use ring::signature::RsaPublicKeyComponents;

use super::algorithm::{Algorithm, Kind};
use penstock_error::{Code, Result};
use penstock_http::json::Json;

/// Keys to try for a token that names no key: a key, its successor, and as many again. Arbitrary; each costs up to 0.1 ms
/// that any client can have us spend.
const TRIED: usize = 4;

/// The material of a key.
#[derive(Clone)]
pub(super) enum Material {
    /// Shared with the signer.
    Secret(Box<[u8]>),
    /// Modulus and exponent, without leading zeros.
    Rsa { modulus: Box<[u8]>, exponent: Box<[u8]> },
    /// A point on a curve, in the form of its algorithm: 0x04, x, y for P-256 and P-384.
    Point(Kind, Box<[u8]>),
}

impl Material {
    /// An RSA key. Leading zeros are removed, because ring refuses them.
    pub(super) fn rsa(modulus: &[u8], exponent: &[u8]) -> Self {
        let plain = |number: &[u8]| {
            let zeros = number.iter().take_while(|byte| **byte == 0).count();
            number[zeros..].into()
        };
        Self::Rsa { modulus: plain(modulus), exponent: plain(exponent) }
    }

    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Secret(_) => Kind::Secret,
            Self::Rsa { .. } => Kind::Rsa,
            Self::Point(kind, _) => *kind,
        }
    }
}

/// A key to verify signatures.
#[derive(Clone)]
pub struct Key {
    /// The id by which tokens name it.
    id: Option<Box<str>>,
    algorithm: Algorithm,
    verifier: Verifier,
}

#[derive(Clone)]
enum Verifier {
    Secret(hmac::Key),
    Rsa(RsaPublicKeyComponents<Box<[u8]>>),
    Point(Box<[u8]>),
}

impl Key {
    /// A shared secret, at least as long as the output of the hash (RFC 7518, section 3.2).
    ///
    /// # Errors
    /// `BAD_CONFIGURATION`.
    pub fn secret(id: Option<String>, algorithm: Algorithm, secret: &[u8]) -> Result<Self> {
        Self::new(id, algorithm, Material::Secret(secret.into()))
    }

    pub(super) fn new(id: Option<String>, algorithm: Algorithm, material: Material) -> Result<Self> {
        let bad = |detail: String| Err(Code::BadConfiguration.error(detail));
        if material.kind() != algorithm.kind() {
            return bad(format!("a key is of another kind than {} is for", algorithm.name()));
        }
        let verifier = match (material, algorithm.hmac()) {
            (Material::Secret(secret), Some(hmac)) => {
                let least = hmac.digest_algorithm().output_len();
                if secret.len() < least {
                    return bad(format!(
                        "a secret for {} has {} bytes; it must have {least}",
                        algorithm.name(),
                        secret.len()
                    ));
                }
                Verifier::Secret(hmac::Key::new(hmac, &secret))
            }
            (Material::Rsa { modulus, exponent }, _) => {
                let bits =
                    modulus.len() * 8 - modulus.first().map_or(0, |byte| byte.leading_zeros() as usize);
                if !(2048..=8192).contains(&bits) {
                    return bad(format!("an RSA key has {bits} bits; it must have 2048 to 8192"));
                }
                Verifier::Rsa(RsaPublicKeyComponents { n: modulus, e: exponent })
            }
            (Material::Point(_, point), _) => Verifier::Point(point),
            (Material::Secret(_), None) => return bad("a secret is for HMAC alone".to_owned()),
        };
        Ok(Self { id: id.map(Into::into), algorithm, verifier })
    }

    pub(super) fn is_secret(&self) -> bool {
        matches!(self.verifier, Verifier::Secret(_))
    }

    /// Whether `signature` is valid for `message`.
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match &self.verifier {
            Verifier::Secret(key) => hmac::verify(key, message, signature).is_ok(),
            // ring allocates to compute with an RSA key: a signature of the wrong length does not get there.
            Verifier::Rsa(key) if signature.len() == key.n.len() => {
                self.algorithm.rsa().is_some_and(|rsa| key.verify(rsa, message, signature).is_ok())
            }
            Verifier::Rsa(_) => false,
            Verifier::Point(point) => self.algorithm.verifies_on_curve(point, message, signature),
        }
    }
}

impl fmt::Debug for Key {
    /// Omits the material.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key")
            .field("id", &self.id)
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}

/// A set of keys to verify tokens.
#[derive(Debug, Clone, Default)]
pub struct Keys(Vec<Key>);

impl Keys {
    /// These keys.
    pub fn new(keys: Vec<Key>) -> Self {
        Self(keys)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a key of the set takes tens of microseconds for a verification; a secret takes one.
    pub(super) fn are_dear(&self) -> bool {
        self.0.iter().any(|key| !key.is_secret())
    }

    /// Looks for the key that has signed `message`. A key with an id is tried for tokens that name it, or no key; one
    /// without is tried for all of its algorithm.
    ///
    /// # Errors
    /// `TOKEN_WRONG_ALGORITHM`: the keys of that id are for other algorithms. `TOKEN_UNKNOWN_KEY`: there is no key of that
    /// id. `TOKEN_WRONG_SIGNATURE`.
    pub(super) fn verify(&self, named: &Named<'_>, message: &[u8], signature: &[u8]) -> Result<()> {
        let meant = || self.0.iter().filter(|key| named.may_mean(key));
        let mut of_algorithm = meant().filter(|key| named.algorithm == key.algorithm).take(TRIED).peekable();
        if of_algorithm.peek().is_some() {
            if of_algorithm.any(|key| key.verifies(message, signature)) {
                return Ok(());
            }
            return Err(Code::TokenWrongSignature
                .error("the token's signature matches no key that it may have been signed with"));
        }
        if meant().next().is_some() {
            return Err(Code::TokenWrongAlgorithm.error("the token's algorithm is not the one of its key"));
        }
        Err(Code::TokenUnknownKey.error("the token names an unknown key"))
    }
}

/// The algorithm and the key that a token names.
#[derive(Debug)]
pub(super) struct Named<'a> {
    pub(super) algorithm: Algorithm,
    pub(super) id: Option<Json<'a>>,
}

impl Named<'_> {
    fn may_mean(&self, key: &Key) -> bool {
        match (&self.id, &key.id) {
            (Some(id), Some(other)) => id.is_text(other),
            _ => true,
        }
    }
}
