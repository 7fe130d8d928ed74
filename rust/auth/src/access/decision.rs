//! What is decided about requests.

use std::time::Instant;

use super::tenants::{Allotment, TenantLimits};
use penstock_memory::sys::since_1970;

/// What a request may that is let in.
#[derive(Debug, Clone, Default)]
pub struct Grant {
    /// On whose account it is.
    pub tenant: Option<Box<str>>,
    /// What the tenant may have, in place of what all may.
    pub limits: Option<TenantLimits>,
    /// Unix seconds from which on it is none.
    pub expires: Option<u64>,
    /// Patterns of the paths that it is for ([`is_on`](super::is_on)), without what is stripped; empty: all of the route's.
    pub paths: Vec<Box<str>>,
    /// The only client that it is for, as the text of an address.
    pub address: Option<Box<str>>,
}

/// How a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// 400 to 599.
    pub status: u16,
    /// What the client is told; none for the sentence of the code.
    pub detail: Option<Box<str>>,
    /// What `WWW-Authenticate` says (RFC 9110, section 11.6.1).
    pub challenge: Option<Box<str>>,
}

/// What is decided.
#[derive(Debug, Clone)]
pub enum Verdict {
    /// It is let in.
    Allow(Grant),
    /// It is not.
    Deny(Denial),
}

/// What is decided, and for how long.
#[derive(Debug)]
pub struct Decision {
    /// What.
    pub verdict: Verdict,
    /// What its tenant may have, if it has one.
    pub allotment: Option<Allotment>,
    /// From when on it is asked for again.
    pub until: Instant,
}

impl Decision {
    /// What may be done by it, if anything.
    pub fn grant(&self) -> Option<&Grant> {
        match &self.verdict {
            Verdict::Allow(grant) => Some(grant),
            Verdict::Deny(_) => None,
        }
    }

    /// How a request is refused by it, if it is.
    pub fn denial(&self) -> Option<&Denial> {
        match &self.verdict {
            Verdict::Deny(denial) => Some(denial),
            Verdict::Allow(_) => None,
        }
    }

    /// Whom it is about.
    pub fn tenant(&self) -> Option<&str> {
        self.allotment.as_ref().map(|allotment| allotment.tenant.name())
    }
}

/// Seconds since 1970.
pub fn unix_seconds() -> u64 {
    since_1970().as_secs()
}

/// Whether `pattern` stands for a path, which is given in pieces: one that ends in `*` for all that begin so, any other
/// for itself alone. Both are compared as they stand on the wire.
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
