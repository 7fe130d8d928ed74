//! The flows of one connection, on either side: the receivers of its incoming flows, and the credit of its outgoing
//! ones.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::flow::{Arrival, Arrivals, Credit, arrived, receive_flow};
use super::message::Message;
use super::wire::Wire;
use crate::error::{Error, Result};
use crate::pool::Pool;
use crate::stream::{Ending, Feed};

/// The flows that have begun.
#[derive(Debug, Default)]
pub(super) struct Flows {
    /// The receivers of incoming flows.
    arrivals: HashMap<u32, Arrivals>,
    /// The credit of outgoing flows.
    credits: HashMap<u32, Arc<Credit>>,
}

impl Flows {
    /// Receives `flow` for the reader of `feed`: at once if it has `begun`, or else when the reader asks for it.
    pub(super) fn receive_flow(
        &mut self,
        wire: &Arc<Wire>,
        flow: u32,
        feed: Feed,
        begun: bool,
    ) -> JoinHandle<()> {
        let (arrivals, arriving) = mpsc::unbounded_channel();
        self.arrivals.insert(flow, arrivals);
        tokio::spawn(receive_flow(feed, arriving, Arc::downgrade(wire), flow, begun))
    }

    /// Begins to send `flow`; returns its credit.
    pub(super) fn send_flow(&mut self, flow: u32) -> Arc<Credit> {
        let credit = Credit::none();
        self.credits.insert(flow, Arc::clone(&credit));
        credit
    }

    /// Ends the receipt of `flow` here; returns its receiver for another task.
    pub(super) fn release(&mut self, flow: u32) -> Option<Arrivals> {
        self.arrivals.remove(&flow)
    }

    /// Ends the sending of `flow`; returns its credit.
    pub(super) fn keep(&mut self, flow: u32) -> Option<Arc<Credit>> {
        self.credits.remove(&flow)
    }

    /// Gives an arrival to the receiver of `flow`.
    pub(super) fn arrive(&self, flow: u32, arrival: Arrival) {
        if let Some(arrivals) = self.arrivals.get(&flow) {
            // If this fails, the reader is gone, and tells so itself.
            let _ = arrivals.send(arrival);
        }
    }

    /// Fails all incoming flows.
    pub(super) fn fail(&mut self, error: &Error) {
        for (_, arrivals) in self.arrivals.drain() {
            // If this fails, the reader is gone or has all of it.
            let _ = arrivals.send(Arrival::Fail(error.clone()));
        }
    }

    /// Handles a message about a flow. Returns any other message.
    ///
    /// # Errors
    /// `POOL_FULL`: the pool has no room for the data.
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
