//! Every `unsafe` block and every raw system call of the engine.
//!
//! The rest of the crate denies `unsafe_code`. What is exported here is safe to call: each type keeps the
//! invariant that its own SAFETY lines rely on.
#![expect(unsafe_code, reason = "the one module that may; each block names who guarantees it")]

mod access;
#[cfg(not(loom))]
pub(crate) mod descriptor;
pub(crate) mod event;
pub(crate) mod fork;
pub(crate) mod mapping;
pub(crate) mod slab;

pub use event::EventFd;
