//! The edge, as a request in a worker process reaches it: what fetches for it where the client is, and has the topics.

use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::mpsc;

use super::message::FIRST;
use crate::app::{Order, RemoteEdge, Source, Subscribing};
use crate::error::Code;
use crate::stream::{Feed, Stream};
use crate::sync::Arc;

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

impl RemoteEdge for Edge {
    fn fetch(&self, order: Order, feed: Feed, stream: &Stream) {
        self.place(stream, self.send(Errand::Fetch(Box::new(order)), feed));
    }

    fn subscribe(&self, subscribing: Subscribing, feed: Feed, stream: &Stream) {
        self.place(stream, self.send(Errand::Subscribe(subscribing), feed));
    }

    fn feed(&self, source: Source, feed: Feed) {
        self.send(Errand::Feed(source), feed);
    }
}
