//! What the edge fetches for a worker.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc as Plain;
use std::task::Poll;

use super::admitting::Guest;
use super::flow::{Credit, give_out};
use super::message::{Fetch, Message};
use super::plan::Relay;
use super::wire::Wire;
use super::workers::Shared;
use crate::error::Result;
use crate::origin::{self, Request, RequestBody};
use crate::store::{self, Overrides};
use crate::stream::{ResponseHead, Stream};
use crate::sync::{Arc, Mutex, lock};
use crate::wire::Head;

/// Something whose head has come, until somebody takes it.
#[derive(Debug)]
pub(super) enum Fetched {
    /// A response.
    Response(Plain<Stream>, Arc<Relay>),
    /// One who has been let in to a topic.
    Guest(Guest),
}

/// What is fetched, by flow.
pub(super) type AllFetched = Plain<Mutex<HashMap<u32, Fetched>>>;

/// Fetches what `order` says, tells its head, and sends the body as far as `credit` goes, unless somebody takes it out of
/// `fetched` first.
pub(super) async fn fetch(
    shared: Arc<Shared>,
    thread: usize,
    wire: Plain<Wire>,
    order: Fetch,
    body: RequestBody,
    fetched: AllFetched,
    credit: Plain<Credit>,
) {
    let flow = order.flow;
    let (stream, relay) = match begin(&shared, thread, order, body).await {
        Ok(begun) => begun,
        Err(error) => return wire.send(&Message::Fail(flow, error)),
    };
    loop {
        let (interim, head) = poll_fn(|context| {
            let head = stream.poll_head(context).map(|head| head.map(copied));
            let interim = stream.take_interim();
            match head {
                Poll::Pending if interim.is_empty() => Poll::Pending,
                Poll::Pending => Poll::Ready((interim, None)),
                Poll::Ready(head) => Poll::Ready((interim, Some(head))),
            }
        })
        .await;
        for head in interim {
            wire.send(&Message::Interim(flow, head));
        }
        match head {
            None => {}
            Some(Err(error)) => return wire.send(&Message::Fail(flow, error)),
            Some(Ok(head)) => {
                lock(&fetched).insert(flow, Fetched::Response(Plain::clone(&stream), relay));
                wire.send(&Message::Head(flow, head));
                break;
            }
        }
    }
    give_out(stream, wire, flow, credit).await;
}

fn copied(head: &ResponseHead) -> ResponseHead {
    ResponseHead { head: Head::clone(&head.head), timings: head.timings, reused: head.reused }
}

async fn begin(
    shared: &Shared,
    thread: usize,
    order: Fetch,
    body: RequestBody,
) -> Result<(Plain<Stream>, Arc<Relay>)> {
    let Fetch { plan, method, target, fields, timeouts, overrides, .. } = order;
    let relay = shared.plans.get(plan, &shared.notices).await?.relay()?;
    let supplies = &shared.supplies;
    let (feed, stream) = supplies.stream();
    let request = Box::new(Request {
        endpoint: relay.endpoint.clone(),
        upstream: relay.upstream.clone(),
        method,
        target,
        authority: relay.authority.clone(),
        headers: Arc::new(fields),
        body,
        timeouts,
    });
    let origins = Arc::clone(&supplies.origins[thread]);
    match &relay.caching {
        None => drop(tokio::spawn(origin::fetch(origins, request, feed))),
        Some(caching) => {
            let access = caching.access(origins, overrides.unwrap_or_else(Overrides::default));
            drop(tokio::spawn(store::fetch(access, request, feed)));
        }
    }
    Ok((Plain::new(stream), relay))
}
