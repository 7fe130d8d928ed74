//! What a plan is made of.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::edge::simulation::events::{self, Script, scripts};
use crate::edge::simulation::plan::{
    Answer, CLIENTS, KEYS, ORIGINS, Route, What, answers, quick_conditions, routes, whats,
};
use crate::net::simulated::Conditions;

#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) conditions: Conditions,
    /// Bytes that a client takes of a stream that it does not read.
    pub(super) window: u32,
    pub(super) steps: Vec<Step>,
    /// How origins answer, in the order of what they are asked; after the last one, well.
    pub(super) answers: Vec<Answer>,
    /// What the origin of events tells.
    pub(super) scripts: Vec<Script>,
}

#[derive(Debug, Clone)]
pub(super) enum Step {
    Ask {
        client: usize,
        route: Route,
        key: usize,
        what: What,
    },
    Subscribe {
        client: usize,
        route: events::Route,
    },
    /// Of the streams of a client one is read, or not.
    ReadStream(usize, usize),
    StallStream(usize, usize),
    /// A stream is reset.
    Reset(usize, usize),
    /// The client says that it leaves when it has what it has asked for.
    GoAway(usize),
    Read(usize),
    Stall(usize),
    /// With a reset, or an orderly end.
    Leave(usize, bool),
    Change(usize),
    /// An origin takes connections, refuses them, or does not answer.
    Door(usize, u8),
    Wait(u64),
}

pub(super) fn plans() -> impl Strategy<Value = Plan> {
    (quick_conditions(), 100..9000_u32, vec(steps(), 1..80), vec(answers(), 0..50), vec(scripts(), 0..10))
        .prop_map(|(conditions, window, steps, answers, scripts)| Plan {
            conditions,
            window,
            steps,
            answers,
            scripts,
        })
}

fn steps() -> impl Strategy<Value = Step> {
    let ask = (0..CLIENTS, routes(), 0..KEYS, whats());
    let events = prop_oneof![Just(events::Route::Beating), Just(events::Route::Quiet)];
    let stream = || (0..CLIENTS, 0..4_usize);
    prop_oneof![
        16 => ask.prop_map(|(client, route, key, what)| Step::Ask { client, route, key, what }),
        3 => (0..CLIENTS, events).prop_map(|(client, route)| Step::Subscribe { client, route }),
        1 => stream().prop_map(|(client, stream)| Step::ReadStream(client, stream)),
        3 => stream().prop_map(|(client, stream)| Step::StallStream(client, stream)),
        3 => stream().prop_map(|(client, stream)| Step::Reset(client, stream)),
        1 => (0..CLIENTS).prop_map(Step::GoAway),
        1 => (0..CLIENTS).prop_map(Step::Read),
        1 => (0..CLIENTS).prop_map(Step::Stall),
        1 => (0..CLIENTS, any::<bool>()).prop_map(|(client, resets)| Step::Leave(client, resets)),
        2 => (0..KEYS).prop_map(Step::Change),
        1 => (0..ORIGINS, 0..4_u8).prop_map(|(origin, door)| Step::Door(origin, door)),
        10 => prop_oneof![14 => 1..800_u64, 1 => 800..7000_u64].prop_map(Step::Wait),
    ]
}
