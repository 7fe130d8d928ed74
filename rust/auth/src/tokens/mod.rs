//! Whether a token lets a request in: signed URLs and JSON Web Tokens (RFC 7515, 7517, 7518, 7519, 8037; the practices
//! of RFC 8725).
//!
//! Verification is a function of bytes, keys and the clock, without a socket or a store. Any thread may call it. The
//! invariants: the configuration says what a key is for, and never a token. Before a signature is verified, a token only
//! selects its key. ring compares signatures in constant time. A refused token costs no allocation of ours, so that a
//! flood of them costs time alone.

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

/// The last second of the year 9999, the latest time of expiry, so that sums of times do not overflow.
const END: u64 = 253_402_300_799;

/// The answer to a request without a valid token. Made once: a flood of such requests is to cost no
/// allocation.
fn denial(status: u16, challenge: Option<&str>) -> Arc<Decision> {
    let denial = Denial { status, detail: None, challenge: challenge.map(Into::into) };
    Arc::new(Decision { verdict: Verdict::Deny(denial), allotment: None, until: Instant::now() })
}
