//! Decisions about requests: asked for once, cached for their lifetime, revoked at once.
//!
//! A [`Gate`] guards a route. It makes a key of the parts of a request that decide, and looks for a decision in
//! [`Decisions`]. Without one, the first request asks the hook, and others with the same key wait for that answer. A
//! [`Verifier`] decides without a hook, by a token. A decision may name a tenant, whose use is counted over all threads
//! ([`Allotment`]). Nothing here knows a connection, or an interpreter.
//!
//! ```text
//!   gate ─ key (asked, reading) ─ decisions ─┬─ table    remembered
//!                                            ├─ question ─ inbox    asked
//!                                            └─ holder   what runs
//! ```

mod counts;
mod decision;
mod decisions;
mod inbox;
mod limiter;
mod question;
mod table;
mod tenants;

#[cfg(not(loom))]
mod asked;
#[cfg(not(loom))]
mod gate;
#[cfg(not(loom))]
mod key;
#[cfg(not(loom))]
pub mod reading;
#[cfg(not(loom))]
mod verifier;

#[cfg(not(loom))]
pub use asked::{Asked, Headers, without_port};
pub use counts::{Counted, DecisionStats};
#[cfg(not(loom))]
pub use decision::is_on;
pub use decision::{Decision, Denial, Grant, Verdict, unix_seconds};
pub use decisions::Permit;
pub use decisions::{AccessConfig, Decisions, Joined, Posed, Remembered, Whose};
#[cfg(not(loom))]
pub use gate::{Begun, Gate, Pass, Refusal};
pub use inbox::Request;
#[cfg(not(loom))]
pub use key::{Part, Secret, SecretBytes, own_secret, take_secret};
pub use limiter::{Entered, Limiter, Limits};
pub use question::{Outcome, Waiting};
pub use table::Key;
pub use tenants::{Allotment, Tenant, TenantCounts, TenantLimits};
#[cfg(not(loom))]
pub use verifier::{Decider, Verifier};

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod loom_models;
