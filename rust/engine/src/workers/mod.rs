//! Worker processes: the application runs in child processes, everything else in the process that has
//! the sockets.
//!
//! The parent is the *edge*. It sends each request for the application to a worker, over a Unix socket that no other
//! process can reach, and gets the answer there (`exchange`). A worker puts the request into the queue of its own
//! application (`answering`). What a worker relays is fetched by the edge and attached to the response there (`fetching`):
//! the worker never sees such a body, and is not needed any more. Topics are the edge's: a subscriber that a worker has
//! admitted (`admitting`) is attached in the same way. The invariant: a process that ends, hangs or lies costs at most the
//! requests that it had to decide.
//!
//! ```text
//!   edge                                      worker
//!   client ─ lane ─ link ─ exchange ── wire ── answering ─ link ─ the application
//!                            │                    │
//!                fetching, admitting (plan)     edge (what relays and subscriptions order)
//! ```

mod acceptor;
mod admitting;
mod answering;
mod counts;
mod edge;
mod ends;
mod exchange;
mod fetching;
mod flow;
mod flows;
mod lines;
mod member;
mod message;
mod notice;
mod plan;
mod shared;
mod wire;
mod worker;
#[expect(clippy::module_inception, reason = "the list of them")]
mod workers;

pub use counts::{Counted, Restart, WorkersStats};
pub use edge::Edge;
pub use lines::Lines;
pub use notice::{Begun, Feeding, Notice, Orphan};
pub use plan::{Plan, Planned, Topics};
pub use worker::Worker;
pub use workers::Workers;

/// Decodes `bytes` as a message of `kind`, and encodes it again, with its length and kind. For tests that compare the
/// two.
///
/// # Errors
/// `INTERNAL`: they are no such message.
pub fn rewritten(kind: u8, bytes: &[u8]) -> crate::error::Result<Vec<u8>> {
    let mut written = Vec::new();
    message::Message::decode(kind, bytes)?.encode(&mut written);
    Ok(written)
}

#[cfg(test)]
mod tests;
