//! Origins that speak HTTP/2, over a simulated network: several requests on a connection, of which some are refused or reset, and
//! which may end, in order or not, while others are under way.
//!
//! Clients, their requests and what they may get are those of the simulation of HTTP/1.1. Besides: what an origin has refused may be
//! asked again, whatever it is, and nothing else that is not safe to repeat; and no more comes of a body than its window.

mod origin;
mod plan;

use super::codes::with_codes;
use super::plan::{Fault, Plan, Route, Sessions, Step, What};
use super::run;
use crate::net::simulated::Conditions;
use crate::simulation::{assert_reached, compare_traces, held, simulate};
pub(super) use origin::serve_all;
use plan::plans;

const TEST: &str = "edge::simulation::sessions::clients_get_whole_bodies_or_none_by_streams_of_origins";

#[test]
fn clients_get_whole_bodies_or_none_by_streams_of_origins() {
    simulate(TEST, &plans(), run);
}

/// Found by a seed. The answers to the origin's pings are in the way of a request: it waits in the edge until it is given up and
/// sent to the other origin, whose answer its client has when the first origin gets it.
#[test]
fn a_request_that_a_flood_has_held_up_was_not_sent_again() {
    let mut is_late = false;
    for seed in 0..10 {
        let conditions = Conditions { seed, delay: 34, packet: 738, room: 1583, window: 233 };
        let ask = |client| Step::Ask { client, route: Route::Two, key: 0, what: What::Get, is_old: false };
        let faults = vec![Some(Fault::Pings(1300))];
        let plan = Plan {
            conditions,
            hedges: false,
            steps: vec![ask(0), Step::Wait(500), ask(1), Step::Wait(500), ask(2)],
            answers: Vec::new(),
            sessions: Some(Sessions { window: 9000, streams: 3, faults }),
        };
        let trace = held(&plan, run);
        is_late |= trace.mentions("origin 0, connection 1 is asked 4: GET /two/0?n=2 ");
    }
    assert!(is_late, "no request was late");
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
