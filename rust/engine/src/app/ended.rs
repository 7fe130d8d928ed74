//! What became of requests that the engine has answered alone, and of what it has sent for the application.

use std::mem::size_of;
use std::time::Duration;

use crate::error::Error;
use crate::inspect::Report;
use crate::stream::Timings;

/// What became of something that the engine has sent for the application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Payload bytes that were sent.
    pub bytes: u64,
    /// Whether the client was sent any of the response, its head included.
    pub begun: bool,
    /// Why it ended before its end.
    pub failure: Option<Error>,
}

/// What became of one request.
#[derive(Debug)]
pub struct Ended {
    /// The number of the callback that hears of it.
    pub ticket: u64,
    /// As the client has sent it.
    pub method: String,
    /// As the client has sent it.
    pub target: String,
    /// The client's address; none on a Unix socket.
    pub client: Option<String>,
    /// The status that was relayed; none if there was no head to relay.
    pub status: Option<u16>,
    /// Bytes of the body that were taken to be sent.
    pub bytes: u64,
    /// How long it took at the origin; none without a head of the origin's.
    pub stages: Option<Stages>,
    /// On whose account it was let in, if that was decided.
    pub tenant: Option<String>,
    /// Why it ended before its end.
    pub error: Option<Error>,
    /// What was seen of the response.
    pub report: Option<Report>,
}

/// How long the stages of an exchange with an origin took.
#[derive(Debug, Clone)]
pub struct Stages {
    /// Up to the head.
    pub timings: Timings,
    /// From the head to the end of the body.
    pub body: Duration,
    /// Whether the exchange used a connection that an earlier one had opened.
    pub reused: bool,
}

impl Ended {
    /// The memory that it takes, but for what errors share.
    fn size(&self) -> usize {
        let report = self.report.as_ref().and_then(|report| report.usage.as_ref());
        size_of::<Self>()
            + self.method.len()
            + self.target.len()
            + self.client.as_ref().map_or(0, String::len)
            + self.tenant.as_ref().map_or(0, String::len)
            + self.error.as_ref().map_or(0, |error| error.detail().len())
            + report.map_or(0, Vec::len)
    }
}

/// The results that wait to be taken.
#[derive(Debug, Default)]
pub(super) struct Untold {
    waiting: Vec<Ended>,
    /// Bytes of them.
    size: usize,
    dropped: u64,
    dropped_before: u64,
}

impl Untold {
    /// Keeps one, unless all would take more than `most` bytes; whether it is the first.
    pub(super) fn put(&mut self, ended: Ended, most: usize) -> bool {
        let size = self.size + ended.size();
        let is_first = self.waiting.is_empty() && self.dropped == 0;
        if size > most {
            self.dropped += 1;
        } else {
            self.size = size;
            self.waiting.push(ended);
        }
        is_first
    }

    /// All of them, and how many were dropped since the last call.
    pub(super) fn take(&mut self) -> (Vec<Ended>, u64) {
        let (waiting, dropped) = (std::mem::take(&mut self.waiting), std::mem::take(&mut self.dropped));
        self.size = 0;
        self.dropped_before += dropped;
        (waiting, dropped)
    }

    /// How many were dropped since the beginning.
    pub(super) fn dropped_so_far(&self) -> u64 {
        self.dropped_before + self.dropped
    }
}
