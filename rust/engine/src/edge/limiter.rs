//! How much a route serves at most: requests at a time, and a bucket of tokens for requests a second.
//!
//! Held by the route, or by Python where the event loop's own transports serve it. Any thread may enter.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::route::RouteLimits;
use crate::error::{Code, Result};
use crate::sync::{Arc, Mutex, lock};

/// The limits of one route, and what is counted of it.
#[derive(Debug)]
pub struct Limiter {
    name: String,
    limits: RouteLimits,
    active: AtomicUsize,
    bucket: Mutex<Bucket>,
}

/// Requests that may still come, and since when that is so.
#[derive(Debug)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

impl Limiter {
    /// For a route of that name, which nothing has been asked of.
    pub fn new(name: String, limits: RouteLimits) -> Self {
        let bucket = Mutex::new(Bucket { tokens: limits.burst, at: Instant::now() });
        Self { name, limits, active: AtomicUsize::new(0), bucket }
    }

    /// Counts a request, until what it returns is dropped.
    ///
    /// # Errors
    /// `TOO_MANY_REQUESTS`.
    pub fn enter(self: &Arc<Self>) -> Result<Entered> {
        // Relaxed: a count, which orders nothing.
        let active = self.active.fetch_add(1, Ordering::Relaxed);
        let entered = Entered(Arc::clone(self));
        if let Some(most) = self.limits.concurrency.filter(|most| active >= *most) {
            let detail = format!("the route {} serves {most} requests already", self.name);
            return Err(Code::TooManyRequests.error(detail));
        }
        if let Some(rate) = self.limits.rate {
            let mut bucket = lock(&self.bucket);
            let now = Instant::now();
            let earned = now.duration_since(bucket.at).as_secs_f64() * rate;
            bucket.tokens = (bucket.tokens + earned).min(self.limits.burst);
            bucket.at = now;
            if bucket.tokens < 1.0 {
                let detail = format!("the route {} serves {rate} requests a second", self.name);
                return Err(Code::TooManyRequests.error(detail));
            }
            bucket.tokens -= 1.0;
        }
        Ok(entered)
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub struct Entered(Arc<Limiter>);

impl Drop for Entered {
    fn drop(&mut self) {
        // Relaxed: as in `enter`.
        self.0.active.fetch_sub(1, Ordering::Relaxed);
    }
}
