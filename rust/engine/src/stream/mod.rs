//! The bounded channel between whoever reads a source ([`Feed`]) and whoever consumes its frames ([`Stream`]).
//!
//! One producer, one consumer, on any threads; each side is polled with a [`std::task::Waker`], so that the consumer
//! may be an engine task or an event loop. The invariants: a body ends in exactly one of done, error or closed by
//! the consumer, and a feed that is dropped without saying so ends in an error; bytes arrive in order; the producer
//! is told to read only while the consumer's window has room (`window`); a woken side always finds what it was
//! woken for or goes back to waiting without loss.

#[cfg(not(loom))]
mod allowance;
mod channel;
mod feed;
#[cfg(not(loom))]
pub(crate) mod reading;
mod window;

#[cfg(not(loom))]
pub(crate) use allowance::Allowance;
pub use channel::{Delivery, Stream, channel};
pub use feed::{Feed, Wanted};
#[cfg(not(loom))]
pub use reading::ReadSizes;
pub use window::FlowConfig;
#[cfg(not(loom))]
pub(crate) use window::charge;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::wire::Head;

/// How long each stage of an exchange took. Stages that did not happen are zero.
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

/// What precedes a body that came over HTTP.
#[derive(Debug)]
pub struct ResponseHead {
    /// Status and headers.
    pub head: Head,
    /// The stages up to the head.
    pub timings: Timings,
    /// Whether the exchange used a connection that an earlier one had opened.
    pub reused: bool,
}

/// What follows a body.
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
}

#[cfg(all(test, loom))]
mod loom_models;
#[cfg(all(test, not(loom)))]
mod tests;
