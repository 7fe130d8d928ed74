//! What a hub keeps, and how its subscribers are served. Declared and validated in Python; there are no defaults here.

use std::time::Duration;

/// How much of a topic stays for subscribers that come later, or come back. What is beyond any of these leaves, oldest first.
#[derive(Debug, Clone, Copy)]
pub struct History {
    /// Events; one at least.
    pub events: usize,
    /// Bytes of them, as they stand on the wire.
    pub bytes: usize,
    /// Since they were published; `None` for ever.
    pub age: Option<Duration>,
}

/// What a hub may take.
#[derive(Debug, Clone, Copy)]
pub struct HubConfig {
    /// Bytes of the pool for all history, whole slabs.
    pub memory: usize,
    /// Topics at a time.
    pub topics: usize,
    /// What is kept of each.
    pub history: History,
    /// How long it is known of a topic that it has ended.
    pub finished_age: Duration,
    /// Whether what has been published is kept elsewhere, and comes from there: a topic then lets nobody in before it has been
    /// loaded.
    pub external: bool,
}

/// The end of a subscriber that does not keep up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slow {
    /// Its response ends behind a whole event, so that it comes back for the rest by its last id, if that is still there.
    Disconnect {
        /// Bytes that may wait for one that has had all before; `None`: all that is kept.
        behind: Option<u64>,
    },
    /// It goes on with the oldest event that is there, and is told of the gap.
    DropOldest,
    /// Of the events that wait it gets only the newest of each key, and all that have none.
    NewestPerKey,
}

/// Where a subscriber begins that had nothing before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Join {
    /// With what is published from now on.
    Now,
    /// With all that is there.
    Start,
    /// With that many of the newest that are there.
    Last(usize),
}

/// How subscribers are served.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// Where they begin that had nothing before.
    pub join: Join,
    /// What is done with a subscriber that does not keep up.
    pub slow: Slow,
    /// After how many milliseconds a client that was disconnected is to come back; `None`: as it likes.
    pub retry: Option<u64>,
    /// Whether a topic that is not there begins with its first subscriber.
    pub open: bool,
    /// How long nothing may be sent before a comment is; chance takes up to a quarter off.
    pub heartbeat: Option<Duration>,
    /// How long a response may go on before it ends behind a whole event; chance takes up to a quarter off.
    pub max_age: Option<Duration>,
    /// How many there may be.
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
