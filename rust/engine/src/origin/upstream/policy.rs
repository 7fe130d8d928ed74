//! What an upstream is: its origins, and how one is chosen, watched and given up. Declared and validated in Python; no
//! defaults here.

use std::sync::Arc;
use std::time::Duration;

use crate::origin::Endpoint;

/// One origin of an upstream.
#[derive(Debug, Clone)]
pub struct Member {
    /// Where it is.
    pub endpoint: Endpoint,
    /// What goes into `Host` unless the request has its own.
    pub authority: Arc<str>,
    /// Its share, beside those of the others.
    pub weight: u32,
    /// Whether it is used only while none of the others is available.
    pub backup: bool,
    /// Requests under way at most, over all engine threads.
    pub max_requests: Option<usize>,
}

/// How the origin of a request is chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Balance {
    /// In turn, by weight.
    RoundRobin,
    /// The one with the fewest requests under way for its weight.
    LeastLoaded,
    /// The same for the same key.
    Hash(HashKey),
}

/// The part of a request that decides its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HashKey {
    /// The path, without a query.
    Path,
    /// The path and the query.
    Target,
    /// The field of this name; the path if the request has no such field.
    Field(String),
}

/// When an origin is ejected, and how it comes back.
#[derive(Debug, Clone)]
pub struct HealthPolicy {
    /// Failures in a row.
    pub failures: Option<u32>,
    /// Share of the requests of a window that have failed, in percent.
    pub failure_percent: Option<u32>,
    /// Requests that must have ended in a window for that.
    pub least_requests: u32,
    /// How long a window is.
    pub window: Duration,
    /// Answers that are failures of the origin.
    pub statuses: Vec<u16>,
    /// The first ejection; each that follows soon is twice as long.
    pub eject: Duration,
    /// The longest.
    pub max_eject: Duration,
    /// How long it takes an origin that has come back to get its whole share again.
    pub slow_start: Duration,
    /// Where fewer are available, all are used as if they were.
    pub panic_percent: u32,
}

/// How origins are asked whether they are well.
#[derive(Debug, Clone)]
pub struct CheckPolicy {
    /// What is asked for.
    pub path: String,
    /// From one check to the next.
    pub interval: Duration,
    /// How long one may take.
    pub timeout: Duration,
    /// Answers of one that is well.
    pub statuses: Vec<u16>,
    /// Failures in a row that take an origin out.
    pub fall: u32,
    /// Successes in a row that bring it back.
    pub rise: u32,
}

/// When a request is sent to another origin.
#[derive(Debug, Clone)]
pub struct RetryPolicy {
    /// Origins that one request is sent to at most, the first included.
    pub tries: usize,
    /// Answers in place of which another origin is asked.
    pub statuses: Vec<u16>,
    /// How long one try may wait for its head.
    pub try_timeout: Option<Duration>,
    /// After how long without a head a second origin is asked beside the first.
    pub hedge: Option<Hedge>,
    /// Whether a body that broke off goes on from another origin.
    pub resume: bool,
    /// Retries for so many requests, in percent.
    pub budget_percent: u32,
    /// Retries a second besides.
    pub budget_per_second: u32,
}

/// When an origin is so slow that another is asked as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hedge {
    /// After so long.
    After(Duration),
    /// When so many of a hundred of the latest requests had their answer.
    Percentile(u8),
}

/// How an upstream is used.
#[derive(Debug, Clone)]
pub struct UpstreamPolicy {
    /// Who is chosen.
    pub balance: Balance,
    /// Who is left out.
    pub health: HealthPolicy,
    /// Who is asked.
    pub check: Option<CheckPolicy>,
    /// What is sent again.
    pub retries: RetryPolicy,
}
