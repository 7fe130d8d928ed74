//! A whole fetch: the head of a response, from one of the origins, and the body.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use super::attempt::attempt;
use super::body::Body;
use super::exchange::Interim;
use super::feeding::Feeding;
use super::limits::Deadline;
use super::origins::Origins;
use super::payload::Payload;
use super::place::Place;
use super::relayed::Begun;
use super::request::{Request, RequestBody};
use super::upstream::{Upstream, failover};
use crate::error::{Error, Result};
use crate::net::Called;
use crate::pool::Slice;
use crate::stream::{Feed, ResponseHead};
use crate::sync::Arc as Shared;
use crate::sys::boxed;
use crate::work::{Work, doing};

/// Sends `request` and puts the response into `feed`, whose consumer sees every failure as an error that names the
/// origin. Must run on the thread that `origins` belongs to.
///
/// # Cancellation
/// When the consumer leaves, or the future is dropped, the connection is closed at once, and its place is free for
/// the next request.
///
/// The request is boxed, because the future would otherwise hold it three times while it waits for the
/// head.
pub async fn fetch(origins: Arc<Origins>, request: Box<Request>, feed: Feed) {
    #[cfg(test)]
    let Some((request, feed)) = super::simulated::offer(request, feed) else { return };
    let whom = Whom::of(&origins, &request);
    let origin = whom.name();
    let (place, reports) = (whom.place(), request.reports);
    let deadline = Deadline::of(&request.timeouts);
    let result = {
        let mut run = pin!(async {
            let interim = |head| feed.push_interim(head);
            // On the heap: a body may come for hours when its head has come.
            let (head, rest, body) = boxed(|| ask(&origins, whom, request, &interim)).await?;
            feed.feed_on(body.line());
            feed.set_head(head);
            let mut feeding = Feeding::new(body, rest, &feed);
            poll_fn(|context| feeding.poll(context)).await.map_err(|error| feeding.fail(error))?;
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
            let _doing = doing(Work::Origin);
            if let Poll::Ready(result) = run.as_mut().poll(context) {
                return Poll::Ready(Some(result));
            }
            aside
                .poll(context)
                .map(|expired| expired.map(|error| Err(counted(place.as_deref(), error, reports))))
        })
        .await
    };
    let Some(result) = result else { return };
    feed.feed_on(0);
    match result {
        Ok(ending) => feed.finish(ending),
        Err(error) => feed.fail(error.at(&origin)),
    }
}

/// As [`fetch`], for a caller that sends the body on itself, at the client's pace: ready when the head is
/// there.
///
/// # Errors
/// The failure, with the origin's name.
///
/// # Cancellation
/// The connection is closed at once. So it is when what is returned is dropped before the end of the body.
pub(crate) async fn begin(
    origins: Arc<Origins>,
    request: Box<Request>,
    interim: &Interim<'_>,
) -> Result<(ResponseHead, Begun)> {
    let whom = Whom::of(&origins, &request);
    let origin = whom.name();
    let (place, reports) = (whom.place(), request.reports);
    let mut deadline = Deadline::of(&request.timeouts);
    let mut asked = pin!(ask(&origins, whom, request, interim));
    let asked = poll_fn(|context| {
        let _doing = doing(Work::Origin);
        match asked.as_mut().poll(context) {
            Poll::Pending => deadline.as_mut().map_or(Poll::Pending, |deadline| {
                deadline.poll(context).map(|error| Err(counted(place.as_deref(), error, reports)))
            }),
            ready @ Poll::Ready(_) => ready,
        }
    });
    let (head, rest, body) = asked.await.map_err(|error| error.at(&origin))?;
    Ok((head, Begun { body, rest: Some(rest), deadline }))
}

/// Puts the body of `begun` into `feed`.
///
/// # Cancellation
/// The connection is closed at once, and when the consumer leaves.
pub(crate) async fn feed(begun: Begun, feed: Feed) {
    let Begun { body, rest, deadline } = begun;
    let Some(rest) = rest else { return };
    let result = {
        let mut feeding = Feeding::new(body, rest, &feed);
        let end = tokio::select! {
            biased;
            () = feed.closed() => return,
            error = expiry(deadline) => Err(error),
            end = poll_fn(|context| feeding.poll(context)) => end,
        };
        match end {
            Ok(()) => Ok(feeding.finish()),
            Err(error) => Err(feeding.fail(error)),
        }
    };
    feed.feed_on(0);
    match result {
        Ok(ending) => feed.finish(ending),
        Err(error) => feed.fail(error),
    }
}

/// The origin, or the upstream.
enum Whom {
    One(Shared<Place>),
    Several(Shared<Upstream>),
}

impl Whom {
    fn of(origins: &Origins, request: &Request) -> Self {
        match &request.upstream {
            None => Self::One(origins.place(&request.endpoint)),
            Some(upstream) => Self::Several(Shared::clone(upstream)),
        }
    }

    /// The origin at which the time was over; `None` if it was not a single one of several origins.
    fn place(&self) -> Option<Shared<Place>> {
        match self {
            Self::One(place) => Some(Shared::clone(place)),
            Self::Several(_) => None,
        }
    }

    /// The name in errors that belong to no single one of several origins.
    fn name(&self) -> Arc<str> {
        Arc::clone(match self {
            Self::One(place) => &place.origin,
            Self::Several(upstream) => &upstream.name,
        })
    }
}

fn counted(place: Option<&Place>, error: Error, reports: bool) -> Error {
    if let Some(place) = place {
        place.failed(&error, None, reports);
    }
    error
}

async fn expiry(deadline: Option<Deadline>) -> Error {
    let Some(mut deadline) = deadline else { return pending().await };
    poll_fn(|context| deadline.poll(context)).await
}

/// Asks the origin, or one of several.
async fn ask(
    origins: &Arc<Origins>,
    whom: Whom,
    mut request: Box<Request>,
    interim: &Interim<'_>,
) -> Result<(ResponseHead, Slice, Body)> {
    let body = Payload::from(std::mem::replace(&mut request.body, RequestBody::None));
    match whom {
        Whom::One(place) => {
            let target = (&request.endpoint, &*request.authority);
            let answer = attempt(origins, place, target, &request, body, interim).await;
            let (head, rest, arriving) = answer.map_err(|failed| failed.error)?;
            Ok((head, rest, arriving.into()))
        }
        // Boxed, so that a single origin does not pay for it.
        Whom::Several(upstream) => boxed(|| failover::ask(origins, upstream, request, body, interim)).await,
    }
}
