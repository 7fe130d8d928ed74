//! A whole fetch: a connection, the exchange on it, and a second one where the first was dead before it began.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::connect;
use super::exchange::{Done, Terms, exchange};
use super::origins::Origins;
use super::payload::Payload;
use super::place::Place;
use super::request::{Request, RequestBody, is_idempotent};
use super::upload::Upload;
use crate::error::{Code, Error, Result};
use crate::net::Called;
use crate::pool::PoolState;
use crate::stream::{Ending, Feed, Timings};
use crate::sync::Arc as Shared;
use crate::wire::encode_request;

/// Sends `request` and puts the response into `feed`, whose consumer sees every failure as an error that names the
/// origin. Must run on the thread that `origins` belongs to.
///
/// # Cancellation
/// When the consumer leaves, or the future is dropped, the connection is closed at once, and its place is free for
/// the next request.
///
/// The request is boxed because whoever waits for a body for hours keeps it: within the future it would be held thrice.
pub async fn fetch(origins: Arc<Origins>, request: Box<Request>, feed: Feed) {
    let place = origins.place(&request.endpoint);
    let origin = Arc::clone(&place.origin);
    let total = request.timeouts.total;
    let result = {
        let mut run = pin!(run(&origins, place, request, &feed));
        let aside = pin!(async {
            tokio::select! {
                biased;
                () = feed.closed() => None,
                error = expiry(total) => Some(error),
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
        Err(error) => feed.fail(error.at(&origin)),
    }
}

async fn expiry(total: Option<Duration>) -> Error {
    let Some(total) = total else { return pending().await };
    // On the heap, because few exchanges have such a limit.
    Box::pin(sleep(total)).await;
    Code::TotalTimeout.error(format!("the exchange took longer than {total:?}"))
}

async fn run(
    origins: &Origins,
    place: Shared<Place>,
    mut request: Box<Request>,
    feed: &Feed,
) -> Result<Ending> {
    let mut body = Payload::from(std::mem::replace(&mut request.body, RequestBody::None));
    let framing = body.framing();
    let Request { endpoint, method, target, authority, headers, timeouts, .. } = &*request;
    let encode = || encode_request(method, target, authority, headers, &framing);
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
        }
        let connection = lease.connection();
        connection.requests += 1;
        let mut upload = Upload::new(head, body, timeouts.between_bytes);
        let failure = match exchange(connection, &mut upload, &terms, feed).await {
            Ok(Done { ending, reusable }) => {
                if reusable {
                    lease.give_back();
                }
                return Ok(ending);
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
