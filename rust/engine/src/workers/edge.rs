//! The edge as a worker process sees it: it fetches, and has the topics.

use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::mpsc;

use super::message::FIRST;
use crate::app::{Order, RemoteEdge, Source, Subscribing};
use crate::error::Code;
use crate::stream::{Feed, Stream};
use crate::sync::Arc;

/// A task for the edge.
#[derive(Debug)]
pub(super) enum Errand {
    Fetch(Box<Order>),
    Subscribe(Subscribing),
    Feed(Source),
}

/// The next number of a flow. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Numbers(Arc<AtomicU32>);

impl Numbers {
    /// A number that no other flow has.
    pub(super) fn next(&self) -> u32 {
        // Relaxed: the number alone counts.
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// Tasks for the edge, each with the flow of its result, and the feed of the stream that reads it.
#[derive(Debug)]
pub(super) struct Errands {
    received: mpsc::UnboundedReceiver<(u32, Errand, Feed)>,
    pub(super) numbers: Numbers,
}

impl Errands {
    /// The next task; `None` after the last one.
    pub(super) async fn next(&mut self) -> Option<(u32, Errand, Feed)> {
        self.received.recv().await
    }
}

/// The edge, for one request, or for tasks that belong to no request.
#[derive(Debug)]
pub struct Edge {
    errands: mpsc::UnboundedSender<(u32, Errand, Feed)>,
    numbers: Numbers,
    /// Whether there is a response to which flows may be attached.
    answers: bool,
}

impl Edge {
    /// The edge for a request.
    pub(super) fn new() -> (Arc<Self>, Errands) {
        Self::make(true)
    }

    /// The edge for tasks that belong to no request.
    pub(super) fn without_request() -> (Arc<Self>, Errands) {
        Self::make(false)
    }

    fn make(answers: bool) -> (Arc<Self>, Errands) {
        let (errands, received) = mpsc::unbounded_channel();
        let numbers = Numbers(Arc::new(AtomicU32::new(FIRST)));
        (Arc::new(Self { errands, numbers: numbers.clone(), answers }), Errands { received, numbers })
    }

    /// Sends a task; returns the flow of its result.
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
