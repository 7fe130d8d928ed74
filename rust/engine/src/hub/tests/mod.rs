//! The history of a topic against a list of events, and what a hub does with its topics.

mod external;
mod history;
mod hub;
mod linked;
mod resuming;
mod simulation;

use super::History;
use super::budget::HistoryBudget;
use super::log::Room;
use crate::pool::testing::config;
use crate::pool::{Pool, REGION};
use crate::sync::Arc;

/// A pool of so many regions.
fn pool(regions: usize) -> Pool {
    Pool::new(config(regions * REGION)).expect("a small mapping")
}

/// Room for a topic in a pool of its own, in a hub that may take `memory` bytes.
fn room(history: History, memory: usize) -> Room {
    let pool = pool(4);
    let budget = Arc::new(HistoryBudget::new(memory, pool.stored()));
    Room { pool, budget, history }
}
