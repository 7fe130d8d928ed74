//! The edge, as a request in a worker process reaches it: what fetches for it where the client is, and has the topics.

use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};

use tokio::sync::{mpsc, oneshot};

use super::message::FIRST;
use crate::error::Code;
use crate::hub::Lease;
use crate::inspect::Report;
use crate::origin::{RequestBody, Timeouts};
use crate::store::Overrides;
use crate::stream::{Feed, Stream};
use crate::sync::Arc;
use crate::wire::Fields;

/// What is to be fetched.
#[derive(Debug)]
pub struct Order {
    /// Describes what is fetched from, to whoever makes a [`super::Plan`] of that.
    pub plan: Vec<u8>,
    /// A token, case-sensitive.
    pub method: String,
    /// What stands behind the method.
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
    pub(super) amended: bool,
    /// Told when the response is over, however it ends. Dropped, there is nothing to be told.
    pub(super) seen: oneshot::Sender<Report>,
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

    /// What was seen, once it is over; none where nobody could say.
    pub fn report(&mut self) -> Option<&Report> {
        self.is_over();
        self.report.as_ref()
    }
}

/// Who wants to be let in to a topic.
#[derive(Debug)]
pub struct Subscribing {
    /// Describes hub and terms, to whoever makes a [`super::Plan`] of that.
    pub plan: Vec<u8>,
    /// The name of the topic.
    pub topic: String,
    /// What was had before.
    pub after: Option<String>,
    /// For whom it is, where that is limited.
    pub tenant: Option<String>,
    /// Where it comes from, where that is limited.
    pub address: Option<String>,
    /// How long it may go on, where somebody says so meanwhile.
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

/// What the edge is to do.
#[derive(Debug)]
pub(super) enum Errand {
    Fetch(Box<Order>),
    Subscribe(Subscribing),
    Feed(Source),
}

/// The numbers of flows. Cloning shares them.
#[derive(Debug, Clone)]
pub(super) struct Numbers(Arc<AtomicU32>);

impl Numbers {
    /// One that nobody else has.
    pub(super) fn next(&self) -> u32 {
        // Relaxed: a number that nobody else has.
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// What the edge is to do, each with the flow that comes of it, and who takes that.
#[derive(Debug)]
pub(super) struct Errands {
    received: mpsc::UnboundedReceiver<(u32, Errand, Feed)>,
    pub(super) numbers: Numbers,
}

impl Errands {
    /// The next; none when there will be no more.
    pub(super) async fn next(&mut self) -> Option<(u32, Errand, Feed)> {
        self.received.recv().await
    }
}

/// The edge, for one request, or for what belongs to none.
#[derive(Debug)]
pub struct Edge {
    errands: mpsc::UnboundedSender<(u32, Errand, Feed)>,
    numbers: Numbers,
    /// There is a response to which flows may be attached.
    answers: bool,
}

impl Edge {
    /// For a request.
    pub(super) fn new() -> (Arc<Self>, Errands) {
        Self::make(true)
    }

    /// For what belongs to none.
    pub(super) fn aside() -> (Arc<Self>, Errands) {
        Self::make(false)
    }

    fn make(answers: bool) -> (Arc<Self>, Errands) {
        let (errands, received) = mpsc::unbounded_channel();
        let numbers = Numbers(Arc::new(AtomicU32::new(FIRST)));
        (Arc::new(Self { errands, numbers: numbers.clone(), answers }), Errands { received, numbers })
    }

    /// Has the edge fetch what `order` says, and feed `feed` with it as far as somebody reads `stream`, which is its other
    /// end. Attached to the response of the same request, it is sent by the edge without coming here.
    pub fn fetch(&self, order: Order, feed: Feed, stream: &Stream) {
        self.place(stream, self.send(Errand::Fetch(Box::new(order)), feed));
    }

    /// Has the edge ask whether somebody is let in to a topic, and feed `feed` with a head, and then with events as far as
    /// somebody reads `stream`, which is its other end. Attached to the response of the same request, it is served by the edge as
    /// on a native route.
    pub fn subscribe(&self, subscribing: Subscribing, feed: Feed, stream: &Stream) {
        self.place(stream, self.send(Errand::Subscribe(subscribing), feed));
    }

    /// Has the edge publish the events of `source` to a topic. What it has fetched itself it publishes also when this process is
    /// gone. `feed` ends when the topic is the source's, or fails.
    pub fn feed(&self, source: Source, feed: Feed) {
        self.send(Errand::Feed(source), feed);
    }

    /// The flow that will come of it.
    fn send(&self, errand: Errand, feed: Feed) -> u32 {
        let flow = self.numbers.next();
        if let Err(mpsc::error::SendError((_, _, feed))) = self.errands.send((flow, errand, feed)) {
            feed.fail(if self.answers {
                Code::ClientGone.error("the client left before the request was sent on")
            } else {
                Code::EngineClosed.error("the worker process is being stopped")
            });
        }
        flow
    }

    fn place(&self, stream: &Stream, flow: u32) {
        if self.answers {
            stream.set_distant(flow);
        }
    }
}
