//! What the edge fetches for a worker.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc as Plain;
use std::task::Poll;
use std::time::Instant;

use penstock_trace::Trace;

use super::flow::{Credit, send_flow};
use super::member::{Leased, Member};
use super::message::{Fetch, Message};
use super::plan::Topics;
use super::shared::Shared;
use super::wire::Wire;
use crate::error::Result;
use crate::events::{Leave, begin_inspection, read_on};
use crate::framing::Framing;
use crate::hub::Admitted;
use crate::inspect::{Inspector, Report};
use crate::origin::{self, Passing, Request, RequestBody};
use crate::pool::Pool;
use crate::relay_spec::Relay;
use crate::store::{self, Overrides};
use crate::stream::{Meter, ResponseHead, Stream};
use crate::sync::{Arc, Mutex, lock};
use crate::wire::Head;

/// A response or subscriber that a worker has asked for, until it is attached.
#[derive(Debug)]
pub(super) enum Fetched {
    /// A response, whose head may not have come yet.
    Response(Response),
    /// A subscriber of a topic.
    Guest(Guest),
}

/// A subscriber that has been admitted to a topic.
#[derive(Debug)]
pub(super) struct Guest {
    pub(super) admitted: Box<Admitted>,
    pub(super) topics: Arc<Topics>,
    pub(super) leased: Option<Leased>,
}

/// A response that is being fetched.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) stream: Plain<Stream>,
    pub(super) relay: Arc<Relay>,
    pub(super) watch: Option<Watch>,
}

impl Response {
    /// The client has left before it was attached: drains it, if it is an event stream and its plan
    /// says so.
    pub(super) fn client_left(self, meter: &Plain<Meter>) {
        let Self { stream, relay, watch } = self;
        let Some(policy) = relay.spec().events.clone().filter(|policy| policy.leave.drains()) else { return };
        let Ok(stream) = stream.hand_over() else { return };
        let inspector = watch.as_ref().and_then(|watch| watch.inspector.clone());
        let inspection = inspector.map(|inspector| (inspector, events_of(&relay)));
        let meter = Plain::clone(meter);
        tokio::spawn(async move {
            read_on(stream, Leave::Cancel, Some(policy), inspection, meter).await;
            drop(watch);
        });
    }
}

/// The framing of a relay's events. A worker sets their limit; without it no event is accepted.
pub(super) fn events_of(relay: &Relay) -> Framing {
    relay.framing(0)
}

/// The inspection of a fetched response. Its end, or its drop, sends the report to the worker.
#[derive(Debug)]
pub(super) struct Watch {
    member: Arc<Member>,
    ticket: u64,
    amended: bool,
    /// `None` before it has begun, after its end, and if the plan has no inspection.
    pub(super) inspector: Option<Inspector>,
    is_over: bool,
}

impl Watch {
    /// An inspection that the worker asks for, by its `ticket`, of a request that was `amended` or
    /// not.
    pub(super) fn new(member: &Arc<Member>, (ticket, amended): (u64, bool)) -> Self {
        Self { member: Arc::clone(member), ticket, amended, inspector: None, is_over: false }
    }

    fn begin(&mut self, relay: &Relay, pool: &Pool, thread: usize) {
        self.inspector = relay.spec().inspect.as_ref().map(|(rules, counts)| {
            let (rules, counts) = (Plain::clone(rules), Plain::clone(counts));
            Inspector::new(rules, counts, pool, thread, self.amended, Instant::now())
        });
    }

    /// Ends it, and returns the report.
    pub(super) fn end(mut self) -> Option<Report> {
        self.tell()
    }

    fn tell(&mut self) -> Option<Report> {
        self.is_over = true;
        let report = self.inspector.take().map(|inspector| inspector.end(Instant::now()));
        self.member.seen(self.ticket, report.clone());
        report
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !self.is_over {
            self.tell();
        }
    }
}

/// Responses and subscribers that are not attached, by flow.
pub(super) type Fetching = Plain<Mutex<HashMap<u32, Fetched>>>;

/// A request to fetch.
pub(super) struct Asked {
    pub(super) order: Fetch,
    pub(super) body: RequestBody,
    /// See [`Request::is_proven`].
    pub(super) is_proven: bool,
    pub(super) watch: Option<Watch>,
    /// That of the client's request.
    pub(super) trace: Option<Plain<Trace>>,
}

/// Fetches, sends the head, and sends the body as far as `credit` goes, unless the response is taken out of `fetched`
/// first.
pub(super) async fn fetch(
    shared: Arc<Shared>,
    thread: usize,
    wire: Plain<Wire>,
    asked: Asked,
    fetched: Fetching,
    credit: Plain<Credit>,
) {
    let flow = asked.order.flow;
    let said = match begin(&shared, thread, asked, &fetched).await {
        Ok((stream, inspection)) => tell_head(&stream, &wire, flow, inspection.as_ref())
            .await
            .map(|()| (stream, inspection.map(|(inspector, _)| inspector))),
        Err(error) => Err(error),
    };
    match said {
        Ok((stream, inspector)) => send_flow(stream, wire, flow, credit, inspector).await,
        Err(error) => wire.send(&Message::Fail(flow, error)),
    }
    // There is no entry if it was attached.
    let over = lock(&fetched).remove(&flow);
    drop(over);
}

/// Waits for the head of `stream` and sends it. If the response is inspected, its body is cut by the given framing.
async fn tell_head(
    stream: &Stream,
    wire: &Wire,
    flow: u32,
    inspection: Option<&(Inspector, Framing)>,
) -> Result<()> {
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
        let Some(head) = head.transpose()? else { continue };
        if let Some((inspector, framing)) = inspection {
            if begin_inspection(inspector, &head.head) {
                stream.set_framing(framing)?;
            }
        }
        wire.send(&Message::Head(flow, head));
        return Ok(());
    }
}

fn copied(head: &ResponseHead) -> ResponseHead {
    ResponseHead { head: Head::clone(&head.head), timings: head.timings, reused: head.reused }
}

/// Begins a fetch from an origin or the cache, and puts it into `fetched`. Returns its stream and its inspection.
async fn begin(
    shared: &Shared,
    thread: usize,
    asked: Asked,
    fetched: &Fetching,
) -> Result<(Plain<Stream>, Option<(Inspector, Framing)>)> {
    let Asked { order, body, is_proven, mut watch, trace } = asked;
    let Fetch { flow, plan, method, target, fields, timeouts, overrides, .. } = order;
    let relay = shared.plan(plan).await?.relay()?;
    let supplies = &shared.supplies;
    let (feed, stream) = supplies.stream();
    let stream = Plain::new(stream);
    if let Some(watch) = &mut watch {
        watch.begin(&relay, &supplies.pool, thread);
    }
    let inspector = watch.as_ref().and_then(|watch| watch.inspector.clone());
    let inspection = inspector.map(|inspector| (inspector, events_of(&relay)));
    let origin = &relay.spec().origin;
    let (headers, trace) = origin::traced(Plain::new(fields), trace);
    let request = Box::new(Request {
        endpoint: origin.endpoint.clone(),
        upstream: origin.upstream.clone(),
        method: method.into(),
        target,
        authority: origin.authority.clone(),
        headers,
        body,
        timeouts,
        is_proven,
        reports: false,
        passing: Passing::Body,
        in_frames: false,
        trace,
    });
    let origins = Arc::clone(&supplies.origins[thread]);
    match &relay.spec().caching {
        None => drop(tokio::spawn(origin::fetch(origins, request, feed))),
        Some(caching) => {
            let access = caching.access(origins, overrides.unwrap_or_else(Overrides::default));
            drop(tokio::spawn(store::fetch(access, request, feed)));
        }
    }
    let previous = lock(fetched)
        .insert(flow, Fetched::Response(Response { stream: Plain::clone(&stream), relay, watch }));
    drop(previous);
    Ok((stream, inspection))
}
