//! The application's lane over real sockets: raw clients in front, and behind the queue an application that does as it is
//! told. On one engine thread and on three.

mod application;
mod bodies;
mod client;
mod departures;
mod failures;
mod responses;
mod rig;
mod sendings;
mod topics;
