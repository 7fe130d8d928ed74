//! Event streams on their way to clients: heartbeats, failures, and clients that leave.
//!
//! `EventBody` is between a body that is cut into events and its sender, and has the stream's one timer. If an event
//! loop's own transport sends, [`pipe`] does the same from stream to stream. [`Leave`] is for bodies of all kinds. The
//! invariants: blocks are inserted only between two frames, and a stream that has failed never ends like a whole one.

#[cfg(not(loom))]
mod body;
#[cfg(not(loom))]
mod draining;
#[cfg(not(loom))]
mod inspecting;
#[cfg(not(loom))]
mod pipe;
#[cfg_attr(loom, expect(dead_code, reason = "what asks it needs sockets, which loom knows nothing of"))]
mod policy;

#[cfg(not(loom))]
pub use body::{Cause, Observer};
#[cfg(not(loom))]
pub(crate) use body::{EventBody, HEARTBEAT, retry};
#[cfg(not(loom))]
pub(crate) use draining::Draining;
#[cfg(not(loom))]
pub use inspecting::begin_inspection;
#[cfg(not(loom))]
pub use pipe::{Ended, pipe, read_on};
pub use policy::{Drain, Field, Leave, Policy};
#[cfg(not(loom))]
pub(crate) use policy::{NO_BUFFERING, NO_CACHE, error_data};

#[cfg(all(test, not(loom)))]
mod tests;
