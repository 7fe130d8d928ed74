//! The counts of an origin in one engine thread, under the origin's name.
//!
//! Places come and go; their tallies stay, so that no count decreases. The number of names has a bound, because a
//! client may choose the origin of a request.

use std::time::Duration;

use super::notices::Notices;
use super::stats::{Counts, EndpointStats};
use crate::counters::{Buckets, Counter, Histogram};
use crate::error::{Code, Error};
use crate::stream::ResponseHead;
use crate::sync::{Arc, Mutex, lock};

/// The limit of origins with counts of their own in one thread; further origins are counted together.
/// Arbitrary: some fifty series each.
pub(super) const NAMED_ORIGINS: usize = 128;

/// Classes of statuses; the first is for statuses outside all classes.
const CLASSES: [&str; 6] = ["other", "1xx", "2xx", "3xx", "4xx", "5xx"];

/// The counts of one origin.
#[derive(Debug)]
pub(super) struct Tally {
    /// `scheme://authority`, or the name of all further origins.
    pub(super) name: Arc<str>,
    /// The log lines.
    pub(super) notices: std::sync::Arc<Notices>,
    requests: Counter,
    responses: [Counter; CLASSES.len()],
    failures: [Counter; Code::COUNT],
    received: Counter,
    connect: Buckets,
    first_byte: Buckets,
    /// The counts of places that are gone.
    gone: Mutex<Counts>,
}

impl Tally {
    pub(super) fn new(name: Arc<str>, notices: std::sync::Arc<Notices>) -> Self {
        Self {
            name,
            notices,
            requests: Counter::new(),
            responses: [const { Counter::new() }; CLASSES.len()],
            failures: [const { Counter::new() }; Code::COUNT],
            received: Counter::new(),
            connect: Buckets::default(),
            first_byte: Buckets::default(),
            gone: Mutex::default(),
        }
    }

    /// Counts a request that begins.
    pub(super) fn begin(&self) {
        self.requests.add(1);
    }

    /// Counts a connection and the time to open it.
    pub(super) fn connected(&self, took: Duration) {
        self.connect.add(took);
    }

    /// Counts a response.
    pub(super) fn answered(&self, head: &ResponseHead) {
        let class = usize::from(head.head.status / 100);
        self.responses[if class < CLASSES.len() { class } else { 0 }].add(1);
        self.first_byte.add(head.timings.first_byte);
    }

    /// Counts a failure, before or after the head.
    pub(super) fn failed(&self, error: &Error) {
        self.failures[error.code().position()].add(1);
    }

    /// Counts bytes of the body of a response.
    pub(super) fn received(&self, bytes: usize) {
        self.received.add(bytes as u64);
    }

    /// Adds the counts of a place that is gone.
    pub(super) fn keep(&self, counts: &Counts) {
        *lock(&self.gone) += counts;
    }

    /// What places had counted that are gone.
    pub(super) fn gone(&self) -> Counts {
        *lock(&self.gone)
    }

    pub(super) fn add_to(&self, sums: &mut OriginSums) {
        sums.counts += &self.gone();
        sums.requests += self.requests.get();
        for (sum, count) in sums.responses.iter_mut().zip(&self.responses) {
            *sum += count.get();
        }
        for (sum, count) in sums.failures.iter_mut().zip(&self.failures) {
            *sum += count.get();
        }
        sums.received += self.received.get();
        sums.connect.add(&self.connect);
        sums.first_byte.add(&self.first_byte);
    }
}

/// The counts of an origin, over all engine threads.
#[derive(Debug, Clone)]
pub struct OriginSums {
    /// `scheme://authority`, or "other" for all further origins.
    pub origin: Arc<str>,
    /// Connections in use or being opened.
    pub active: usize,
    /// Connections kept for the next request.
    pub idle: usize,
    /// Requests in progress on connections of HTTP/2.
    pub streams: usize,
    /// Requests that wait for a connection.
    pub waiting: usize,
    /// Counts of connections.
    pub counts: Counts,
    /// Requests that were begun.
    pub requests: u64,
    responses: [u64; CLASSES.len()],
    failures: [u64; Code::COUNT],
    /// Bytes of the bodies of responses, with the framing of chunks.
    pub received: u64,
    /// Times from the name to a connection that can be used.
    pub connect: Histogram,
    /// Times from the first byte of a request to the first of its response.
    pub first_byte: Histogram,
}

impl OriginSums {
    pub(super) fn new(tally: &Tally) -> Self {
        Self {
            origin: Arc::clone(&tally.name),
            active: 0,
            idle: 0,
            streams: 0,
            waiting: 0,
            counts: Counts::default(),
            requests: 0,
            responses: [0; CLASSES.len()],
            failures: [0; Code::COUNT],
            received: 0,
            connect: Histogram::default(),
            first_byte: Histogram::default(),
        }
    }

    pub(super) fn add_place(&mut self, place: &EndpointStats) {
        self.active += place.active;
        self.idle += place.idle;
        self.streams += place.streams;
        self.waiting += place.waiting;
        self.counts += &place.counts;
    }

    /// Responses by the class of their status, without empty classes.
    pub fn responses(&self) -> impl Iterator<Item = (&'static str, u64)> {
        CLASSES.into_iter().zip(self.responses).filter(|(_, count)| *count > 0)
    }

    /// Failed requests by the name of the code, without codes that did not occur.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let named = Code::all().iter().map(|row| row.name).zip(self.failures);
        named.filter(|(_, count)| *count > 0)
    }
}
