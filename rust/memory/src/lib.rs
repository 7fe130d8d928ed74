//! The bounded memory of penstock, the system calls, and what threads share.
//!
//! For every crate above: what a byte lives in on its way through penstock ([`pool`]), how descriptors and the
//! operating system are asked ([`sys`]), counts that many threads add to ([`counters`]), and the primitives that loom can
//! check ([`sync`]). It knows no protocol and runs no task.
//!
//! It guarantees that every `unsafe` block of the engine stands here; that memory never exceeds the pool's budget; and that
//! the bytes of a [`pool::Slice`] never change while a handle to it lives, on whichever thread.

pub mod counters;
pub mod pool;
pub mod sync;
pub mod sys;
