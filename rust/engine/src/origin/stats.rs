//! Counts of connections.

use std::sync::Arc;

use crate::net::Unrest;

penstock_memory::counts! {
    /// Counts since the start.
    pub struct Counts {
        /// Connections opened.
        opened,
        /// Requests given a connection that an earlier one had opened.
        reused,
        /// Idle connections closed because of their age or disuse.
        expired,
        /// Idle connections that the origin closed.
        closed,
        /// Connections that brought bytes after a whole response, or while idle, and were closed for it.
        unsolicited,
        /// Requests sent a second time, after an idle connection turned out to be dead.
        retried,
    }
}

impl Counts {
    pub(super) fn count(&mut self, unrest: Unrest) {
        match unrest {
            Unrest::Closed => self.closed += 1,
            Unrest::Bytes => self.unsolicited += 1,
        }
    }
}

/// The connections to one endpoint.
#[derive(Debug, Clone)]
pub struct EndpointStats {
    /// `scheme://authority`.
    pub origin: Arc<str>,
    /// Connections in use or being opened.
    pub active: usize,
    /// Connections kept for the next request.
    pub idle: usize,
    /// Requests in progress on connections of HTTP/2.
    pub streams: usize,
    /// Requests that wait for a connection.
    pub waiting: usize,
    /// Counts since the first request to the endpoint.
    pub counts: Counts,
}

impl EndpointStats {
    /// Adds the counts of another engine thread for the same endpoint.
    pub fn add(&mut self, other: &Self) {
        self.active += other.active;
        self.idle += other.idle;
        self.streams += other.streams;
        self.waiting += other.waiting;
        self.counts += &other.counts;
    }
}

/// The connections of one engine thread.
#[derive(Debug, Clone)]
pub struct OriginStats {
    /// Over all endpoints, with the dropped ones.
    pub counts: Counts,
    /// The endpoints that are in use or were in use lately.
    pub endpoints: Vec<EndpointStats>,
}
