//! The application's lane over real sockets: raw clients in front, and behind the queue an application that does as it is
//! told. On one engine thread and on three.

use penstock_engine::pool::PoolConfig;

mod application;
mod bodies;
mod client;
mod departures;
mod failures;
#[path = "../../src/pool/testing.rs"]
mod pool_testing;
mod responses;
mod rig;
mod sendings;
mod topics;
