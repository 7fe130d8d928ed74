//! What a plan is made of.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::edge::simulation::plan::conditions;
use crate::hub::{Join, Limits, Slow, Terms};
use crate::net::simulated::Conditions;

/// Without an event for so long a subscriber gets a comment.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// After so long a response of one of the routes ends.
const AGE: Duration = Duration::from_secs(12);
pub(super) const CLIENTS: usize = 4;
pub(super) const TOPICS: usize = 2;

#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) conditions: Conditions,
    pub(super) steps: Vec<Step>,
}

#[derive(Debug, Clone)]
pub(super) enum Step {
    Publish {
        topic: usize,
        length: usize,
        key: Option<u8>,
    },
    Subscribe {
        client: usize,
        route: Route,
        topic: usize,
        after: After,
    },
    Read(usize),
    Stall(usize),
    /// With a reset, or an orderly end.
    Leave(usize, bool),
    /// Nothing more is published to the second topic.
    Finish,
    Wait(u64),
}

/// What a client says that it had last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    Nothing,
    Last,
    /// A text that is no id.
    Malformed,
}

/// A route to the hub, by how it serves a subscriber that does not keep up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::edge::simulation) enum Route {
    /// It is cut off; and all are, after some time.
    Cut,
    /// It goes on with the oldest event that is there.
    Oldest,
    /// It gets the newest of each key.
    Newest,
}

impl Route {
    pub(in crate::edge::simulation) const ALL: [Self; 3] = [Self::Cut, Self::Oldest, Self::Newest];

    pub(in crate::edge::simulation) fn name(self) -> &'static str {
        match self {
            Self::Cut => "cut",
            Self::Oldest => "oldest",
            Self::Newest => "newest",
        }
    }

    pub(in crate::edge::simulation) fn terms(self) -> Terms {
        let (slow, join) = match self {
            Self::Cut => (Slow::Disconnect { behind: Some(4000) }, Join::Last(2)),
            Self::Oldest => (Slow::DropOldest, Join::Start),
            Self::Newest => (Slow::NewestPerKey, Join::Now),
        };
        let max_age = (self == Self::Cut).then_some(AGE);
        let limits = Limits::default();
        Terms { join, slow, retry: None, open: true, heartbeat: Some(HEARTBEAT), max_age, limits }
    }
}

pub(super) fn plans() -> impl Strategy<Value = Plan> {
    (conditions(), vec(steps(), 1..80)).prop_map(|(conditions, steps)| Plan { conditions, steps })
}

fn steps() -> impl Strategy<Value = Step> {
    let topic = || prop_oneof![4 => Just(0_usize), 1 => Just(1)];
    let route = prop_oneof![Just(Route::Cut), Just(Route::Oldest), Just(Route::Newest)];
    let after = prop_oneof![2 => Just(After::Nothing), 6 => Just(After::Last), 1 => Just(After::Malformed)];
    let length = prop_oneof![2 => 0..200_usize, 1 => 0..3000_usize];
    prop_oneof![
        14 => (topic(), length, prop::option::of(0..3_u8))
            .prop_map(|(topic, length, key)| Step::Publish { topic, length, key }),
        6 => (0..CLIENTS, route, topic(), after)
            .prop_map(|(client, route, topic, after)| Step::Subscribe { client, route, topic, after }),
        2 => (0..CLIENTS).prop_map(Step::Read),
        2 => (0..CLIENTS).prop_map(Step::Stall),
        2 => (0..CLIENTS, any::<bool>()).prop_map(|(client, resets)| Step::Leave(client, resets)),
        1 => Just(Step::Finish),
        8 => prop_oneof![12 => 1..300_u64, 4 => 300..3000_u64, 1 => 3000..14_000_u64].prop_map(Step::Wait),
    ]
}
