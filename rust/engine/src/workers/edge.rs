//! The edge, as a request in a worker process reaches it: what fetches for it where the client is, and has the topics.

use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::mpsc;

use super::message::FIRST;
use crate::error::Code;
use crate::hub::Lease;
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
    /// What is fetched by the same edge, of which nothing has come here but the head.
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
    Fetch(Order),
    Subscribe(Subscribing),
    Feed(Source),
}

/// Each with the flow that comes of it, and who takes that.
pub(super) type Errands = mpsc::UnboundedReceiver<(u32, Errand, Feed)>;

/// The edge, for one request.
#[derive(Debug)]
pub struct Edge {
    errands: mpsc::UnboundedSender<(u32, Errand, Feed)>,
    next: AtomicU32,
}

impl Edge {
    pub(super) fn new() -> (Arc<Self>, Errands) {
        let (errands, received) = mpsc::unbounded_channel();
        (Arc::new(Self { errands, next: AtomicU32::new(FIRST) }), received)
    }

    /// The number of a flow that nobody else has.
    pub(super) fn number(&self) -> u32 {
        // Relaxed: a number that nobody else has.
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Has the edge fetch what `order` says, and feed `feed` with it as far as somebody reads `stream`, which is its other
    /// end. Attached to the response of the same request, it is sent by the edge without coming here.
    pub fn fetch(&self, order: Order, feed: Feed, stream: &Stream) {
        stream.set_distant(self.send(Errand::Fetch(order), feed));
    }

    /// Has the edge ask whether somebody is let in to a topic, and feed `feed` with a head, and then with events as far as
    /// somebody reads `stream`, which is its other end. Attached to the response of the same request, it is served by the edge as
    /// on a native route.
    pub fn subscribe(&self, subscribing: Subscribing, feed: Feed, stream: &Stream) {
        stream.set_distant(self.send(Errand::Subscribe(subscribing), feed));
    }

    /// Has the edge publish the events of `source` to a topic, also when this process is gone. `feed` ends when they are, or
    /// fails if they cannot be.
    pub fn feed(&self, source: Source, feed: Feed) {
        self.send(Errand::Feed(source), feed);
    }

    /// The flow that will come of it.
    fn send(&self, errand: Errand, feed: Feed) -> u32 {
        let flow = self.number();
        if let Err(mpsc::error::SendError((_, _, feed))) = self.errands.send((flow, errand, feed)) {
            feed.fail(Code::ClientGone.error("the client left before the request was sent on"));
        }
        flow
    }
}
