//! Event streams on their way to clients: what is done while they are quiet, when they fail, and when the client leaves.
//!
//! `EventBody` stands between a body that is cut into events and whoever sends it, and holds the stream's one timer.
//! Where the event loop's own transports send, [`pipe`] does the same from stream to stream. [`Leave`] is for bodies of
//! all kinds. The invariants: nothing is put in but between two frames; what failed is never ended as if it were whole.

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
pub(crate) use body::{EventBody, HEARTBEAT};
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
