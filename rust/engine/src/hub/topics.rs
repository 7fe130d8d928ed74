//! A hub: its topics by name, the ids of its events, and its limits.
//!
//! Any thread may publish; nothing here waits. A topic begins with its first event or subscriber, and is dropped
//! when it has neither.

mod external;
mod publishing;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{RwLock, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

use super::admitted::Admitted;
use super::budget::HistoryBudget;
use super::clock::now;
use super::counts::Counted;
use super::guests::{Guest, Guests};
use super::id::Ids;
use super::log::Room;
use super::topic::{Fullness, Gone, Phase, Topic};
use super::{HubConfig, Id, Terms};
use crate::error::{Code, Error, Result};
use crate::pool::Pool;
use crate::sync::{Arc, Mutex, lock};
use crate::takeover::streams::Place;
use penstock_memory::sys::since_1970;

use publishing::Order;

pub use external::{LogCounted, LogStats, Published, Refused, Taken};

/// The longest name of a topic, in bytes. Arbitrary; it fits into any path.
const LONGEST: usize = 512;

/// How often what is too old is looked for.
const TURN: Duration = Duration::from_secs(1);

/// Topics with a history each, and their subscribers.
#[derive(Debug)]
pub struct Hub {
    config: HubConfig,
    pub(super) room: Room,
    ids: Ids,
    order: RwLock<Order>,
    topics: Mutex<Topics>,
    wanted: Mutex<Wanted>,
    pub(super) log: Mutex<Option<LogStats>>,
    guests: Arc<Guests>,
}

/// Topics that an external log is asked for, and the waker of the task that asks.
#[derive(Debug, Default)]
struct Wanted {
    names: Vec<String>,
    loader: Option<Waker>,
}

/// The right of a stream to publish to a topic.
#[derive(Debug)]
pub struct Claim {
    pub(super) hub: Arc<Hub>,
    topic: Arc<Topic>,
}

impl Claim {
    /// Its name.
    pub(super) fn topic(&self) -> &str {
        &self.topic.name
    }

    /// Drops the topic: responses end after a whole event, without an end event.
    pub(super) fn abandon(&self) {
        self.hub.drop_topic(&self.topic);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.hub.end_feed(&self.topic);
    }
}

#[derive(Debug, Default)]
struct Topics {
    by_name: HashMap<Box<str>, Arc<Topic>>,
    /// The counts of topics that are gone.
    gone: Counted,
    closed: bool,
}

/// How a client wants to subscribe.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// The id of its last event.
    pub(crate) after: Option<&'a str>,
    pub(crate) terms: Terms,
    pub(crate) guest: Guest<'a>,
}

/// The result of a subscription.
#[derive(Debug)]
pub enum Admission {
    /// It is admitted.
    Admitted(Box<Admitted>),
    /// The topic has ended, and the client has all of it.
    Over,
}

/// How full a hub is, and what it has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HubStats {
    /// Topics.
    pub topics: usize,
    /// Subscribers of all topics.
    pub subscribers: usize,
    /// Bytes of the pool that history uses.
    pub used: usize,
    /// The limit of these bytes.
    pub limit: usize,
    /// The counters.
    pub counted: Counted,
}

/// How full a topic is, and what it has counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicStats {
    /// What it is called.
    pub name: String,
    /// Who listens.
    pub subscribers: usize,
    /// Events that are there.
    pub events: usize,
    /// Bytes of them, as they stand on the wire.
    pub bytes: usize,
    /// The highest id so far.
    pub newest: Id,
    /// What all that is there is above.
    pub floor: Id,
    /// Whether it has been finished.
    pub is_finished: bool,
    /// The counters.
    pub counted: Counted,
}

impl Hub {
    /// One without topics, whose history lies in `pool`.
    pub fn new(pool: Pool, config: HubConfig) -> Self {
        let budget = Arc::new(HistoryBudget::new(config.memory, pool.stored()));
        let room = Room { pool, budget, history: config.history };
        let (ids, topics, wanted) = (Ids::default(), Mutex::default(), Mutex::default());
        let (order, log, guests) = (RwLock::default(), Mutex::default(), Arc::default());
        Self { config, room, ids, order, topics, wanted, log, guests }
    }

    /// Subscribes a client, when the topic has been loaded. Any thread may call it.
    ///
    /// # Errors
    /// `BAD_TOPIC`, `UNKNOWN_TOPIC`, `TOO_MANY_TOPICS`, `TOO_MANY_REQUESTS`, `HUB_CLOSED`.
    pub(crate) async fn subscribe(&self, topic: &str, asked: Asked<'_>) -> Result<Admission> {
        let mut is_checked = !self.config.external;
        loop {
            let topic = self.topic(topic, asked.terms.open || self.config.external)?;
            self.note(&topic);
            let (follower, _) = topic.follow();
            poll_fn(
                |context| {
                    if topic.is_loaded(follower, context.waker()) { Poll::Ready(()) } else { Poll::Pending }
                },
            )
            .await;
            if !(asked.terms.open || topic.is_known()) {
                return Err(unknown(&topic.name));
            }
            if !is_checked && asked.after.is_some_and(|after| topic.is_to_be_checked(after)) {
                // Another process may have published to it just now.
                is_checked = true;
                self.want(&topic.name);
                continue;
            }
            let Terms { join, limits, .. } = asked.terms;
            let counted = self.guests.enter(asked.guest, &limits)?;
            match topic.enter(asked.after, join, limits.per_topic, now()) {
                Ok(Err(refused)) => return Err(refused),
                Ok(Ok(entered)) if entered.is_over => return Ok(Admission::Over),
                Ok(Ok(entered)) => {
                    let admitted = Admitted::new(topic, entered, asked.after, asked.terms, counted);
                    return Ok(Admission::Admitted(Box::new(admitted)));
                }
                Err(Gone) => self.forget(&topic),
            }
        }
    }

    /// Takes up a subscriber that another process has served until `place`.
    ///
    /// # Errors
    /// Why it cannot go on here.
    pub(crate) fn take_up(
        &self,
        topic: &str,
        place: &Place,
        terms: Terms,
        guest: Guest<'_>,
    ) -> std::result::Result<Box<Admitted>, String> {
        let id = place.id.parse().map_err(|_| format!("{:?} is no id", place.id))?;
        let found = self.find(topic).map_err(|error| error.to_string())?;
        let found = found.ok_or_else(|| format!("there is no topic {topic:?} here"))?;
        let counted = self.guests.enter(guest, &terms.limits).map_err(|error| error.to_string())?;
        let entered = found.enter_behind(id, terms.limits.per_topic);
        let (at, name) =
            entered.ok_or("it is not known here what follows on its place, or its topic is full")?;
        let last = place.has_had.then_some(name);
        Ok(Box::new(Admitted::moved(found, at, last, terms, counted)))
    }

    /// Whether subscribers can go on in another process that has the hub as well.
    pub(crate) fn moves(&self) -> bool {
        !self.config.external
    }

    /// Takes the names of topics that an external log is asked for; if there are no names, `waker` is woken for the next
    /// one.
    pub fn wanted(&self, waker: &Waker) -> Vec<String> {
        let mut wanted = lock(&self.wanted);
        if wanted.names.is_empty() {
            wanted.loader = Some(waker.clone());
        }
        std::mem::take(&mut wanted.names)
    }

    /// How full it is, and what it has counted.
    pub fn stats(&self) -> HubStats {
        let (topics, mut counted) = {
            let topics = lock(&self.topics);
            (topics.by_name.values().map(Arc::clone).collect::<Vec<_>>(), topics.gone)
        };
        let mut subscribers = 0;
        for topic in &topics {
            subscribers += topic.fullness().subscribers;
            counted += &topic.counts.read();
        }
        let (used, limit) = (self.room.budget.used(), self.room.budget.limit());
        HubStats { topics: topics.len(), subscribers, used, limit, counted }
    }

    /// The same for one topic, if it exists.
    pub fn topic_stats(&self, topic: &str) -> Option<TopicStats> {
        let topic = Arc::clone(lock(&self.topics).by_name.get(topic)?);
        Some(stats_of(&topic, &topic.fullness()))
    }

    /// The same for the topics with the most subscribers, and of them with the most events; `most` of them.
    pub fn largest_topics(&self, most: usize) -> Vec<TopicStats> {
        let topics = self.all();
        let mut ranked: Vec<_> = topics.iter().map(|topic| (topic.fullness(), topic)).collect();
        let rank = |full: &Fullness, topic: &Topic| (full.subscribers, topic.counts.read().events);
        if most < ranked.len() {
            ranked.select_nth_unstable_by_key(most, |(full, topic)| Reverse(rank(full, topic)));
            ranked.truncate(most);
        }
        ranked.sort_unstable_by_key(|(full, topic)| Reverse(rank(full, topic)));
        ranked.into_iter().map(|(full, topic)| stats_of(topic, &full)).collect()
    }

    /// The names of all topics, in no order.
    pub fn names(&self) -> Vec<String> {
        lock(&self.topics).by_name.keys().map(|name| name.clone().into()).collect()
    }

    /// Drops events that are too old, and topics without events and subscribers.
    pub fn tend(&self) {
        let now = now();
        for topic in self.all() {
            if topic.tend(now, self.config.finished_age) {
                self.forget(&topic);
            }
        }
    }

    /// Ends all responses to subscribers after a whole event, and refuses further events.
    pub fn close(&self) {
        self.end_links();
        let topics = {
            let mut topics = lock(&self.topics);
            topics.closed = true;
            let by_name = std::mem::take(&mut topics.by_name);
            for topic in by_name.values() {
                topics.gone += &topic.counts.read();
            }
            by_name
        };
        for topic in topics.into_values() {
            topic.close();
        }
    }

    /// Whether [`Hub::close`] was called.
    pub(super) fn is_closed(&self) -> bool {
        lock(&self.topics).closed
    }

    /// Where history lies.
    pub(super) fn pool(&self) -> &Pool {
        &self.room.pool
    }

    /// All topics, in no order.
    fn all(&self) -> Vec<Arc<Topic>> {
        lock(&self.topics).by_name.values().map(Arc::clone).collect()
    }

    /// Calls `work` with the topic of that name, and again with its successor if it has just gone.
    fn with<T>(
        &self,
        name: &str,
        open: bool,
        mut work: impl FnMut(&Arc<Topic>) -> std::result::Result<T, Gone>,
    ) -> Result<T> {
        loop {
            let topic = self.topic(name, open)?;
            match work(&topic) {
                Ok(done) => return Ok(done),
                Err(Gone) => self.forget(&topic),
            }
        }
    }

    /// Removes a topic that is gone.
    pub(super) fn forget(&self, topic: &Arc<Topic>) {
        let mut topics = lock(&self.topics);
        // Another one of that name may have taken its place.
        if topics.by_name.get(&topic.name).is_some_and(|there| Arc::ptr_eq(there, topic)) {
            topics.by_name.remove(&topic.name);
            topics.gone += &topic.counts.read();
        }
    }

    /// The topic of that name; if it does not exist and `open` is set, a new one.
    pub(super) fn topic(&self, name: &str, open: bool) -> Result<Arc<Topic>> {
        check_name(name)?;
        if let Some(topic) = self.find(name)? {
            return Ok(topic);
        }
        if !open {
            return Err(unknown(name));
        }
        if lock(&self.topics).by_name.len() >= self.config.topics {
            // Some of them may be dropped by the next sweep.
            self.tend();
        }
        let phase = if self.config.external { Phase::Loading } else { Phase::Open };
        let mut topics = lock(&self.topics);
        if topics.closed {
            return Err(closed());
        }
        // Another thread may have opened it meanwhile.
        if let Some(topic) = topics.by_name.get(name) {
            return Ok(Arc::clone(topic));
        }
        if topics.by_name.len() >= self.config.topics {
            let detail = format!("the hub has {} topics already", self.config.topics);
            return Err(Code::TooManyTopics.error(detail));
        }
        let floor = self.ids.next(milliseconds(), Id::default());
        let topic = Arc::new(Topic::new(name, self.room.clone(), floor, phase));
        topics.by_name.insert(name.into(), Arc::clone(&topic));
        drop(topics);
        if phase == Phase::Loading {
            self.want(name);
        }
        Ok(topic)
    }

    fn want(&self, name: &str) {
        let loader = {
            let mut wanted = lock(&self.wanted);
            wanted.names.push(name.to_owned());
            wanted.loader.take()
        };
        if let Some(loader) = loader {
            loader.wake();
        }
    }

    pub(super) fn find(&self, name: &str) -> Result<Option<Arc<Topic>>> {
        let topics = lock(&self.topics);
        if topics.closed { Err(closed()) } else { Ok(topics.by_name.get(name).map(Arc::clone)) }
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.end_links();
    }
}

fn stats_of(topic: &Topic, full: &Fullness) -> TopicStats {
    TopicStats {
        name: topic.name.clone().into(),
        subscribers: full.subscribers,
        events: full.events,
        bytes: full.bytes,
        newest: full.newest,
        floor: full.floor,
        is_finished: full.is_finished,
        counted: topic.counts.read(),
    }
}

fn unknown(name: &str) -> Error {
    Code::UnknownTopic.error(format!("there is no topic {name:?}"))
}

fn closed() -> Error {
    Code::HubClosed.error("the hub has been closed")
}

/// Since 1970.
fn milliseconds() -> u64 {
    u64::try_from(since_1970().as_millis()).unwrap_or(u64::MAX)
}

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > LONGEST || name.chars().any(char::is_control) {
        let detail = format!("a topic's name has 1 to {LONGEST} bytes, and no control characters");
        return Err(Code::BadTopic.error(detail));
    }
    Ok(())
}

/// Sweeps `hub` until it is gone.
pub async fn keep(hub: Weak<Hub>) {
    loop {
        tokio::time::sleep(TURN).await;
        let Some(hub) = hub.upgrade() else { return };
        hub.tend();
    }
}
