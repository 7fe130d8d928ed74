//! Worker processes over real sockets: clients in front of a site, its requests handed on to workers, and behind each of
//! them an application that does as it is told. All in one process, which is then the parent of its own. On one engine
//! thread and on three.

#[path = "../support/application.rs"]
#[expect(dead_code, reason = "the tests of the lane use the rest")]
mod application;
#[path = "../support/client.rs"]
mod client;
mod deaths;
mod departures;
mod exchanges;
mod fake;
mod fetches;
mod garbage;
mod process;
mod rig;
#[path = "../support/server.rs"]
#[expect(dead_code, reason = "the tests of the origin client use the rest")]
mod server;
#[path = "../support/settings.rs"]
mod settings;
#[path = "../support/sites.rs"]
mod sites;
mod topics;
mod turns;
