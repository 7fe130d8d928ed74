//! The header of a JSON Web Signature (RFC 7515, section 4): the members that select a key.
//!
//! It is read before the signature is verified, so nothing is fetched, followed or trusted because of it. Members that
//! carry or name a key of the token's own (`jwk`, `jku`, `x5c`, `x5u`) are ignored, as section 4 allows.

use super::algorithm::Algorithm;
use super::decode::base64url;
use super::key::Named;
use penstock_error::{Code, Error, Result};
use penstock_http::json::Json;

/// Bytes of a header: an algorithm, a type, the id of a key, and room for ignored members. Arbitrary.
pub(super) const LONGEST: usize = 1024;

/// Members of a header. RFC 7515 knows eleven.
const MEMBERS: usize = 16;

/// The members of a header.
#[derive(Debug)]
pub(super) struct Header<'a> {
    pub(super) key: Named<'a>,
    pub(super) kind: Option<Json<'a>>,
}

impl<'a> Header<'a> {
    /// Decodes a header into `room`, and parses it. Allocates nothing.
    ///
    /// # Errors
    /// `TOKEN_MALFORMED`; `TOKEN_WRONG_ALGORITHM` for an unknown algorithm, or `none`.
    pub(super) fn read(text: &[u8], room: &'a mut [u8; LONGEST]) -> Result<Self> {
        let bytes = base64url(text, room).ok_or_else(malformed)?;
        let json = Json::read(bytes).filter(Json::is_object).ok_or_else(malformed)?;
        if json.members().nth(MEMBERS).is_some() || json.has_duplicates() {
            return Err(malformed());
        }
        let (mut algorithm, mut id, mut kind) = (None, None, None);
        for member in json.members() {
            if member.is("alg") {
                algorithm = Some(member.value);
            } else if member.is("kid") {
                id = Some(member.value);
            } else if member.is("typ") {
                kind = Some(member.value);
            } else if member.is("crit") || member.is("zip") || member.is("enc") {
                // Critical extensions are not supported, and an encrypted token has no signature.
                return Err(malformed());
            }
        }
        let is_string = |value: &Option<Json<'_>>| value.as_ref().is_none_or(Json::is_string);
        let algorithm = algorithm.filter(Json::is_string).ok_or_else(malformed)?;
        if !is_string(&id) || !is_string(&kind) {
            return Err(malformed());
        }
        let Some(algorithm) = Algorithm::of(&algorithm) else {
            return Err(Code::TokenWrongAlgorithm.error("the token's algorithm is not supported"));
        };
        Ok(Self { key: Named { algorithm, id }, kind })
    }
}

fn malformed() -> Error {
    Code::TokenMalformed.error("the token's header is malformed")
}
