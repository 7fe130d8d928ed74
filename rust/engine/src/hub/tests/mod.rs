//! The history of a topic against a list of events, and what a hub does with its topics.

mod external;
mod history;
mod hub;
mod resuming;

use crate::pool::testing::config;
use crate::pool::{Pool, REGION};

/// A pool of so many regions.
fn pool(regions: usize) -> Pool {
    Pool::new(config(regions * REGION)).expect("a small mapping")
}
