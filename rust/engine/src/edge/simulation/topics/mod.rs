//! Topics of a hub over a simulated network: what is published is written to all subscribers, of which some do not read, some leave,
//! and some come back with the id of their last event.
//!
//! The invariants are those of the hub's own simulation, held where clients are: ids rise; each event comes whole, as it was
//! published, and none is missing, unless a gap was announced; a response ends after a whole event, and well only for a reason.
//! At rest all have what there is, and nothing is left.

mod client;
mod plan;

use super::LOOK;
use super::codes::with_codes;
use super::stage::{Cast, Scene, Stage, perform};
use crate::hub::model::{Written, data, newest};
use crate::hub::{Event, Id};
use crate::simulation::{Clock, Trace, Verdict, assert_reached, compare_traces, hold, simulate};
use client::Client;
pub(super) use plan::Route;
use plan::{After, CLIENTS, Plan, Step, TOPICS, plans};

const TEST: &str = "edge::simulation::topics::subscribers_get_all_events_or_are_told_of_a_gap";

struct Simulated {
    stage: Stage,
    clients: [Client; CLIENTS],
    written: Vec<Written>,
    subscriptions: usize,
}

impl Scene for Simulated {
    async fn go_on(&mut self, trace: &mut Trace) -> Verdict {
        self.stage.go_on(trace).await?;
        self.clients.iter_mut().try_for_each(|client| client.go_on(&self.written, trace))
    }
}

impl Simulated {
    fn new(plan: &Plan) -> Self {
        Self {
            stage: Stage::new(&plan.conditions, &Cast::default()),
            clients: std::array::from_fn(|_| Client::default()),
            written: Vec::new(),
            subscriptions: 0,
        }
    }

    fn publish(&mut self, topic: usize, length: usize, key: Option<u8>, trace: &mut Trace) -> Verdict {
        let data = data(self.written.len(), length);
        let name = key.map(|key| key.to_string());
        let event = Event { data: data.as_bytes(), key: name.as_deref(), ..Event::default() };
        match self.stage.rig.hub.publish(&topic.to_string(), &event) {
            Ok(answer) => {
                let id = answer.now().ok_or("the hub asks another process")?;
                let last = self.written.last().map_or_else(Id::default, |written| written.id);
                hold!(id > last, "the id {id} came after {last}");
                self.written.push(Written { topic, id, key, data });
            }
            Err(error) => trace.note(format_args!("not published: {:?}", error.code())),
        }
        Ok(())
    }

    fn subscribe(&mut self, number: usize, route: Route, topic: usize, after: After) {
        let client = &mut self.clients[number];
        let after = match after {
            After::Nothing => None,
            After::Last => client.last(topic),
            After::Malformed => Some("no id".to_owned()),
        };
        client.leave(false);
        let end = self.stage.connect();
        client.subscribe((self.subscriptions, end), route, topic, after, &self.written);
        self.subscriptions += 1;
    }

    async fn step(&mut self, step: &Step, clock: &mut Clock, trace: &mut Trace) -> Verdict {
        trace.note(format_args!("{step:?}"));
        match *step {
            Step::Publish { topic, length, key } => self.publish(topic, length, key, trace)?,
            Step::Subscribe { client, route, topic, after } => self.subscribe(client, route, topic, after),
            Step::Read(client) | Step::Stall(client) => {
                self.clients[client].read(matches!(step, Step::Read(_)));
            }
            Step::Leave(client, resets) => self.clients[client].leave(resets),
            Step::Finish => {
                let finished = self.stage.rig.hub.finish("1").map_err(|error| error.code());
                trace.note(format_args!("finished: {:?}", finished.map(crate::hub::Answer::now)));
            }
            Step::Wait(time) => self.wait(time, LOOK, clock, trace).await?,
        }
        self.go_on(trace).await?;
        let stats = self.stage.rig.hub.stats();
        hold!(stats.used <= stats.limit, "history takes {} of {}", stats.used, stats.limit);
        self.stage.check()
    }

    /// All read, and then leave.
    async fn rest(mut self, clock: &mut Clock, trace: &mut Trace) -> Verdict {
        self.clients.iter_mut().for_each(|client| client.read(true));
        self.wait(3000, LOOK, clock, trace).await?;
        self.wait(20_000, 200, clock, trace).await?;
        for topic in 0..TOPICS {
            let stats = self.stage.rig.hub.topic_stats(&topic.to_string());
            let newest = newest(&self.written, topic);
            let is_there = stats.is_some_and(|stats| stats.newest >= newest && stats.events > 0);
            let clients = self.clients.iter().filter(|client| client.topic() == Some(topic));
            clients.into_iter().try_for_each(|client| client.check_rest(&self.written, is_there))?;
        }
        self.clients.iter_mut().for_each(|client| client.leave(true));
        self.wait(20_000, 2000, clock, trace).await?;
        let subscribers = self.stage.rig.hub.stats().subscribers;
        hold!(subscribers == 0, "{subscribers} subscribers are counted at rest");
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
fn subscribers_get_all_events_or_are_told_of_a_gap() {
    simulate(TEST, &plans(), run);
}

#[test]
fn a_seed_makes_one_trace_in_each_process() {
    compare_traces(TEST);
}

#[test]
fn the_first_seeds_reach_each_end_and_each_way_to_come_back() {
    let wanted = [
        "begins: Some(\"full\")",
        "begins: Some(\"gap\")",
        "begins: None",
        "penstock-gap",
        "is over before it begins",
        "ends: whole, told true",
        "ends: whole, told false",
        "ends: broken off",
    ];
    assert_reached(TEST, &plans(), run, &with_codes("topics", &wanted));
}
