//! Every `unsafe` block and every raw system call of the engine.
//!
//! The rest of the crate denies `unsafe_code`. What is exported here is safe to call, whatever the caller does: each type
//! keeps the invariant that its own SAFETY lines rely on, and what only a caller could promise is an `unsafe fn` that no
//! other module can call.
#![expect(unsafe_code, reason = "the one module that may; each block names who guarantees it")]

mod access;
#[cfg(not(loom))]
pub(crate) mod descriptor;
pub(crate) mod event;
pub(crate) mod fork;
pub(crate) mod mapping;
pub(crate) mod memory;
pub(crate) mod slab;

pub use event::EventFd;
