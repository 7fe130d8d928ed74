//! From stream to stream: the work of `EventBody`, and reading on, for bodies that the engine does not send itself.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, ready};

use super::inspecting::EndOnDrop;
use super::{EventBody, Leave, Policy, begin_inspection};
use crate::error::{Code, Error, Result};
use crate::framing::Framing;
use crate::inspect::Inspector;
use crate::net::Supply;
use crate::relay::is_event_stream;
use crate::stream::{Ending, Feed, Meter, Stream};

/// Relays the frames of `stream` to `feed` and shows them to `inspector`; with a `policy` they are the frames of an event
/// stream with every byte. When the consumer of `feed` leaves, the client has left, and `leave` decides whether the body is
/// read on. `ended` is called once with the bytes that passed and the reason of the end, also if the engine is closed.
pub async fn pipe(
    stream: Stream,
    policy: Option<Arc<Policy>>,
    leave: Leave,
    inspector: Option<Inspector>,
    meter: Arc<Meter>,
    feed: Feed,
    ended: Option<Ended>,
) {
    let mut end =
        Tell { ended, bytes: 0, error: Some(Code::StreamClosed.error("the reader of the stream has gone")) };
    let pool = stream.pool().clone();
    feed.feed_on(stream.line());
    let body = EventBody::new(stream.into(), policy, Arc::clone(&meter)).inspected(inspector);
    let mut supply = Supply::Source(Box::new(body));
    loop {
        let next = {
            let mut closed = pin!(feed.closed());
            poll_fn(|context| {
                if closed.as_mut().poll(context).is_ready() {
                    return Poll::Ready(None);
                }
                if ready!(feed.poll_room(context)).is_err() {
                    return Poll::Ready(None);
                }
                supply.poll_next(context, feed.held()).map(Some)
            })
            .await
        };
        match next {
            Some(Some(Ok(payload))) => {
                end.bytes += payload.len() as u64;
                // A block that is inserted is dropped if there is no room.
                if let Ok(slice) = payload.into_slice(&pool) {
                    // The reader has left; the next turn reports it.
                    let _ = feed.push_raw(slice);
                }
            }
            Some(Some(Err(error))) => {
                end.error = Some(error.clone());
                feed.feed_on(0);
                return feed.fail(error);
            }
            Some(None) => {
                end.error = None;
                feed.feed_on(0);
                return feed.finish(Ending::default());
            }
            None => break,
        }
    }
    drop(feed);
    if let Some(draining) = leave.begin(&meter) {
        draining.run(supply, |_| true).await;
    }
}

/// Called with the bytes that passed through a pipe, and the error if they were not all.
pub type Ended = Box<dyn FnOnce(u64, Option<Error>) + Send>;

/// Reports the end when it is dropped.
struct Tell {
    ended: Option<Ended>,
    bytes: u64,
    error: Option<Error>,
}

impl Drop for Tell {
    fn drop(&mut self) {
        if let Some(ended) = self.ended.take() {
            ended(self.bytes, self.error.take());
        }
    }
}

/// Reads `stream` on after its client has left, by `leave`, or by `policy` for event streams, whether or not its head has
/// come. It shows the body to the inspector, if there is one, and cuts event streams with the framing beside it.
pub async fn read_on(
    stream: Stream,
    leave: Leave,
    policy: Option<Arc<Policy>>,
    inspection: Option<(Inspector, Framing)>,
    meter: Arc<Meter>,
) {
    // Also if the body is not read on.
    let _over = inspection.as_ref().map(|(inspector, _)| EndOnDrop(inspector.clone()));
    let policy = policy.as_deref();
    let Some(mut draining) = Leave::before_head(&leave, policy).begin(&meter) else { return };
    let inspector = inspection.as_ref().map(|(inspector, _)| inspector.clone());
    let is_events = poll_fn(|context| -> Poll<Result<bool>> {
        if draining.poll_over(context).is_ready() {
            return Poll::Ready(Err(Code::ClientGone.error("the client left before the head")));
        }
        let head = &ready!(stream.poll_head(context))?.head;
        if let Some((inspector, framing)) = &inspection {
            if begin_inspection(inspector, head) {
                stream.set_framing(framing)?;
            }
        }
        Poll::Ready(Ok(is_event_stream(head)))
    })
    .await;
    let body = EventBody::new(stream.into(), None, meter).inspected(inspector);
    if is_events.is_ok_and(|is_events| Leave::of(&leave, policy, is_events).drains()) {
        draining.run(Supply::Source(Box::new(body)), |_| true).await;
    }
}
