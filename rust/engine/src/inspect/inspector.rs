//! The inspection of one response on its way through.
//!
//! The relay holds an [`Inspector`] and notes each block; the owner of the exchange holds another handle of it, and takes
//! the report. It is small, because thousands of streams keep one for hours: it keeps no bytes except those of a usage.
//! JSON that is not a stream is kept up to a limit, until the end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use memchr::memchr2;

use super::content::{Content, content_of, is_coded};
use super::counts::Counts;
use super::report::{Hidden, Report};
use super::rules::Rules;
use super::usage::Usage;
use crate::framing::event::{Event, parse};
use crate::pool::{CopyReason, Pool};
use crate::work::{Work, doing};

/// A handle to the inspection of one response.
#[derive(Debug, Clone)]
pub struct Inspector(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    rules: Arc<Rules>,
    counts: Arc<Counts>,
    /// Counts copies.
    pool: Pool,
    thread: usize,
    amended: bool,
    begun: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    content: Content,
    hidden: Option<Hidden>,
    events: u64,
    bytes: u64,
    first: Option<Duration>,
    longest_gap: Option<Duration>,
    /// The time of the last token.
    last: Option<Instant>,
    usage: Usage,
    /// The pieces of JSON that is not a stream.
    body: Vec<u8>,
    total: Option<Duration>,
    /// The task that waits for the end.
    waker: Option<Waker>,
}

impl Inspector {
    /// For the response to a request that is sent now, and was `amended` or not. `thread` is the number of the thread
    /// that will note most blocks.
    pub fn new(
        rules: Arc<Rules>,
        counts: Arc<Counts>,
        pool: &Pool,
        thread: usize,
        amended: bool,
        now: Instant,
    ) -> Self {
        let state = State {
            content: Content::Other,
            hidden: None,
            events: 0,
            bytes: 0,
            first: None,
            longest_gap: None,
            last: None,
            usage: Usage::default(),
            body: Vec::new(),
            total: None,
            waker: None,
        };
        let (pool, state) = (pool.clone(), Mutex::new(state));
        Self(Arc::new(Shared { rules, counts, pool, thread, amended, begun: now, state }))
    }

    /// Notes the fields of the response. Returns whether its body is noted in blocks of events, or in pieces of any
    /// size.
    pub fn begin(&self, content_type: Option<&[u8]>, content_encoding: Option<&[u8]>) -> Content {
        let _doing = doing(Work::Inspection);
        let mut state = self.state();
        let content = content_type.map_or(Content::Other, content_of);
        state.content = content;
        if content != Content::Other && content_encoding.is_some_and(is_coded) {
            state.hidden = Some(Hidden::Encoded);
            return Content::Other;
        }
        content
    }

    /// Notes a block of an event stream with every byte, or any piece of another body.
    pub fn note(&self, block: &[u8], now: Instant) {
        let _doing = doing(Work::Inspection);
        let mut state = self.state();
        if state.total.is_some() {
            return;
        }
        state.bytes += block.len() as u64;
        if state.hidden.is_some() {
            return;
        }
        match state.content {
            Content::Events => self.note_block(&mut state, block, now),
            Content::Json => self.keep(&mut state, block),
            Content::Other => {}
        }
    }

    fn note_block(&self, state: &mut State, block: &[u8], now: Instant) {
        let rules = &self.0.rules;
        let counts = self.0.counts.set(self.0.thread);
        let (is_event, is_token) = if let Some(data) = only_data(block) {
            (true, data != DONE)
        } else {
            let event = parse(block);
            (event.dispatches(), event.dispatches() && carries_token(block, &event, rules))
        };
        counts.block(block.len(), is_event);
        state.events += u64::from(is_event);
        if is_token {
            match state.last.replace(now) {
                None => {
                    let took = now.saturating_duration_since(self.0.begun);
                    state.first = Some(took);
                    counts.first(took);
                }
                Some(last) => {
                    let gap = now.saturating_duration_since(last);
                    state.longest_gap = state.longest_gap.max(Some(gap));
                    counts.gap(gap);
                }
            }
        }
        if is_event && rules.wanted.may_have(block) {
            let event = parse(block);
            rules.wanted.collect(&event.data.joined(block), &mut state.usage);
        }
    }

    /// Keeps a piece of a body, unless the body is too long.
    fn keep(&self, state: &mut State, piece: &[u8]) {
        if state.body.len() + piece.len() > self.0.rules.max_response {
            state.hidden = Some(Hidden::TooLarge);
            state.body = Vec::new();
            return;
        }
        self.0.pool.count_copy(CopyReason::Inspection, piece.len());
        state.body.extend_from_slice(piece);
    }

    /// Whether the whole usage has been seen, so that the body need not be read on for it.
    pub fn is_satisfied(&self) -> bool {
        self.state().usage.is_final()
    }

    /// Ends the inspection. Later notes are ignored, and a second call returns the same report.
    pub fn end(&self, now: Instant) -> Report {
        let _doing = doing(Work::Inspection);
        let mut state = self.state();
        let is_first = state.total.is_none();
        if is_first {
            state.total = Some(now.saturating_duration_since(self.0.begun));
            let body = std::mem::take(&mut state.body);
            if self.0.rules.wanted.may_have(&body) {
                self.0.rules.wanted.collect(&body, &mut state.usage);
            }
            if state.usage.is_too_large() {
                state.hidden = Some(Hidden::TooLarge);
            }
        }
        let report = Report {
            content: state.content,
            amended: self.0.amended,
            events: state.events,
            bytes: state.bytes,
            first: state.first,
            longest_gap: state.longest_gap,
            total: state.total.unwrap_or_default(),
            usage: state.usage.bytes().map(<[u8]>::to_vec),
            hidden: state.hidden,
        };
        let waker = state.waker.take();
        drop(state);
        if is_first {
            self.0.counts.set(self.0.thread).end(&report);
        }
        if let Some(waker) = waker {
            waker.wake();
        }
        report
    }

    /// Whether the response has ended; if not, `waker` is woken at its end.
    pub fn is_over(&self, waker: &Waker) -> bool {
        let mut state = self.state();
        if state.total.is_none() {
            state.waker = Some(waker.clone());
        }
        state.total.is_some()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Whole at each step that could panic.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The last event of `OpenAI`'s streams.
const DONE: &[u8] = b"[DONE]";

/// The data of a block with one line, as in most deltas.
fn only_data(block: &[u8]) -> Option<&[u8]> {
    let data = block.strip_prefix(b"data:")?;
    let end = memchr2(b'\n', b'\r', data)?;
    let data = matches!(&data[end..], b"\n\n" | b"\r\n\r\n").then(|| &data[..end])?;
    Some(data.strip_prefix(b" ").unwrap_or(data))
}

fn carries_token(block: &[u8], event: &Event, rules: &Rules) -> bool {
    match event.name.as_ref().map(|name| &block[name.clone()]) {
        None | Some(b"message") => event.data.only().is_none_or(|line| &block[line.clone()] != DONE),
        Some(name) => rules.tokens.has(name),
    }
}
