//! The edge, for a request in a process that has no connection to its client: what is ordered of the process that has it.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::sync::oneshot;

use crate::hub::Lease;
use crate::inspect::Report;
use crate::origin::{RequestBody, Timeouts};
use crate::store::Overrides;
use crate::stream::{Feed, Stream};
use crate::sync::Arc;
use crate::wire::Fields;

/// Fetches, subscribes and publishes where the client's connection is.
pub trait RemoteEdge: Send + Sync {
    /// Has the edge fetch what `order` says, and feed `feed` with it as far as `stream`, its other end, is read. Attached to the
    /// response of the same request, it is sent by the edge without coming here.
    fn fetch(&self, order: Order, feed: Feed, stream: &Stream);

    /// Has the edge decide whether a client is let in to a topic, and feed `feed` with a head, and then with events as far as
    /// `stream`, its other end, is read. Attached to the response of the same request, it is served by the edge as on a native
    /// route.
    fn subscribe(&self, subscribing: Subscribing, feed: Feed, stream: &Stream);

    /// Has the edge publish the events of `source` to a topic. What it has fetched itself it publishes also when this process is
    /// gone. `feed` ends when the topic is the source's, or fails.
    fn feed(&self, source: Source, feed: Feed);
}

/// Its name alone: decision 063.
impl fmt::Debug for dyn RemoteEdge + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RemoteEdge")
    }
}

/// What is to be fetched.
#[derive(Debug)]
pub struct Order {
    /// Describes the relay to the edge, which makes a plan of it.
    pub plan: Vec<u8>,
    /// A token, case-sensitive.
    pub method: String,
    /// The request target, as it follows the method.
    pub target: String,
    /// Names and values, in order.
    pub fields: Arc<Fields>,
    /// What follows the head.
    pub body: RequestBody,
    /// Limits on time.
    pub timeouts: Timeouts,
    /// What is decided about this request alone.
    pub overrides: Option<Overrides>,
    /// The body is the client's: what has not come here goes on without coming here.
    pub is_clients: bool,
    /// The response is inspected as its plan says.
    pub inspection: Option<Inspection>,
}

/// What a worker says of the inspection of a response, and who hears what was seen.
#[derive(Debug)]
pub struct Inspection {
    /// The request was changed before it was sent.
    pub(crate) amended: bool,
    /// Told when the response is over, however it ends. Dropped, there is nothing to be told.
    pub(crate) seen: oneshot::Sender<Report>,
}

impl Inspection {
    /// Of the response to a request that was `amended` or not; and what will have been seen.
    pub fn new(amended: bool) -> (Self, Expected) {
        let (seen, receiver) = oneshot::channel();
        (Self { amended, seen }, Expected { receiver: Some(receiver), report: None })
    }
}

/// What the edge will have seen of a response.
#[derive(Debug)]
pub struct Expected {
    /// None when it was told.
    receiver: Option<oneshot::Receiver<Report>>,
    report: Option<Report>,
}

impl Expected {
    /// Whether the response is over.
    pub fn is_over(&mut self) -> bool {
        if let Some(receiver) = &mut self.receiver {
            match receiver.try_recv() {
                Err(oneshot::error::TryRecvError::Empty) => return false,
                told => self.report = told.ok(),
            }
            self.receiver = None;
        }
        true
    }

    /// As [`Expected::is_over`]; `waker` is woken when it is, if it is not.
    pub fn wait_over(&mut self, waker: &Waker) -> bool {
        if let Some(receiver) = &mut self.receiver {
            let Poll::Ready(told) = Pin::new(receiver).poll(&mut Context::from_waker(waker)) else {
                return false;
            };
            self.report = told.ok();
            self.receiver = None;
        }
        true
    }

    /// What was seen, once it is over; `None` if the edge has not told.
    pub fn report(&mut self) -> Option<&Report> {
        self.is_over();
        self.report.as_ref()
    }
}

/// A request to subscribe to a topic.
#[derive(Debug)]
pub struct Subscribing {
    /// Describes hub and terms to the edge, which makes a plan of it.
    pub plan: Vec<u8>,
    /// The name of the topic.
    pub topic: String,
    /// What was had before.
    pub after: Option<String>,
    /// For whom it is, where that is limited.
    pub tenant: Option<String>,
    /// Where it comes from, where that is limited.
    pub address: Option<String>,
    /// How long it may go on, if that is renewed meanwhile.
    pub lease: Option<Lease>,
}

/// What is to feed a topic.
#[derive(Debug)]
pub struct Source {
    /// Where it is fetched by the same edge, and nothing has come here but the head, it does not come here.
    pub stream: Stream,
    /// What the hub is called there.
    pub hub: u64,
    /// The name of the topic.
    pub topic: String,
    /// The type of the event that tells of a failure.
    pub error_event: String,
}
