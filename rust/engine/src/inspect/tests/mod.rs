mod amend;
#[path = "../../../../http/src/framing/tests/reference.rs"]
#[expect(dead_code, reason = "the tests of framings use the rest")]
mod events_reference;
mod inspector;
mod reference;
mod usage;

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;
use crate::pool::testing::config;
use crate::pool::{Pool, REGION};

thread_local! {
    /// One for all cases of a test, because making a pool is far more work than most cases.
    static POOL: Pool = Pool::new(config(32 * REGION)).unwrap();
}

/// The default paths, as in the settings of Python.
fn paths() -> Vec<Path> {
    let path = |names: &[&str], is_final| Path {
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        is_final,
    };
    vec![path(&["message", "usage"], false), path(&["usage"], true), path(&["response", "usage"], true)]
}

fn rules(paths: Vec<Path>) -> Arc<Rules> {
    Arc::new(Rules {
        wanted: Wanted::new(paths),
        tokens: Names::new(vec!["content_block_delta".to_owned(), "*.delta".to_owned()]),
        amendment: None,
        max_request: 1 << 20,
        max_response: 4096,
    })
}

/// Of a response that has begun, and its counts.
fn begun(rules: Arc<Rules>, kind: &str, now: Instant) -> (Inspector, Arc<Counts>) {
    let counts = Arc::new(Counts::default());
    let inspector = POOL.with(|pool| Inspector::new(rules, Arc::clone(&counts), pool, 0, false, now));
    inspector.begin(Some(kind.as_bytes()), None);
    (inspector, counts)
}
