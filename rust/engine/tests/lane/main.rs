//! The application's lane over real sockets: raw clients in front, and behind the queue an application that does as it is
//! told. On one engine thread and on three.

#[path = "../support/application.rs"]
mod application;
mod bodies;
#[path = "../support/client.rs"]
mod client;
mod departures;
mod failures;
mod responses;
mod rig;
mod sendings;
#[path = "../support/settings.rs"]
mod settings;
#[path = "../support/sites.rs"]
mod sites;
mod topics;
