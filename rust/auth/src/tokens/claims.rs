//! The required claims of a JSON Web Token, and the grant made of them (RFC 7519, section 4.1).

use super::END;
use super::pattern::Pattern;
use crate::access::{Grant, is_on};
use penstock_error::{Code, Error, Result};
use penstock_http::json::Json;

/// Path patterns in one token at most; each request is compared with each. Arbitrary.
const PATTERNS: usize = 64;

/// Bytes of the name of a tenant. Arbitrary.
const TENANT: usize = 256;

/// The source of the paths that a token is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathRule {
    /// None: the token is for all paths of the route.
    All,
    /// A claim that is a pattern, or an array of patterns.
    Claim(String),
    /// A pattern with claims in it.
    Template(Pattern),
}

/// The requirements on claims.
#[derive(Debug, Clone)]
pub struct Claims {
    /// Accepted issuers; if empty, any.
    pub issuers: Vec<String>,
    /// Accepted audiences; if empty, a token with an audience is refused.
    pub audiences: Vec<String>,
    /// The required type in the header, such as `at+jwt`; `None`: any.
    pub kind: Option<String>,
    /// Seconds by which the issuer's clock may be wrong.
    pub leeway: u64,
    /// Claims that must be there.
    pub required: Vec<String>,
    /// The claim that names the tenant.
    pub tenant: Option<String>,
    /// The source of its paths.
    pub paths: PathRule,
}

impl Claims {
    /// Checks the type in the header of a token (RFC 8725, section 3.11).
    ///
    /// # Errors
    /// `TOKEN_CLAIM_MISSING`.
    pub(super) fn check_kind(&self, kind: Option<&Json<'_>>) -> Result<()> {
        let Some(wanted) = &self.kind else { return Ok(()) };
        // RFC 7515, section 4.1.9: the prefix may be left out, and case does not matter.
        let plain = |text: &str| text.strip_prefix("application/").unwrap_or(text).to_owned();
        let said = kind.and_then(Json::text).map(|text| plain(&text.to_ascii_lowercase()));
        if said == Some(plain(&wanted.to_ascii_lowercase())) {
            return Ok(());
        }
        Err(Code::TokenClaimMissing.error("the token is of another type"))
    }

    /// The grant of the claims of a token with a valid signature. If its paths are required, they include `path`.
    ///
    /// # Errors
    /// The code says what is wrong with the claims.
    pub fn grant(&self, payload: &[u8], now: u64, path: &[&str]) -> Result<Grant> {
        let claims = Json::read(payload).filter(Json::is_object).ok_or_else(malformed)?;
        if claims.has_duplicates() {
            return Err(malformed());
        }
        if self.required.iter().any(|name| claims.get(name).is_none()) {
            return Err(missing());
        }
        let expires = self.check_times(&claims, now)?;
        self.check_parties(&claims)?;
        let tenant = match &self.tenant {
            Some(name) => Some(claims.get(name).as_ref().and_then(plain).ok_or_else(missing)?),
            None => None,
        };
        let paths = self.paths(&claims)?;
        if !paths.is_empty() && !paths.iter().any(|pattern| is_on(pattern, path)) {
            return Err(Code::TokenPathNotCovered.error("the token is not for this path"));
        }
        Ok(Grant { tenant, expires, paths, ..Grant::default() })
    }

    /// The time of expiry, if the token has one.
    fn check_times(&self, claims: &Json<'_>, now: u64) -> Result<Option<u64>> {
        let time = |name| claims.get(name).map(|value| seconds(&value).ok_or_else(malformed)).transpose();
        let (expires, begins, issued) = (time("exp")?, time("nbf")?, time("iat")?);
        let expires = expires.map(|(_, expires)| expires.saturating_add(self.leeway));
        if expires.is_some_and(|expires| now >= expires) {
            return Err(Code::TokenExpired.error("the token has expired"));
        }
        let is_future =
            |time: Option<(u64, u64)>| time.is_some_and(|(_, time)| time > now.saturating_add(self.leeway));
        if is_future(begins) || is_future(issued) {
            return Err(Code::TokenNotYetValid.error("the token is not valid yet"));
        }
        Ok(expires)
    }

    fn check_parties(&self, claims: &Json<'_>) -> Result<()> {
        let is_one_of = |value: &Json<'_>, known: &[String]| known.iter().any(|known| value.is_text(known));
        let issuer = claims.get("iss");
        if !self.issuers.is_empty() && !issuer.is_some_and(|issuer| is_one_of(&issuer, &self.issuers)) {
            return Err(Code::TokenWrongIssuer.error("the token is of another issuer"));
        }
        let is_for_us = match claims.get("aud") {
            None => self.audiences.is_empty(),
            Some(one) if one.is_string() => is_one_of(&one, &self.audiences),
            Some(several) => several.elements().any(|one| is_one_of(&one, &self.audiences)),
        };
        if !is_for_us {
            return Err(Code::TokenWrongAudience.error("the token is for another audience"));
        }
        Ok(())
    }

    /// Empty only if the token is for all paths.
    fn paths(&self, claims: &Json<'_>) -> Result<Vec<Box<str>>> {
        match &self.paths {
            PathRule::All => Ok(Vec::new()),
            PathRule::Claim(name) => {
                let claim = claims.get(name).ok_or_else(missing)?;
                let several = if claim.is_string() {
                    vec![claim]
                } else {
                    claim.elements().take(PATTERNS + 1).collect()
                };
                let pattern =
                    |value: &Json<'_>| value.text().filter(|text| text.starts_with('/')).map(Into::into);
                let patterns: Option<Vec<_>> = several.iter().map(pattern).collect();
                match patterns {
                    Some(patterns) if patterns.len() > PATTERNS => Err(malformed()),
                    Some(patterns) if !patterns.is_empty() => Ok(patterns),
                    _ => Err(missing()),
                }
            }
            PathRule::Template(template) => {
                let filled = template.fill(|name| claims.get(name).as_ref().and_then(plain));
                Ok(vec![filled.ok_or_else(missing)?])
            }
        }
    }
}

/// A text, or the digits of a whole number.
fn plain(value: &Json<'_>) -> Option<Box<str>> {
    let text = match value.text() {
        Some(text) => text.into_owned(),
        None if value.number().is_some() => String::from_utf8(value.bytes().to_vec()).ok()?,
        None => return None,
    };
    let is_plain = !text.is_empty() && text.len() <= TENANT && !text.chars().any(char::is_control);
    is_plain.then(|| text.into())
}

/// The whole seconds below and above a `NumericDate`, which may have a fraction. `None` if it is no date from 1970 to the
/// end of the year 9999: then the issuer meant something else.
fn seconds(value: &Json<'_>) -> Option<(u64, u64)> {
    #[expect(clippy::cast_precision_loss, reason = "far fewer digits than it has")]
    let seconds = value.number().filter(|seconds| (0.0..=END as f64).contains(seconds))?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the bounds above")]
    let whole = |seconds: f64| seconds as u64;
    Some((whole(seconds.floor()), whole(seconds.ceil())))
}

fn malformed() -> Error {
    Code::TokenMalformed.error("the token's claims are no JSON object, or one of them has the wrong type")
}

fn missing() -> Error {
    Code::TokenClaimMissing.error("the token lacks a required claim")
}
