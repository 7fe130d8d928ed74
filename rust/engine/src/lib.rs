//! The engine of penstock: memory, framing, streams and the origin client. It knows no Python.
//!
//! Data flows one way: socket → slab → frame → consumer. Dependencies point one way too:
//! `origin`/`source` → `wire`/`framing`/`stream` → `pool` → `sys`; `relay` and `cache` need `wire` alone. `hub` stands
//! beside `origin`: what is published takes the place of what an origin sends. `access` needs `wire` alone. `metrics` reads
//! what all of them count.

pub mod access;
pub mod app;
#[cfg(not(loom))]
pub mod cache;
mod clock;
pub mod counters;
#[cfg(not(loom))]
pub mod edge;
pub mod error;
pub mod events;
pub mod framing;
pub mod hub;
pub mod inspect;
pub mod json;
#[cfg(not(loom))]
pub mod metrics;
#[cfg(not(loom))]
mod net;
#[cfg(not(loom))]
pub mod origin;
pub mod pool;
pub mod relay;
#[cfg(not(loom))]
pub mod runtime;
#[cfg(not(loom))]
pub mod source;
pub mod store;
pub mod stream;
mod sync;
mod sys;
#[cfg(not(loom))]
pub mod tokens;
pub mod wire;
#[cfg(not(loom))]
pub mod workers;

pub use error::{Code, Error, Result};
pub use sys::EventFd;
#[cfg(not(loom))]
pub use sys::descriptor::duplicate;
