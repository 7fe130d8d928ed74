//! The flows of one connection, as either side has them: where what comes of each is put, and how much of what goes may.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::flow::{Arrival, Arrivals, Credit, arrived, take_in};
use super::message::Message;
use super::wire::Wire;
use crate::error::{Error, Result};
use crate::pool::Pool;
use crate::stream::{Ending, Feed};

/// All that have begun.
#[derive(Debug, Default)]
pub(super) struct Flows {
    /// Where what comes is put.
    arrivals: HashMap<u32, Arrivals>,
    /// Of those that go.
    credits: HashMap<u32, Arc<Credit>>,
}

impl Flows {
    /// Has what comes of `flow` taken in for the reader of `feed`, at once if it has `begun`, or when it is asked for.
    pub(super) fn take_in(&mut self, wire: &Arc<Wire>, flow: u32, feed: Feed, begun: bool) -> JoinHandle<()> {
        let (arrivals, arriving) = mpsc::unbounded_channel();
        self.arrivals.insert(flow, arrivals);
        tokio::spawn(take_in(feed, arriving, Arc::downgrade(wire), flow, begun))
    }

    /// What is granted of `flow`, which goes from now on.
    pub(super) fn give_out(&mut self, flow: u32) -> Arc<Credit> {
        let credit = Credit::none();
        self.credits.insert(flow, Arc::clone(&credit));
        credit
    }

    /// Where what comes of `flow` is put, which is somebody else's from now on.
    pub(super) fn release(&mut self, flow: u32) -> Option<Arrivals> {
        self.arrivals.remove(&flow)
    }

    /// What is granted of `flow`, which does not go any more.
    pub(super) fn keep(&mut self, flow: u32) -> Option<Arc<Credit>> {
        self.credits.remove(&flow)
    }

    /// Puts what has come of `flow` where that is put.
    pub(super) fn arrive(&self, flow: u32, arrival: Arrival) {
        if let Some(arrivals) = self.arrivals.get(&flow) {
            // Whoever read it has gone where this fails, and says so.
            let _ = arrivals.send(arrival);
        }
    }

    /// Nothing more comes of any.
    pub(super) fn fail(&mut self, error: &Error) {
        for (_, arrivals) in self.arrivals.drain() {
            // Whoever read it has gone, or has all of it, where this fails.
            let _ = arrivals.send(Arrival::Fail(error.clone()));
        }
    }

    /// What either side says of a flow. What it says of something else is returned.
    ///
    /// # Errors
    /// `POOL_FULL`: there is no room for what has come.
    pub(super) fn hear<'a>(&mut self, pool: &Pool, message: Message<'a>) -> Result<Option<Message<'a>>> {
        match message {
            Message::Data(flow, bytes) => self.arrive(flow, arrived(pool, bytes)?),
            Message::End(flow, body, trailers) => {
                let trailers = trailers.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
                self.arrive(flow, Arrival::End(Ending { body, trailers }));
            }
            Message::Fail(flow, error) => self.arrive(flow, Arrival::Fail(error)),
            Message::Credit(flow, bytes) => {
                if let Some(credit) = self.credits.get(&flow) {
                    credit.grant(bytes);
                }
            }
            Message::Closed(flow) => {
                if let Some(credit) = self.credits.remove(&flow) {
                    credit.close();
                }
            }
            message => return Ok(Some(message)),
        }
        Ok(None)
    }
}
