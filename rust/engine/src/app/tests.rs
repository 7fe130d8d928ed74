mod checker;
mod head;
mod link;
mod queue;
mod response_reference;
mod written;

use super::Checker;
use crate::wire::BodyFraming;
#[path = "../../../http/src/wire/tests/reference.rs"]
#[expect(dead_code, reason = "the tests of the wire use the rest")]
mod reference;

use crate::pool::testing::config;
use crate::pool::{Pool, REGION};

fn pool() -> Pool {
    Pool::new(config(REGION)).unwrap()
}
