//! A decision about requests.

use std::time::Instant;

use super::tenants::{Allotment, TenantLimits};
use penstock_memory::sys::since_1970;

/// What a request may do that is let in.
#[derive(Debug, Clone, Default)]
pub struct Grant {
    /// The tenant that it is counted for.
    pub tenant: Option<Box<str>>,
    /// Limits of the tenant, in place of the default.
    pub limits: Option<TenantLimits>,
    /// When it expires, in Unix seconds.
    pub expires: Option<u64>,
    /// Patterns of the paths that it is for ([`is_on`](super::is_on)), without the token; empty: all of the route's.
    pub paths: Vec<Box<str>>,
    /// The only client that it is for, as the text of an address.
    pub address: Option<Box<str>>,
}

/// How a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// 400 to 599.
    pub status: u16,
    /// The detail for the client; `None`: the sentence of the error code.
    pub detail: Option<Box<str>>,
    /// The value of `WWW-Authenticate` (RFC 9110, section 11.6.1).
    pub challenge: Option<Box<str>>,
}

/// The answer of a hook or a verifier.
#[derive(Debug, Clone)]
pub enum Verdict {
    /// It is let in.
    Allow(Grant),
    /// It is not.
    Deny(Denial),
}

/// A verdict, with its lifetime.
#[derive(Debug)]
pub struct Decision {
    /// What.
    pub verdict: Verdict,
    /// The limits of its tenant, if it has one.
    pub allotment: Option<Allotment>,
    /// When it expires.
    pub until: Instant,
}

impl Decision {
    /// The grant, if it lets requests in.
    pub fn grant(&self) -> Option<&Grant> {
        match &self.verdict {
            Verdict::Allow(grant) => Some(grant),
            Verdict::Deny(_) => None,
        }
    }

    /// The denial, if it refuses requests.
    pub fn denial(&self) -> Option<&Denial> {
        match &self.verdict {
            Verdict::Deny(denial) => Some(denial),
            Verdict::Allow(_) => None,
        }
    }

    /// The name of its tenant.
    pub fn tenant(&self) -> Option<&str> {
        self.allotment.as_ref().map(|allotment| allotment.tenant.name())
    }
}

/// Seconds since 1970.
pub fn unix_seconds() -> u64 {
    since_1970().as_secs()
}

/// Whether `pattern` matches a path, which is given in pieces. A pattern that ends in `*` matches by prefix, any other
/// exactly. Neither is decoded.
#[cfg(not(loom))]
pub fn is_on(pattern: &str, path: &[&str]) -> bool {
    let (mut rest, is_open) = pattern.strip_suffix('*').map_or((pattern, false), |start| (start, true));
    for piece in path {
        match rest.strip_prefix(piece) {
            Some(rest_of_pattern) => rest = rest_of_pattern,
            None => return is_open && piece.starts_with(rest),
        }
    }
    rest.is_empty()
}
