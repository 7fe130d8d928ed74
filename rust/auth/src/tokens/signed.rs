//! Signed URLs: `exp=1764000000~acl=/vod/7/*~hmac=...`. The last field signs all others.
//!
//! The form is that of Akamai's token 2.0. Signers exist in most languages, and are one line in the others: the
//! fields, `~hmac=` and the HMAC-SHA256 of the text before it, in hexadecimal digits. A token may be
//! percent-encoded; the signature is of the decoded text.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::str::from_utf8;

use memchr::memmem;
use ring::hmac;

use super::decode::{hex, percent};
use super::place::Places;
use super::{END, denial};
use crate::access::{Asked, Decision, Grant, Verifier, is_on};
use penstock_error::{Code, Error, Result};
use penstock_memory::sync::Arc;

/// Bytes of a token at most: some patterns, an address, and other fields. Arbitrary.
const LONGEST: usize = 2048;

/// The text between the signed fields and the signature.
const BEFORE_SIGNATURE: &[u8] = b"~hmac=";

/// A key of signed URLs.
#[derive(Clone)]
pub struct Secret {
    /// The id by which tokens may name it.
    id: Option<Box<str>>,
    key: hmac::Key,
}

impl Secret {
    /// A key that is shared with the signer.
    pub fn new(id: Option<String>, secret: &[u8]) -> Self {
        Self { id: id.map(Into::into), key: hmac::Key::new(hmac::HMAC_SHA256, secret) }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Verifies signed URLs.
#[derive(Debug)]
pub struct SignedUrl {
    secrets: Vec<Secret>,
    places: Places,
    denial: Arc<Decision>,
}

/// The fields of a token.
#[derive(Debug, Default)]
struct Fields<'a> {
    begins: Option<u64>,
    expires: Option<u64>,
    address: Option<&'a str>,
    patterns: Option<&'a str>,
    tenant: Option<&'a str>,
    key: Option<&'a str>,
    data: Option<&'a str>,
}

impl SignedUrl {
    /// For tokens that one of `secrets` has signed.
    pub fn new(secrets: Vec<Secret>, places: Places) -> Self {
        // There is no challenge that a client with a link could meet (RFC 9110, section 11.6.1).
        Self { secrets, places, denial: denial(403, None) }
    }

    /// # Errors
    /// `TOKEN_UNKNOWN_KEY`, `TOKEN_WRONG_SIGNATURE`.
    fn check_signature(&self, key: Option<&str>, signed: &[u8], signature: &[u8]) -> Result<()> {
        let is_meant = |secret: &&Secret| key.is_none_or(|key| secret.id.as_deref() == Some(key));
        let mut meant = self.secrets.iter().filter(is_meant).peekable();
        if meant.peek().is_none() {
            return Err(Code::TokenUnknownKey.error("the token names an unknown key"));
        }
        if meant.any(|secret| hmac::verify(&secret.key, signed, signature).is_ok()) {
            return Ok(());
        }
        Err(Code::TokenWrongSignature.error("the token's signature is of no key that it could mean"))
    }
}

impl Verifier for SignedUrl {
    /// To verify costs less than a lookup in a cache.
    fn remembered_by<'a>(&self, _: &Asked<'a>) -> Option<&'a [u8]> {
        None
    }

    fn verify(&self, asked: &Asked<'_>, now: u64) -> Result<Grant> {
        let written = self.places.token(asked)?;
        let mut room = [0; LONGEST];
        let text = percent(written, &mut room).filter(|text| text.len() <= LONGEST).ok_or_else(malformed)?;
        let end = memmem::rfind(text, BEFORE_SIGNATURE).ok_or_else(malformed)?;
        let (signed, signature) = (&text[..end], &text[end + BEFORE_SIGNATURE.len()..]);
        let signature = hex::<32>(signature).ok_or_else(malformed)?;
        let fields = from_utf8(signed).ok().and_then(Fields::read).ok_or_else(malformed)?;
        self.check_signature(fields.key, signed, &signature)?;
        fields.check(now, asked.remote, &self.places.path(asked))
    }

    fn stripped(&self, asked: &Asked<'_>) -> Option<String> {
        self.places.stripped(asked)
    }

    fn forwarded<'a>(&self, name: &[u8], value: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        self.places.forwarded(name, value)
    }

    fn denial(&self, _: &Error) -> Option<Arc<Decision>> {
        Some(Arc::clone(&self.denial))
    }
}

impl<'a> Fields<'a> {
    /// `None` if a field is there twice, or is unknown: it might forbid something.
    fn read(text: &'a str) -> Option<Self> {
        let mut fields = Self::default();
        for field in text.split('~') {
            let (name, value) = field.split_once('=')?;
            let text = match name {
                "st" | "exp" => {
                    let time = if name == "st" { &mut fields.begins } else { &mut fields.expires };
                    if time.replace(seconds(value)?).is_some() {
                        return None;
                    }
                    continue;
                }
                "ip" => &mut fields.address,
                "acl" => &mut fields.patterns,
                "id" => &mut fields.tenant,
                "kid" => &mut fields.key,
                "data" => &mut fields.data,
                _ => return None,
            };
            if text.replace(value).is_some() {
                return None;
            }
        }
        Some(fields)
    }

    /// The grant of a token with a valid signature.
    fn check(&self, now: u64, remote: Option<&str>, path: &[&str]) -> Result<Grant> {
        let (Some(expires), Some(patterns)) = (self.expires, self.patterns) else { return Err(malformed()) };
        if now >= expires {
            return Err(Code::TokenExpired.error("the token has expired"));
        }
        if self.begins.is_some_and(|begins| now < begins) {
            return Err(Code::TokenNotYetValid.error("the token is not valid yet"));
        }
        if self.address.is_some_and(|address| !is_within(remote, address)) {
            return Err(Code::TokenWrongAddress.error("the token is for another address"));
        }
        if !patterns.split('!').any(|pattern| is_on(pattern, path)) {
            return Err(Code::TokenPathNotCovered.error("the token is not for this path"));
        }
        Ok(Grant { tenant: self.tenant.map(Into::into), expires: Some(expires), ..Grant::default() })
    }
}

/// Seconds since 1970, in decimal digits.
fn seconds(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.len() <= 12 && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?.filter(|seconds| *seconds <= END)
}

/// Whether `remote` is the address or in the network of a token: `203.0.113.7`, `2001:db8::/32`.
fn is_within(remote: Option<&str>, network: &str) -> bool {
    let (network, length) =
        network.split_once('/').map_or((network, None), |(network, length)| (network, Some(length)));
    let (Some(remote), Some(network)) = (remote.and_then(address), address(network)) else { return false };
    let (remote, network, bits) = match (remote, network) {
        (IpAddr::V4(remote), IpAddr::V4(network)) => (remote.to_bits().into(), network.to_bits().into(), 32),
        (IpAddr::V6(remote), IpAddr::V6(network)) => (remote.to_bits(), network.to_bits(), 128),
        _ => return false,
    };
    let Some(length) =
        length.map_or(Some(bits), |length| length.parse().ok().filter(|length| *length <= bits))
    else {
        return false;
    };
    // A shift by all bits yields `None`.
    (remote ^ network).checked_shr(bits - length).unwrap_or(0) == 0
}

/// An address, where an IPv4 address that is mapped into IPv6 is IPv4.
fn address(text: &str) -> Option<IpAddr> {
    let plain = text.split_once('%').map_or(text, |(plain, _)| plain);
    plain.parse().ok().map(|address: IpAddr| address.to_canonical())
}

fn malformed() -> Error {
    Code::TokenMalformed.error("the token is not that of a signed URL")
}
