//! Counts to which many threads add, and which any thread reads.

mod histogram;

pub use histogram::{BOUNDS, Buckets, Histogram};
