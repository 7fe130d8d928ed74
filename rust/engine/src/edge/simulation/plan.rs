//! What a plan is made of, and what the origins have.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;

use super::odd::KINDS;
use crate::net::simulated::Conditions;

/// Objects of the origins.
pub(super) const KEYS: usize = 2;
pub(super) const CLIENTS: usize = 4;
/// The first is that of the routes with one origin.
pub(super) const ORIGINS: usize = 2;

/// Bytes that a quick network takes and has under way.
const LEAST: usize = 2000;

/// Milliseconds in which the first byte of an answer is waited for in any case.
const PATIENCE: u64 = 1500;

#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) conditions: Conditions,
    /// Whether a second origin is asked beside a slow one.
    pub(super) hedges: bool,
    pub(super) steps: Vec<Step>,
    /// How origins answer, in the order of what they are asked; after the last one, well.
    pub(super) answers: Vec<Answer>,
    /// Origins speak HTTP/2.
    pub(super) sessions: Option<Sessions>,
}

/// How origins speak HTTP/2.
#[derive(Debug, Clone)]
pub(super) struct Sessions {
    /// Bytes that an origin takes of a request's body, and the edge of a response's, before they are read.
    pub(super) window: u32,
    /// Streams of a connection at a time, as the origin has it.
    pub(super) streams: u32,
    /// By requests, in the order in which they come.
    pub(super) faults: Vec<Option<Fault>>,
}

/// What an origin does when a request comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// It does not look at it.
    Refuse,
    /// It looks at neither it nor any after it on the connection.
    Abandon,
    /// It takes no more on the connection after those on their way.
    Leave,
    /// The connection ends, with a reset or in order.
    Cut(bool),
    /// So many frames come that carry nothing.
    Pings(usize),
    /// Of the request's body no more is read than a window.
    Deaf,
}

#[derive(Debug, Clone)]
pub(super) enum Step {
    Ask {
        client: usize,
        route: Route,
        key: usize,
        what: What,
        /// By HTTP/1.0, where a body without a length ends with the connection.
        is_old: bool,
    },
    Read(usize),
    Stall(usize),
    /// With a reset, or an orderly end.
    Leave(usize, bool),
    Change(usize),
    /// A request that is refused for what it is.
    Odd(usize),
    /// An origin takes connections, refuses them, or does not answer.
    Door(usize, u8),
    Wait(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    /// One origin, and no cache.
    Relay,
    /// Two origins that have the same.
    Two,
    /// By a cache of whole responses.
    Whole,
    /// By a cache of slices.
    Sliced,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Get,
    Head,
    /// From the first byte, so many.
    Range(usize, usize),
    /// With a body of so many bytes.
    Post(usize),
}

#[derive(Debug, Clone)]
pub(super) struct Answer {
    /// Milliseconds before its first byte.
    pub(super) wait: u64,
    pub(super) framing: Framing,
    /// It is an error that may be asked for elsewhere.
    pub(super) fails: bool,
    /// Bytes of a write, and milliseconds before the next.
    pub(super) piece: usize,
    pub(super) pause: u64,
    /// After so many thousandths of its bytes, head and body.
    pub(super) broken: Option<(usize, Break)>,
    /// By how much the length is too long, or too short.
    pub(super) lie: i8,
    /// It is of the version before.
    pub(super) is_behind: bool,
    /// It sends a part of whatever it has now, although it was asked for one of a state that is gone.
    pub(super) ignores_state: bool,
    /// What happens after the answer, so many milliseconds later.
    pub(super) then: Option<(u64, Then)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Length,
    Chunked,
    /// The end of the connection.
    Close,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Break {
    End,
    Reset,
    /// Nothing more comes.
    Stall,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    Close,
    Reset,
    /// Bytes that belong to no answer.
    Stray,
    /// The answer to no request that some servers give before they close.
    Expires,
}

impl Answer {
    /// A good one.
    pub(super) fn good() -> Self {
        Self {
            wait: 0,
            framing: Framing::Length,
            fails: false,
            piece: 1000,
            pause: 0,
            broken: None,
            lie: 0,
            is_behind: false,
            ignores_state: false,
            then: None,
        }
    }

    /// Whether it is all that it says, and begins while it is waited for. A reset takes back what is on its way.
    pub(super) fn is_good(&self) -> bool {
        let is_reset = matches!(self.then, Some((_, Then::Reset)));
        self.broken.is_none() && self.lie == 0 && self.wait < PATIENCE && !is_reset
    }
}

/// Of a network.
pub(super) fn conditions() -> impl Strategy<Value = Conditions> {
    let size = || prop_oneof![200..2000_usize, 200..20_000_usize];
    let conditions = (any::<u64>(), 0..40_u64, 50..1460_usize, size(), size());
    conditions.prop_map(|(seed, delay, packet, room, window)| Conditions {
        seed,
        delay,
        packet,
        room,
        window,
    })
}

/// Those of a network on which nothing takes longer than a relay may.
pub(super) fn quick_conditions() -> impl Strategy<Value = Conditions> {
    conditions().prop_map(|conditions| Conditions {
        room: conditions.room.max(LEAST),
        window: conditions.window.max(LEAST),
        packet: conditions.packet.max(200),
        ..conditions
    })
}

pub(super) fn plans() -> impl Strategy<Value = Plan> {
    (conditions(), any::<bool>(), vec(steps(), 1..80), vec(answers(), 0..50)).prop_map(
        |(conditions, hedges, steps, answers)| Plan { conditions, hedges, steps, answers, sessions: None },
    )
}

pub(super) fn routes() -> impl Strategy<Value = Route> {
    prop_oneof![
        3 => Just(Route::Relay),
        3 => Just(Route::Two),
        2 => Just(Route::Whole),
        2 => Just(Route::Sliced)
    ]
}

pub(super) fn whats() -> impl Strategy<Value = What> {
    prop_oneof![
        6 => Just(What::Get),
        1 => Just(What::Head),
        2 => (0..3000_usize, 1..3000_usize).prop_map(|(first, length)| What::Range(first, length)),
        2 => Just(What::Post(0)),
        2 => (0..20_000_usize).prop_map(What::Post),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let key = prop_oneof![3 => Just(0_usize), 1 => Just(1)];
    prop_oneof![
        16 => (0..CLIENTS, routes(), key.clone(), whats(), prop::bool::weighted(0.2))
            .prop_map(|(client, route, key, what, is_old)| Step::Ask { client, route, key, what, is_old }),
        2 => (0..CLIENTS).prop_map(Step::Read),
        2 => (0..CLIENTS).prop_map(Step::Stall),
        2 => (0..CLIENTS, any::<bool>()).prop_map(|(client, resets)| Step::Leave(client, resets)),
        4 => key.prop_map(Step::Change),
        2 => (0..KINDS).prop_map(Step::Odd),
        1 => (0..ORIGINS, 0..4_u8).prop_map(|(origin, door)| Step::Door(origin, door)),
        8 => (1..1500_u64).prop_map(Step::Wait),
    ]
}

pub(super) fn answers() -> impl Strategy<Value = Answer> {
    let wait = prop_oneof![4 => 0..100_u64, 1 => 0..5000_u64];
    let framing =
        prop_oneof![3 => Just(Framing::Length), 2 => Just(Framing::Chunked), 2 => Just(Framing::Close)];
    let broken = prop_oneof![Just(Break::End), Just(Break::Reset), Just(Break::Stall)];
    let place = prop_oneof![1 => Just(0_usize), 1 => 0..50_usize, 3 => 0..1000_usize];
    let broken = prop::option::weighted(0.4, (place, broken));
    let lie = prop_oneof![8 => Just(0_i8), 1 => -40..40_i8];
    let then = prop_oneof![3 => Just(Then::Close), 1 => Just(Then::Reset), 1 => Just(Then::Stray), 1 => Just(Then::Expires)];
    let then = prop::option::weighted(0.3, (0..1000_u64, then));
    let speed = prop_oneof![2 => (1..2000_usize, Just(0_u64)), 1 => (400..2000_usize, 1..300_u64)];
    let flags = (prop::bool::weighted(0.1), prop::bool::weighted(0.3), any::<bool>());
    (wait, framing, flags, speed, broken, lie, then).prop_map(
        |(wait, framing, (fails, is_behind, ignores_state), (piece, pause), broken, lie, then)| Answer {
            wait,
            framing,
            fails,
            piece,
            pause,
            broken,
            lie,
            is_behind,
            ignores_state,
            then,
        },
    )
}

/// Of origins that keep to all that is asked of them.
pub(super) fn answers_that_go_well() -> impl Strategy<Value = Answer> {
    answers().prop_map(|answer| Answer {
        wait: answer.wait.min(PATIENCE - 1),
        framing: answer.framing,
        piece: answer.piece,
        pause: answer.pause,
        ..Answer::good()
    })
}

/// By key and version.
type Bodies = BTreeMap<(usize, usize), Arc<[u8]>>;

thread_local! {
    /// To make them anew for each look takes a third of a simulation's time.
    static BODIES: RefCell<Bodies> = const { RefCell::new(Bodies::new()) };
}

/// The bytes of a version. Two versions after each other may have one length.
pub(super) fn body(key: usize, version: usize) -> Arc<[u8]> {
    let length = 1000 + (version / 2 * 2477 + key * 911) % 7000;
    let make = || lines(&format!("{key}.{version:02}"), length).into();
    BODIES.with_borrow_mut(|bodies| Arc::clone(bodies.entry((key, version)).or_insert_with(make)))
}

/// The body of a request.
pub(super) fn upload(number: usize, length: usize) -> Vec<u8> {
    lines(&format!("u{number:03}"), length)
}

/// So many bytes of lines that say where in which text they are.
fn lines(name: &str, length: usize) -> Vec<u8> {
    let lines = (0..=length / 8).flat_map(|line| format!("{name}{line:03}\n").into_bytes());
    lines.take(length).collect()
}
