//! What is told of a request that is being answered, to an operator who looks.

use tokio::time::Instant;

/// A request that is being answered. Nothing of a body, and nothing of a query: that may hold a token.
#[derive(Debug, Clone)]
pub struct InFlight {
    /// When it came.
    pub begun: Instant,
    /// Its method.
    pub method: String,
    /// Its path, without tokens.
    pub path: String,
    /// Who answers, as in metrics.
    pub lane: &'static str,
    /// The name of the route.
    pub route: Option<String>,
    /// The client's address.
    pub client: Option<String>,
    /// The tenant on whose account it is.
    pub tenant: Option<String>,
    /// The status of the response, if that has begun.
    pub status: Option<u16>,
    /// Bytes of its body that the kernel took.
    pub sent: u64,
    /// What it waits for.
    pub awaits: &'static str,
}

#[cfg(test)]
impl InFlight {
    /// One of which nothing is known.
    pub(crate) fn unknown() -> Self {
        Self {
            begun: Instant::now(),
            method: String::new(),
            path: String::new(),
            lane: "",
            route: None,
            client: None,
            tenant: None,
            status: None,
            sent: 0,
            awaits: "",
        }
    }
}
