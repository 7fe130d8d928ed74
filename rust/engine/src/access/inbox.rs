//! The questions that wait for whoever answers them, and how many he has.
//!
//! So many are asked at a time, and as many again wait. Addresses of clients take turns, and where there is no room the
//! address gives way that has most waiting: a flood of tokens that nobody knows keeps its own address waiting, and no other.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::task::Waker;

use super::question::Question;
use crate::error::{Code, Error, Result};
use crate::sync::{Arc, Mutex, lock};
use crate::wire::Fields;

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

/// Whose questions wait together: those of an address, of a network of IPv6 that one site has, or of all Unix sockets.
type Whose = Option<IpAddr>;

type Line = VecDeque<(Arc<Question>, Request)>;

#[derive(Debug, Default)]
struct State {
    /// Never empty ones.
    lines: HashMap<Whose, Line>,
    /// Whose turn is next: each line is there once.
    turns: VecDeque<Whose>,
    /// In all lines.
    waiting: usize,
    /// Those that were taken and not given back.
    taken: usize,
    taker: Option<Waker>,
}

impl State {
    fn open(&self) -> usize {
        self.waiting + self.taken
    }

    /// Puts a question at the end of its line.
    fn push(&mut self, whose: Whose, question: (Arc<Question>, Request)) {
        let line = self.lines.entry(whose).or_default();
        if line.is_empty() {
            self.turns.push_back(whose);
        }
        line.push_back(question);
        self.waiting += 1;
    }

    /// The question whose turn it is.
    fn pop(&mut self) -> Option<(Arc<Question>, Request)> {
        let whose = self.turns.pop_front()?;
        let line = self.lines.get_mut(&whose)?;
        let question = line.pop_front();
        if line.is_empty() {
            self.lines.remove(&whose);
        } else {
            self.turns.push_back(whose);
        }
        self.waiting -= 1;
        question
    }

    /// Forgets those that nobody waits for any more.
    fn forget_settled(&mut self) {
        let Self { lines, turns, waiting, .. } = self;
        lines.retain(|_, line| {
            line.retain(|(question, _)| !question.is_settled());
            !line.is_empty()
        });
        turns.retain(|whose| lines.contains_key(whose));
        *waiting = lines.values().map(VecDeque::len).sum();
    }

    /// Takes the newest question out of the longest line, if that is longer than `whose` would be.
    fn give_way(&mut self, whose: Whose) -> Option<Arc<Question>> {
        let own = self.lines.get(&whose).map_or(0, VecDeque::len);
        let longest = self.lines.values_mut().max_by_key(|line| line.len())?;
        // Of the two that are left in it one has its turn: the line stays.
        let (question, _) = if longest.len() > own + 1 { longest.pop_back() } else { None }?;
        self.waiting -= 1;
        Some(question)
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
        let whose = request.remote.as_deref().and_then(neighbourhood);
        let mut state = lock(&self.state);
        let Some(taker) = state.taker.clone() else {
            return Err(Code::AccessUnavailable.error("nobody is there to be asked"));
        };
        if state.open() >= 2 * self.most {
            state.forget_settled();
        }
        let mut gone = None;
        if state.open() >= 2 * self.most {
            gone = Some(state.give_way(whose).ok_or_else(|| self.busy())?);
        }
        // Whoever takes them takes all that may be asked: it has been told of the first, or is told when one is over.
        let wakes = state.waiting == 0 && state.taken < self.most;
        state.push(whose, (Arc::clone(question), request));
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
        let lines = std::mem::take(&mut state.lines);
        drop(state);
        lines.into_values().flatten().map(|(question, _)| question).collect()
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
