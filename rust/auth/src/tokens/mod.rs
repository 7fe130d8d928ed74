//! Whether a token lets a request in: signed URLs and JSON Web Tokens (RFC 7515, 7517, 7518, 7519, 8037; the practices
//! of RFC 8725).
//!
//! Verifying is a function of bytes, keys and the clock: no socket, no store, nobody else to ask. Whoever answers
//! requests may call it, on any thread. The invariants: what a key is for is said by whoever configured the key and never
//! by a token; nothing that a token says is followed before its signature has been found right, but for what picks the
//! key; signatures are compared in constant time, by ring; and a token that is refused has cost no allocation of ours, so
//! that a flood of them costs time alone.

mod algorithm;
mod claims;
mod decode;
mod header;
mod jwk;
mod jwt;
mod key;
mod pattern;
mod pem;
mod place;
mod signed;

#[cfg(test)]
mod tests;

pub use algorithm::Algorithm;
pub use claims::{Claims, PathRule};
pub use jwk::{Set, read_key, read_set};
pub use jwt::Jwt;
pub use key::{Key, Keys};
pub use pattern::Pattern;
pub use place::Places;
pub use signed::{Secret, SignedUrl};

use std::time::Instant;

use crate::access::{Decision, Denial, Verdict};
use penstock_memory::sync::Arc;

/// The last second of the year 9999: what is said to last longer lasts as long, so that nobody computes with more.
const END: u64 = 253_402_300_799;

/// How a request without a good token is answered. Made once: a flood of them is to cost nothing.
fn denial(status: u16, challenge: Option<&str>) -> Arc<Decision> {
    let denial = Denial { status, detail: None, challenge: challenge.map(Into::into) };
    Arc::new(Decision { verdict: Verdict::Deny(denial), allotment: None, until: Instant::now() })
}
