//! The load generator of penstock: seeded sessions of players against any HTTP server.
//!
//! Arrivals, players, playlists and the choice of titles are pure: they know virtual seconds and no socket. `run` puts
//! sockets below them, on threads of its own with a single-threaded runtime each. It knows neither the engine nor Python,
//! and has no defaults: a [`plan::Plan`] says everything.

pub mod abr;
pub mod arrivals;
pub mod bola;
pub mod catalogue;
mod client;
mod connection;
mod context;
pub mod estimate;
mod events;
mod failure;
mod hls;
pub mod network;
pub mod origin;
pub mod plan;
pub mod player;
pub mod playlist;
pub mod qoe;
pub mod random;
pub mod record;
mod requests;
pub mod run;
mod secured;
pub mod sequence;
mod session;
mod shared;
pub mod situation;
mod stream;
mod tokens;
mod url;
pub mod viewer;
mod wire;
