//! The edge: accepts clients, reads their requests, and answers them from an origin or has the application answer.
//!
//! A [`Site`] is one way in: its listeners, its routes, its limits. One engine thread owns each connection from accept
//! to close. The invariants: what two parsers could read differently is refused before anyone sees it; responses go
//! out in the order of their requests; a response that did not end where its framing says ends the connection by a
//! reset; neither side of a relay outlives the other.
//!
//! ```text
//!   listen ─ connection ─ inbound (heads, bodies)
//!      └ streams ───┤
//!                ├─ respond/relay (route, head) ─ origin::begin
//!                ├─ respond/topics ─ hub::subscribe
//!                ├─ respond/pages (small answers) ─ metrics, https
//!                ├─ lane ─ app (queue, link, checker) ─ the application
//!                ├─ heads (what clients hold), clients (how much each may)
//!                └─ answer (refusals), account, log, tally (what is counted)
//! ```

mod access;
mod account;
mod answer;
mod client;
mod clients;
mod config;
mod connection;
mod exchange;
mod exemplar;
mod followed;
mod freezing;
mod grpc;
mod grpc_web;
mod handshakes;
mod head;
mod heads;
mod https;
mod in_flight;
mod inbound;
mod lane;
mod limiter;
mod line;
mod listen;
mod location;
mod log;
mod metered;
mod moved;
mod network;
mod page_events;
mod pages;
mod progress;
mod proven;
mod record;
mod respond;
mod route;
#[cfg(test)]
mod simulation;
mod site;
mod streams;
mod supplies;
mod tally;
mod topics;
mod traced;

pub use crate::net::InFlight;
pub use crate::net::http2::{Excess, Http2Limits};
pub(crate) use answer::refused;
pub use client::Addresses;
pub use clients::ClientLimits;
pub use config::EdgeConfig;
pub use exemplar::{Exemplar, Exemplars};
pub use handshakes::{HandshakeEnd, HandshakeLimits, Handshakes};
pub use head::{RelayedHead, relayed_head};
pub use heads::Heads;
pub use https::{CHALLENGES, Challenges, Redirect};
pub use limiter::Limiter;
pub use line::{Field, Format, Part};
pub use listen::{ListenOptions, Listener};
pub use location::Pattern;
pub use log::Log;
pub use network::{NetworkSums, RATES, ResponseClass};
pub use page_events::{Newest, PageEvents, Viewer};
pub use pages::{Asked, Exhibit, Pages, Showing, Shown, nothing_there};
pub use route::{Route, Routes, Service};
pub use site::{Site, SiteCounts};
pub use supplies::Supplies;
pub use tally::{Lane, Ledger, RouteSums, TenantSums};
pub use topics::Topics;
