mod checker;
mod head;
mod link;
mod queue;

use crate::pool::testing::config;
use crate::pool::{Pool, REGION};

fn pool() -> Pool {
    Pool::new(config(REGION)).unwrap()
}
