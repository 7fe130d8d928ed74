//! JSON Web Keys and sets of them (RFC 7517; RFC 7518, section 6; RFC 8037, section 2).

use super::algorithm::{Algorithm, Kind};
use super::decode::base64url_vec;
use super::key::{Key, Keys, Material};
use penstock_error::{Code, Error, Result};
use penstock_http::json::Json;

/// A set of keys.
#[derive(Debug)]
pub struct Set {
    /// The keys that can be used.
    pub keys: Keys,
    /// Keys that cannot: of another type, for another purpose, or malformed. They are ignored (RFC 7517, section 5).
    pub skipped: usize,
}

/// Parses a fetched set of at most `most` keys. Secrets are ignored: a key that any client can fetch is no
/// secret.
///
/// # Errors
/// `BAD_CONFIGURATION`: it is no set, or has too many keys.
pub fn read_set(text: &[u8], algorithms: &[Algorithm], most: usize) -> Result<Set> {
    let bad = |detail: &'static str| Code::BadConfiguration.error(detail);
    let set =
        Json::read(text).filter(Json::is_object).ok_or_else(|| bad("a set of keys is an object of JSON"))?;
    let keys = set.get("keys").filter(|_| !set.has_duplicates());
    let keys =
        keys.filter(Json::is_array).ok_or_else(|| bad("a set of keys has one member keys, an array"))?;
    let mut read = Vec::new();
    let mut skipped = 0;
    for (index, key) in keys.elements().enumerate() {
        if index >= most {
            return Err(Code::BadConfiguration.error(format!("a set of keys has more than {most}")));
        }
        match one(&key, algorithms).filter(|key| !key.is_secret()) {
            Some(key) => read.push(key),
            None => skipped += 1,
        }
    }
    Ok(Set { keys: Keys::new(read), skipped })
}

/// Parses one configured key, which may be a secret.
///
/// # Errors
/// `BAD_CONFIGURATION`: it cannot be used.
pub fn read_key(text: &[u8], algorithms: &[Algorithm]) -> Result<Key> {
    let key = Json::read(text).and_then(|key| one(&key, algorithms));
    key.ok_or_else(unusable)
}

fn one(key: &Json<'_>, algorithms: &[Algorithm]) -> Option<Key> {
    if !key.is_object() || key.has_duplicates() {
        return None;
    }
    let is = |name, text| key.get(name).is_none_or(|value| value.is_text(text));
    let verifies = key.get("key_ops").is_none_or(|uses| uses.elements().any(|one| one.is_text("verify")));
    if !is("use", "sig") || !verifies {
        return None;
    }
    let material = material(key)?;
    // A key is for one algorithm (RFC 8725, section 3.1): the one that it names, or the first of its kind.
    let may = |algorithm: &&Algorithm| {
        algorithm.kind() == material.kind()
            && key.get("alg").is_none_or(|name| name.is_text(algorithm.name()))
    };
    let algorithm = *algorithms.iter().find(may)?;
    let id = match key.get("kid") {
        Some(id) => Some(id.text()?.into_owned()),
        None => None,
    };
    Key::new(id, algorithm, material).ok()
}

fn material(key: &Json<'_>) -> Option<Material> {
    let bytes = |name| base64url_vec(key.get(name)?.text()?.as_bytes());
    let kind = key.get("kty")?;
    let curve = key.get("crv");
    let is_on = |name| curve.as_ref().is_some_and(|curve| curve.is_text(name));
    if kind.is_text("oct") {
        Some(Material::Secret(bytes("k")?.into()))
    } else if kind.is_text("RSA") {
        Some(Material::rsa(&bytes("n")?, &bytes("e")?))
    } else if kind.is_text("EC") {
        let (kind, length) = if is_on("P-256") {
            (Kind::P256, 32)
        } else if is_on("P-384") {
            (Kind::P384, 48)
        } else {
            return None;
        };
        let (x, y) = (bytes("x")?, bytes("y")?);
        let is_whole = x.len() == length && y.len() == length;
        is_whole.then(|| Material::Point(kind, [&[4], x.as_slice(), &y].concat().into()))
    } else if kind.is_text("OKP") && is_on("Ed25519") {
        let point = bytes("x")?;
        (point.len() == 32).then(|| Material::Point(Kind::Ed25519, point.into()))
    } else {
        None
    }
}

fn unusable() -> Error {
    Code::BadConfiguration.error("a JSON Web Key cannot verify with any of the algorithms")
}
