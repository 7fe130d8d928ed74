//! The state of a worker process: what all of its connections to the edge share.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc as Plain;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use tokio::sync::oneshot;

use super::flow::{Arrival, Arrivals};
use super::lines::Lines;
use super::message::Message;
use super::wire::Wire;
use crate::app::{Completion, Outcome, Queue};
use crate::drain::Drain;
use crate::edge::Supplies;
use crate::inspect::Report;
use crate::stream::{Ending, Stream};
use crate::sync::{Arc, Mutex, lock};

/// The end of a body that the edge sends for a worker, which waits to be told of it.
#[derive(Debug)]
pub(super) struct AwaitedEnd {
    pub(super) completion: Completion,
    /// The flow that was fetched, and the reader that keeps it open.
    pub(super) fetched: Option<(Arrivals, Stream)>,
}

/// The state of a worker process.
#[derive(Debug)]
pub struct Worker {
    pub(super) supplies: Supplies,
    pub(super) queue: Queue,
    /// The only process that may connect.
    pub(super) parent: i32,
    pub(super) drain: Drain,
    awaited: Mutex<HashMap<u64, AwaitedEnd>>,
    /// The waiters for the edge's inspection reports.
    expected: Mutex<HashMap<u64, oneshot::Sender<Report>>>,
    next: AtomicU64,
    pub(super) lines: Arc<Lines>,
}

impl Worker {
    /// A worker of the process `parent`, whose requests go to `queue`. `lines` are for tasks that belong to
    /// no request.
    pub fn new(supplies: Supplies, queue: Queue, parent: i32, lines: Arc<Lines>) -> Self {
        Self {
            supplies,
            queue,
            parent,
            drain: Drain::new(),
            awaited: Mutex::new(HashMap::new()),
            expected: Mutex::new(HashMap::new()),
            next: AtomicU64::new(0),
            lines,
        }
    }

    /// Takes no more requests.
    pub fn drain(&self) {
        self.drain.drain();
        self.lines.close();
    }

    /// Ends everything.
    pub fn close(&self) {
        self.drain.close();
    }

    /// The number of open requests.
    pub fn active(&self) -> usize {
        self.drain.active()
    }

    /// Whether no request is open; if one is, `waker` is woken once when the last of them ends.
    pub fn is_idle(&self, waker: &Waker) -> bool {
        self.drain.is_idle(waker)
    }

    /// Registers what is told of the end that the edge will report by `ticket`.
    pub(super) fn await_end(&self, ticket: u64, awaited: AwaitedEnd) {
        let previous = lock(&self.awaited).insert(ticket, awaited);
        drop(previous);
    }

    /// Registers a waiter for a report of the edge; returns its number.
    pub(super) fn expect(&self, seen: oneshot::Sender<Report>) -> u64 {
        // Relaxed: the number alone counts.
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.expected).insert(ticket, seen);
        ticket
    }

    pub(super) fn seen(&self, ticket: u64, report: Option<Report>) {
        let seen = lock(&self.expected).remove(&ticket);
        if let Some((seen, report)) = seen.zip(report) {
            // The waiter may have gone.
            let _ = seen.send(report);
        }
    }

    fn over(&self, ticket: u64, outcome: Outcome, body: Option<Duration>) {
        let Some(AwaitedEnd { completion, fetched }) = lock(&self.awaited).remove(&ticket) else { return };
        let Some((arrivals, stream)) = fetched else { return completion.tell(outcome) };
        let ending = Ending { body: body.unwrap_or_default(), trailers: Vec::new() };
        // The reader gets the end first, and then the completion is told.
        if let Err(lost) = arrivals.send(Arrival::Over(outcome, ending, completion, stream)) {
            if let Arrival::Over(outcome, _, completion, _) = lost.0 {
                completion.tell(outcome);
            }
        }
    }
}

/// Serves the control connection: gives the signs of life that the edge asks for, and hears of
/// ends.
pub(super) async fn serve_control(worker: &Worker, wire: &Plain<Wire>) {
    worker.lines.open(wire);
    let heard = Plain::downgrade(wire);
    worker.queue.reports().tell_heard(move |ticket| {
        if let Some(wire) = heard.upgrade() {
            wire.send(&Message::Heard(ticket));
        }
    });
    let asked = tokio::sync::Notify::new();
    let read = wire.read(
        |message| {
            match message {
                Message::Ping => {
                    worker.queue.ask_sign();
                    asked.notify_one();
                }
                Message::Over(ticket, outcome, body) => worker.over(ticket, outcome, body),
                Message::Seen(ticket, report) => worker.seen(ticket, report),
                _ => return Err(crate::codec::malformed()),
            }
            Ok(None::<()>)
        },
        || {},
    );
    let answer = async {
        loop {
            asked.notified().await;
            poll_fn(|context| worker.queue.poll_sign(context)).await;
            wire.send(&Message::Pong);
        }
    };
    tokio::select! {
        biased;
        _ = read => {}
        never = wire.write_on() => never,
        () = answer => {}
    }
    let awaited = std::mem::take(&mut *lock(&worker.awaited));
    let expected = std::mem::take(&mut *lock(&worker.expected));
    drop((expected, awaited));
}
