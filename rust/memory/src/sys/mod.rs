//! Every raw system call of the engine, and with `pool::slab` every `unsafe` block.
//!
//! The rest of the crate denies `unsafe_code`. A function that is exported here is safe to call, whatever the caller
//! does: each type keeps the invariant on which its SAFETY lines rely. A function with a condition for its caller is an
//! `unsafe fn`, and only `pool::slab` may call it.
#![expect(unsafe_code, reason = "system calls; each block names who guarantees it")]

mod access;
mod boxed;
mod clock;
#[cfg(not(loom))]
pub mod descriptor;
mod event;
pub mod fork;
pub(crate) mod mapping;
pub(crate) mod memory;

pub use boxed::boxed;
pub use clock::since_1970;
#[cfg(feature = "testing")]
pub use clock::testing;
pub use event::EventFd;
