//! A whole fetch: a connection, the exchange on it, a second one where the first was dead before it began, and the body.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::time::Instant;

use super::arriving::Arriving;
use super::connect;
use super::exchange::{Interim, Terms, exchange};
use super::feeding::Feeding;
use super::limits::Deadline;
use super::origins::Origins;
use super::payload::Payload;
use super::place::Place;
use super::relayed::Begun;
use super::request::{Request, RequestBody, is_idempotent};
use super::upload::Upload;
use crate::error::{Code, Error, Result};
use crate::net::Called;
use crate::pool::{PoolState, Slice};
use crate::stream::{Feed, ResponseHead, Timings};
use crate::sync::Arc as Shared;
use crate::wire::encode_request;

/// Sends `request` and puts the response into `feed`, whose consumer sees every failure as an error that names the
/// origin. Must run on the thread that `origins` belongs to.
///
/// # Cancellation
/// When the consumer leaves, or the future is dropped, the connection is closed at once, and its place is free for
/// the next request.
///
/// The request is boxed because whoever waits for its head would else hold it thrice within the future.
pub async fn fetch(origins: Arc<Origins>, request: Box<Request>, feed: Feed) {
    let place = origins.place(&request.endpoint);
    let (origin, tally) = (Arc::clone(&place.origin), Shared::clone(&place.tally));
    let deadline = Deadline::of(&request.timeouts);
    let result = {
        let mut run = pin!(async {
            // On the heap: a body may come for hours when its head has come.
            let (head, rest, arriving) =
                Box::pin(ask(&origins, place, request, &|head| feed.push_interim(head))).await?;
            feed.set_head(head);
            let mut feeding = Feeding::new(arriving, rest, &feed);
            poll_fn(|context| feeding.poll(context)).await?;
            Ok(feeding.finish())
        });
        let aside = pin!(async {
            tokio::select! {
                biased;
                () = feed.closed() => None,
                error = expiry(deadline) => Some(error),
            }
        });
        let mut aside = Called::new(aside);
        poll_fn(|context| {
            if let Poll::Ready(result) = run.as_mut().poll(context) {
                return Poll::Ready(Some(result));
            }
            aside.poll(context).map(|expired| expired.map(Err))
        })
        .await
    };
    let Some(result) = result else { return };
    match result {
        Ok(ending) => feed.finish(ending),
        Err(error) => {
            tally.failed(&error);
            feed.fail(error.at(&origin));
        }
    }
}

/// As [`fetch`], for one who sends the body on himself, at the client's pace: ready when the head is there.
///
/// # Errors
/// What went wrong, with the origin's name.
///
/// # Cancellation
/// The connection is closed at once. So it is when what is returned is dropped before the end of the body.
pub(crate) async fn begin(
    origins: Arc<Origins>,
    request: Box<Request>,
    interim: &Interim<'_>,
) -> Result<(ResponseHead, Begun)> {
    let place = origins.place(&request.endpoint);
    let (origin, tally) = (Arc::clone(&place.origin), Shared::clone(&place.tally));
    let mut deadline = Deadline::of(&request.timeouts);
    let mut asked = pin!(ask(&origins, place, request, interim));
    let asked = poll_fn(|context| match asked.as_mut().poll(context) {
        Poll::Pending => deadline.as_mut().map_or(Poll::Pending, |deadline| deadline.poll(context).map(Err)),
        ready @ Poll::Ready(_) => ready,
    });
    let (head, rest, arriving) = asked.await.map_err(|error| {
        tally.failed(&error);
        error.at(&origin)
    })?;
    Ok((head, Begun { arriving, rest, deadline }))
}

async fn expiry(deadline: Option<Deadline>) -> Error {
    let Some(mut deadline) = deadline else { return pending().await };
    poll_fn(|context| deadline.poll(context)).await
}

/// Asks the origin. The head of its response, what came behind that in the same read, and the body from there on.
async fn ask(
    origins: &Origins,
    place: Shared<Place>,
    mut request: Box<Request>,
    interim: &Interim<'_>,
) -> Result<(ResponseHead, Slice, Arriving)> {
    let mut body = Payload::from(std::mem::replace(&mut request.body, RequestBody::None));
    let framing = body.framing();
    let Request { endpoint, method, target, authority, headers, timeouts, .. } = &*request;
    let encode = || encode_request(method, target, authority, headers, &framing);
    place.tally.begin();
    let mut head = encode()?;
    admit(origins)?;
    let started = Instant::now();
    let mut lease = origins.lease(place, endpoint, timeouts.queue).await?;
    let queue = started.elapsed();
    admit(origins)?;
    let idempotent = is_idempotent(method);
    let mut terms = Terms {
        pool: &origins.pool,
        limits: &origins.limits,
        reads: origins.reads,
        timeouts,
        method,
        timings: Timings { queue, ..Timings::default() },
        reused: true,
    };
    loop {
        let again = body.again().filter(|_| idempotent);
        let reuses = terms.reused;
        terms.reused = lease.begin(|idle| reuses && (again.is_some() || idle.is_quiet()));
        if !terms.reused {
            // On the heap, because most requests have no use for its 1.5 KB.
            let opening = Box::pin(connect::open(endpoint, &origins.tls, timeouts, &mut terms.timings));
            lease.put(opening.await?);
            lease.place().count(|counts| counts.opened += 1);
            let Timings { resolve, connect, tls, .. } = terms.timings;
            lease.place().tally.connected(resolve + connect + tls);
        }
        lease.count_request();
        let mut upload = Upload::new(head, body, timeouts.between_bytes);
        let failure = match exchange(lease.connection(), &mut upload, &terms, interim).await {
            Ok(answered) => {
                lease.place().tally.answered(&answered.head);
                return Ok(Arriving::new(answered, lease, upload, &terms));
            }
            Err(failure) => failure,
        };
        // An origin may close an idle connection at any time, also while a request is on its way to it (RFC 9112,
        // section 9.3.1). A new connection cannot have been closed for that reason, so this happens once.
        let Some(same) = again.filter(|_| terms.reused && failure.unanswered) else {
            return Err(failure.error);
        };
        lease.place().count(|counts| counts.retried += 1);
        terms.reused = false;
        body = same;
        head = encode()?;
    }
}

/// Established streams may use the last of the pool; new work is told at once.
fn admit(origins: &Origins) -> Result<()> {
    if origins.pool.state() == PoolState::Full {
        return Err(Code::PoolFull.error("the pool is full, and takes no new request before it is less so"));
    }
    Ok(())
}
