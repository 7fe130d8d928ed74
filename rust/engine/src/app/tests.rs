mod checker;
mod head;
mod link;
mod queue;
mod response_reference;
mod written;

use super::{Checker, Rest};
use crate::wire::tests::reference;

use crate::pool::testing::config;
use crate::pool::{Pool, REGION};

fn pool() -> Pool {
    Pool::new(config(REGION)).unwrap()
}
