//! Limits on requests: at a time, and by the second (a token bucket).
//!
//! The counts are separate from the limits, which each call of [`Limiter::enter`] gives. Any thread
//! may call it.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use penstock_error::{Code, Result};
use penstock_memory::sync::{Arc, Mutex, lock};

/// Limits on requests.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Requests at a time.
    pub concurrency: Option<usize>,
    /// Requests a second, over time.
    pub rate: Option<f64>,
    /// Requests that may come at once after a pause.
    pub burst: f64,
}

/// The counts that limits apply to. Clones share them.
#[derive(Debug, Clone)]
pub struct Limiter(Arc<Counted>);

#[derive(Debug)]
struct Counted {
    active: AtomicUsize,
    bucket: Mutex<Bucket>,
}

/// A token bucket: the tokens it had at that time.
#[derive(Debug)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

impl Limiter {
    /// No requests yet, and a full bucket.
    pub fn new() -> Self {
        // Limited by `burst` at the first request.
        let bucket = Mutex::new(Bucket { tokens: f64::INFINITY, at: Instant::now() });
        Self(Arc::new(Counted { active: AtomicUsize::new(0), bucket }))
    }

    /// Requests that are being answered.
    pub fn active(&self) -> usize {
        // Relaxed, here and below: a count, which orders nothing.
        self.0.active.load(Ordering::Relaxed)
    }

    /// Counts a request, until what it returns is dropped.
    ///
    /// # Errors
    /// `code`: `who` has too many requests.
    pub fn enter(&self, limits: &Limits, code: Code, who: impl fmt::Display) -> Result<Entered> {
        let active = self.0.active.fetch_add(1, Ordering::Relaxed);
        let entered = Entered(Arc::clone(&self.0));
        if let Some(most) = limits.concurrency.filter(|most| active >= *most) {
            return Err(code.error(format!("{who} has {most} requests already")));
        }
        if let Some(rate) = limits.rate {
            let mut bucket = lock(&self.0.bucket);
            let now = Instant::now();
            let earned = now.duration_since(bucket.at).as_secs_f64() * rate;
            bucket.tokens = (bucket.tokens + earned).min(limits.burst);
            bucket.at = now;
            if bucket.tokens < 1.0 {
                return Err(code.error(format!("{who} has more than {rate} requests a second")));
            }
            bucket.tokens -= 1.0;
        }
        Ok(entered)
    }
}

impl Default for Limiter {
    fn default() -> Self {
        Self::new()
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub struct Entered(Arc<Counted>);

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Ordering::Relaxed);
    }
}
