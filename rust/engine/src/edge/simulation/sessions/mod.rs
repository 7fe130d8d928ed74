//! Origins that speak HTTP/2, over a simulated network: several requests on a connection, of which some are refused or reset, and
//! which may end, in order or not, while others are under way.
//!
//! Clients, their requests and what they may get are those of the simulation of HTTP/1.1. Besides: what an origin has refused may be
//! asked again, whatever it is, and nothing else that is not safe to repeat; and no more comes of a body than its window.

mod origin;
mod plan;

use super::codes::with_codes;
use super::run;
use crate::simulation::{assert_reached, compare_traces, simulate};
pub(super) use origin::serve_all;
use plan::plans;

const TEST: &str = "edge::simulation::sessions::clients_get_whole_bodies_or_none_by_streams_of_origins";

#[test]
fn clients_get_whole_bodies_or_none_by_streams_of_origins() {
    simulate(TEST, &plans(), run);
}

#[test]
fn a_seed_makes_one_trace_in_each_process() {
    compare_traces(TEST);
}

#[test]
fn the_first_seeds_reach_each_fault() {
    let wanted = [
        ": Refuse",
        ": Abandon",
        ": Leave",
        ": Cut(true)",
        ": Cut(false)",
        ": Pings(1300)",
        ": Deaf",
        "is broken off by Reset",
        "is broken off by End",
        "is answered: 200",
        "is answered: 206",
        "is answered: 502",
        "is answered: 504",
    ];
    assert_reached(TEST, &plans(), run, &with_codes("sessions", &wanted));
}
