//! Topics: events that are published once, kept for a while, and sent to any number of subscribers.
//!
//! An event is encoded once, into slabs of the pool that events share (`log`); what a subscriber is sent is slices of
//! these, and several events that lie side by side are one. A publisher, on any thread, appends under the topic's
//! lock (`topic`) and wakes one task on each engine thread that has subscribers (`topic/row`), which writes it to all of them that
//! have had all before; who has not goes by its connection's own task. A subscriber is the body of a
//! response (`subscriber`). What it had before it came says where it begins (`resume`).
//!
//! ```text
//!   publish ─ encode ─ log ─┬─ row (engine thread 0) ─ subscriber … subscriber
//!                           └─ row (engine thread 1) ─ subscriber …
//! ```
//!
//! The invariant: a subscriber gets every event after its place once, in order, or is told of a gap before it gets another.

mod budget;
mod counts;
mod encode;
mod id;
mod log;
mod policy;
mod resume;
mod topic;

#[cfg(not(loom))]
mod admitted;
#[cfg(not(loom))]
mod answer;
#[cfg(not(loom))]
mod clock;
#[cfg(not(loom))]
mod feeding;
#[cfg(not(loom))]
mod guests;
#[cfg(not(loom))]
mod lease;
#[cfg(not(loom))]
mod link;
#[cfg(not(loom))]
mod mirroring;
#[cfg(all(test, not(loom)))]
pub(crate) mod model;
#[cfg(not(loom))]
pub mod named;
#[cfg(not(loom))]
mod reading;
#[cfg(not(loom))]
mod subscriber;
#[cfg(not(loom))]
mod topics;

pub use counts::Counted;
pub use encode::Event;
#[cfg(not(loom))]
pub(crate) use encode::quoted;
pub use id::{Id, NoId};
pub use policy::{History, HubConfig, Join, Limits, Slow, Terms};
pub use resume::Resumption;

#[cfg(not(loom))]
pub use admitted::Admitted;
#[cfg(not(loom))]
pub(crate) use admitted::Wire;
#[cfg(not(loom))]
pub use answer::Answer;
#[cfg(not(loom))]
pub use feeding::feed;
#[cfg(not(loom))]
pub(crate) use guests::Guest;
#[cfg(not(loom))]
pub use lease::Lease;
#[cfg(not(loom))]
pub use link::rewritten;
#[cfg(not(loom))]
pub(crate) use reading::fields;
#[cfg(not(loom))]
pub use reading::{Reading, admit, pass_on, read};
#[cfg(not(loom))]
pub(crate) use topics::Asked;
#[cfg(not(loom))]
pub use topics::{Admission, Claim, Hub, HubStats, TopicStats, keep};
#[cfg(not(loom))]
pub use topics::{LogCounted, LogStats, Published, Refused, Taken};

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod loom_models;
