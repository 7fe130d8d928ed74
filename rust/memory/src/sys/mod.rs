//! Every raw system call of the engine, and with `pool::slab` every `unsafe` block.
//!
//! The rest of the crate denies `unsafe_code`. What is exported here is safe to call, whatever the caller does: each type
//! keeps the invariant that its own SAFETY lines rely on. What only a caller could promise is an `unsafe fn`, which only
//! `pool::slab` may call.
#![expect(unsafe_code, reason = "system calls; each block names who guarantees it")]

mod access;
#[cfg(not(loom))]
pub mod descriptor;
mod event;
pub mod fork;
pub(crate) mod mapping;
pub(crate) mod memory;

pub use event::EventFd;
