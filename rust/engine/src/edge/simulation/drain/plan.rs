//! What a plan is made of.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::edge::simulation::events::{Route as Events, Script, scripts_that_go_well};
use crate::edge::simulation::plan::{
    Answer, KEYS, Route, What, answers_that_go_well, quick_conditions, routes, whats,
};
use crate::net::simulated::Conditions;

/// Clients of each kind.
pub(super) const CLIENTS: usize = 2;

#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) conditions: Conditions,
    /// What happens before the site is drained, and after that.
    pub(super) before: Vec<Step>,
    pub(super) after: Vec<Step>,
    /// Milliseconds from then on in which all may end by itself.
    pub(super) time: u64,
    pub(super) answers: Vec<Answer>,
    pub(super) scripts: Vec<Script>,
}

#[derive(Debug, Clone)]
pub(super) enum Step {
    /// By HTTP/1.1, or by HTTP/2.
    Ask {
        client: usize,
        is_stream: bool,
        route: Route,
        key: usize,
        what: What,
    },
    Subscribe {
        client: usize,
        route: Events,
        by: By,
    },
    Wait(u64),
}

/// What a client of events speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// HTTP/1.0, where a stream ends with the connection.
    Old,
    Plain,
    Stream,
}

pub(super) fn plans() -> impl Strategy<Value = Plan> {
    let time = prop_oneof![1 => 0..1000_u64, 3 => 1000..20_000_u64];
    let scripts = vec(scripts_that_go_well(), 0..10);
    let answers = vec(answers_that_go_well(), 0..30);
    (quick_conditions(), vec(steps(1500), 1..30), vec(steps(300), 0..8), time, answers, scripts).prop_map(
        |(conditions, before, after, time, answers, scripts)| Plan {
            conditions,
            before,
            after,
            time,
            answers,
            scripts,
        },
    )
}

fn steps(longest: u64) -> impl Strategy<Value = Step> {
    let events = prop_oneof![Just(Events::Beating), Just(Events::Quiet)];
    let by = prop_oneof![1 => Just(By::Old), 4 => Just(By::Plain), 3 => Just(By::Stream)];
    prop_oneof![
        6 => (0..CLIENTS, any::<bool>(), routes(), 0..KEYS, whats()).prop_map(
            |(client, is_stream, route, key, what)| Step::Ask { client, is_stream, route, key, what }
        ),
        4 => (0..CLIENTS, events, by).prop_map(|(client, route, by)| Step::Subscribe { client, route, by }),
        4 => (1..longest).prop_map(Step::Wait),
    ]
}
