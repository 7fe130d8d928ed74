//! Connections over a simulated network: clients that speak HTTP/1.1 to the edge, and origins that answer it, well or not.
//!
//! All between them is the engine's own, from the bytes of a request to those of its response: the edge's connections and
//! native routes, relays, retries and resumptions, the cache, and the connections to origins. The invariants, after each step:
//! what a client gets is of one version that an origin was asked for by this request, and ends well only if it is all of it,
//! or all that the origin has said there is; no request is sent again that may have been acted on or that an origin has begun
//! to answer, nor more often than allowed. At rest each request is answered, or its connection has ended; no memory, no
//! connection and no task is left; and the counters have what the network saw.
//!
//! What else is simulated here has plans of its own: event streams ([`events`]), clients and origins that speak HTTP/2 ([`streams`],
//! [`sessions`]), the
//! topics of a hub ([`topics`]), and the end of a site while all of these go on ([`drain`]).

mod client;
mod codes;
mod drain;
mod events;
mod given;
mod http;
mod link;
mod odd;
mod origin;
mod plan;
mod rig;
mod sessions;
mod stage;
mod streams;
mod topics;
mod world;

use crate::net::simulated::Conditions;
use crate::simulation::{Clock, Trace, Verdict, assert_reached, compare_traces, held, hold, simulate};
use crate::sync::lock;
use client::Client;
use codes::with_codes;
use odd::Odd;
use plan::{Answer, Break, CLIENTS, Framing, Plan, Route, Step, What, plans};
use stage::{Cast, Scene, Stage, perform};

const TEST: &str = "edge::simulation::clients_over_a_network_get_whole_bodies_or_none";
/// Milliseconds in which clients do not look at what has come.
const LOOK: u64 = 20;
/// Seconds in which all that was asked is over.
const OVER: u64 = 1000;

struct Simulated {
    stage: Stage,
    clients: [Option<Client>; CLIENTS],
    odd: Vec<Odd>,
    requests: usize,
}

impl Scene for Simulated {
    async fn go_on(&mut self, trace: &mut Trace) -> Verdict {
        self.stage.go_on(trace).await?;
        self.odd.iter_mut().try_for_each(|odd| odd.go_on(trace))?;
        let mut world = lock(&self.stage.world);
        self.clients.iter_mut().flatten().try_for_each(|client| client.go_on(&mut world, trace))
    }
}

impl Simulated {
    fn new(plan: &Plan) -> Self {
        let Plan { hedges, answers, sessions, .. } = plan;
        let cast = Cast { hedges: *hedges, answers, sessions: sessions.as_ref(), ..Cast::default() };
        Self {
            stage: Stage::new(&plan.conditions, &cast),
            clients: std::array::from_fn(|_| None),
            odd: Vec::new(),
            requests: 0,
        }
    }

    /// Has a client connect if it has no connection that takes more requests.
    fn client(&mut self, number: usize) -> &mut Client {
        let client = self.clients[number].take().filter(Client::takes_more);
        let client = client.unwrap_or_else(|| Client::new(number, self.stage.connect()));
        self.clients[number].insert(client)
    }

    async fn step(&mut self, step: &Step, clock: &mut Clock, trace: &mut Trace) -> Verdict {
        trace.note(format_args!("{step:?}"));
        match *step {
            Step::Ask { client, route, key, what, is_old } => {
                let number = self.requests;
                self.requests += 1;
                self.client(client).ask(number, route, key, what, is_old);
            }
            Step::Read(client) | Step::Stall(client) => {
                if let Some(client) = &mut self.clients[client] {
                    client.link.reads = matches!(step, Step::Read(_));
                }
            }
            Step::Leave(client, resets) => {
                if let Some(client) = self.clients[client].take() {
                    client.leave(resets);
                }
            }
            Step::Change(key) => lock(&self.stage.world).versions[key] += 1,
            Step::Odd(kind) => self.odd.push(Odd::new(kind, self.stage.connect())),
            Step::Door(origin, door) => self.stage.set_door(origin, door),
            Step::Wait(time) => self.wait(time, LOOK, clock, trace).await?,
        }
        self.go_on(trace).await?;
        self.stage.check()
    }

    fn is_waiting(&self) -> bool {
        self.clients.iter().flatten().any(|client| !client.asked.is_empty())
    }

    /// All read to the end, and then leave.
    async fn rest(mut self, clock: &mut Clock, trace: &mut Trace) -> Verdict {
        self.clients.iter_mut().flatten().for_each(|client| client.link.reads = true);
        self.wait(3000, LOOK, clock, trace).await?;
        self.wait_while(Self::is_waiting, OVER, 500, clock, trace).await?;
        hold!(!self.is_waiting(), "a request is neither answered nor refused after {OVER} s");
        self.odd.iter().try_for_each(Odd::check_rest)?;
        self.odd.clear();
        self.clients.iter_mut().for_each(|client| *client = None);
        self.wait(40_000, 2000, clock, trace).await?;
        self.stage.end(clock, trace).await
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
fn clients_over_a_network_get_whole_bodies_or_none() {
    simulate(TEST, &plans(), run);
}

/// Found by a seed. The body of the request meets the reset, and the response has neither a length nor chunks.
#[test]
fn a_body_that_was_reset_is_not_whole_if_the_upload_has_met_the_reset() {
    for seed in 0..50 {
        let conditions = Conditions { seed, delay: 2, packet: 140, room: 200, window: 200 };
        let step =
            Step::Ask { client: 0, route: Route::Relay, key: 0, what: What::Post(1155), is_old: false };
        let broken = Some((223, Break::Reset));
        let answer = Answer { framing: Framing::Close, piece: 1, broken, ..Answer::good() };
        let plan =
            Plan { conditions, hedges: false, steps: vec![step], answers: vec![answer], sessions: None };
        held(&plan, run);
    }
}

/// Found by a seed. An origin sends a body after its answer to HEAD: the request after it takes the connection before that body
/// comes, meets it there instead of its answer, and is sent again.
#[test]
fn a_request_is_sent_again_if_it_meets_a_body_that_an_answer_to_head_may_not_have() {
    let mut repeats = false;
    for seed in 0..50 {
        let conditions = Conditions { seed, delay: 30, packet: 1460, room: 2000, window: 2000 };
        let ask = |what| Step::Ask { client: 0, route: Route::Relay, key: 0, what, is_old: false };
        // A write of the head, and one of the body.
        let failure = Answer { fails: true, piece: 42, ..Answer::good() };
        let plan = Plan {
            conditions,
            hedges: false,
            steps: vec![ask(What::Head), ask(What::Get)],
            answers: vec![failure],
            sessions: None,
        };
        let trace = held(&plan, run);
        repeats |= trace.mentions("connection 2 is asked 2: GET /relay/0?n=1 ");
    }
    assert!(repeats, "no request has met the body");
}

#[test]
fn a_seed_makes_one_trace_in_each_process() {
    compare_traces(TEST);
}

#[test]
fn the_first_seeds_reach_each_answer() {
    let wanted =
        ["is answered: 200", "is answered: 206", "is answered: 416", "is answered: 502", "is answered: 504"];
    assert_reached(TEST, &plans(), run, &with_codes("bodies", &wanted));
}
