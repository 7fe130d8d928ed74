//! Clients that speak HTTP/2 to the edge, over a simulated network: several streams on a connection, of bodies and of events, of
//! which some are not read and some are reset.
//!
//! Origins and what they answer are those of the simulations of HTTP/1.1, and so is what a response may be. Besides: no window is
//! exceeded; nothing follows the end of a stream; a stream ends well only with a whole response; one that its client reads is not
//! broken off if its origin has answered well, whatever becomes of the others; a refused one was sent nowhere.

mod client;
mod plan;
mod wire;

use super::LOOK;
use super::client::Asked;
use super::codes::with_codes;
use super::events::{Route, Script};
use super::plan::CLIENTS;
use super::stage::{Cast, Scene, Stage, perform};
use crate::net::simulated::Conditions;
use crate::simulation::{Clock, Trace, Verdict, assert_reached, compare_traces, held, hold, simulate};
use crate::sync::lock;
pub(super) use client::{Client, Outside};
use plan::{Plan, Step, plans};

const TEST: &str = "edge::simulation::streams::clients_get_whole_streams_or_a_reset_within_their_windows";
/// Seconds in which all that was asked is over, although some streams are not read.
const OVER: u64 = 100;
/// Bytes of a window that lets little pass until its client looks again.
const SMALL: u32 = 1000;

struct Simulated {
    stage: Stage,
    clients: [Option<Client>; CLIENTS],
    requests: usize,
    window: u32,
}

impl Scene for Simulated {
    async fn go_on(&mut self, trace: &mut Trace) -> Verdict {
        self.stage.go_on(trace).await?;
        let (mut world, told) = (lock(&self.stage.world), lock(&self.stage.told));
        let mut outside = Outside { world: &mut world, told: &told };
        self.clients.iter_mut().flatten().try_for_each(|client| client.go_on(&mut outside, trace))
    }
}

impl Simulated {
    fn new(plan: &Plan) -> Self {
        let cast = Cast { answers: &plan.answers, scripts: &plan.scripts, ..Cast::default() };
        Self {
            stage: Stage::new(&plan.conditions, &cast),
            clients: std::array::from_fn(|_| None),
            requests: 0,
            window: plan.window,
        }
    }

    /// Has a client ask, on a new connection if the old one takes no more and nothing is under way there.
    fn ask(&mut self, number: usize, ask: impl FnOnce(&mut Client, usize)) {
        let client = Client::free(&mut self.clients[number], &mut self.stage, number, self.window);
        if let Some(client) = client {
            ask(client, self.requests);
            self.requests += 1;
        }
    }

    async fn step(&mut self, step: &Step, clock: &mut Clock, trace: &mut Trace) -> Verdict {
        trace.note(format_args!("{step:?}"));
        match *step {
            Step::Ask { client, route, key, what } => {
                self.ask(client, |client, number| client.ask(Asked { number, route, key, what }));
            }
            Step::Subscribe { client, route } => {
                self.ask(client, |client, number| client.subscribe(number, route));
            }
            Step::Leave(client, resets) => {
                if let Some(client) = self.clients[client].take() {
                    client.leave(resets);
                }
            }
            Step::Change(key) => lock(&self.stage.world).versions[key] += 1,
            Step::Door(origin, door) => self.stage.set_door(origin, door),
            Step::Wait(time) => self.wait(time, LOOK, clock, trace).await?,
            Step::ReadStream(client, _)
            | Step::StallStream(client, _)
            | Step::Reset(client, _)
            | Step::GoAway(client)
            | Step::Read(client)
            | Step::Stall(client) => {
                if let Some(client) = &mut self.clients[client] {
                    change(client, step);
                }
            }
        }
        self.go_on(trace).await?;
        self.stage.check()
    }

    fn is_waiting(&self) -> bool {
        self.clients.iter().flatten().any(Client::is_waiting)
    }

    /// All connections are read, but not all streams, and in the end all leave.
    async fn rest(mut self, clock: &mut Clock, trace: &mut Trace) -> Verdict {
        self.clients.iter_mut().flatten().for_each(|client| client.read(true));
        self.wait(3000, LOOK, clock, trace).await?;
        self.wait_while(Self::is_waiting, OVER, 200, clock, trace).await?;
        hold!(!self.is_waiting(), "a stream has no end after {OVER} s");
        if self.clients.iter().flatten().any(|client| !client.is_over()) {
            // By small windows all takes many looks.
            let look = if self.window < SMALL { 50 } else { 500 };
            self.wait(60_000, look, clock, trace).await?;
        }
        self.clients.iter().flatten().try_for_each(|client| client.check_rest(&lock(&self.stage.told)))?;
        self.clients.iter_mut().for_each(|client| *client = None);
        self.wait(40_000, 2000, clock, trace).await?;
        self.stage.end(clock, trace).await
    }
}

/// What a client does on a connection that it has.
fn change(client: &mut Client, step: &Step) {
    match *step {
        Step::ReadStream(_, place) => client.read_stream(place, true),
        Step::StallStream(_, place) => client.read_stream(place, false),
        Step::Reset(_, place) => client.reset(place),
        Step::GoAway(_) => client.go_away(),
        Step::Read(_) => client.read(true),
        Step::Stall(_) => client.read(false),
        _ => {}
    }
}

fn run(plan: &Plan, trace: &mut Trace) -> Verdict {
    perform(async |clock| {
        let mut simulated = Simulated::new(plan);
        for step in &plan.steps {
            simulated.step(step, clock, trace).await?;
        }
        simulated.rest(clock, trace).await
    })
}

#[test]
fn clients_get_whole_streams_or_a_reset_within_their_windows() {
    simulate(TEST, &plans(), run);
}

/// Found by a seed. All of what the client is sent takes longer than the limit on clients that take nothing, and whenever it is
/// looked at, its window is shut.
#[test]
fn a_stream_is_not_cut_while_its_client_reads_it_by_small_windows() {
    for seed in 0..10 {
        let conditions = Conditions { seed, delay: 2, packet: 485, room: 10_000, window: 8000 };
        let plan = Plan {
            conditions,
            window: 100,
            steps: vec![Step::Subscribe { client: 0, route: Route::Quiet }, Step::Wait(40_000)],
            answers: Vec::new(),
            scripts: vec![Script::whole(12, 1990)],
        };
        let trace = held(&plan, run);
        assert!(trace.mentions("request 0 is whole: 12 events"), "{trace:#?}");
    }
}

#[test]
fn a_seed_makes_one_trace_in_each_process() {
    compare_traces(TEST);
}

#[test]
fn the_first_seeds_reach_each_end_of_a_stream() {
    let wanted = [
        "is answered: 200",
        "is answered: 206",
        "is answered: 502",
        "is answered: 504",
        "is reset by its client after",
        "is reset by INTERNAL_ERROR after",
        "is reset by a refusal after 0 bytes",
        "has filled a window",
        " is whole: ",
        " is whole, within an event: ",
        " is broken off: ",
        " is broken off, with a fault: ",
        ", 2 heartbeats",
        "Orderly, last Some",
    ];
    assert_reached(TEST, &plans(), run, &with_codes("streams", &wanted));
}
