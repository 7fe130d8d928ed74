//! The algorithms of JSON Web Signatures (RFC 7518, section 3; RFC 8037, section 3.1), carried out by ring.

use ring::signature::{self, RsaParameters, UnparsedPublicKey};

use penstock_http::json::Json;

/// The algorithm of a signature. `none` is not supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// HMAC with SHA-256.
    Hs256,
    /// HMAC with SHA-384.
    Hs384,
    /// HMAC with SHA-512.
    Hs512,
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// RSASSA-PKCS1-v1_5 with SHA-384.
    Rs384,
    /// RSASSA-PKCS1-v1_5 with SHA-512.
    Rs512,
    /// RSASSA-PSS with SHA-256.
    Ps256,
    /// RSASSA-PSS with SHA-384.
    Ps384,
    /// RSASSA-PSS with SHA-512.
    Ps512,
    /// ECDSA with P-256 and SHA-256.
    Es256,
    /// ECDSA with P-384 and SHA-384.
    Es384,
    /// `EdDSA` with Ed25519.
    EdDsa,
}

const ALL: [(Algorithm, &str); 12] = [
    (Algorithm::Hs256, "HS256"),
    (Algorithm::Hs384, "HS384"),
    (Algorithm::Hs512, "HS512"),
    (Algorithm::Rs256, "RS256"),
    (Algorithm::Rs384, "RS384"),
    (Algorithm::Rs512, "RS512"),
    (Algorithm::Ps256, "PS256"),
    (Algorithm::Ps384, "PS384"),
    (Algorithm::Ps512, "PS512"),
    (Algorithm::Es256, "ES256"),
    (Algorithm::Es384, "ES384"),
    (Algorithm::EdDsa, "EdDSA"),
];

/// The kind of a key. Each algorithm takes one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Secret,
    Rsa,
    P256,
    P384,
    Ed25519,
}

impl Algorithm {
    /// The algorithm called `name`; case matters (RFC 7515, section 4.1.1).
    pub fn named(name: &str) -> Option<Self> {
        ALL.iter().find(|(_, other)| *other == name).map(|(algorithm, _)| *algorithm)
    }

    /// The algorithm that a token names.
    pub(super) fn of(name: &Json<'_>) -> Option<Self> {
        ALL.iter().find(|(_, other)| name.is_text(other)).map(|(algorithm, _)| *algorithm)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        ALL.iter().find(|(other, _)| *other == self).map_or("", |(_, name)| name)
    }

    pub(super) fn kind(self) -> Kind {
        match self {
            Self::Hs256 | Self::Hs384 | Self::Hs512 => Kind::Secret,
            Self::Es256 => Kind::P256,
            Self::Es384 => Kind::P384,
            Self::EdDsa => Kind::Ed25519,
            _ => Kind::Rsa,
        }
    }

    /// The HMAC of this algorithm, if its keys are secrets.
    pub(super) fn hmac(self) -> Option<ring::hmac::Algorithm> {
        match self {
            Self::Hs256 => Some(ring::hmac::HMAC_SHA256),
            Self::Hs384 => Some(ring::hmac::HMAC_SHA384),
            Self::Hs512 => Some(ring::hmac::HMAC_SHA512),
            _ => None,
        }
    }

    /// The RSA parameters of this algorithm. Keys below 2048 bits are refused (RFC 7518, section
    /// 3.3).
    pub(super) fn rsa(self) -> Option<&'static RsaParameters> {
        match self {
            Self::Rs256 => Some(&signature::RSA_PKCS1_2048_8192_SHA256),
            Self::Rs384 => Some(&signature::RSA_PKCS1_2048_8192_SHA384),
            Self::Rs512 => Some(&signature::RSA_PKCS1_2048_8192_SHA512),
            Self::Ps256 => Some(&signature::RSA_PSS_2048_8192_SHA256),
            Self::Ps384 => Some(&signature::RSA_PSS_2048_8192_SHA384),
            Self::Ps512 => Some(&signature::RSA_PSS_2048_8192_SHA512),
            _ => None,
        }
    }

    /// Whether `bytes` are a signature of `message` by the key `point` on a curve.
    pub(super) fn verifies_on_curve(self, point: &[u8], message: &[u8], bytes: &[u8]) -> bool {
        let algorithm: &'static dyn signature::VerificationAlgorithm = match self {
            Self::Es256 => &signature::ECDSA_P256_SHA256_FIXED,
            Self::Es384 => &signature::ECDSA_P384_SHA384_FIXED,
            Self::EdDsa => &signature::ED25519,
            _ => return false,
        };
        UnparsedPublicKey::new(algorithm, point).verify(message, bytes).is_ok()
    }
}
