//! The questions that wait for whoever answers them, and how many he has.
//!
//! So many are asked at a time, and as many again wait. Addresses of clients take turns, and where there is no room the
//! address gives way that has most waiting: a flood of tokens that nobody knows keeps its own address waiting, and no other.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::task::Waker;

use super::question::{Network, Question};
use penstock_error::{Code, Error, Result};
use penstock_http::wire::Fields;
use penstock_memory::sync::{Arc, Mutex, lock};

/// A request that is asked about, kept for as long as the question is.
#[derive(Debug, Clone)]
pub struct Request {
    /// What its route is called.
    pub route: String,
    /// A token.
    pub method: String,
    /// Path and query, in origin-form.
    pub target: String,
    /// Host and port that are asked for.
    pub authority: String,
    /// The client's address.
    pub remote: Option<String>,
    /// All fields.
    pub headers: Fields,
    /// The first value of each part of the key.
    pub key: Vec<Option<Vec<u8>>>,
}

/// Questions on their way to whoever answers them.
#[derive(Debug)]
pub(super) struct Inbox {
    /// That are asked at a time; twice as many are open.
    most: usize,
    state: Mutex<State>,
}

/// Questions by the numbers in the order in which they came; never none.
#[derive(Debug, Default)]
struct Line {
    questions: BTreeMap<u64, (Arc<Question>, Request)>,
    turn: u64,
}

#[derive(Debug, Default)]
struct State {
    lines: HashMap<Network, Line>,
    /// Whose turn is next: each line is there once.
    turns: BTreeMap<u64, Network>,
    /// The lines by their lengths, to find the longest of them at once.
    lengths: BTreeSet<(usize, Network)>,
    /// In all lines.
    waiting: usize,
    /// The number of the next question, or turn.
    next: u64,
    /// Those that were taken and not given back.
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

    /// The question whose turn it is.
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

    /// Names the waker of whoever takes them; woken at once if some wait.
    pub(super) fn listen(&self, waker: &Waker) {
        let mut state = lock(&self.state);
        state.taker = Some(waker.clone());
        let wake = state.waiting > 0;
        drop(state);
        if wake {
            waker.wake_by_ref();
        }
    }

    /// Puts a question to whoever takes them. Returns the one that had to give way for it, for the caller to settle.
    ///
    /// # Errors
    /// `ACCESS_UNAVAILABLE`: nobody does. `ACCESS_BUSY`: there are too many, and none of an address that has more.
    pub(super) fn put(&self, question: &Arc<Question>, request: Request) -> Result<Option<Arc<Question>>> {
        let network = request.remote.as_deref().and_then(neighbourhood);
        let mut state = lock(&self.state);
        let Some(taker) = state.taker.clone() else {
            return Err(Code::AccessUnavailable.error("nobody is there to be asked"));
        };
        let mut gone = None;
        if state.open() >= 2 * self.most {
            gone = Some(state.give_way(network).ok_or_else(|| self.busy())?);
        }
        // Whoever takes them takes all that may be asked: it has been told of the first, or is told when one is over.
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

    /// Nobody waits for the answer any more: if the question was not taken its room is free.
    pub(super) fn forget(&self, question: &Question) {
        let Some((network, number)) = question.place() else { return };
        let question = lock(&self.state).remove(network, number);
        drop(question);
    }

    /// The question whose turn it is, if one more may be asked.
    pub(super) fn take(&self) -> Option<(Arc<Question>, Request)> {
        let mut state = lock(&self.state);
        let question = if state.taken < self.most { state.pop() } else { None }?;
        state.taken += 1;
        Some(question)
    }

    /// One that was taken is over.
    pub(super) fn give_back(&self) {
        let mut state = lock(&self.state);
        state.taken -= 1;
        let taker = state.taker.clone().filter(|_| state.waiting > 0);
        drop(state);
        if let Some(taker) = taker {
            taker.wake();
        }
    }

    /// Nobody takes them any more. Those that waited.
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

/// Bits of an address of IPv6 that say which network it is in; the others are each host's to choose (RFC 4291, section 2.5.4).
const NETWORK: u128 = !0 << 64;

fn neighbourhood(remote: &str) -> Option<IpAddr> {
    Some(match remote.parse::<IpAddr>().ok()?.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & NETWORK).into(),
        address @ IpAddr::V4(_) => address,
    })
}
