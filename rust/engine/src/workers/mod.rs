//! Worker processes: the application runs in children, and everything else in the process that has the sockets.
//!
//! The parent is the *edge*: it takes each request that goes to the application to a worker, over a Unix socket that nobody
//! else can reach, and is told there what to answer (`exchange`). A worker offers what comes to its own application's
//! queue, as if the client were here (`answering`). What a worker relays is fetched by the edge, and attached there
//! (`fetching`): such a body never comes to the worker, and does not need it any more. Topics are the edge's: whom a worker
//! lets in to one (`admitting`) is attached in the same way. The invariant: a process that ends, hangs or lies costs at most the
//! requests that it was to decide.
//!
//! ```text
//!   edge                                      worker
//!   client ─ lane ─ link ─ exchange ── wire ── answering ─ link ─ whoever answers for the application
//!                            │                    │
//!                fetching, admitting (plan)     edge (what relays and subscriptions order)
//! ```

mod acceptor;
mod admitting;
mod answering;
mod codec;
mod counts;
mod edge;
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

/// What `bytes` are as a message of `kind`, as it is written: its length and its kind, and what it says. For whoever asks
/// whether that is the same again.
///
/// # Errors
/// `INTERNAL`: they are none.
pub fn rewritten(kind: u8, bytes: &[u8]) -> crate::error::Result<Vec<u8>> {
    let mut written = Vec::new();
    message::Message::decode(kind, bytes)?.encode(&mut written);
    Ok(written)
}

#[cfg(test)]
mod tests;
