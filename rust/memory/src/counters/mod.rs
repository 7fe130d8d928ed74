//! Counts to which many threads add, and which any thread reads.

mod by_name;
mod counter;
mod histogram;

pub use by_name::{ByName, OTHER};
pub use counter::Counter;
pub use histogram::{BOUNDS, Buckets, Histogram};
