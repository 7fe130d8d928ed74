//! The questions that wait for the hook, and the number that it has.
//!
//! The hook has a limited number at a time, and as many again wait. Networks of clients take turns. If there is no room,
//! the network with the most waiting questions loses its newest, so that a flood of unknown tokens delays its own network
//! alone.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::task::Waker;

use super::question::{Network, Question};
use penstock_error::{Code, Error, Result};
use penstock_http::wire::Fields;
use penstock_memory::sync::{Arc, Mutex, lock};

/// The request of a question, kept as long as the question.
#[derive(Debug, Clone)]
pub struct Request {
    /// The name of its route.
    pub route: String,
    /// A token.
    pub method: String,
    /// Path and query, in origin-form.
    pub target: String,
    /// The requested host and port.
    pub authority: String,
    /// The client's address.
    pub remote: Option<String>,
    /// All fields.
    pub headers: Fields,
    /// The first value of each part of the key.
    pub key: Vec<Option<Vec<u8>>>,
}

/// Questions on their way to the hook.
#[derive(Debug)]
pub(super) struct Inbox {
    /// Questions that the hook has at a time; twice as many may be open.
    most: usize,
    state: Mutex<State>,
}

/// The questions of one network, in order of arrival; never empty.
#[derive(Debug, Default)]
struct Line {
    questions: BTreeMap<u64, (Arc<Question>, Request)>,
    turn: u64,
}

#[derive(Debug, Default)]
struct State {
    lines: HashMap<Network, Line>,
    /// The order in which lines take turns; each is there once.
    turns: BTreeMap<u64, Network>,
    /// The lines by their lengths, to find the longest of them at once.
    lengths: BTreeSet<(usize, Network)>,
    /// Questions in all lines.
    waiting: usize,
    /// The number of the next question, or turn.
    next: u64,
    /// Questions that the hook has.
    taken: usize,
    taker: Option<Waker>,
}

impl State {
    fn open(&self) -> usize {
        self.waiting + self.taken
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Puts a question at the end of its line.
    fn push(&mut self, network: Network, question: (Arc<Question>, Request)) {
        let number = self.number();
        question.0.wait_at(network, number);
        let line = self.lines.entry(network).or_default();
        line.questions.insert(number, question);
        let length = line.questions.len();
        if length == 1 {
            // A turn that is later than all others.
            line.turn = number;
            self.turns.insert(number, network);
        }
        self.note_length(network, length - 1, length);
        self.waiting += 1;
    }

    /// The next question.
    fn pop(&mut self) -> Option<(Arc<Question>, Request)> {
        let (_, network) = self.turns.pop_first()?;
        let turn = self.number();
        let line = self.lines.get_mut(&network)?;
        line.turn = turn;
        self.turns.insert(turn, network);
        let number = *line.questions.first_key_value()?.0;
        self.remove(network, number)
    }

    /// Takes a question out of its line, if it is there.
    fn remove(&mut self, network: Network, number: u64) -> Option<(Arc<Question>, Request)> {
        let line = self.lines.get_mut(&network)?;
        let question = line.questions.remove(&number)?;
        let (length, turn) = (line.questions.len(), line.turn);
        if length == 0 {
            self.lines.remove(&network);
            self.turns.remove(&turn);
        }
        self.note_length(network, length + 1, length);
        self.waiting -= 1;
        Some(question)
    }

    fn note_length(&mut self, network: Network, before: usize, now: usize) {
        self.lengths.remove(&(before, network));
        if now > 0 {
            self.lengths.insert((now, network));
        }
    }

    /// Takes the newest question out of the longest line, if that is longer than `network` would be.
    fn give_way(&mut self, network: Network) -> Option<Arc<Question>> {
        let own = self.lines.get(&network).map_or(0, |line| line.questions.len());
        let (_, longest) = *self.lengths.last().filter(|(length, _)| *length > own + 1)?;
        let number = *self.lines.get(&longest)?.questions.last_key_value()?.0;
        self.remove(longest, number).map(|(question, _)| question)
    }
}

impl Inbox {
    pub(super) fn new(most: usize) -> Self {
        Self { most, state: Mutex::new(State::default()) }
    }

    /// Questions that are not answered.
    pub(super) fn open(&self) -> usize {
        lock(&self.state).open()
    }

    /// Wakes `waker` when questions wait; at once if some do.
    pub(super) fn listen(&self, waker: &Waker) {
        let mut state = lock(&self.state);
        state.taker = Some(waker.clone());
        let wake = state.waiting > 0;
        drop(state);
        if wake {
            waker.wake_by_ref();
        }
    }

    /// Adds a question. Returns the one that was removed to make room, for the caller to settle.
    ///
    /// # Errors
    /// `ACCESS_UNAVAILABLE`: there is no listener. `ACCESS_BUSY`: there are too many, and no network has more than
    /// this one.
    pub(super) fn put(&self, question: &Arc<Question>, request: Request) -> Result<Option<Arc<Question>>> {
        let network = request.remote.as_deref().and_then(neighbourhood);
        let mut state = lock(&self.state);
        let Some(taker) = state.taker.clone() else {
            return Err(Code::AccessUnavailable.error("no hook takes questions"));
        };
        let mut gone = None;
        if state.open() >= 2 * self.most {
            gone = Some(state.give_way(network).ok_or_else(|| self.busy())?);
        }
        // The listener takes all that it may have: it was woken for the first, or is woken when one ends.
        let wakes = state.waiting == 0 && state.taken < self.most;
        state.push(network, (Arc::clone(question), request));
        drop(state);
        if wakes {
            taker.wake();
        }
        Ok(gone)
    }

    /// Why a question is not asked.
    pub(super) fn busy(&self) -> Error {
        Code::AccessBusy.error(format!("{} questions are open", 2 * self.most))
    }

    /// No request waits for the answer any more. Removes the question, if the hook does not have it
    /// yet.
    pub(super) fn forget(&self, question: &Question) {
        let Some((network, number)) = question.place() else { return };
        let question = lock(&self.state).remove(network, number);
        drop(question);
    }

    /// The next question, if the hook may have another.
    pub(super) fn take(&self) -> Option<(Arc<Question>, Request)> {
        let mut state = lock(&self.state);
        let question = if state.taken < self.most { state.pop() } else { None }?;
        state.taken += 1;
        Some(question)
    }

    /// The hook has one question less.
    pub(super) fn give_back(&self) {
        let mut state = lock(&self.state);
        state.taken -= 1;
        let taker = state.taker.clone().filter(|_| state.waiting > 0);
        drop(state);
        if let Some(taker) = taker {
            taker.wake();
        }
    }

    /// The listener is gone. Returns the questions that waited.
    pub(super) fn close(&self) -> Vec<Arc<Question>> {
        let mut state = lock(&self.state);
        state.taker = None;
        state.waiting = 0;
        state.turns.clear();
        state.lengths.clear();
        let lines = std::mem::take(&mut state.lines);
        drop(state);
        lines
            .into_values()
            .flat_map(|line| line.questions.into_values())
            .map(|(question, _)| question)
            .collect()
    }
}

/// The network part of an IPv6 address; a host chooses the other bits itself (RFC 4291, section 2.5.4).
const NETWORK: u128 = !0 << 64;

fn neighbourhood(remote: &str) -> Option<IpAddr> {
    Some(match remote.parse::<IpAddr>().ok()?.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & NETWORK).into(),
        address @ IpAddr::V4(_) => address,
    })
}
