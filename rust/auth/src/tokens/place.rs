//! The place of the token in a request, and the request without it.
//!
//! One name serves for all places: `token=VALUE` is a parameter of the query, a cookie, or the first segment after the
//! route's prefix. Players resolve the URLs of segments against that of the playlist, which keeps a segment of the path
//! and drops the query.

use std::borrow::Cow;

use crate::access::Asked;
use crate::access::reading::cookies;
use penstock_error::{Code, Result};

/// The places of tokens, in the order of the search; the first token counts.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "places that do not depend on one another")]
pub struct Places {
    /// The name of a token in a path, a query or a cookie.
    pub name: String,
    /// As the first segment after the route's prefix.
    pub path: bool,
    /// As a parameter of the query.
    pub query: bool,
    /// In `Authorization: Bearer` (RFC 6750, section 2.1).
    pub bearer: bool,
    /// As a cookie.
    pub cookie: bool,
    /// Whether the origin gets a token that is in a field.
    pub forward: bool,
}

/// The token in a path, and what follows it.
struct Split<'a> {
    token: &'a str,
    behind: &'a str,
}

/// The tokens in one place.
#[derive(Default)]
struct Candidates<'a> {
    first: Option<&'a [u8]>,
    several: bool,
}

impl<'a> Candidates<'a> {
    fn note(&mut self, token: &'a [u8]) {
        self.several = self.first.is_some();
        self.first.get_or_insert(token);
    }
}

impl Places {
    /// The token of a request, not decoded.
    ///
    /// # Errors
    /// `TOKEN_MISSING`; `TOKEN_MALFORMED` if a place has several.
    pub(super) fn token<'a>(&self, asked: &Asked<'a>) -> Result<&'a [u8]> {
        if let Some(split) = self.in_path(asked) {
            return Ok(split.token.as_bytes());
        }
        let mut found = Candidates::default();
        if self.query {
            self.in_query(asked.query()).for_each(|token| found.note(token.as_bytes()));
        }
        if self.bearer && found.first.is_none() {
            asked.headers.each("authorization", &mut |value| {
                if let Some(token) = bearer(value) {
                    found.note(token);
                }
            });
        }
        if self.cookie && found.first.is_none() {
            asked.headers.each("cookie", &mut |line| {
                cookies(line, self.name.as_bytes(), &mut |token| found.note(token));
            });
        }
        match found {
            Candidates { several: true, .. } => {
                Err(Code::TokenMalformed.error("the request has more than one token"))
            }
            Candidates { first, .. } => {
                first.ok_or_else(|| Code::TokenMissing.error("the request has no token"))
            }
        }
    }

    /// The path of a request without its token, in two pieces.
    pub(super) fn path<'a>(&self, asked: &Asked<'a>) -> [&'a str; 2] {
        match self.in_path(asked) {
            Some(split) => [asked.prefix, split.behind],
            None => [asked.path(), ""],
        }
    }

    /// The target of a request without its token; `None` if the target has no token.
    pub(super) fn stripped(&self, asked: &Asked<'_>) -> Option<String> {
        let in_path = self.in_path(asked);
        let in_query = self.query && self.in_query(asked.query()).next().is_some();
        if in_path.is_none() && !in_query {
            return None;
        }
        let mut target = self.path(asked).concat();
        let is_kept = |parameter: &&str| !(self.query && self.value(parameter).is_some());
        // A question mark begins a query, even an empty one.
        let mut separator = '?';
        if asked.target.contains('?') {
            for parameter in asked.query().split('&').filter(is_kept) {
                target.push(separator);
                target.push_str(parameter);
                separator = '&';
            }
        }
        Some(target)
    }

    /// The value of a field without the token; `None` if nothing else is in it.
    pub(super) fn forwarded<'a>(&self, name: &[u8], value: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        if !self.forward {
            if self.bearer && name.eq_ignore_ascii_case(b"authorization") && bearer(value).is_some() {
                return None;
            }
            if self.cookie && name.eq_ignore_ascii_case(b"cookie") {
                return self.cookies_without(value);
            }
        }
        Some(Cow::Borrowed(value))
    }

    fn cookies_without<'a>(&self, line: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        let is_token = |pair: &&[u8]| {
            let name = pair.split(|byte| *byte == b'=').next().unwrap_or_default();
            name.trim_ascii() == self.name.as_bytes()
        };
        let pairs = || line.split(|byte| *byte == b';');
        if !pairs().any(|pair| is_token(&pair)) {
            return Some(Cow::Borrowed(line));
        }
        let left: Vec<_> = pairs().filter(|pair| !is_token(pair)).collect();
        let left = left.join(&b';').trim_ascii().to_vec();
        (!left.is_empty()).then_some(Cow::Owned(left))
    }

    fn in_path<'a>(&self, asked: &Asked<'a>) -> Option<Split<'a>> {
        let below = asked.path().strip_prefix(asked.prefix).filter(|_| self.path)?;
        let (segment, behind) = below.split_once('/').unwrap_or((below, ""));
        self.value(segment).map(|token| Split { token, behind })
    }

    fn in_query<'a>(&self, query: &'a str) -> impl Iterator<Item = &'a str> {
        query.split('&').filter_map(|parameter| self.value(parameter))
    }

    fn value<'a>(&self, pair: &'a str) -> Option<&'a str> {
        pair.strip_prefix(self.name.as_str())?.strip_prefix('=')
    }
}

/// The token of an Authorization field, if it has one.
pub(super) fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}
