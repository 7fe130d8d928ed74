//! The page for people: what flows now, an event a second.
//!
//! Counts are read once a second for all viewers, on the thread of the status pages, and not at all while no page is open. Each
//! viewer has a place, of which there is a limited number, and holds one event at most. What a request is doing, its own task
//! says when it is asked: a request that is not looked at costs nothing.

mod document;
mod frame;
mod history;
mod sample;

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::Arc as Plain;
use std::time::Duration;

use tokio::sync::mpsc::unbounded_channel;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::Board;
use crate::edge::{InFlight, Newest, PageEvents, Viewer};
use crate::error::{Code, Result};
use crate::sync::{Arc, Mutex, lock};

pub(super) use document::document;
use frame::Frame;
use history::History;
use sample::{ROWS, Sample};

/// How often counts are read.
const TURN: Duration = Duration::from_secs(1);

/// Samples that are kept: quantiles are those of the last ten seconds.
const SAMPLES: usize = 11;

/// How long the answers of requests' tasks are waited for. An engine thread that takes longer hangs, or nearly so. Arbitrary.
const ANSWERS: Duration = Duration::from_millis(200);

/// What the requests that are being answered say of themselves.
#[derive(Debug, Default)]
struct InFlights {
    told: Vec<InFlight>,
    /// How many requests there are.
    count: usize,
    /// How many were asked and have not answered in time.
    silent: usize,
}

/// The events of the page.
#[derive(Debug)]
pub(super) struct Live {
    board: Arc<Board>,
    hung: Duration,
    behind: Duration,
    /// Viewers at a time.
    most: usize,
    newest: Plain<Newest>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    viewers: usize,
    /// Whether the task runs that reads the counts.
    is_read: bool,
    history: History,
}

/// A viewer's place, until it is dropped.
#[derive(Debug)]
struct Place(Plain<Live>);

impl Viewer for Place {}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.0.state).viewers -= 1;
    }
}

impl Live {
    pub(super) fn new(board: Arc<Board>, hung: Duration, behind: Duration, most: usize) -> Plain<Self> {
        let (newest, state) = (Plain::default(), Mutex::default());
        Plain::new(Self { board, hung, behind, most, newest, state })
    }

    /// The events for one more viewer, on the thread of the status pages.
    ///
    /// # Errors
    /// `TOO_MANY_REQUESTS`.
    pub(super) fn view(self: &Plain<Self>) -> Result<PageEvents> {
        let mut state = lock(&self.state);
        if state.viewers >= self.most {
            let detail = format!("the page has {} viewers already (Status.viewers)", self.most);
            return Err(Code::TooManyRequests.error(detail));
        }
        state.viewers += 1;
        let place = Box::new(Place(Plain::clone(self)));
        // A browser asks again so soon after the end of the events (HTML Living Standard, section 9.2.6).
        let first = format!("retry: 2000\nevent: history\ndata: {}\n\n", state.history.text());
        if !std::mem::replace(&mut state.is_read, true) {
            tokio::spawn(Plain::clone(self).read());
        }
        drop(state);
        Ok(PageEvents::new(&self.newest, first, place))
    }

    /// Reads the counts while there are viewers.
    async fn read(self: Plain<Self>) {
        let mut turn = interval(TURN);
        turn.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut samples = VecDeque::<Sample>::with_capacity(SAMPLES);
        loop {
            turn.tick().await;
            if self.is_done() {
                return;
            }
            self.board.ask_signs();
            let in_flight = self.board.in_flight().await;
            if samples.len() == SAMPLES {
                samples.pop_back();
            }
            samples.push_front(Sample::of(&self.board));
            let checks = self.board.ready(self.hung, self.behind);
            let frame = Frame { samples: &samples, in_flight: &in_flight, checks: &checks };
            let (text, second) = frame.write(self.board.parts.version);
            lock(&self.state).history.add(second);
            self.newest.publish(format!("data: {text}\n\n"));
        }
    }

    /// Whether there is no viewer, and the task that asks ends.
    fn is_done(&self) -> bool {
        let mut state = lock(&self.state);
        let is_done = state.viewers == 0;
        if is_done {
            state.is_read = false;
            self.newest.forget();
        }
        is_done
    }
}

impl Board {
    /// Asks requests that are being answered what they are doing.
    async fn in_flight(&self) -> InFlights {
        let (question, mut answers) = unbounded_channel();
        let (mut count, mut asked, mut told) = (0, 0, Vec::new());
        for site in lock(&self.sites).there() {
            let (there, questions) = site.ask(ROWS, &question);
            count += there;
            asked += questions;
        }
        drop(question);
        let gathered = timeout(ANSWERS, async {
            while let Some(answer) = answers.recv().await {
                told.push(answer);
            }
        });
        let silent = if gathered.await.is_err() { asked.saturating_sub(told.len()) } else { 0 };
        InFlights { told, count, silent }
    }
}
