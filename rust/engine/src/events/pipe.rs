//! From stream to stream: what `EventBody` does, and reading on, for bodies that somebody other than the engine sends.

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

/// Relays the frames of `stream` to `feed`, seen by `inspector`; with a `policy` they are those of an event stream with every
/// byte of it. When the consumer of that leaves, the client has: `leave` says what becomes of it then. `ended` is told the
/// bytes that passed, and why there are no more, once: also where the engine is closed.
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
        Tell { ended, bytes: 0, error: Some(Code::StreamClosed.error("nobody reads the stream any more")) };
    let pool = stream.pool().clone();
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
                // What is put in, and has no room, is left out.
                if let Ok(slice) = payload.into_slice(&pool) {
                    // Nobody reads any more: the next turn says so.
                    let _ = feed.push_raw(slice);
                }
            }
            Some(Some(Err(error))) => {
                end.error = Some(error.clone());
                return feed.fail(error);
            }
            Some(None) => {
                end.error = None;
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

/// Told the bytes that passed through a pipe, and why they were not all.
pub type Ended = Box<dyn FnOnce(u64, Option<Error>) + Send>;

/// Tells of the end when it is dropped.
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

/// The client of `stream` has left: reads it on by `leave`, or as `policy` says of event streams, whether its head has come
/// or not. It is seen by the inspector, if there is one, cut as is said beside it where it has events.
pub async fn read_on(
    stream: Stream,
    leave: Leave,
    policy: Option<Arc<Policy>>,
    inspection: Option<(Inspector, Framing)>,
    meter: Arc<Meter>,
) {
    // Also where nothing is read on.
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
