//! The origin client against real sockets: what it delivers, what it refuses, what it keeps and what it lets go.

mod bodies;
mod connections;
mod flow;
mod lies;
mod limits;
mod retry;
mod rig;
mod secure;
#[path = "../support/server.rs"]
mod server;
#[path = "../support/settings.rs"]
mod settings;
mod storm;
mod stray;
mod together;
mod uploads;
