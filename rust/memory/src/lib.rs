//! The bounded memory of penstock, its system calls, and the values that threads share.
//!
//! Every crate above uses it: the pool that holds each byte on its way through penstock ([`pool`]), system calls
//! ([`sys`]), counts to which many threads add ([`counters`], [`active`]), tasks that wait for one event ([`waiters`]),
//! synchronisation primitives that loom can check ([`sync`]), and in whose name memory is taken ([`holder`]). It knows no
//! protocol and runs no task.
//!
//! It guarantees that all `unsafe` blocks of the engine are here; that memory never exceeds the pool's budget; and that the
//! bytes of a [`pool::Slice`] never change while a handle to it lives, on whichever thread.

pub mod active;
pub mod counters;
pub mod holder;
pub mod pool;
pub mod sync;
pub mod sys;
pub mod waiters;
