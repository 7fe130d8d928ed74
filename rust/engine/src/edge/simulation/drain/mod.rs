//! The end of a site, over a simulated network: it is drained while clients ask by HTTP/1.1 and HTTP/2 and have event streams, and
//! closed when its time is over.
//!
//! Origins do all that is asked of them, and clients read, so that nothing but the drain can end an exchange. The invariants: what an
//! origin was asked for before the drain is answered whole, or is under way when the time is over; event streams end before that,
//! each after an event and with the time when to come back; no answer that begins after the drain promises another one; clients
//! of HTTP/2 are told; connections without a request end; and after the close nothing is left, and nothing that it has cut
//! looks whole.

mod plan;

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::LOOK;
use super::client::{Asked, Client};
use super::codes::with_codes;
use super::events::{Client as Subscriber, Route as Events, Script, Subscription};
use super::plan::{Route, What};
use super::rig::LINGER;
use super::stage::{Cast, Scene, Stage, perform};
use super::streams::{Client as StreamClient, Outside};
use crate::net::simulated::Conditions;
use crate::simulation::{Clock, Trace, Verdict, assert_reached, compare_traces, held, hold, simulate};
use crate::sync::{Arc, lock};
use plan::{By, CLIENTS, Plan, Step, plans};

const TEST: &str = "edge::simulation::drain::what_has_begun_ends_whole_and_nothing_outlives_the_end";
/// Milliseconds in which clients do not look at what has come, while nothing new is asked.
const SELDOM: u64 = 100;
/// In which clients are told to come back.
const RETRY: Duration = Duration::from_secs(2);
/// In which a client hears of what has happened, and connections that nothing is asked on come to their end.
const SOON: Duration = Duration::from_secs(2).saturating_add(LINGER);
/// Bytes that a client takes of a stream before it reads them.
const WINDOW: u32 = 3000;

struct Simulated {
    stage: Stage,
    clients: [Option<Client>; CLIENTS],
    streams: [Option<StreamClient>; CLIENTS],
    subscribers: [Option<Subscriber>; CLIENTS],
    requests: usize,
    /// After the drain, before the close.
    drained: Option<Drained>,
    /// Since when no request is answered and none was sent.
    quiet: Instant,
}

/// What was under way then.
struct Drained {
    at: Instant,
    /// The number of the first request after it.
    first: usize,
    /// Requests that an origin had been asked for, and the requests that none had begun to answer.
    begun: BTreeSet<usize>,
    unanswered: BTreeSet<usize>,
    /// Event streams of which clients had something.
    events: BTreeSet<usize>,
}

impl Scene for Simulated {
    async fn go_on(&mut self, trace: &mut Trace) -> Verdict {
        self.stage.go_on(trace).await?;
        {
            let (mut world, told) = (lock(&self.stage.world), lock(&self.stage.told));
            self.clients.iter_mut().flatten().try_for_each(|client| client.go_on(&mut world, trace))?;
            self.subscribers.iter_mut().flatten().try_for_each(|client| client.go_on(&told, trace))?;
            let mut outside = Outside { world: &mut world, told: &told };
            self.streams.iter_mut().flatten().try_for_each(|client| client.go_on(&mut outside, trace))?;
        }
        if self.stage.rig.site.active() > 0 {
            self.quiet = Instant::now();
        }
        self.check()?;
        self.stage.check()
    }
}

impl Simulated {
    fn new(plan: &Plan) -> Self {
        let cast = Cast { answers: &plan.answers, scripts: &plan.scripts, ..Cast::default() };
        Self {
            stage: Stage::new(&plan.conditions, &cast),
            clients: std::array::from_fn(|_| None),
            streams: std::array::from_fn(|_| None),
            subscribers: std::array::from_fn(|_| None),
            requests: 0,
            drained: None,
            quiet: Instant::now(),
        }
    }

    fn ask(&mut self, client: usize, asked: &Asked) {
        self.requests += 1;
        let free = self.clients[client].take().filter(Client::takes_more);
        let free = free.unwrap_or_else(|| Client::new(client, self.stage.connect()));
        let Asked { number, route, key, what } = *asked;
        self.clients[client].insert(free).ask(number, route, key, what, false);
    }

    fn ask_by_stream(&mut self, client: usize, ask: impl FnOnce(&mut StreamClient)) {
        let free = StreamClient::free(&mut self.streams[client], &mut self.stage, client, WINDOW);
        if let Some(client) = free {
            ask(client);
            self.requests += 1;
        }
    }

    async fn step(&mut self, step: &Step, clock: &mut Clock, trace: &mut Trace) -> Verdict {
        trace.note(format_args!("{step:?}"));
        let number = self.requests;
        match *step {
            Step::Ask { client, is_stream: false, route, key, what } => {
                self.ask(client, &Asked { number, route, key, what });
            }
            Step::Ask { client, is_stream: true, route, key, what } => {
                self.ask_by_stream(client, |client| client.ask(Asked { number, route, key, what }));
            }
            Step::Subscribe { client, route, by: By::Stream } => {
                self.ask_by_stream(client, |client| client.subscribe(number, route));
            }
            Step::Subscribe { client, route, by } => {
                let free = self.subscribers[client].take().filter(Subscriber::takes_more);
                let free = free.unwrap_or_else(|| Subscriber::new(client, self.stage.connect()));
                self.subscribers[client].insert(free).subscribe(number, route, by == By::Old);
                self.requests += 1;
            }
            Step::Wait(time) => return self.wait(time, LOOK, clock, trace).await,
        }
        self.quiet = Instant::now();
        self.go_on(trace).await
    }

    /// What holds between the drain and the close.
    fn check(&self) -> Verdict {
        let Some(drained) = &self.drained else { return Ok(()) };
        let Self { clients, streams, stage, quiet, .. } = self;
        let plain = clients.iter().flatten();
        let lost = plain.clone().flat_map(|client| &client.unanswered);
        let mut lost = lost.chain(streams.iter().flatten().flat_map(|client| &client.unanswered));
        let lost = lost.find(|number| drained.begun.contains(number));
        hold!(lost.is_none(), "request {lost:?} had begun, and was broken off by the drain");
        let is_later = |number: &&usize| **number >= drained.first || drained.unanswered.contains(*number);
        let promising = plain.flat_map(|client| &client.promising).find(is_later);
        hold!(promising.is_none(), "the answer to request {promising:?} promises another one");
        let is_known = streams.iter().flatten().all(StreamClient::is_parted);
        hold!(drained.at.elapsed() < SOON || is_known, "a client of HTTP/2 is not told");
        let connections = stage.rig.site.counts().connections;
        hold!(
            quiet.elapsed().min(drained.at.elapsed()) < SOON || connections == 0,
            "{connections} connections are open, {:?} after the last request",
            quiet.elapsed()
        );
        Ok(())
    }

    /// No more is begun, and event streams end within `time`.
    fn drain(&mut self, time: u64, trace: &mut Trace) {
        trace.note("the site is drained");
        let site = Arc::clone(&self.stage.rig.site);
        site.drain(RETRY);
        tokio::spawn(async move { site.end_events(Duration::from_millis(time)).await });
        let begun = self.subscriptions().filter(|subscription| subscription.has_begun());
        let events = begun.map(|subscription| subscription.number).collect();
        let world = lock(&self.stage.world);
        let all = 0..self.requests;
        let drained = Drained {
            events,
            at: Instant::now(),
            first: self.requests,
            begun: all.clone().filter(|number| world.is_asked(*number)).collect(),
            unanswered: all.filter(|number| world.is_asked(*number) && !world.is_answered(*number)).collect(),
        };
        drop(world);
        self.drained = Some(drained);
        lock(&self.stage.told).is_drained = true;
    }

    /// The last request for events of each client of HTTP/1.1, and all open ones by HTTP/2.
    fn subscriptions(&self) -> impl Iterator<Item = &Subscription> {
        let plain = self.subscribers.iter().flatten().filter_map(Subscriber::subscription);
        plain.chain(self.streams.iter().flatten().flat_map(StreamClient::subscriptions))
    }

    /// What is left is given the rest of the time, and then ends at once.
    async fn close(&mut self, time: u64, clock: &mut Clock, trace: &mut Trace) -> Verdict {
        self.wait(time, SELDOM, clock, trace).await?;
        self.wait(u64::try_from(LINGER.as_millis()).unwrap_or(u64::MAX) + 500, SELDOM, clock, trace).await?;
        let begun = self.drained.take().map(|drained| drained.events).unwrap_or_default();
        let is_late = |one: &&Subscription| begun.contains(&one.number) && !one.is_over();
        let late = self.subscriptions().find(is_late).map(|subscription| subscription.number);
        hold!(late.is_none(), "event stream {late:?} does not end within the time for that");
        let active = self.stage.rig.site.active();
        trace.note(format_args!("the site is closed, with {active} requests"));
        lock(&self.stage.world).is_closed = true;
        lock(&self.stage.told).is_closed = true;
        self.stage.rig.site.close();
        self.wait(5000, SELDOM, clock, trace).await?;
        let counts = self.stage.rig.site.counts();
        hold!((counts.connections, counts.active) == (0, 0), "after the end there is {counts:?}");
        Ok(())
    }

    async fn rest(mut self, clock: &mut Clock, trace: &mut Trace) -> Verdict {
        self.clients.iter_mut().for_each(|client| *client = None);
        self.streams.iter_mut().for_each(|client| *client = None);
        self.subscribers.iter_mut().for_each(|client| *client = None);
        self.wait(40_000, 2000, clock, trace).await?;
        self.stage.end(clock, trace).await
    }
}

fn run(plan: &Plan, trace: &mut Trace) -> Verdict {
    perform(async |clock| {
        let mut simulated = Simulated::new(plan);
        for step in &plan.before {
            simulated.step(step, clock, trace).await?;
        }
        simulated.drain(plan.time, trace);
        for step in &plan.after {
            simulated.step(step, clock, trace).await?;
        }
        simulated.close(plan.time, clock, trace).await?;
        simulated.rest(clock, trace).await
    })
}

#[test]
fn what_has_begun_ends_whole_and_nothing_outlives_the_end() {
    simulate(TEST, &plans(), run);
}

/// Found by a seed. The edge has sent all of an answer, and waits for a request, when it is drained; the client has not taken all
/// of the answer, and asks again.
#[test]
fn an_answer_that_was_sent_is_whole_if_the_client_asks_again_after_the_drain() {
    let mut is_cut = false;
    for wait in 1..40 {
        let conditions = Conditions { seed: wait, delay: 0, packet: 300, room: 4000, window: 300 };
        let ask = Step::Ask { client: 0, is_stream: false, route: Route::Relay, key: 0, what: What::Get };
        let before = vec![ask.clone(), Step::Wait(5 * wait)];
        let (answers, scripts) = (Vec::new(), Vec::new());
        let plan = Plan { conditions, before, after: vec![ask], time: 0, answers, scripts };
        let trace = held(&plan, run);
        is_cut |= trace.mentions("0 is answered: 200") && trace.mentions("1 is not answered");
    }
    assert!(is_cut, "no connection has ended before the second request came");
}

/// Found by a seed. The origin has ended a stream, of which the client has not taken all, when the drain ends it too.
#[test]
fn an_event_stream_that_has_ended_is_not_ended_again_by_the_drain() {
    for (by, wait) in [By::Stream, By::Plain].into_iter().flat_map(|by| (1..30).map(move |wait| (by, wait))) {
        let conditions = Conditions { seed: wait, delay: 24, packet: 200, room: 2000, window: 2000 };
        let before =
            vec![Step::Subscribe { client: 0, route: Events::Quiet, by }, Step::Wait(100 + 20 * wait)];
        let (answers, scripts) = (Vec::new(), vec![Script::whole(9, 502)]);
        let plan = Plan { conditions, before, after: vec![Step::Wait(1)], time: 0, answers, scripts };
        held(&plan, run);
    }
}

#[test]
fn a_seed_makes_one_trace_in_each_process() {
    compare_traces(TEST);
}

#[test]
fn the_first_seeds_reach_each_way_to_end() {
    let wanted = [
        "is drained: ",
        "is whole: ",
        "is answered: 200",
        "is not answered",
        "Orderly, last Some",
        "with 0 requests",
        "with 1 requests",
    ];
    assert_reached(TEST, &plans(), run, &with_codes("drain", &wanted));
}
