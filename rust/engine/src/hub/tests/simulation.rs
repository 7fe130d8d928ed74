//! Plans of publishers and subscribers, beside a list of all that was published.
//!
//! The invariants, after each step: ids rise over the whole hub, however the clock is set; a subscriber gets the
//! events after its place in order, each as it was published and without a hole, unless it is told of a gap first; one
//! that reads has all there is; subscribers and bytes are counted as they are; history keeps to its budget. At rest
//! all memory is back.

use std::sync::Arc as Plain;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::pool;
use crate::hub::answer::Answer;
use crate::hub::model::{Block, Follower, Written, blocks, data};
use crate::hub::topics::Asked;
use crate::hub::{
    Admission, Event, Guest, History, Hub, HubConfig, Id, Join, Limits, Resumption, Slow, Terms, Wire,
};
use crate::net::{Payload, Source};
use crate::pool::Pool;
use crate::simulation::{
    Clock, Trace, Verdict, Woken, compare_traces, hold, in_simulated_time, pass, settle, simulate,
};

const TEST: &str = "hub::tests::simulation::subscribers_of_any_plan_get_all_or_are_told";
const TOPICS: [&str; 2] = ["a", "b"];
const SUBSCRIBERS: usize = 5;
const MEMORY: usize = 20 * 1024;
const HISTORY: History = History { events: 6, bytes: 6000, age: Some(Duration::from_secs(4)) };

#[derive(Debug, Clone)]
enum Step {
    Publish { topic: usize, length: usize, key: Option<u8> },
    Subscribe { number: usize, topic: usize, join: Join, slow: Slow, after: After },
    Read(usize),
    Stall(usize),
    Leave(usize),
    Finish(usize),
    Tend,
    Wait(u64),
    SetBack(u64),
}

/// The id that a subscriber comes back with.
#[derive(Debug, Clone, Copy)]
enum After {
    Nothing,
    /// Its last one.
    Last,
    /// A text that is no id.
    Malformed,
}

fn plans() -> impl Strategy<Value = Vec<Step>> {
    let number = 0..SUBSCRIBERS;
    let topic = prop_oneof![9 => Just(0_usize), 3 => Just(1)];
    let join = prop_oneof![Just(Join::Now), Just(Join::Start), (0..4_usize).prop_map(Join::Last)];
    let slow = prop_oneof![
        Just(Slow::Disconnect { behind: None }),
        Just(Slow::Disconnect { behind: Some(2000) }),
        Just(Slow::DropOldest),
        Just(Slow::NewestPerKey),
    ];
    let after = prop_oneof![3 => Just(After::Nothing), 6 => Just(After::Last), 1 => Just(After::Malformed)];
    let publish = (topic.clone(), 0..3000_usize, proptest::option::of(0..3_u8));
    let step = prop_oneof![
        12 => publish.prop_map(|(topic, length, key)| Step::Publish { topic, length, key }),
        6 => (number.clone(), topic, join, slow, after)
            .prop_map(|(number, topic, join, slow, after)| Step::Subscribe { number, topic, join, slow, after }),
        3 => number.clone().prop_map(Step::Read),
        3 => number.clone().prop_map(Step::Stall),
        2 => number.prop_map(Step::Leave),
        1 => Just(Step::Finish(1)),
        1 => Just(Step::Tend),
        3 => (1..2500_u64).prop_map(Step::Wait),
        1 => (1..5000_u64).prop_map(Step::SetBack),
    ];
    vec(step, 1..150)
}

/// One response, and what its client knows.
struct Subscriber {
    source: Box<dyn Source>,
    topic: usize,
    slow: Slow,
    woken: Plain<Woken>,
    /// Its client reads.
    reads: bool,
    /// It has not read all the time since it came.
    has_stalled: bool,
    follower: Follower,
    is_over: bool,
}

struct Simulated {
    pool: Pool,
    hub: Plain<Hub>,
    written: Vec<Written>,
    subscribers: Vec<Option<Subscriber>>,
    /// The last id of each client, by its number, and of which topic.
    last: Vec<Option<(usize, String)>>,
    received: u64,
}

fn parsed(id: &str) -> Result<Id, String> {
    id.parse().map_err(|_| format!("{id:?} is no id"))
}

impl Subscriber {
    /// Takes all that there is; its bytes are with the kernel at once.
    fn read(&mut self) -> Result<String, String> {
        let mut text = String::new();
        while !self.is_over && self.woken.take() {
            let waker = Waker::from(Plain::clone(&self.woken));
            loop {
                match self.source.poll_next(&mut Context::from_waker(&waker), 0) {
                    Poll::Ready(Some(Ok(Payload::Kept(slice)))) => text += &String::from_utf8_lossy(&slice),
                    Poll::Ready(Some(Ok(Payload::Text(bytes)))) => text += &String::from_utf8_lossy(&bytes),
                    Poll::Ready(Some(Ok(Payload::Charged(_)))) => {
                        return Err("a payload of a stream".to_owned());
                    }
                    Poll::Ready(Some(Err(error))) => return Err(format!("a subscriber failed: {error}")),
                    Poll::Ready(None) => {
                        self.is_over = true;
                        break;
                    }
                    Poll::Pending => {
                        self.source.idle();
                        break;
                    }
                }
            }
        }
        Ok(text)
    }
}

impl Simulated {
    fn new() -> Self {
        let pool = pool(1);
        let config = HubConfig {
            memory: MEMORY,
            topics: 4,
            history: HISTORY,
            finished_age: Duration::from_secs(3),
            external: false,
        };
        let hub = Plain::new(Hub::new(pool.clone(), config));
        let subscribers = (0..SUBSCRIBERS).map(|_| None).collect();
        Self { pool, hub, written: Vec::new(), subscribers, last: vec![None; SUBSCRIBERS], received: 0 }
    }

    fn publish(&mut self, topic: usize, length: usize, key: Option<u8>, trace: &mut Trace) -> Verdict {
        let data = data(self.written.len(), length);
        let name = key.map(|key| key.to_string());
        let event = Event { data: data.as_bytes(), key: name.as_deref(), ..Event::default() };
        match self.hub.publish(TOPICS[topic], &event) {
            Ok(answer) => {
                let id = answer.now().ok_or("the hub asks another process")?;
                let last = self.written.last().map_or_else(Id::default, |written| written.id);
                hold!(id > last, "the id {id} came after {last}");
                trace.note(format_args!("published {id} to {topic}: {length} bytes, key {key:?}"));
                self.written.push(Written { topic, id, key, data });
            }
            Err(error) => trace.note(format_args!("not published to {topic}: {:?}", error.code())),
        }
        Ok(())
    }

    /// The newest event of `topic`, of those up to the one `before` the last.
    fn newest(&self, topic: usize, before: usize) -> Option<Id> {
        self.written
            .iter()
            .rev()
            .filter(|written| written.topic == topic)
            .nth(before)
            .map(|written| written.id)
    }

    async fn subscribe(
        &mut self,
        (number, topic): (usize, usize),
        join: Join,
        slow: Slow,
        after: After,
        trace: &mut Trace,
    ) -> Verdict {
        self.subscribers[number] = None;
        let own = self.last[number].clone().filter(|(of, _)| *of == topic).map(|(_, id)| id);
        let after = match after {
            After::Nothing => None,
            After::Last => own,
            After::Malformed => Some("no id".to_owned()),
        };
        let limits = Limits::default();
        let terms = Terms { join, slow, retry: None, open: true, heartbeat: None, max_age: None, limits };
        let asked = Asked { after: after.as_deref(), terms, guest: Guest::default() };
        let admission = self.hub.subscribe(TOPICS[topic], asked).await;
        let admitted = match admission {
            Ok(Admission::Admitted(admitted)) => admitted,
            Ok(Admission::Over) => {
                trace.note(format_args!("{number} is not admitted: {topic} is over"));
                let is_whole = match &after {
                    Some(id) => {
                        self.newest(topic, 0).is_none_or(|newest| parsed(id).is_ok_and(|id| id >= newest))
                    }
                    None => matches!(join, Join::Now | Join::Last(0)),
                };
                hold!(is_whole, "{number} was told that {topic} is over, and lacks some of it");
                return Ok(());
            }
            Err(error) => {
                trace.note(format_args!("{number} is not admitted: {:?}", error.code()));
                return Ok(());
            }
        };
        let resumption = admitted.resumption();
        trace.note(format_args!(
            "{number} subscribes to {topic} after {after:?}: {resumption:?}, {join:?}, {slow:?}"
        ));
        let stats =
            self.hub.topic_stats(TOPICS[topic]).ok_or("there is no topic of an admitted subscriber")?;
        let place = match (&after, join) {
            (Some(id), _) => parsed(id).ok(),
            (None, Join::Now) => Some(self.newest(topic, 0).unwrap_or_default()),
            (None, Join::Start) => Some(stats.floor),
            (None, Join::Last(count)) => Some(self.newest(topic, count).unwrap_or_default().max(stats.floor)),
        };
        hold!(
            after.is_some() == (resumption != Resumption::Fresh),
            "{number} came back after {after:?}, and was taken for {resumption:?}"
        );
        let source: Box<dyn Source> = Box::new(admitted.seat(Wire::through(false), None));
        let woken = Woken::new();
        self.subscribers[number] = Some(Subscriber {
            source,
            topic,
            slow,
            woken,
            reads: true,
            has_stalled: false,
            follower: Follower::new(topic, slow, place),
            is_over: false,
        });
        Ok(())
    }

    async fn step(&mut self, step: &Step, clock: &mut Clock, trace: &mut Trace) -> Verdict {
        match *step {
            Step::Publish { topic, length, key } => self.publish(topic, length, key, trace)?,
            Step::Subscribe { number, topic, join, slow, after } => {
                self.subscribe((number, topic), join, slow, after, trace).await?;
            }
            Step::Read(number) | Step::Stall(number) => {
                if let Some(subscriber) = &mut self.subscribers[number] {
                    subscriber.reads = matches!(step, Step::Read(_));
                    subscriber.has_stalled |= !subscriber.reads;
                }
            }
            Step::Leave(number) => self.subscribers[number] = None,
            Step::Finish(topic) => {
                let finished = self.hub.finish(TOPICS[topic]).map_err(|error| error.code());
                trace.note(format_args!("finished {topic}: {:?}", finished.map(Answer::now)));
            }
            Step::Tend => self.hub.tend(),
            Step::Wait(milliseconds) => pass(clock, Duration::from_millis(milliseconds)).await,
            Step::SetBack(milliseconds) => {
                clock.set(clock.now().saturating_sub(Duration::from_millis(milliseconds)));
            }
        }
        settle().await;
        for number in 0..SUBSCRIBERS {
            self.serve(number, trace)?;
        }
        self.check(trace)
    }

    /// The subscriber reads what there is, unless it stalls.
    fn serve(&mut self, number: usize, trace: &mut Trace) -> Verdict {
        let Some(mut subscriber) = self.subscribers[number].take() else { return Ok(()) };
        if !subscriber.reads {
            self.subscribers[number] = Some(subscriber);
            return Ok(());
        }
        let text = subscriber.read()?;
        for block in blocks(text.as_bytes()).0 {
            self.receive(number, &mut subscriber, &block, trace)?;
        }
        let topic = subscriber.topic;
        if subscriber.is_over {
            let is_told = subscriber.follower.is_told_of_end;
            trace.note(format_args!("{number} is over, told: {is_told}"));
            let may = is_told || subscriber.has_stalled || matches!(subscriber.slow, Slow::Disconnect { .. });
            hold!(may, "the response of {number} ended without a reason");
            return Ok(());
        }
        let newest = self.newest(topic, 0).unwrap_or_default();
        let place = subscriber
            .follower
            .place
            .ok_or_else(|| format!("{number} was not told of the gap after its id"))?;
        let is_there = self
            .hub
            .topic_stats(TOPICS[topic])
            .is_some_and(|stats| stats.newest >= newest && stats.events > 0);
        hold!(!is_there || place >= newest, "{number} reads and has {place}, of {newest}");
        self.subscribers[number] = Some(subscriber);
        Ok(())
    }

    fn receive(
        &mut self,
        number: usize,
        subscriber: &mut Subscriber,
        block: &Block,
        trace: &mut Trace,
    ) -> Verdict {
        let Block { id, kind, data } = block;
        trace.note(format_args!("{number} gets {id:?} {kind:?}, {} bytes", data.len()));
        let follower = &mut subscriber.follower;
        let before = follower.received;
        follower.take(block, &self.written).map_err(|wrong| format!("{number} {wrong}"))?;
        self.received += follower.received - before;
        self.last[number] = id.clone().map(|id| (subscriber.topic, id));
        Ok(())
    }

    fn check(&self, trace: &mut Trace) -> Verdict {
        let stats = self.hub.stats();
        let live = self.subscribers.iter().flatten().count();
        hold!(stats.subscribers == live, "{} subscribers are counted, of {live}", stats.subscribers);
        hold!(stats.used <= stats.limit, "history takes {} of {}", stats.used, stats.limit);
        let pool = self.pool.stats();
        hold!(
            pool.live_bytes <= self.pool.budget(),
            "{} bytes are in use, of {}",
            pool.live_bytes,
            self.pool.budget()
        );
        let counted = stats.counted;
        hold!(
            counted.events == self.written.len() as u64,
            "{} events are counted, of {}",
            counted.events,
            self.written.len()
        );
        // What a stalled subscriber has been given is received when it reads.
        hold!(
            counted.delivered == self.received,
            "{} events are counted as delivered, of {}",
            counted.delivered,
            self.received
        );
        trace.note(format_args!(
            "{live} subscribers, {} bytes of history, {} topics",
            stats.used, stats.topics
        ));
        Ok(())
    }

    /// All subscribers leave.
    async fn rest(mut self) -> Verdict {
        self.subscribers.iter_mut().for_each(|subscriber| *subscriber = None);
        settle().await;
        let subscribers = self.hub.stats().subscribers;
        hold!(subscribers == 0, "{subscribers} subscribers are counted at rest");
        self.hub.close();
        settle().await;
        hold!(self.hub.stats().used == 0, "history takes {} bytes at rest", self.hub.stats().used);
        let live = self.pool.stats().live_bytes;
        hold!(live == 0, "{live} bytes of the pool are in use at rest");
        let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        hold!(tasks == 0, "{tasks} tasks are left at rest");
        Ok(())
    }
}

fn run(plan: &Vec<Step>, trace: &mut Trace) -> Verdict {
    in_simulated_time(async {
        let (mut clock, mut simulated) = (Clock::new(), Simulated::new());
        for step in plan {
            simulated.step(step, &mut clock, trace).await?;
        }
        simulated.rest().await
    })
}

#[test]
fn subscribers_of_any_plan_get_all_or_are_told() {
    simulate(TEST, &plans(), run);
}

#[test]
fn a_seed_makes_one_trace_in_each_process() {
    compare_traces(TEST);
}
