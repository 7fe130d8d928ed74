//! Worker processes over real sockets: clients in front of a site, its requests handed on to workers, and behind each of
//! them an application that does as it is told. All in one process, which is then the parent of its own. On one engine
//! thread and on three.

#[path = "../lane/application.rs"]
#[expect(dead_code, reason = "the tests of the lane use the rest")]
mod application;
#[path = "../lane/client.rs"]
mod client;
mod deaths;
mod departures;
mod exchanges;
mod fake;
mod fetches;
mod garbage;
mod process;
mod rig;
#[path = "../origin/server.rs"]
#[expect(dead_code, reason = "the tests of the origin client use the rest")]
mod server;
mod topics;
mod turns;
