//! The origin client: HTTP/1.1 over TCP, Unix sockets and TLS, from a pool of kept-alive connections, and HTTP/2.
//!
//! [`fetch`] sends one [`Request`] and puts the response into a [`crate::stream::Feed`]; `begin` gives the response to
//! a caller that sends it on itself; [`Origins`] keeps the connections of one engine thread. They must be called on an
//! engine thread. The invariants: a connection serves again only if both messages on it ended exactly at their
//! boundary; every wait has a limit with a code of its own; bytes that a consumer does not take are not read; dropping
//! the consumer closes the connection.
//!
//! ```text
//!   fetch ─ upstream (which of several origins; failover, resumption) ─┐
//!     ├─ attempt (one origin) ←──────────────────────────────────────────┘
//!     │    ├─ origins ─ place (leases, idle connections; sweep), line (who waits)
//!     │    │             └─ tally (what is counted), notices (what is told)
//!     │    ├─ connect ─ names, resolve, tls
//!     │    └─ exchange ─ head, upload ─ net (reader, write_buffer, connection, socket)
//!     └─ feeding, relayed ─ body (of whichever origin) ─ arriving (of one connection) ─ upload, net
//! ```

mod adopted;
mod arriving;
mod attempt;
mod body;
mod connect;
mod endpoint;
mod exchange;
mod feeding;
mod fetch;
mod limits;
mod line;
mod names;
mod notices;
mod origins;
mod part;
mod payload;
mod place;
mod relayed;
mod request;
mod resolve;
#[cfg(test)]
pub(crate) mod simulated;
mod stats;
mod tally;
#[cfg(test)]
pub(crate) mod testing;
mod tls;
mod traced;
mod upload;
mod upstream;

pub use crate::net::http2::SessionLimits;
pub(crate) use adopted::adopt;
pub(crate) use endpoint::KnownHash;
pub use endpoint::{Endpoint, Scheme};
pub use fetch::fetch;
pub(crate) use fetch::{begin, feed};
pub use limits::{Http2Origins, OriginLimits, Timeouts};
pub use notices::{Event, Notice, Notices};
pub use origins::Origins;
pub(crate) use relayed::Begun;
pub use request::{Passing, Request, RequestBody};
pub use stats::{Counts, EndpointStats, OriginStats};
pub use tally::OriginSums;
pub use tls::{Roots, Tls};
pub use traced::traced;
pub use upstream::{
    Balance, CheckPolicy, HashKey, HealthPolicy, Hedge, Member, MemberStats, RetryPolicy, Upstream,
    UpstreamCounts, UpstreamPolicy, UpstreamStats, own,
};
