//! What the edge fetches for a worker.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc as Plain;
use std::task::Poll;

use super::flow::{Credit, give_out};
use super::message::{Fetch, Message};
use super::plan::Plan;
use super::wire::Wire;
use super::workers::Shared;
use crate::error::Result;
use crate::origin::{self, Request, RequestBody};
use crate::store::{self, Overrides};
use crate::stream::{ResponseHead, Stream};
use crate::sync::{Arc, Mutex, lock};
use crate::wire::Head;

/// Something fetched, whose head has come.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) stream: Plain<Stream>,
    pub(super) plan: Arc<Plan>,
}

/// Fetches what `order` says, tells its head, and sends the body as far as `credit` goes, unless somebody takes it out of
/// `fetched` first.
pub(super) async fn fetch(
    shared: Arc<Shared>,
    thread: usize,
    wire: Plain<Wire>,
    order: Fetch,
    body: RequestBody,
    fetched: Plain<Mutex<HashMap<u32, Fetched>>>,
    credit: Plain<Credit>,
) {
    let flow = order.flow;
    let (stream, plan) = match begin(&shared, thread, order, body).await {
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
                lock(&fetched).insert(flow, Fetched { stream: Plain::clone(&stream), plan });
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
) -> Result<(Plain<Stream>, Arc<Plan>)> {
    let Fetch { plan, method, target, fields, timeouts, overrides, .. } = order;
    let plan = shared.plans.get(plan, &shared.notices).await?;
    let supplies = &shared.supplies;
    let (feed, stream) = supplies.stream();
    let request = Box::new(Request {
        endpoint: plan.endpoint.clone(),
        upstream: plan.upstream.clone(),
        method,
        target,
        authority: plan.authority.clone(),
        headers: Arc::new(fields),
        body,
        timeouts,
    });
    let origins = Arc::clone(&supplies.origins[thread]);
    match &plan.caching {
        None => drop(tokio::spawn(origin::fetch(origins, request, feed))),
        Some(caching) => {
            let access = caching.access(origins, overrides.unwrap_or_else(Overrides::default));
            drop(tokio::spawn(store::fetch(access, request, feed)));
        }
    }
    Ok((Plain::new(stream), plan))
}
