//! A subscription that is read as if an origin sent it: a head, then events, into a stream for whoever wants them in Python.
//!
//! What waits there counts against the stream's window. A consumer that does not take it is a slow subscriber like any other.

use std::future::poll_fn;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::Terms;
use super::guests::Guest;
use super::resume::Resumption;
use super::subscriber::{Asked, Subscriber};
use super::topics::{Admission, Hub};
use crate::error::Result;
use crate::events::{Field, NO_BUFFERING, NO_CACHE};
use crate::net::Source;
use crate::stream::{Ending, Feed, ResponseHead, Timings};
use crate::sync::Arc;
use crate::wire::Head;

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
    /// How long it may go on; it ends behind a whole event.
    pub lease: Lease,
}

/// How long a subscription may go on, as far as it does not depend on it. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Lease(Arc<watch::Sender<Option<Instant>>>);

impl Lease {
    /// For `time` from now on; `None`: for ever.
    pub fn new(time: Option<Duration>) -> Self {
        Self(Arc::new(watch::Sender::new(time.map(|time| Instant::now() + time))))
    }

    /// For `time` from now on, in place of what was said before.
    pub fn renew(&self, time: Option<Duration>) {
        self.0.send_replace(time.map(|time| Instant::now() + time));
    }

    /// Ready when it has run out.
    async fn over(&self) {
        let mut until = self.0.subscribe();
        loop {
            let end = *until.borrow_and_update();
            let out = async {
                match end {
                    Some(end) => sleep_until(end).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                // An error would mean that the sender is gone, which is ours.
                _ = until.changed() => {}
                () = out => return,
            }
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

/// Subscribes on the calling engine thread, and feeds what comes. Ends with the topic, with the lease, or when nobody takes it.
pub async fn read(hub: Arc<Hub>, reading: Reading, feed: Feed) {
    let began = Instant::now();
    let result = tokio::select! {
        biased;
        () = feed.closed() => return,
        result = subscribe(&hub, &reading, &feed) => result,
    };
    let ended = match result {
        Ok(Some(subscriber)) => tokio::select! {
            biased;
            () = feed.closed() => return,
            () = reading.lease.over() => Ok(()),
            ended = pass_on(&hub, subscriber, &feed) => ended,
        },
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    match ended {
        Ok(()) => feed.finish(Ending { body: began.elapsed(), ..Ending::default() }),
        Err(error) => feed.fail(error),
    }
}

async fn subscribe(hub: &Hub, reading: &Reading, feed: &Feed) -> Result<Option<Box<Subscriber>>> {
    let guest = Guest { tenant: reading.tenant.as_deref(), address: reading.address.as_deref() };
    let asked =
        Asked { after: reading.after.as_deref(), terms: reading.terms, chunked: false, guest, express: None };
    let head = |status, reason: &[u8], resumption, is_over| {
        let head = Head::new(status, reason, fields(resumption, is_over));
        feed.set_head(ResponseHead { head, timings: Timings::default(), reused: true });
    };
    Ok(match hub.subscribe(&reading.topic, asked).await? {
        Admission::Over => {
            head(204, b"No Content", Resumption::Full, true);
            None
        }
        Admission::Subscriber(subscriber, resumption) => {
            head(200, b"OK", resumption, false);
            Some(subscriber)
        }
    })
}

async fn pass_on(hub: &Hub, mut subscriber: Box<Subscriber>, feed: &Feed) -> Result<()> {
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
