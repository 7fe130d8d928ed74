//! The connection of a hub to the same hub of another process, during an upgrade.
//!
//! What is to be said is noted here by any thread, and said by the link's own task. A topic is noted as changed, not each of its
//! events: the task reads from the history what the other process lacks, so that what waits for a slow process is bounded by
//! the histories.

pub(super) mod message;
mod sending;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, PoisonError};
use std::task::Waker;
use std::time::Duration;

use tokio::sync::oneshot;

use super::Id;
use super::answer::Answer;
use super::topic::Topic;
use crate::error::{Code, Result};
use crate::sync::{Arc, Mutex, lock};
use message::Given;
pub(super) use message::{Deed, Draft, Wish};
pub(super) use sending::send;

/// How far the two processes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The follower does not have all that there was.
    Joining,
    /// It has.
    InStep,
    /// This process has followed, and leads.
    Leads,
    /// This process has led, and follows one that leads.
    Follows,
    /// The connection has ended.
    Ended,
}

/// A connection to another process.
#[derive(Debug)]
pub(super) struct Link {
    /// Its number among those of this process.
    number: u64,
    state: Mutex<State>,
    turned: Condvar,
}

#[derive(Debug)]
struct State {
    stage: Stage,
    /// Topics that have changed, by their addresses.
    changed: BTreeMap<usize, Arc<Topic>>,
    /// What else is to be said to a follower, after that.
    words: Vec<Word>,
    /// Wishes of the follower, by the ids of their events.
    placed: HashMap<Id, u64>,
    /// What this process has asked for, and has no answer to.
    asked: BTreeMap<u64, Asked>,
    next_number: u64,
    /// The first of them that was not sent.
    unsent: u64,
    /// The leader is to be told that it is one, and that no id is above this one.
    turns_at: Option<Id>,
    /// Wishes are sent.
    may_ask: bool,
    sender: Option<Waker>,
}

/// What is said to a follower besides what its topics have.
#[derive(Debug)]
enum Word {
    Answer(u64, Result<Given>),
    Abandoned(Box<str>),
    InStep,
    Leads,
}

/// Something that was asked for.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) wish: Wish,
    waits: Option<oneshot::Sender<Result<Given>>>,
}

impl Asked {
    pub(super) fn answer(self, answer: Result<Given>) {
        if let Some(waits) = self.waits {
            // An error means that nothing waits for it any more.
            let _ = waits.send(answer);
        }
    }
}

impl Link {
    /// A link of a process that leads, or of one that follows.
    pub(super) fn new(leads: bool) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        // Relaxed: a number of its own is all that is needed.
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let state = State {
            stage: Stage::Joining,
            changed: BTreeMap::new(),
            words: Vec::new(),
            placed: HashMap::new(),
            asked: BTreeMap::new(),
            next_number: 0,
            unsent: 0,
            turns_at: None,
            may_ask: !leads,
            sender: None,
        };
        Self { number, state: Mutex::new(state), turned: Condvar::new() }
    }

    /// `topic` has changed.
    pub(super) fn note(&self, topic: &Arc<Topic>) {
        self.say(|state| drop(state.changed.insert(Arc::as_ptr(topic) as usize, Arc::clone(topic))));
    }

    /// The topic of that name was dropped.
    pub(super) fn note_abandoned(&self, topic: &str) {
        self.say(|state| state.words.push(Word::Abandoned(topic.into())));
    }

    /// Tells the follower all that there is, and then that this is all.
    pub(super) fn tell_all(&self, topics: impl Iterator<Item = Arc<Topic>>) {
        self.say(|state| {
            state.changed.extend(topics.map(|topic| (Arc::as_ptr(&topic) as usize, topic)));
            state.words.push(Word::InStep);
        });
    }

    /// Asks the leader. `make` makes the result of what is given.
    pub(super) fn ask<T: Send + 'static>(
        &self,
        wish: Wish,
        make: impl FnOnce(Given) -> Result<T> + Send + 'static,
    ) -> Answer<T> {
        let (answer, answered) = oneshot::channel();
        self.put(wish, Some(answer));
        Answer::Later(Box::pin(async move {
            let given = answered.await;
            make(given.map_err(|_| Code::HubClosed.error("the hub has been closed"))??)
        }))
    }

    /// Asks the leader for something that nothing waits for.
    pub(super) fn put(&self, wish: Wish, waits: Option<oneshot::Sender<Result<Given>>>) {
        self.say(|state| {
            state.asked.insert(state.next_number, Asked { wish, waits });
            state.next_number += 1;
        });
    }

    /// The follower is to lead, once it was told all that there is. `last` is the highest id.
    pub(super) fn turn(&self, last: Id) {
        self.say(|state| state.turns_at = Some(last));
    }

    /// This process leads: what it has asked for and was not given.
    pub(super) fn begin_to_lead(&self) -> Vec<Asked> {
        let mut left = Vec::new();
        self.say(|state| {
            state.may_ask = false;
            left = std::mem::take(&mut state.asked).into_values().collect();
            state.words.push(Word::Leads);
        });
        self.pass(Stage::Leads);
        left
    }

    /// Ends it: what was asked for and is not given.
    pub(super) fn end(&self) -> Vec<Asked> {
        let mut left = Vec::new();
        self.say(|state| {
            state.changed.clear();
            left = std::mem::take(&mut state.asked).into_values().collect();
        });
        self.pass(Stage::Ended);
        left
    }

    pub(super) fn stage(&self) -> Stage {
        lock(&self.state).stage
    }

    /// Its number among those of this process.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Waits while the stage is `stage`, for `within` at most, and returns the stage then.
    pub(super) fn wait_while(&self, stage: Stage, within: Duration) -> Stage {
        let waited = self.turned.wait_timeout_while(lock(&self.state), within, |state| state.stage == stage);
        waited.unwrap_or_else(PoisonError::into_inner).0.stage
    }

    /// The event at `id` is what the follower has asked for by `number`.
    pub(super) fn note_placed(&self, id: Id, number: u64) {
        lock(&self.state).placed.insert(id, number);
    }

    /// Answers what the follower has asked for by `number`.
    pub(super) fn give(&self, number: u64, answer: Result<Given>) {
        self.say(|state| state.words.push(Word::Answer(number, answer)));
    }

    /// The leader has answered what this process has asked for by `number`. It may have done so before.
    pub(super) fn take_answer(&self, number: u64, answer: Result<Given>) {
        let asked = lock(&self.state).asked.remove(&number);
        if let Some(asked) = asked {
            asked.answer(answer);
        }
    }

    /// The two processes have come to a stage.
    pub(super) fn pass(&self, stage: Stage) {
        self.say(|state| {
            if state.stage != Stage::Ended {
                state.stage = stage;
            }
        });
        self.turned.notify_all();
    }

    fn say(&self, note: impl FnOnce(&mut State)) {
        let sender = {
            let mut state = lock(&self.state);
            note(&mut state);
            state.sender.take()
        };
        if let Some(sender) = sender {
            sender.wake();
        }
    }
}

/// What `bytes` of one hub to another say, written anew; for the fuzzer: what is read is written as it was, so that no two texts
/// are one message.
///
/// # Errors
/// `INTERNAL`: they are no message.
pub fn rewritten(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut written = Vec::new();
    message::Message::read(bytes)?.write(&mut written);
    Ok(written)
}

#[cfg(test)]
mod tests;
