//! Counts that many threads add to and any thread reads.

mod histogram;

pub(crate) use histogram::Buckets;
pub use histogram::{BOUNDS, Histogram};
