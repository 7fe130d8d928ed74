//! Event streams over a simulated network: origins that tell numbered events, pause, and end well or not, and clients that read, do
//! not read, or leave.
//!
//! The invariants, after each step: a client gets the events of one stream that an origin has begun for its request, each whole, once
//! and in order; between them there is nothing but heartbeats, where the route has them; a stream ends within an event only if the
//! origin has ended it there, or if it is reset, which a client that reads and knows chunks never sees. At rest no event is held
//! back, and a place among the streams that are read on without their clients is free.

mod client;
mod origin;
mod plan;
mod seen;
mod subscription;

use super::codes::with_codes;
use super::stage::{Cast, Scene, Stage, perform};
use super::{LOOK, OVER};
use crate::simulation::{Clock, Trace, Verdict, assert_reached, compare_traces, hold, simulate};
use crate::sync::lock;
pub(super) use client::Client;
pub(super) use origin::{World, serve_all};
use plan::{CLIENTS, Plan, Step, plans};
pub(super) use plan::{Route, Script, scripts, scripts_that_go_well};
pub(super) use subscription::{Over, Subscription};

const TEST: &str = "edge::simulation::events::clients_get_whole_events_in_order_until_a_visible_end";

struct Simulated {
    stage: Stage,
    clients: [Option<Client>; CLIENTS],
    requests: usize,
}

impl Scene for Simulated {
    async fn go_on(&mut self, trace: &mut Trace) -> Verdict {
        self.stage.go_on(trace).await?;
        let world = lock(&self.stage.told);
        self.clients.iter_mut().flatten().try_for_each(|client| client.go_on(&world, trace))
    }
}

impl Simulated {
    fn new(plan: &Plan) -> Self {
        Self {
            stage: Stage::new(&plan.conditions, &Cast { scripts: &plan.scripts, ..Cast::default() }),
            clients: std::array::from_fn(|_| None),
            requests: 0,
        }
    }

    /// Has a client ask, by a new connection if the old one takes no more.
    fn subscribe(&mut self, client: usize, route: Route, is_old: bool) {
        let number = self.requests;
        self.requests += 1;
        let free = self.clients[client].take().filter(Client::takes_more);
        let free = free.unwrap_or_else(|| Client::new(client, self.stage.connect()));
        self.clients[client].insert(free).subscribe(number, route, is_old);
    }

    async fn step(&mut self, step: &Step, clock: &mut Clock, trace: &mut Trace) -> Verdict {
        trace.note(format_args!("{step:?}"));
        match *step {
            Step::Subscribe { client, route, is_old } => self.subscribe(client, route, is_old),
            Step::Read(client) | Step::Stall(client) => {
                if let Some(client) = &mut self.clients[client] {
                    client.read(matches!(step, Step::Read(_)));
                }
            }
            Step::Leave(client, resets) => {
                if let Some(client) = self.clients[client].take() {
                    client.leave(resets);
                }
            }
            Step::Wait(time) => self.wait(time, LOOK, clock, trace).await?,
        }
        self.go_on(trace).await?;
        self.stage.check()
    }

    /// Whether the origin has not come to the end of a stream that a client reads.
    fn is_told_more(&self) -> bool {
        let world = lock(&self.stage.told);
        let mut all = self.clients.iter().flatten().filter_map(Client::subscription);
        all.any(|subscription| subscription.is_told_more(&world))
    }

    /// All read to the end, and then leave.
    async fn rest(mut self, clock: &mut Clock, trace: &mut Trace) -> Verdict {
        self.clients.iter_mut().flatten().for_each(|client| client.read(true));
        self.wait(3000, LOOK, clock, trace).await?;
        self.wait_while(Self::is_told_more, OVER, 500, clock, trace).await?;
        self.wait(60_000, 500, clock, trace).await?;
        {
            let world = lock(&self.stage.told);
            let all = self.clients.iter().flatten().filter_map(Client::subscription);
            all.into_iter().try_for_each(|subscription| subscription.check_rest(&world))?;
        }
        self.clients.iter_mut().for_each(|client| *client = None);
        self.wait(40_000, 2000, clock, trace).await?;
        self.check_place(clock, trace).await?;
        self.stage.end(clock, trace).await
    }

    /// A stream whose client leaves is read on: no other one has the place.
    async fn check_place(&mut self, clock: &mut Clock, trace: &mut Trace) -> Verdict {
        let meter = |stage: &Stage| stage.rig.meter.relays();
        let before = meter(&self.stage);
        hold!(before.draining == 0, "at rest {} streams are read on", before.draining);
        trace.note(format_args!("{} read on, {} not", before.drained, before.undrained));
        lock(&self.stage.told).go_on_endlessly();
        self.subscribe(0, Route::Quiet, false);
        self.wait(3000, LOOK, clock, trace).await?;
        let has_begun = |client: &Client| client.subscription().is_some_and(Subscription::has_begun);
        let client = self.clients[0].take().filter(has_begun);
        client.ok_or("at rest no stream begins")?.leave(true);
        self.wait(1000, LOOK, clock, trace).await?;
        let after = meter(&self.stage);
        hold!(after.drained == before.drained + 1, "no place is free at rest: {before:?}, {after:?}");
        self.wait(10_000, 1000, clock, trace).await
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
fn clients_get_whole_events_in_order_until_a_visible_end() {
    simulate(TEST, &plans(), run);
}

#[test]
fn a_seed_makes_one_trace_in_each_process() {
    compare_traces(TEST);
}

#[test]
fn the_first_seeds_reach_each_end_of_a_stream() {
    let wanted = [
        "is whole: ",
        "is whole, within an event: ",
        "is broken off: ",
        "is broken off, with a fault: ",
        "is reset: ",
        "is reset, within an event: ",
        "is refused by 502",
        "is refused by 504",
        ", 2 heartbeats",
        "1 read on, 0 not",
    ];
    assert_reached(TEST, &plans(), run, &with_codes("events", &wanted));
}
