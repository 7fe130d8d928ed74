//! The header of a JSON Web Signature (RFC 7515, section 4), as far as it picks a key.
//!
//! It is read before its signature is: whatever it says, nothing is fetched, followed or trusted because of it. Members
//! that would have it carry a key of its own (`jwk`, `jku`, `x5c`, `x5u`) are passed over, as section 4 allows.

use super::algorithm::Algorithm;
use super::decode::base64url;
use super::key::Named;
use penstock_error::{Code, Error, Result};
use penstock_http::json::Json;

/// Bytes of a header: an algorithm, a type, the id of a key, and room for what is passed over. Arbitrary.
pub(super) const LONGEST: usize = 1024;

/// Members of a header. RFC 7515 knows eleven.
const MEMBERS: usize = 16;

/// What a header says.
#[derive(Debug)]
pub(super) struct Header<'a> {
    pub(super) key: Named<'a>,
    pub(super) kind: Option<Json<'a>>,
}

impl<'a> Header<'a> {
    /// Decodes a header into `room`, and reads it. Allocates nothing.
    ///
    /// # Errors
    /// `TOKEN_MALFORMED`; `TOKEN_WRONG_ALGORITHM` for one that is not known here, `none` among them.
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
                // An extension that must be understood is not; what is encrypted is no signature.
                return Err(malformed());
            }
        }
        let is_string = |value: &Option<Json<'_>>| value.as_ref().is_none_or(Json::is_string);
        let algorithm = algorithm.filter(Json::is_string).ok_or_else(malformed)?;
        if !is_string(&id) || !is_string(&kind) {
            return Err(malformed());
        }
        let Some(algorithm) = Algorithm::of(&algorithm) else {
            return Err(
                Code::TokenWrongAlgorithm.error("the token is signed by no algorithm that is known here")
            );
        };
        Ok(Self { key: Named { algorithm, id }, kind })
    }
}

fn malformed() -> Error {
    Code::TokenMalformed.error("the token's header is none")
}
