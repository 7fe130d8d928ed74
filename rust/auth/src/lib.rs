//! Whether a request is let in, and what it may then take: decisions, the limits of tenants, and tokens.
//!
//! For what answers requests: a [`Gate`](access::Gate) stands before a route and gives a permit or a refusal ([`access`]); a
//! token decides in place of a question ([`tokens`]). A request is what [`Asked`](access::Asked) shows of it, however it was
//! received. Nothing here has a socket, runs a task, or knows who answers a question.
//!
//! It guarantees that no request gets the decision of another whose parts differ; that after a revocation has returned, no
//! request on any thread is let in by what was revoked; that what a flood of unknown tokens keeps waiting is its own network
//! alone; and that a token that is refused has cost no allocation.

pub mod access;
#[cfg(not(loom))]
pub mod tokens;
