//! How much a route serves at most.
//!
//! Held by the route, or by Python where the event loop's own transports serve it. Any thread may enter.

use crate::access::{self, Entered};
use crate::error::{Code, Result};
use crate::relay_spec::RouteLimits;

/// The limits of one route, and what is counted of it.
#[derive(Debug)]
pub struct Limiter {
    name: String,
    limits: RouteLimits,
    counted: access::Limiter,
}

impl Limiter {
    /// For a route of that name, which nothing has been asked of.
    pub fn new(name: String, limits: RouteLimits) -> Self {
        Self { name, limits, counted: access::Limiter::new() }
    }

    /// Counts a request, until what it returns is dropped.
    ///
    /// # Errors
    /// `TOO_MANY_REQUESTS`.
    pub fn enter(&self) -> Result<Entered> {
        let who = format_args!("the route {}", self.name);
        self.counted.enter(&self.limits.requests, Code::TooManyRequests, who)
    }
}
