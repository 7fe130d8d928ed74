//! Answers a request from an origin, without the application.
//!
//! The asking and the sending of the response are driven by one task, the connection's. Without a cache there is nothing
//! between the two connections: the task that writes to the client reads from the origin, so that a chunk of the body
//! goes from one socket to the other within one turn if both are ready.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc as Plain;
use std::task::{Context, Poll};
use std::time::Instant;

use super::Responder;
use super::amendment::{amend, decode_text};
use super::answer_alone;
use crate::access::Pass;
use crate::cache::{Target, is_read, tells_url};
use crate::edge::access::{admit, look, revoked, until};
use crate::edge::exchange::{Announced, Left, Task, at_once, beside, fault, gone, live, send};
use crate::edge::grpc::Call;
use crate::edge::grpc_web::{Web, preflight};
use crate::edge::inbound::Inbound;
use crate::edge::moved::{Beginning, Moved};
use crate::edge::route::Route;
use crate::edge::site::Site;
use crate::error::{Code, Error, Result};
use crate::events::{EventBody, Leave, begin_inspection};
use crate::framing::Framing;
use crate::inspect::Inspector;
use crate::net::{Outgoing, Piece, Supply};
use crate::origin::{self, RequestBody};
use crate::relay;
use crate::relay_spec::Relay;
use crate::store::{self, Caching, Found, Joined, Overrides};
use crate::stream::{Feed, ResponseHead, Stream};
use crate::sync::{Arc, Mutex, lock};
use crate::sys::boxed;
use crate::wire::{BodyFraming, Head, body_of, offers_websocket};

/// What is asked of a client that waits with its body.
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

impl Responder for Route {
    async fn respond(&self, task: &mut Task<'_>, inbound: &mut Inbound<'_>) -> Result<()> {
        let Task { site, incoming, .. } = *task;
        let mut web = None;
        if let Some(translated) = &self.spec().forwarding.grpc_web {
            if let Some(answer) = preflight(translated, incoming) {
                return boxed(|| answer_preflight(task, inbound, answer)).await;
            }
            web = Web::of(incoming);
            if let Some(web) = web {
                task.progress.note_web(web.answer(incoming, translated));
            }
        }
        let announced = task.announced()?.within(self.spec().limits.body.or(site.config.max_body))?;
        // It may have no message, whose end has come with the head then.
        task.call = Call::of(incoming, web)?;
        if task.call.is_some() {
            inbound.let_pause();
        }
        let _guard = self.location.enter()?;
        task.is_tunnel = announced.framing == BodyFraming::Empty
            && offers_websocket(incoming.method(), incoming.minor_version, &incoming.headers());
        if self.spec().caching.is_none() || task.is_tunnel || task.call.is_some() {
            task.let_in()?;
        }
        let mut pass = None;
        if let Some(gate) = task.gate {
            let target = incoming.origin_form();
            pass = look(gate, &task.asked(&target, &self.location.pattern.prefix), task)?.map(Box::new);
            if let Some(pass) = &mut pass {
                task.stripped = pass.target.take();
            }
        }
        answer_by_relay(task, inbound, announced, &self.relay, pass).await
    }
}

/// Answers what a page asks before it calls, with all of `bytes`.
async fn answer_preflight(task: &Task<'_>, inbound: &mut Inbound<'_>, bytes: Vec<u8>) -> Result<()> {
    task.refuse_body("such a request has no body")?;
    answer_alone(task, inbound, async {
        let mut outgoing = Outgoing::new(task.site.config.write_timeout, Code::Internal);
        task.progress.begin(204);
        task.progress.set_head(bytes.len());
        outgoing.push(Piece::Bytes(bytes));
        send(task, &Leave::Cancel, false, None, &mut outgoing, |_| {}).await
    })
    .await
}

/// Answers by `relay`. `pass`: the request was admitted by the gate of the task.
#[expect(clippy::manual_async_fn, reason = "an async fn keeps its arguments twice")]
pub(super) fn answer_by_relay(
    task: &Task<'_>,
    inbound: &mut Inbound<'_>,
    announced: Announced,
    relay: &Relay,
    pass: Option<Box<Pass>>,
) -> impl Future<Output = Result<()>> {
    async move {
        let is_let_in = pass.is_some() || task.gate.is_none();
        // What an origin or the cache gives is as long as it says: both have checked it.
        // On the heap: without its 300 bytes the future of an exchange has no more than the allocator keeps at hand for a thread.
        let mut outgoing = Box::new(Outgoing::new(task.site.config.write_timeout, Code::Internal));
        let mut is_hit = false;
        let may_hit = is_let_in && !task.is_tunnel && task.moved.is_none();
        if may_hit && announced.framing == BodyFraming::Empty {
            let begin = |context: &mut Context<'_>| begin_hit(context, task, relay, false, &mut outgoing);
            is_hit = at_once(begin).await?;
            // Most hits are sent at once: meanwhile the task need not listen to the client, nor for the end of the site.
            if is_hit && at_once(|context| is_sent(context, task, &mut outgoing)).await {
                return Ok(());
            }
        }
        // On the heap: a hit needs no room for it.
        boxed(|| attempt(task, inbound, announced, relay, pass, is_hit, &mut outgoing)).await
    }
}

/// Answers with what comes by and by, and listens to the client meanwhile. `pass`: the request was let in. `is_hit`: what is
/// sent has been begun.
async fn attempt(
    task: &Task<'_>,
    inbound: &mut Inbound<'_>,
    Announced { framing, expects_continue, most }: Announced,
    relay: &Relay,
    pass: Option<Box<Pass>>,
    is_hit: bool,
    outgoing: &mut Outgoing,
) -> Result<()> {
    let Task { site, progress, is_tunnel, incoming, .. } = *task;
    let life = live(task)?;
    outgoing.begin_life(&life);
    let (feed, upload) = request_body(site, framing, is_tunnel);
    if feed.is_some() && !is_tunnel {
        inbound.begin_life(&life);
    }
    let (framing, most) = if is_tunnel { (BodyFraming::Tunnel, None) } else { (framing, most) };
    let is_awaited = expects_continue && feed.is_some() && !inbound.has_begun();
    let go_on = send_answer(task, relay, (upload, is_awaited), is_hit, outgoing);
    let listen = pin!(inbound.listen(framing, most, feed));
    let result = if let Some(gate) = task.gate {
        let answer = async {
            let target = incoming.origin_form();
            let permit =
                admit(gate, &task.asked(&target, &relay.spec().prefix), pass.map(|pass| *pass), task).await?;
            until(revoked(&permit), progress, site.config.linger, go_on).await
        };
        // On the heap: where all are let in there is no room for it.
        beside(task, &life, listen, Box::pin(answer).as_mut()).await
    } else {
        beside(task, &life, listen, pin!(go_on)).await
    };
    progress.tear(outgoing.is_torn());
    result
}

/// Begins to answer, unless that is done (`is_hit`), and sends the answer. `is_awaited`: the client waits to be asked for its body.
#[expect(clippy::manual_async_fn, reason = "an async fn keeps its arguments twice")]
fn send_answer(
    task: &Task<'_>,
    relay: &Relay,
    (mut body, is_awaited): (RequestBody, bool),
    mut is_hit: bool,
    outgoing: &mut Outgoing,
) -> impl Future<Output = Result<()>> {
    async move {
        if is_awaited {
            task.progress.add_interim(CONTINUE.len());
            outgoing.push(Piece::Mark(CONTINUE));
        }
        let mut waiting = None;
        loop {
            let (is_events, left) = if std::mem::take(&mut is_hit) {
                (false, None)
            } else {
                // A request that what is stored may answer has no body.
                let body = std::mem::replace(&mut body, RequestBody::None);
                // On the heap: a body may come for hours when its head has come.
                match boxed(|| begin(task, relay, body, waiting.take(), outgoing)).await {
                    Ok(Begun::Body { is_events, left }) => (is_events, left),
                    Ok(Begun::Joined(joined)) => {
                        match follow(task, relay, waiting.insert(joined), outgoing).await? {
                            Some(left) => {
                                // What is sent holds it now.
                                waiting = None;
                                (false, left)
                            }
                            None => continue,
                        }
                    }
                    Ok(Begun::Sent) => return Ok(()),
                    Err(error) if task.may_ask_again(&error, outgoing) => continue,
                    Err(error) => return Err(error),
                }
            };
            match send(task, relay.leave(Some(is_events)), is_events, left, outgoing, |_| {}).await {
                Err(error) if task.may_ask_again(&error, outgoing) => {}
                sent => return sent,
            }
        }
    }
}

/// The two ends of what goes up, if there is anything.
fn request_body(site: &Site, body: BodyFraming, is_tunnel: bool) -> (Option<Feed>, RequestBody) {
    let length = match body {
        BodyFraming::Empty if is_tunnel => None,
        BodyFraming::Empty => return (None, RequestBody::None),
        BodyFraming::Length(0) => return (None, RequestBody::Bytes(Vec::new())),
        BodyFraming::Length(length) => Some(length),
        BodyFraming::Chunked | BodyFraming::UntilClose | BodyFraming::Tunnel => None,
    };
    let (feed, stream) = site.supplies.stream();
    // The client is listened to before each look at the fetch.
    stream.fed_by_own_task();
    let body = if is_tunnel { RequestBody::Tunnel(stream) } else { RequestBody::Stream { stream, length } };
    (Some(feed), body)
}

/// Waits for another request's fill, and begins to answer with what it has stored. `None` if that is no answer.
///
/// # Errors
/// What went wrong. Nothing was sent.
async fn follow(
    task: &Task<'_>,
    relay: &Relay,
    (joined, left): &mut (Joined, Left),
    outgoing: &mut Outgoing,
) -> Result<Option<Left>> {
    let stored = poll_fn(|context| {
        task.wait(context, relay, left, Vec::new(), outgoing)?;
        joined.poll_stored(context).map(Ok)
    });
    let is_begun =
        stored.await? && at_once(|context| begin_hit(context, task, relay, true, outgoing)).await?;
    Ok(is_begun.then(|| left.take()))
}

/// Begins to answer a request without a body with what is stored, if there is something: [`send`] goes on. `collapsed`: it has
/// waited for another request's fill.
///
/// # Errors
/// What went wrong. Nothing was sent.
fn begin_hit(
    context: &mut Context<'_>,
    task: &Task<'_>,
    relay: &Relay,
    collapsed: bool,
    outgoing: &mut Outgoing,
) -> Result<bool> {
    let spec = relay.spec();
    let Some(caching) = &spec.caching else { return Ok(false) };
    let target = task.target_at(relay);
    let asked = store::HitRequest {
        method: task.incoming.method(),
        target: Target {
            scheme: spec.origin.endpoint.scheme().name(),
            authority: &spec.origin.authority,
            path: &target,
        },
        endpoint: &spec.origin.endpoint,
        is_read: relay.sets_read()
            || task.incoming.headers().any(|(name, value)| {
                (is_read(name) || tells_url(name))
                    && !relay.replaces(name)
                    && task.forwarded(name, value).is_some()
            }),
        collapsed,
    };
    let Some(delivery) = caching.look(&asked, || task.fields(relay, None))? else { return Ok(false) };
    match task.begin_stored(context, relay, Box::new(delivery), outgoing) {
        Err(error) if task.may_ask_again(&error, outgoing) => Ok(false),
        begun => begun.map(|()| true),
    }
}

/// Whether all that [`begin_hit`] has begun is with the kernel, once it was offered that.
fn is_sent(context: &mut Context<'_>, task: &Task<'_>, outgoing: &mut Outgoing) -> bool {
    // `send`, which goes on, meets an error again.
    let sent = matches!(outgoing.poll_send(context, &task.client.connection), Poll::Ready(Ok(())));
    task.note_sent(outgoing);
    sent
}

/// How far [`begin`] has come.
#[derive(Debug)]
enum Begun {
    /// The head is in the outgoing message, and the body after it, of events or not: [`send`] goes on.
    Body { is_events: bool, left: Left },
    /// All of it is with the kernel.
    Sent,
    /// Another request's fill is to be waited for.
    Joined((Joined, Left)),
}

/// Relays the origin's response, up to its body; what an origin sends by way of a cache, to its end. The sending of the
/// body, for hours perhaps, keeps none of this state. `waited`: the fill that the request has waited for.
///
/// # Errors
/// What went wrong. If `progress` has no status then, nothing was sent.
///
/// # Cancellation
/// The origin's connection is closed.
async fn begin(
    task: &Task<'_>,
    relay: &Relay,
    body: RequestBody,
    waited: Option<(Joined, Left)>,
    outgoing: &mut Outgoing,
) -> Result<Begun> {
    let goes_by = !task.is_tunnel && task.call.is_none() && task.moved.is_none();
    match relay.spec().caching.as_ref().filter(|_| goes_by) {
        // On the heap, so that a relay without a cache does not pay for its state.
        Some(caching) => boxed(|| relay_by_cache(task, relay, caching, (body, waited), outgoing)).await,
        None => begin_body(task, relay, body, outgoing).await,
    }
}

/// From one connection to the other.
async fn begin_body(
    task: &Task<'_>,
    relay: &Relay,
    body: RequestBody,
    outgoing: &mut Outgoing,
) -> Result<Begun> {
    let supplies = &task.site.supplies;
    let mut left = None;
    let body = if task.call.is_some_and(|call| call.web.is_some_and(|web| web.sends_text)) {
        boxed(|| decode_text(task, relay, body, &mut left, outgoing)).await?
    } else {
        body
    };
    let inspection = relay.spec().inspect.as_ref().filter(|_| !task.is_tunnel && task.call.is_none());
    let (body, inspector) = match inspection {
        None => (body, None),
        Some((rules, counts)) => {
            // On the heap: there is nothing left of it when the origin is asked.
            let amended = boxed(|| amend(task, relay, rules, body, &mut left, outgoing)).await;
            let (body, amended) = amended?;
            let (rules, counts) = (Plain::clone(rules), Plain::clone(counts));
            let inspector =
                Inspector::new(rules, counts, &supplies.pool, task.thread, amended, Instant::now());
            (body, Some(inspector))
        }
    };
    if let Some((account, inspector)) = task.account.zip(inspector.as_ref()) {
        account.note_inspector(inspector);
    }
    let interim = Mutex::new(Vec::new());
    let pass = |head| lock(&interim).push(head);
    let origins = Arc::clone(&supplies.origins[task.thread]);
    let (head, body) = if let Some(Beginning::Origin(head, socket)) = task.moved.and_then(Moved::take) {
        let request = task.request(relay, RequestBody::None)?;
        origin::adopt(&origins, &request, head, socket, task.progress.elapsed())?
    } else {
        let mut begun = pin!(origin::begin(origins, Box::new(task.request(relay, body)?), &pass));
        poll_fn(|context| {
            let begun = begun.as_mut().poll(context);
            let interim = std::mem::take(&mut *lock(&interim));
            task.wait(context, relay, &mut left, interim, outgoing)?;
            begun
        })
        .await?
    };
    let is_events = put_body(task, relay, &head, body, inspector, outgoing).await?;
    Ok(Begun::Body { is_events, left })
}

/// Puts the head of the origin's response and the body that its connection brings into `outgoing`. Whether it is a stream of
/// events.
async fn put_body(
    task: &Task<'_>,
    relay: &Relay,
    head: &ResponseHead,
    body: origin::Begun,
    inspector: Option<Inspector>,
    outgoing: &mut Outgoing,
) -> Result<bool> {
    let allowance = task.site.supplies.allowance();
    if let Some(account) = task.account {
        account.note_head(head);
    }
    let web = task.web(&head.head, body.framing());
    // The trailers follow as bytes of the body.
    let framing = if web.is_some() { BodyFraming::Chunked } else { body.framing() };
    let (framing, is_events) = task.begin(relay, head, framing, outgoing);
    if let Some(moved) = task.moved {
        task.progress.go_on_after(moved.sent);
        outgoing.go_on_after(moved.payload);
    }
    if is_events {
        task.let_move(|| head.head.to_bytes(), outgoing);
    }
    let is_cut =
        is_events | inspector.as_ref().is_some_and(|inspector| begin_inspection(inspector, &head.head));
    outgoing.feed_on(body.line());
    let is_cut = is_cut && !cfg!(all(test, planted_bug = "events-not-cut"));
    let supply = Supply::Source(Box::new(body.relay(&task.cut(relay, is_cut), allowance)));
    let supply = match web {
        Some(web) => web.supply(supply),
        None => supply,
    };
    outgoing.attach(task.supply(relay, supply, is_events, inspector), framing);
    if matches!(framing, BodyFraming::Length(_)) && task.client.connection.can_splice() {
        outgoing.splice_by(&task.site.supplies.origins[task.thread].pipes);
    }
    at_once(|context| task.prime(context, outgoing)).await?;
    Ok(is_events)
}

/// Puts a response whose head has come in `stream` into `outgoing`. Whether it is a stream of events.
fn put_stream(task: &Task<'_>, relay: &Relay, stream: Stream, outgoing: &mut Outgoing) -> Result<bool> {
    let Some(head) = stream.head() else {
        return Err(Code::Internal.error("a head that had come is gone"));
    };
    if let Some(account) = task.account {
        account.note_head(head);
    }
    let framing = body_of(&head.head, task.incoming.method())?;
    let (framing, is_events) = task.begin(relay, head, framing, outgoing);
    stream.set_framing(&task.cut(relay, is_events))?;
    outgoing.feed_on(stream.line());
    outgoing.attach(task.supply(relay, stream.into(), is_events, None), framing);
    Ok(is_events)
}

/// By way of the relay's cache: what is stored there or on its way, or what the origin answers, out of a stream.
async fn relay_by_cache(
    task: &Task<'_>,
    relay: &Relay,
    caching: &Caching,
    (body, waited): (RequestBody, Option<(Joined, Left)>),
    outgoing: &mut Outgoing,
) -> Result<Begun> {
    let supplies = &task.site.supplies;
    let (feed, stream) = supplies.stream();
    // `drive` goes before each look at the stream.
    stream.fed_by_own_task();
    let access = caching.access(Arc::clone(&supplies.origins[task.thread]), Overrides::default());
    let (joined, left) = waited.unzip();
    let mut left = left.flatten();
    let mut fetch = pin!(store::serve(access, Box::new(task.request(relay, body)?), joined, feed));
    let mut fetched = false;
    let mut drive = |context: &mut Context<'_>| {
        let Poll::Ready(stored) = (if fetched { Poll::Pending } else { fetch.as_mut().poll(context) }) else {
            return None;
        };
        fetched = true;
        stored
    };
    let stored = poll_fn(|context| {
        let stored = drive(context);
        task.wait(context, relay, &mut left, stream.take_interim(), outgoing)?;
        if stored.is_some() { Poll::Ready(Ok(stored)) } else { stream.poll_head(context).map_ok(|_| None) }
    })
    .await?;
    match stored {
        Some(Found::Stored(delivery)) => {
            drop(stream);
            at_once(|context| task.begin_stored(context, relay, delivery, outgoing)).await?;
            return Ok(Begun::Body { is_events: false, left });
        }
        Some(Found::Joined(joined)) => return Ok(Begun::Joined((joined, left))),
        Some(Found::Passed(passed)) => {
            let (head, body) = *passed;
            let is_events = put_body(task, relay, &head, body, None, outgoing).await?;
            return Ok(Begun::Body { is_events, left });
        }
        None => {}
    }
    let is_events = put_stream(task, relay, stream, outgoing)?;
    at_once(|context| {
        drive(context);
        task.prime(context, outgoing)
    })
    .await?;
    let leave = relay.leave(Some(is_events));
    send(task, leave, is_events, left, outgoing, |context| drop(drive(context))).await?;
    Ok(Begun::Sent)
}

impl Task<'_> {
    /// As [`Task::check`] while the head is awaited: if the client has left, whether the relay reads on.
    fn check_left(&self, context: &mut Context<'_>, relay: &Relay, left: &mut Left) -> Result<()> {
        if self.progress.has_left() {
            let begun = left.take().or_else(|| relay.leave(None).begin(&self.site.supplies.meter));
            let draining = left.insert(begun.ok_or_else(gone)?);
            if draining.poll_over(context).is_ready() {
                return Err(gone());
            }
        }
        self.progress.check_stopped()
    }

    /// The body of a response, with what the relay does for events, and seen by `inspector`.
    fn supply(&self, relay: &Relay, supply: Supply, is_events: bool, inspector: Option<Inspector>) -> Supply {
        let supply = self.metered(self.watched(relay, supply, is_events, inspector));
        if is_events { self.followed(self.progress.status(), supply) } else { supply }
    }

    fn watched(
        &self,
        relay: &Relay,
        supply: Supply,
        is_events: bool,
        inspector: Option<Inspector>,
    ) -> Supply {
        let policy = relay.spec().events.as_ref().filter(|_| is_events);
        if policy.is_none() && inspector.is_none() {
            return supply;
        }
        let meter = Plain::clone(&self.site.supplies.meter);
        let body = EventBody::new(supply, policy.map(Arc::clone), meter).inspected(inspector);
        Supply::Source(Box::new(body))
    }

    /// How a body is cut that is to be seen event by event, or not.
    fn cut(&self, relay: &Relay, is_cut: bool) -> Framing {
        if is_cut { relay.framing(self.site.config.max_event) } else { Framing::Raw }
    }

    /// Whether the stored response was damaged, and so removed, and the client has seen none of it: it is taken back.
    fn may_ask_again(&self, error: &Error, outgoing: &mut Outgoing) -> bool {
        error.code() == Code::CacheDamaged && self.progress.status().is_none() && outgoing.retract()
    }

    /// While the head is awaited: sends what goes before it, that the body may come, and `interim` responses.
    pub(in crate::edge) fn wait(
        &self,
        context: &mut Context<'_>,
        relay: &Relay,
        left: &mut Left,
        interim: Vec<Head>,
        outgoing: &mut Outgoing,
    ) -> Result<()> {
        self.check_left(context, relay, left)?;
        for head in interim {
            // HTTP/1.0 has none (RFC 9110, section 15.2).
            if self.incoming.minor_version == 1 {
                let via = relay.spec().forwarding.via((1, head.minor_version));
                let bytes = relay::encode_interim(&head, via.as_deref());
                self.progress.add_interim(bytes.len());
                outgoing.push(Piece::Bytes(bytes));
            }
        }
        match outgoing.poll_send(context, &self.client.connection) {
            Poll::Ready(Err(stop)) => Err(fault(stop)),
            Poll::Ready(Ok(())) | Poll::Pending => Ok(()),
        }
    }
}
