//! What a plan is made of, and what an origin has to tell.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::edge::simulation::plan::{Framing, conditions};
use crate::net::simulated::Conditions;

pub(super) const CLIENTS: usize = 4;

#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) conditions: Conditions,
    pub(super) steps: Vec<Step>,
    /// What origins send, in the order of what they are asked; after the last one, what does not end.
    pub(super) scripts: Vec<Script>,
}

#[derive(Debug, Clone)]
pub(super) enum Step {
    Subscribe {
        client: usize,
        route: Route,
        /// By HTTP/1.0, where the stream ends with the connection.
        is_old: bool,
    },
    Read(usize),
    Stall(usize),
    /// With a reset, or an orderly end.
    Leave(usize, bool),
    Wait(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::edge::simulation) enum Route {
    /// With heartbeats, a limit on silence, and an event that tells of a failure.
    Beating,
    /// As it comes.
    Quiet,
}

impl Route {
    pub(in crate::edge::simulation) fn name(self) -> &'static str {
        match self {
            Self::Beating => "beating",
            Self::Quiet => "quiet",
        }
    }
}

/// A stream of events.
#[derive(Debug, Clone)]
pub(in crate::edge::simulation) struct Script {
    /// Milliseconds before its first byte.
    pub(super) wait: u64,
    pub(super) framing: Framing,
    pub(super) events: usize,
    /// Bytes of an event's data.
    pub(super) size: usize,
    /// Bytes of a write, and milliseconds before the next.
    pub(super) piece: usize,
    pub(super) pause: u64,
    /// Before this event nothing comes for so many milliseconds.
    pub(super) rest: Option<(usize, u64)>,
    pub(super) ends: Ends,
}

/// How a stream ends, after its events or after so many thousandths of one more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::edge::simulation) enum Ends {
    Whole,
    /// A good end, although it is within an event.
    Within(usize),
    /// The connection ends.
    Cut(usize),
    Reset(usize),
    /// Nothing more comes.
    Stall(usize),
}

impl Script {
    /// One that goes on until its client leaves.
    pub(super) fn endless() -> Self {
        Self {
            wait: 0,
            framing: Framing::Chunked,
            events: 3,
            size: 40,
            piece: 1000,
            pause: 0,
            rest: None,
            ends: Ends::Stall(0),
        }
    }

    /// One of so many events, of so many bytes each, with a good end.
    pub(in crate::edge::simulation) fn whole(events: usize, size: usize) -> Self {
        Self { events, size, ends: Ends::Whole, ..Self::endless() }
    }

    /// The bytes of one of its events, by the numbers of the request, of the stream and of the event.
    pub(super) fn event(&self, (request, stream, event): (usize, usize, usize)) -> String {
        let data = format!("{stream:02}-{event:03} ").repeat(self.size / 7 + 1);
        let (first, second) = data[..self.size].split_at(self.size / 2);
        let comment = if event % 3 == 1 { ": next\n" } else { "" };
        format!("{comment}id: {request}.{stream}.{event}\ndata: {first}\ndata: {second}\n\n")
    }

    /// How much comes of the event after the last one.
    pub(super) fn part(&self) -> usize {
        match self.ends {
            Ends::Whole => 0,
            Ends::Within(part) | Ends::Cut(part) | Ends::Reset(part) | Ends::Stall(part) => part,
        }
    }

    /// Whether its client is told that it is whole when all of it has come.
    pub(super) fn ends_well(&self) -> bool {
        match self.ends {
            Ends::Whole | Ends::Within(_) => true,
            // The end of the connection is that of the stream.
            Ends::Cut(_) => self.framing == Framing::Close,
            Ends::Reset(_) | Ends::Stall(_) => false,
        }
    }
}

pub(super) fn plans() -> impl Strategy<Value = Plan> {
    (conditions(), vec(steps(), 1..50), vec(scripts(), 0..20)).prop_map(|(conditions, steps, scripts)| Plan {
        conditions,
        steps,
        scripts,
    })
}

fn steps() -> impl Strategy<Value = Step> {
    let route = prop_oneof![2 => Just(Route::Beating), 1 => Just(Route::Quiet)];
    prop_oneof![
        6 => (0..CLIENTS, route, prop::bool::weighted(0.2))
            .prop_map(|(client, route, is_old)| Step::Subscribe { client, route, is_old }),
        1 => (0..CLIENTS).prop_map(Step::Read),
        1 => (0..CLIENTS).prop_map(Step::Stall),
        1 => (0..CLIENTS, any::<bool>()).prop_map(|(client, resets)| Step::Leave(client, resets)),
        8 => prop_oneof![4 => 1..1500_u64, 1 => 1500..15_000_u64].prop_map(Step::Wait),
    ]
}

/// Of streams that are broken off by no origin.
pub(in crate::edge::simulation) fn scripts_that_go_well() -> impl Strategy<Value = Script> {
    let rest = prop::option::weighted(0.5, (0..8_usize, 1..6000_u64));
    (scripts(), rest, any::<bool>()).prop_map(|(script, rest, is_endless)| Script {
        wait: script.wait.min(1500),
        rest,
        ends: if is_endless { Ends::Stall(0) } else { Ends::Whole },
        ..script
    })
}

pub(in crate::edge::simulation) fn scripts() -> impl Strategy<Value = Script> {
    let wait = prop_oneof![6 => 0..100_u64, 1 => 0..5000_u64];
    let framing = prop_oneof![3 => Just(Framing::Chunked), 1 => Just(Framing::Close)];
    let speed = prop_oneof![2 => (1..2000_usize, Just(0_u64)), 1 => (50..400_usize, 1..300_u64)];
    let size = prop_oneof![4 => 4..100_usize, 1 => 100..2000_usize];
    let rest = prop_oneof![3 => 500..6000_u64, 1 => 6000..25_000_u64];
    let rest = prop::option::weighted(0.5, (0..8_usize, rest));
    let place = || prop_oneof![1 => Just(0_usize), 2 => 0..1000_usize];
    let ends = prop_oneof![
        3 => Just(Ends::Whole),
        1 => place().prop_map(Ends::Within),
        2 => place().prop_map(Ends::Cut),
        2 => place().prop_map(Ends::Reset),
        2 => place().prop_map(Ends::Stall),
    ];
    (wait, framing, 0..12_usize, size, speed, rest, ends).prop_map(
        |(wait, framing, events, size, (piece, pause), rest, ends)| Script {
            wait,
            framing,
            events,
            size,
            piece,
            pause,
            rest,
            ends,
        },
    )
}
