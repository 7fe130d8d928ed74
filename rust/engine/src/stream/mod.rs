//! The bounded channel between the reader of a source ([`Feed`]) and the consumer of its frames ([`Stream`]).
//!
//! One producer, one consumer, on any threads; each side is polled with a [`std::task::Waker`], so that the consumer
//! may be an engine task or an event loop. The invariants: a body ends in exactly one of done, error or closed by
//! the consumer, and a feed that is dropped without an end gives an error; bytes arrive in order; the producer may
//! read only while the consumer's window has room (`window`); a side that is woken finds the event for which it
//! waited, or waits again without loss.

#[cfg(not(loom))]
mod allowance;
mod channel;
#[cfg(not(loom))]
pub(crate) mod reading;
mod window;

#[cfg(not(loom))]
pub(crate) use allowance::Allowance;
pub use channel::{Delivery, Feed, Loan, Stream, Wanted, channel};
#[cfg(not(loom))]
pub use reading::ReadSizes;
pub use window::FlowConfig;
#[cfg(not(loom))]
pub(crate) use window::charge;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::wire::Head;

/// The duration of each stage of an exchange. A stage that was skipped is zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timings {
    /// Waiting for a connection to become free.
    pub queue: Duration,
    /// Turning the name into addresses.
    pub resolve: Duration,
    /// Opening a connection.
    pub connect: Duration,
    /// The TLS handshake.
    pub tls: Duration,
    /// From the request's first byte sent to the response's first byte received.
    pub first_byte: Duration,
}

/// The head before a body that came over HTTP.
#[derive(Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// Status and headers.
    pub head: Head,
    /// The stages up to the head.
    pub timings: Timings,
    /// Whether the exchange used a connection that an earlier one had opened.
    pub reused: bool,
}

/// The end after a body.
#[derive(Debug, Clone, Default)]
pub struct Ending {
    /// From the head to the end of the body.
    pub body: Duration,
    /// Trailer fields, in order.
    pub trailers: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Counts over all the streams of an engine. Relaxed throughout: they order nothing.
#[derive(Debug, Default)]
pub struct Meter {
    live: AtomicUsize,
    started: AtomicU64,
    bytes: AtomicU64,
    spliced: AtomicU64,
    heartbeats: AtomicU64,
    idle: AtomicU64,
    told: AtomicU64,
    draining: AtomicUsize,
    drained: AtomicU64,
    undrained: AtomicU64,
}

/// Counts of relayed event streams, and of bodies whose clients have left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RelayCounts {
    /// Comments that were sent while an event stream was quiet.
    pub heartbeats: u64,
    /// Event streams that were cut because their origin sent no event.
    pub idle: u64,
    /// Failures that a client got as an event.
    pub told: u64,
    /// Bodies that are read on now, after their clients have left.
    pub draining: usize,
    /// Bodies that were read on so far.
    pub drained: u64,
    /// Bodies that were not read on, because too many others were.
    pub undrained: u64,
}

impl Meter {
    /// Streams whose consumer has neither seen the end nor left.
    pub fn live(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// Streams so far.
    pub fn started(&self) -> u64 {
        self.started.load(Ordering::Relaxed)
    }

    /// Payload bytes so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Those of them that the kernel has moved, and that were not read.
    pub fn spliced(&self) -> u64 {
        self.spliced.load(Ordering::Relaxed)
    }

    fn opened(&self) {
        self.live.fetch_add(1, Ordering::Relaxed);
        self.started.fetch_add(1, Ordering::Relaxed);
    }

    fn closed(&self) {
        self.live.fetch_sub(1, Ordering::Relaxed);
    }

    fn received(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts of event streams and of bodies whose clients have left.
    pub fn relays(&self) -> RelayCounts {
        RelayCounts {
            heartbeats: self.heartbeats.load(Ordering::Relaxed),
            idle: self.idle.load(Ordering::Relaxed),
            told: self.told.load(Ordering::Relaxed),
            draining: self.draining.load(Ordering::Relaxed),
            drained: self.drained.load(Ordering::Relaxed),
            undrained: self.undrained.load(Ordering::Relaxed),
        }
    }
}

#[cfg(not(loom))]
impl Meter {
    /// A comment is sent.
    pub(crate) fn beat(&self) {
        self.heartbeats.fetch_add(1, Ordering::Relaxed);
    }

    /// An event stream had no event for too long.
    pub(crate) fn cut_idle(&self) {
        self.idle.fetch_add(1, Ordering::Relaxed);
    }

    /// A client gets a failure as an event.
    pub(crate) fn told_failure(&self) {
        self.told.fetch_add(1, Ordering::Relaxed);
    }

    fn count_spliced(&self, bytes: usize) {
        self.spliced.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// A body is read on after its client has left.
    pub(crate) fn began_drain(&self) {
        self.draining.fetch_add(1, Ordering::Relaxed);
        self.drained.fetch_add(1, Ordering::Relaxed);
    }

    /// It is no longer read on.
    pub(crate) fn ended_drain(&self) {
        self.draining.fetch_sub(1, Ordering::Relaxed);
    }

    /// A body is not read on, because too many others are.
    pub(crate) fn refused_drain(&self) {
        self.undrained.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(all(test, loom))]
mod loom_models;
#[cfg(all(test, not(loom)))]
mod tests;
