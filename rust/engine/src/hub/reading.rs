//! A subscription that Python asks for: decided wherever that is, and read as if an origin sent it where Python wants the
//! events, or sends them by transports that are not the engine's.
//!
//! What waits there counts against the stream's window. A consumer that does not take it is a slow subscriber like any other.

use std::future::poll_fn;

use tokio::time::Instant;

use super::Terms;
use super::admitted::{Admitted, Wire};
use super::guests::Guest;
use super::lease::Lease;
use super::resume::Resumption;
use super::topics::{Admission, Asked, Hub};
use crate::error::Result;
use crate::events::{Field, NO_BUFFERING, NO_CACHE};
use crate::net::Source;
use crate::stream::{Ending, Feed, ResponseHead, Timings};
use crate::sync::Arc;
use crate::wire::Head;
use crate::work::{Work, worked};

/// What is asked for, and by whom.
#[derive(Debug)]
pub struct Reading {
    /// The name of the topic.
    pub topic: String,
    /// What the reader had before.
    pub after: Option<String>,
    /// How it is served.
    pub terms: Terms,
    /// For whom it is, where that is limited.
    pub tenant: Option<String>,
    /// Where it comes from, where that is limited.
    pub address: Option<String>,
}

impl Admission {
    /// The head of the response.
    pub fn head(&self) -> Head {
        match self {
            Self::Admitted(admitted) => Head::new(200, b"OK", fields(admitted.resumption(), false)),
            // The way to have an EventSource come back no more (HTML Living Standard 9.2.2).
            Self::Over => Head::new(204, b"No Content", fields(Resumption::Full, true)),
        }
    }
}

/// The fields of the head of a response with events.
pub(crate) fn fields(resumption: Resumption, is_over: bool) -> Vec<Field> {
    let mut fields: Vec<Field> = Vec::with_capacity(4);
    if !is_over {
        fields.extend([(&b"Content-Type"[..], &b"text/event-stream"[..]), NO_BUFFERING]);
    }
    fields.push(NO_CACHE);
    if let Some(word) = resumption.word() {
        fields.push((b"Penstock-Resume", word.as_bytes()));
    }
    fields
}

/// Admits the subscriber that `reading` describes. Needs no engine thread.
///
/// # Errors
/// `BAD_TOPIC`, `UNKNOWN_TOPIC`, `TOO_MANY_TOPICS`, `TOO_MANY_REQUESTS`, `HUB_CLOSED`.
pub async fn admit(hub: Arc<Hub>, reading: Reading) -> Result<Admission> {
    let guest = Guest { tenant: reading.tenant.as_deref(), address: reading.address.as_deref() };
    let asked = Asked { after: reading.after.as_deref(), terms: reading.terms, guest };
    hub.subscribe(&reading.topic, asked).await
}

/// Subscribes, and feeds a head and what comes. Ends with the topic, or when its consumer leaves.
pub async fn read(hub: Arc<Hub>, reading: Reading, feed: Feed) {
    let admission = tokio::select! {
        biased;
        () = feed.closed() => return,
        admission = admit(Arc::clone(&hub), reading) => admission,
    };
    match admission {
        Err(error) => feed.fail(error),
        Ok(admission) => {
            feed.set_head(ResponseHead { head: admission.head(), timings: Timings::default(), reused: true });
            match admission {
                Admission::Over => feed.finish(Ending::default()),
                Admission::Admitted(admitted) => pass_on(hub, admitted, None, feed).await,
            }
        }
    }
}

/// Feeds what comes to an admitted subscriber, on the calling engine thread. Ends with the topic, with the lease, or when
/// its consumer leaves.
pub async fn pass_on(hub: Arc<Hub>, admitted: Box<Admitted>, lease: Option<Lease>, feed: Feed) {
    let began = Instant::now();
    let over = async {
        match lease {
            // Watched here, and not by the subscriber, which is not polled while the consumer has no room.
            Some(lease) => lease.over().await,
            None => std::future::pending().await,
        }
    };
    let ended = tokio::select! {
        biased;
        () = feed.closed() => return,
        () = over => Ok(()),
        ended = worked(Work::Hub, give(&hub, admitted, &feed)) => ended,
    };
    match ended {
        Ok(()) => feed.finish(Ending { body: began.elapsed(), ..Ending::default() }),
        Err(error) => feed.fail(error),
    }
}

async fn give(hub: &Hub, admitted: Box<Admitted>, feed: &Feed) -> Result<()> {
    let mut subscriber = admitted.seat(Wire::default(), None);
    loop {
        feed.room().await?;
        let next = poll_fn(|context| {
            let next = subscriber.poll_next(context, 0);
            if next.is_pending() {
                // It is for comments from now on: what was given is with the consumer.
                subscriber.idle();
            }
            next
        });
        let slice = match next.await.transpose()? {
            None => return Ok(()),
            Some(payload) => payload.into_slice(hub.pool())?,
        };
        feed.push(slice).await?;
    }
}
