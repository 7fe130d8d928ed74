//! One connection from a client, from accept to close.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use super::access::{admit, lapsed, look, revoked, until};
use super::account::Account;
use super::answer::refusal;
use super::client::Client;
use super::exchange::{Task, at_once, fault, send};
use super::inbound::{Inbound, check_size};
use super::lane::{self, Asked};
use super::log::Entry;
use super::pages::Pages;
use super::progress::{Progress, Stopped};
use super::respond::relay::Begun;
use super::respond::{pages, relay, topics};
use super::route::{Route, Service};
use super::site::{Load, Phase, Site};
use super::topics::Topics;
use crate::access::{Decision, Pass};
use crate::app::Note;
use crate::error::{Code, Error, Result};
use crate::events::Leave;
use crate::net::{Called, Connection, Life, Outgoing, Piece, Watch};
use crate::origin::RequestBody;
use crate::stream::Feed;
use crate::sync::Arc;
use crate::wire::{BodyFraming, Incoming, offers_websocket};

/// What is asked of a client that waits with its body.
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The status in the log of a request that the application has closed the connection on instead of an answer, as nginx's.
const UNANSWERED: u16 = 444;

/// What becomes of the connection after an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Another request.
    Request,
    /// It ends once the client has what was sent.
    Close,
    /// It ends so that what was sent cannot be taken for whole.
    Reset,
}

/// An exchange. Dropped with the task that it is in, when the engine is closed, it leaves no clean end: what has been sent
/// could be taken for whole.
struct Unfinished<'a>(&'a Connection);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.0.reset_on_close();
    }
}

/// Serves the requests of a connection, one after the other. Ends when the connection has.
pub(super) async fn serve(load: Load, client: Client) {
    let site = Arc::clone(&load.site);
    let mut phase = site.phase();
    requests(&site, load.thread, &client, &mut phase).await;
}

/// Ready when everything is to end.
async fn closed(phase: &mut watch::Receiver<Phase>) {
    // An error means that the site is gone.
    let _ = phase.wait_for(|phase| *phase == Phase::Closed).await;
}

async fn requests(site: &Site, thread: usize, client: &Client, phase: &mut watch::Receiver<Phase>) {
    let config = &site.config;
    let mut inbound = Inbound::new(&client.connection, &site.supplies, config);
    loop {
        // On the heap, each for its time: neither waiting for a request nor answering one then needs room for the other.
        let next = match Box::pin(head(&mut inbound, phase)).await {
            // What is here and was not read, such as an empty line, would turn the end into a reset.
            Ok(None) => return Box::pin(close(client, &mut inbound, Duration::ZERO)).await,
            Ok(Some(incoming)) => {
                let unfinished = Unfinished(&client.connection);
                let next = Box::pin(exchange(site, thread, client, &mut inbound, &incoming)).await;
                std::mem::forget(unfinished);
                next
            }
            Err(error) => {
                let progress = Progress::new(site.unread.of(thread));
                let next = Box::pin(refuse(site, client, &error, false, &progress)).await;
                let status = status_of(&error, &progress);
                progress.end(status, Some(&error), 0, progress.elapsed());
                if may_answer(&error) {
                    log(site, client, None, None, status, Some(&error), &progress);
                }
                next
            }
        };
        match next {
            Next::Request => {}
            Next::Close => return Box::pin(close(client, &mut inbound, config.linger)).await,
            Next::Reset => return client.connection.reset_on_close(),
        }
    }
}

/// The next head; none also when the site is drained before one has begun.
async fn head(inbound: &mut Inbound<'_>, phase: &mut watch::Receiver<Phase>) -> Result<Option<Incoming>> {
    {
        let head = pin!(inbound.head());
        tokio::select! {
            biased;
            head = head => return head,
            _ = phase.wait_for(|phase| *phase != Phase::Open) => {}
        }
    }
    if inbound.is_idle() {
        return Ok(None);
    }
    tokio::select! {
        biased;
        head = inbound.head() => head,
        () = closed(phase) => Ok(None),
    }
}

/// Answers one request.
async fn exchange(
    site: &Site,
    thread: usize,
    client: &Client,
    inbound: &mut Inbound<'_>,
    incoming: &Incoming,
) -> Next {
    // Relaxed: a count.
    site.requests.fetch_add(1, Ordering::Relaxed);
    let _active = site.begin_exchange();
    let routes = site.routes();
    let route = routes.find(incoming.method(), incoming.authority(), &incoming.origin_form());
    let progress = Progress::new(site.tallies(route).of(thread));
    let account = match route {
        Some(Service::Relay(route)) => {
            Account::open(site.app.as_ref(), &route.relay, client, incoming, &progress)
        }
        Some(Service::Topics(_) | Service::Pages(_)) | None => None,
    };
    let mut line = Line { site, client, incoming, route, progress: &progress, is_written: false };
    let task = Task {
        site,
        thread,
        client,
        incoming,
        progress: &progress,
        account: account.as_deref(),
        is_tunnel: false,
        stripped: None,
        target_at: None,
        gate: None,
    };
    let counted = site.clients.request(client.addresses.ip());
    // On the heap, so that a stream on a native route, which may stay for hours, keeps no room for the other lane.
    let result = match route {
        _ if counted.is_err() => counted.as_ref().map(|_| ()).map_err(Error::clone),
        Some(Service::Relay(route)) => answer_by_route(task, inbound, route).await,
        Some(Service::Topics(topics)) => Box::pin(answer_by_topics(task, inbound, topics)).await,
        Some(Service::Pages(pages)) => Box::pin(answer_by_pages(task, inbound, pages)).await,
        None => Box::pin(answer_by_application(task, inbound)).await,
    };
    let error = result.as_ref().err();
    site.prove(client, error);
    if let Some(account) = account {
        account.close(error);
    }
    let status = progress.status().unwrap_or_else(|| error.map_or(0, |error| status_of(error, &progress)));
    progress.end(status, error, inbound.take_received(), progress.elapsed());
    let next = match &result {
        Ok(()) if progress.closes() => Next::Close,
        Ok(()) if inbound.is_at_boundary() => Next::Request,
        // The rest of the body would be taken for the next request.
        Ok(()) => Next::Close,
        Err(error) if progress.status().is_none() && !progress.is_torn() && may_answer(error) => {
            // On the heap, because few requests are refused, and each would wait for its end with the room for it.
            Box::pin(refuse(site, client, error, incoming.method() == "HEAD", &progress)).await
        }
        Err(_) if progress.ends_visibly() => Next::Close,
        Err(_) => Next::Reset,
    };
    line.write(status, error);
    next
}

/// The line of an exchange in the access log: written at its end, or when the engine's close drops the exchange.
struct Line<'a> {
    site: &'a Site,
    client: &'a Client,
    incoming: &'a Incoming,
    route: Option<&'a Service>,
    progress: &'a Progress,
    is_written: bool,
}

impl Line<'_> {
    fn write(&mut self, status: u16, error: Option<&Error>) {
        self.is_written = true;
        let Self { site, client, incoming, route, progress, .. } = *self;
        // An application that logs by itself does so of all that it has answered.
        let is_ours = site.logs_application
            || route.is_some()
            || site.app.is_none()
            || progress.status().is_none() && error.is_some();
        if is_ours {
            log(site, client, Some(incoming), route.map(Service::name), status, error, progress);
        }
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        if !self.is_written {
            let error = Code::EngineClosed.error("the engine was closed before the end of the exchange");
            self.write(self.progress.status().unwrap_or_default(), Some(&error));
        }
    }
}

/// Writes the line of a request that is over.
fn log(
    site: &Site,
    client: &Client,
    incoming: Option<&Incoming>,
    route: Option<&str>,
    status: u16,
    error: Option<&Error>,
    progress: &Progress,
) {
    let Some(log) = &site.log else { return };
    let Note { tenant, failure } = progress.note().unwrap_or_default();
    let decision = progress.decision();
    let is_written = log.put(&Entry {
        client: client.addresses.host.as_deref(),
        incoming,
        status: if status == 0 { UNANSWERED } else { status },
        bytes: progress.body_bytes(),
        elapsed: progress.elapsed(),
        route,
        tenant: tenant.as_deref().or(decision.as_deref().and_then(Decision::tenant)),
        failure: failure.or(error.map(Error::code)),
    });
    if !is_written {
        // Relaxed: a count.
        site.unlogged.fetch_add(1, Ordering::Relaxed);
    }
}

/// What a request that failed before its head was answered with; 499 is nginx's for a client that left.
fn status_of(error: &Error, progress: &Progress) -> u16 {
    let answered = || {
        progress
            .decision()
            .as_deref()
            .and_then(Decision::denial)
            .map_or(error.code().status(), |denial| denial.status)
    };
    if may_answer(error) { answered() } else { 499 }
}

fn may_answer(error: &Error) -> bool {
    !matches!(error.code(), Code::ClientGone | Code::RequestTruncated | Code::BadResponse)
}

/// What is asked for, where no more than its head is needed to refuse it.
fn asked<'a>(site: &Site, thread: usize, incoming: &'a Incoming, progress: &Progress) -> Result<Asked<'a>> {
    let asked =
        Asked { incoming, body: incoming.body()?, expects_continue: incoming.expects_continue()?, thread };
    check_open(site)?;
    progress.close(site.is_draining() || !incoming.keeps_alive());
    Ok(asked)
}

fn check_open(site: &Site) -> Result<()> {
    if site.is_closed() {
        return Err(Code::Draining.error("the time for requests to finish is over"));
    }
    Ok(())
}

/// From now on an exchange is told when everything is to end.
fn live(site: &Site) -> Result<Life> {
    let life = Life::new(&site.clock);
    // Looked at after the clock knows of this exchange, as it is set before the clock tells: one of the two is seen.
    check_open(site)?;
    Ok(life)
}

/// As [`asked`], of what takes no body: a request that has one is told `why` not.
fn asked_alone(task: &Task<'_>, why: &'static str) -> Result<()> {
    let asked = asked(task.site, task.thread, task.incoming, task.progress)?;
    if !matches!(asked.body, BodyFraming::Empty | BodyFraming::Length(0)) {
        return Err(Code::BadRequestBody.error(why));
    }
    Ok(())
}

async fn answer_by_application(task: Task<'_>, inbound: &mut Inbound<'_>) -> Result<()> {
    let Task { site, thread, client, incoming, progress, .. } = task;
    let (asked, life) = (asked(site, thread, incoming, progress)?, live(site)?);
    let Some(queue) = &site.app else {
        let detail = format!("no route for {} {}", incoming.method(), incoming.path());
        return Err(Code::NoRoute.error(detail));
    };
    lane::answer(site, client, inbound, asked, progress, queue, &life).await
}

async fn answer_by_route(mut task: Task<'_>, inbound: &mut Inbound<'_>, route: &Route) -> Result<()> {
    let Task { site, thread, incoming, progress, .. } = task;
    let asked = asked(site, thread, incoming, progress)?;
    let most = route.spec().limits.body.or(site.config.max_body);
    if let BodyFraming::Length(length) = asked.body {
        check_size(length, most)?;
    }
    let _guard = route.location.enter()?;
    task.is_tunnel = asked.body == BodyFraming::Empty
        && offers_websocket(incoming.method(), incoming.minor_version, &incoming.headers());
    // What an origin or the cache gives is as long as it says: both have checked it.
    let mut pass = None;
    task.gate = route.location.gate.as_deref();
    if let Some(gate) = task.gate {
        let target = incoming.origin_form();
        pass = look(gate, &task.asked(&target, &route.location.pattern.prefix), &task)?;
        if let Some(pass) = &mut pass {
            task.stripped = pass.target.take();
        }
    }
    let is_let_in = pass.is_some() || task.gate.is_none();
    let mut outgoing = Outgoing::new(site.config.write_timeout, Code::Internal);
    let mut is_hit = false;
    if is_let_in && asked.body == BodyFraming::Empty && !task.is_tunnel {
        let begin = |context: &mut Context<'_>| relay::begin_hit(context, &task, &route.relay, &mut outgoing);
        is_hit = at_once(begin).await?;
        // Most of them are: nobody has to be listened to meanwhile, nor to be told when everything is to end.
        if is_hit && at_once(|context| relay::is_sent(context, &task, &mut outgoing)).await {
            return Ok(());
        }
    }
    // On the heap: a hit needs no room for it.
    Box::pin(attempt(&task, inbound, asked, most, route, pass, is_hit, &mut outgoing)).await
}

/// Answers with what comes by and by, and listens to the client meanwhile. `pass`: the request was let in. `is_hit`: what is
/// sent has been begun.
#[expect(clippy::too_many_arguments, reason = "what `answer_by_route` knows, which is not kept for a hit")]
async fn attempt(
    task: &Task<'_>,
    inbound: &mut Inbound<'_>,
    Asked { body, expects_continue: expects, .. }: Asked<'_>,
    most: Option<u64>,
    route: &Route,
    pass: Option<Pass>,
    is_hit: bool,
    outgoing: &mut Outgoing,
) -> Result<()> {
    let Task { site, progress, is_tunnel, incoming, .. } = *task;
    let life = live(site)?;
    outgoing.begin_life(&life);
    let (feed, upload) = request_body(site, body, is_tunnel);
    let (body, most) = if is_tunnel { (BodyFraming::Tunnel, None) } else { (body, most) };
    let is_awaited = expects && feed.is_some() && !inbound.has_begun();
    let go_on = async {
        if is_awaited {
            progress.add_interim(CONTINUE.len());
            outgoing.push(Piece::Mark(CONTINUE));
        }
        let (is_events, left) = if is_hit {
            (false, None)
        } else {
            // On the heap: a body may come for hours when its head has come.
            match Box::pin(relay::begin(task, &route.relay, upload, outgoing)).await? {
                Begun::Body { is_events, left } => (is_events, left),
                Begun::Sent => return Ok(()),
            }
        };
        send(task, route.relay.leave(Some(is_events)), is_events, left, outgoing, |_| {}).await
    };
    let listen = inbound.listen(body, most, feed);
    let result = if let Some(gate) = task.gate {
        let answer = async {
            let target = incoming.origin_form();
            let permit =
                admit(gate, &task.asked(&target, &route.location.pattern.prefix), pass, task).await?;
            until(revoked(&permit), progress, site.config.linger, go_on).await
        };
        // On the heap: where all are let in there is no room for it.
        Box::pin(beside(site, progress, &life, listen, answer)).await
    } else {
        beside(site, progress, &life, listen, go_on).await
    };
    progress.tear(outgoing.is_torn());
    result
}

/// Lets a client subscribe, and sends it what is published.
async fn answer_by_topics(task: Task<'_>, inbound: &mut Inbound<'_>, topics: &Topics) -> Result<()> {
    asked_alone(&task, "a request for a topic has no body")?;
    let Task { site, incoming, progress, .. } = task;
    let _guard = topics.location.enter()?;
    let life = live(site)?;
    let mut outgoing = Outgoing::new(site.config.write_timeout, Code::Internal);
    outgoing.begin_life(&life);
    let listen = inbound.listen(BodyFraming::Empty, None, None);
    let result = if let Some(gate) = &topics.location.gate {
        let answer = async {
            let target = incoming.origin_form();
            let wanted = task.asked(&target, &topics.location.pattern.prefix);
            let mut pass = look(gate, &wanted, &task)?;
            let stripped = pass.as_mut().and_then(|pass| pass.target.take());
            let permit = admit(gate, &wanted, pass, &task).await?;
            let task = Task { stripped, ..task };
            topics::begin(&task, topics, &mut outgoing).await?;
            site.note_resumable(&life);
            let send = send(&task, &Leave::Cancel, true, None, &mut outgoing, |_| {});
            until(lapsed(gate, &wanted, permit), progress, site.config.linger, send).await
        };
        // On the heap: where all are let in there is no room for it.
        Box::pin(beside(site, progress, &life, listen, answer)).await
    } else {
        let answer = async {
            topics::begin(&task, topics, &mut outgoing).await?;
            site.note_resumable(&life);
            send(&task, &Leave::Cancel, true, None, &mut outgoing, |_| {}).await
        };
        beside(site, progress, &life, listen, answer).await
    };
    progress.tear(outgoing.is_torn());
    result
}

/// Says how the engine does.
async fn answer_by_pages(task: Task<'_>, inbound: &mut Inbound<'_>, pages: &Pages) -> Result<()> {
    asked_alone(&task, "a request for a page has no body")?;
    let Task { site, incoming, progress, .. } = task;
    let _guard = pages.enter(incoming)?;
    let life = live(site)?;
    let mut outgoing = Outgoing::new(site.config.write_timeout, Code::Internal);
    let answer = async {
        pages::begin(&task, pages, &mut outgoing).await?;
        send(&task, &Leave::Cancel, false, None, &mut outgoing, |_| {}).await
    };
    beside(site, progress, &life, inbound.listen(BodyFraming::Empty, None, None), answer).await
}

/// Carries `answer` out, listens to the client meanwhile, and sees to it that both end when everything does.
async fn beside(
    site: &Site,
    progress: &Progress,
    life: &Life,
    listen: impl Future<Output = Error>,
    answer: impl Future<Output = Result<()>>,
) -> Result<()> {
    let (mut listen, mut answer) = (pin!(listen), pin!(answer));
    let mut overdue = Watch::default();
    let mut is_over = false;
    let mut trouble = None;
    let result = {
        let aside = poll_fn(|context| {
            if !is_over && life.is_stopped(context) {
                is_over = true;
                progress.stop(Stopped::Draining);
                overdue.start(Some(site.config.linger));
            }
            if overdue.poll_expired(context).is_ready() {
                return Poll::Ready(Code::Draining.error("the client took its last bytes too slowly"));
            }
            if trouble.is_none() {
                if let Poll::Ready(error) = listen.as_mut().poll(context) {
                    progress.leave();
                    trouble = Some(error);
                }
            }
            Poll::Pending
        });
        let mut aside = Called::new(aside);
        poll_fn(|context| {
            if let Poll::Ready(error) = aside.poll(context) {
                return Poll::Ready(Err(error));
            }
            answer.as_mut().poll(context)
        })
        .await
    };
    // What the client did wrong says more than what became of it.
    result.map_err(|error| trouble.unwrap_or(error))
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

/// Tells the client why there is no answer.
async fn refuse(site: &Site, client: &Client, error: &Error, head_only: bool, progress: &Progress) -> Next {
    if !may_answer(error) {
        // It left between two requests, or within a head. The responses before are whole, and may still be on their way.
        return Next::Close;
    }
    // Relaxed: a count.
    site.refused.fetch_add(1, Ordering::Relaxed);
    let mut outgoing = Outgoing::new(site.config.write_timeout, Code::Internal);
    let decision = progress.decision();
    let denial = decision.as_deref().and_then(Decision::denial);
    let bytes = refusal(error, denial, true, head_only);
    progress.set_head(bytes.windows(4).position(|end| end == b"\r\n\r\n").map_or(0, |end| end + 4));
    outgoing.push(Piece::Bytes(bytes));
    let send = poll_fn(|context| outgoing.poll_send(context, &client.connection).map_err(fault));
    let result = timeout(site.config.linger, send).await;
    progress.sent(outgoing.take_written());
    match result {
        Ok(Ok(())) => Next::Close,
        _ => Next::Reset,
    }
}

/// Ends the connection. A client that is still sending would get a reset, and lose the answer with it, if its bytes
/// were not read for a while (RFC 9112, section 9.6).
async fn close(client: &Client, inbound: &mut Inbound<'_>, linger: Duration) {
    client.connection.end_writing();
    // Over when the client has closed its side, or has had its time.
    let _ = timeout(linger, inbound.discard()).await;
}
