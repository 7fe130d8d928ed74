//! Counts that many threads add to and any thread reads.

mod histogram;

pub use histogram::{BOUNDS, Buckets, Histogram};
