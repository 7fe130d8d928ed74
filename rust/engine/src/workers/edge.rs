//! The edge, as a request in a worker process reaches it: what fetches for it where the client is.

use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};

use tokio::sync::{mpsc, oneshot};

use super::message::FIRST;
use crate::error::Code;
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

pub(super) type Orders = mpsc::UnboundedReceiver<(u32, Order, Feed)>;

/// The edge, for one request.
#[derive(Debug)]
pub struct Edge {
    orders: mpsc::UnboundedSender<(u32, Order, Feed)>,
    next: AtomicU32,
}

impl Edge {
    pub(super) fn new() -> (Arc<Self>, Orders) {
        let (orders, received) = mpsc::unbounded_channel();
        (Arc::new(Self { orders, next: AtomicU32::new(FIRST) }), received)
    }

    /// The number of a flow that nobody else has.
    pub(super) fn number(&self) -> u32 {
        // Relaxed: a number that nobody else has.
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Has the edge fetch what `order` says, and feed `feed` with it as far as somebody reads `stream`, which is its other
    /// end. Attached to the response of the same request, it is sent by the edge without coming here.
    pub fn fetch(&self, order: Order, feed: Feed, stream: &Stream) {
        let flow = self.number();
        stream.set_distant(flow);
        if let Err(mpsc::error::SendError((_, _, feed))) = self.orders.send((flow, order, feed)) {
            feed.fail(Code::ClientGone.error("the client left before the request was sent on"));
        }
    }
}
