//! What the tests of several modules need of a pool, model checks and those in tests/ included.

use super::PoolConfig;

/// A pool of `budget` bytes without a reserve, a thread or a wish to the operating system.
pub fn config(budget: usize) -> PoolConfig {
    PoolConfig {
        budget,
        reserve: 0,
        heads: 0,
        pressed_percent: 75,
        full_percent: 95,
        hysteresis_percent: 10,
        prefault: 0,
        huge_pages: false,
        lock: false,
        caches: 1,
    }
}

/// Runs the body in every order that takes a running thread's turn away at most `preemptions` times.
#[cfg(loom)]
pub fn model(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}
