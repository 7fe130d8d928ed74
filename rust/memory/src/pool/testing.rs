//! What tests of several modules, model checks and integration tests need of a pool.

use super::PoolConfig;

/// A pool of `budget` bytes without a reserve, a thread, huge pages or locked pages.
pub fn config(budget: usize) -> PoolConfig {
    PoolConfig {
        memory: budget,
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

/// Runs the body in every order with at most `preemptions` preemptions of a running thread.
#[cfg(loom)]
pub fn model(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}
