//! Whether a request is let in, and what it may then take: decisions, the limits of tenants, and tokens.
//!
//! The edge and the library use it: a [`Gate`](access::Gate) guards a route, and gives a permit or a refusal ([`access`]).
//! It asks a hook, or verifies a token ([`tokens`]). A request is an [`Asked`](access::Asked), whichever way it was
//! received. Nothing here has a socket, runs a task, or knows the hook.
//!
//! It guarantees: requests whose keys differ never share a decision. After a revocation has returned, no thread lets a
//! request in by what was revoked. A flood of unknown tokens delays questions of its own network alone. A refused token
//! costs no allocation.

pub mod access;
#[cfg(not(loom))]
pub mod tokens;
