//! The limits of a hub and the terms of its subscribers. Declared and validated in Python; there are no defaults here.

use std::time::Duration;

/// The limits of a topic's history, for subscribers that come later or come back. Above any of them, the oldest events are
/// dropped.
#[derive(Debug, Clone, Copy)]
pub struct History {
    /// Events; one at least.
    pub events: usize,
    /// Bytes of them, as they stand on the wire.
    pub bytes: usize,
    /// Time since their publication; `None` for no limit.
    pub age: Option<Duration>,
}

/// The limits of a hub.
#[derive(Debug, Clone, Copy)]
pub struct HubConfig {
    /// Bytes of the pool for all history, whole slabs.
    pub memory: usize,
    /// Topics at a time.
    pub topics: usize,
    /// The limits of the history of each topic.
    pub history: History,
    /// The time for which an ended topic is remembered.
    pub finished_age: Duration,
    /// Whether events are kept in an external log and come from there: a topic then admits no subscriber before it is
    /// loaded.
    pub external: bool,
}

/// What happens to a subscriber that does not keep up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slow {
    /// Its response ends after a whole event, so that it comes back with its last id for the rest, if that is still
    /// there.
    Disconnect {
        /// Bytes that may wait for a subscriber that had received everything; `None`: the whole
        /// history.
        behind: Option<u64>,
    },
    /// It goes on with the oldest event in the history, after a gap event.
    DropOldest,
    /// Of the events that wait it gets the newest of each key, and all events without a key.
    NewestPerKey,
}

/// Where a new subscriber begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Join {
    /// With the next event that is published.
    Now,
    /// With the whole history.
    Start,
    /// With so many of the newest events in the history.
    Last(usize),
}

/// How subscribers are served.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// Where new subscribers begin.
    pub join: Join,
    /// What happens to a subscriber that does not keep up.
    pub slow: Slow,
    /// Milliseconds after which a disconnected client reconnects; `None`: its own choice.
    pub retry: Option<u64>,
    /// Whether the first subscriber opens a topic that does not exist.
    pub open: bool,
    /// The time without an event after which a comment is sent; shortened at random by up to a
    /// quarter.
    pub heartbeat: Option<Duration>,
    /// The time after which a response ends, after a whole event; shortened at random by up to a quarter.
    pub max_age: Option<Duration>,
    /// The limits of their number.
    pub limits: Limits,
}

/// Subscribers at a time, when one more comes; `None` for no limit.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits {
    /// Of its topic.
    pub per_topic: Option<usize>,
    /// For its tenant, of all topics.
    pub per_tenant: Option<usize>,
    /// From its address, of all topics.
    pub per_address: Option<usize>,
    /// Of all topics.
    pub most: Option<usize>,
}
