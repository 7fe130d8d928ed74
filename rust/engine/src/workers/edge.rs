//! The edge, as a request in a worker process reaches it: what fetches for it where the client is.

use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::mpsc;

use super::message::FIRST;
use crate::error::Code;
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
