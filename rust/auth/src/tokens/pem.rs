//! Public keys as PEM: the `SubjectPublicKeyInfo` of X.509 (RFC 5280, section 4.1.2.7; RFC 7468, section 13), which is
//! what `openssl pkey -pubout` writes.
//!
//! The parser is strict: a mistake in a configured key should be an error.

use super::algorithm::{Algorithm, Kind};
use super::decode::base64_vec;
use super::key::{Key, Material};
use penstock_error::{Code, Error, Result};

const BEGIN: &str = "-----BEGIN PUBLIC KEY-----";
const END: &str = "-----END PUBLIC KEY-----";

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;

/// Algorithm identifiers, without their tag and length.
const RSA: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00";
const P256: &[u8] = b"\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07";
const P384: &[u8] = b"\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x05\x2b\x81\x04\x00\x22";
const ED25519: &[u8] = b"\x06\x03\x2b\x65\x70";

impl Key {
    /// A public key as PEM (RFC 7468): `BEGIN PUBLIC KEY`.
    ///
    /// # Errors
    /// `BAD_CONFIGURATION`.
    pub fn pem(id: Option<String>, algorithm: Algorithm, text: &str) -> Result<Self> {
        Self::new(id, algorithm, public_key(text)?)
    }
}

/// The material of the one public key in `text`.
///
/// # Errors
/// `BAD_CONFIGURATION`.
fn public_key(text: &str) -> Result<Material> {
    let body = text.trim().strip_prefix(BEGIN).and_then(|text| text.strip_suffix(END));
    let body = body.filter(|body| !body.contains('-')).ok_or_else(|| {
        Code::BadConfiguration.error(format!("a key in PEM is one of {BEGIN}, and nothing else"))
    })?;
    let body: Vec<u8> = body.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    base64_vec(&body).and_then(|der| material(&der)).ok_or_else(unknown)
}

fn material(der: &[u8]) -> Option<Material> {
    let (mut info, []) = element(der, SEQUENCE)? else { return None };
    let algorithm = take(&mut info, SEQUENCE)?;
    let (key, []) = element(info, BIT_STRING)? else { return None };
    // The number of unused bits in the last byte must be 0.
    let key = key.strip_prefix(&[0])?;
    let point = |kind, length| {
        let is_point = key.len() == length && (kind == Kind::Ed25519 || key[0] == 4);
        is_point.then(|| Material::Point(kind, key.into()))
    };
    match algorithm {
        P256 => point(Kind::P256, 65),
        P384 => point(Kind::P384, 97),
        ED25519 => point(Kind::Ed25519, 32),
        RSA => {
            let (mut numbers, []) = element(key, SEQUENCE)? else { return None };
            let modulus = take(&mut numbers, INTEGER)?;
            let exponent = take(&mut numbers, INTEGER)?;
            numbers.is_empty().then(|| Material::rsa(modulus, exponent))
        }
        _ => None,
    }
}

fn take<'a>(bytes: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    let (content, behind) = element(bytes, tag)?;
    *bytes = behind;
    Some(content)
}

/// The content of the first element of `bytes`, and the bytes after it.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&first, rest) = bytes.strip_prefix(&[tag])?.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81 | 0x82 => {
            let (length, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
            (length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

fn unknown() -> Error {
    Code::BadConfiguration.error("a key in PEM is not RSA, P-256, P-384 or Ed25519")
}
