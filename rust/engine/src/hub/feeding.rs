//! A topic that one stream feeds: each of its events is published, with the id that it has or one of the hub's, and its end
//! finishes the topic.
//!
//! The stream goes on without subscribers, too: later ones get the transcript. A stream that fails is told of by a
//! named event before the end, so that no client takes what there is for the whole.

use std::future::poll_fn;

use super::Event;
use super::encode::LONGEST;
use super::topics::Claim;
use crate::error::{Code, Error, Result};
use crate::events::error_data;
use crate::framing::event::parse;
use crate::stream::Stream;

/// Publishes what `stream` brings, whose frames are blocks of events, where `claim` says. `error_event` is the type of the
/// event that tells of a failure, which `note` is called with as well.
pub async fn feed(claim: Claim, stream: Stream, error_event: String, note: impl FnOnce(&Error)) {
    let failure = loop {
        match poll_fn(|context| stream.poll_next(context)).await {
            Some(Ok(block)) => {
                if let Err(error) = publish(&claim, &block).await {
                    break Some(error);
                }
            }
            Some(Err(error)) => break Some(error),
            None => break None,
        }
    };
    // The stream is cancelled before a subscriber is told that it is over.
    drop(stream);
    if let Some(error) = &failure {
        note(error);
    }
    let told = match failure {
        Some(error) => tell(&claim, &error, &error_event).await,
        None => true,
    };
    if told {
        // An error means that the hub has been closed: there is no subscriber to tell.
        if let Ok(finished) = claim.hub.finish(claim.topic()) {
            let _ = finished.wait().await;
        }
    } else {
        claim.abandon();
    }
}

async fn publish(claim: &Claim, block: &[u8]) -> Result<()> {
    let read = parse(block);
    if !read.dispatches() {
        return Ok(());
    }
    let data = read.data.joined(block);
    let id = read.id.map(|range| &block[range]).and_then(usable);
    let name = read.name.map(|range| String::from_utf8_lossy(&block[range]).into_owned());
    let event = Event { data: &data, name: name.as_deref(), id, retry: read.retry, ..Event::default() };
    claim.hub.publish(claim.topic(), &event)?.wait().await.map(drop)
}

/// An id that can be told again. One that is empty resets a browser's, and the hub's takes its place.
fn usable(id: &[u8]) -> Option<&str> {
    std::str::from_utf8(id).ok().filter(|id| !id.is_empty() && id.len() <= LONGEST)
}

/// Whether the subscribers will hear of `error`, or need not.
async fn tell(claim: &Claim, error: &Error, name: &str) -> bool {
    // The topic, or the hub, was ended: that is no failure of the stream.
    if matches!(error.code(), Code::TopicFinished | Code::HubClosed) {
        return true;
    }
    let data = error_data(error);
    let event = Event { data: data.as_bytes(), name: Some(name), ..Event::default() };
    match claim.hub.publish(claim.topic(), &event) {
        Ok(published) => published.wait().await.is_ok(),
        Err(_) => false,
    }
}
