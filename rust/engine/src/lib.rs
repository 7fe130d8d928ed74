//! The engine of penstock: connections, origins, a cache, topics, and the server that joins them. It knows no Python.
//!
//! For the boundary to Python, and for nothing else. Data flows one way: socket → slab → frame → (cache, topic or consumer) →
//! socket.
//!
//! It guarantees that nothing is read without room for it in the pool, that a slow client slows its own origin alone, and that
//! a body that was cut short never looks whole. Its folders are layers: `.ci/structure/structure.toml` says which may import
//! which.

pub mod app;
#[cfg(not(loom))]
mod clock;
#[cfg(not(loom))]
mod codec;
#[cfg(not(loom))]
pub mod collector;
#[cfg(not(loom))]
mod drain;
#[cfg(not(loom))]
pub mod edge;
pub mod events;
pub mod hub;
pub mod inspect;
#[cfg(not(loom))]
pub mod metrics;
#[cfg(not(loom))]
mod net;
#[cfg(not(loom))]
pub mod origin;
#[cfg_attr(loom, allow(dead_code, reason = "what uses it is not a part of the models"))]
mod outcome;
#[cfg(not(loom))]
pub mod pressure;
#[cfg(not(loom))]
pub mod relay_spec;
#[cfg(not(loom))]
pub mod runtime;
#[cfg(all(test, not(loom)))]
mod simulation;
#[cfg(not(loom))]
pub mod source;
pub mod store;
pub mod stream;
#[cfg(not(loom))]
pub mod takeover;
pub mod work;
#[cfg(not(loom))]
pub mod workers;

// The crates below, by the names of their modules.
pub use penstock_auth::access;
#[cfg(not(loom))]
pub use penstock_auth::tokens;
pub use penstock_error as error;
pub use penstock_error::{Code, Error, Result};
/// What is fuzzed of HTTP/2.
#[cfg(not(loom))]
pub mod http2 {
    pub use crate::net::http2::{Excess, excess_of};
}
pub use penstock_http::{framing, json, relay, wire};
use penstock_memory::holder;
use penstock_memory::sync;
#[cfg(not(loom))]
use penstock_memory::sys;
pub use penstock_memory::sys::EventFd;
#[cfg(not(loom))]
pub use penstock_memory::sys::descriptor::duplicate;
pub use penstock_memory::{counters, pool};
#[cfg(not(loom))]
pub use penstock_rfc9111 as cache;
#[cfg(not(loom))]
pub use penstock_tls as tls;
#[cfg(not(loom))]
pub use penstock_trace as trace;
