//! Who may: decisions about requests, asked for once, remembered for a while, revoked at once.
//!
//! A [`Gate`] stands before a route. It makes a key of what a request is decided by, and looks whether that was decided
//! ([`Decisions`]); if not, the first request asks whoever takes the questions, the others of the key wait for the same answer. A
//! [`Verifier`] decides in place of that by what the request brings along. What a decision allows may be a tenant's, of whom it is
//! counted what he has over all threads ([`Allotment`]). Nothing here knows a connection, or an interpreter.
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
pub use decisions::{AccessConfig, Decisions, Joined, Posed, Whose};
#[cfg(not(loom))]
pub use gate::{Begun, Gate, Pass, Refusal};
pub use inbox::Request;
#[cfg(not(loom))]
pub use key::{Part, Secret};
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
