//! One connection from a client, from accept to close.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use super::account::Account;
use super::answer::refusal;
use super::client::Client;
use super::clients::Counted;
use super::exchange::{Task, may_answer, may_refuse, send_whole};
use super::grpc;
use super::inbound::Inbound;
use super::moved::Moved;
use super::network;
use super::progress::Progress;
use super::record::Record;
use super::respond::{Application, Responder};
use super::route::Service;
use super::site::{Load, Site};
use super::traced::Traced;
use crate::access::Decision;
use crate::clock;
use crate::drain::Phase;
use crate::error::{Code, Error, Result};
use crate::holder;
use crate::net::{Connection, Socket};
use crate::sync::Arc;
use crate::sys::boxed;
use crate::takeover::{self, Turn};
use crate::wire::{BodyFraming, GRPC, Incoming};
use crate::work::{Work, doing};

/// The next step of the connection after an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Another request.
    Request,
    /// It ends once the client has what was sent.
    Close,
    /// It ends so that what was sent cannot be taken for whole.
    Reset,
    /// It is the next process's.
    Given,
}

impl Next {
    /// The rule for an exchange whose response was begun, or that is not answered.
    fn after(result: &Result<()>, progress: &Progress, inbound: &Inbound<'_>) -> Self {
        match result {
            _ if progress.is_given() => Self::Given,
            Ok(()) if progress.closes() => Self::Close,
            Ok(()) if inbound.is_at_boundary() => Self::Request,
            // The rest of the body would be taken for the next request.
            Ok(()) => Self::Close,
            Err(_) if progress.ends_visibly() || cfg!(all(test, planted_bug = "cut-body-ends-orderly")) => {
                Self::Close
            }
            Err(_) => Self::Reset,
        }
    }
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
/// `moved`: another process has begun to answer the first.
pub(super) async fn serve(load: Arc<Load>, client: Client, moved: Option<Box<Moved>>) {
    let site = Arc::clone(&load.site);
    let mut phase = site.phase();
    let mut requests = pin!(requests(&site, load.thread, &client, moved, &mut phase));
    poll_fn(|context| {
        let _doing = doing(Work::Client);
        holder::within(client.holder(), || clock::poll_at_one_time(requests.as_mut(), context))
    })
    .await;
}

/// Ready when everything is to end.
pub(super) async fn closed(phase: &mut watch::Receiver<Phase>) {
    // An error means that the site is gone.
    let _ = phase.wait_for(|phase| *phase == Phase::Closed).await;
}

async fn requests(
    site: &Site,
    thread: usize,
    client: &Client,
    moved: Option<Box<Moved>>,
    phase: &mut watch::Receiver<Phase>,
) {
    let config = &site.config;
    let mut inbound = Inbound::new(&client.connection, &site.supplies, config);
    if let Some(moved) = moved {
        // On the heap: few connections begin so.
        let next = boxed(|| answer(site, thread, client, &mut inbound, &moved.incoming, Some(&moved))).await;
        drop(moved);
        if !boxed(|| go_on(site, client, &mut inbound, next)).await {
            return;
        }
    }
    loop {
        // On the heap, each for its time: neither waiting for a request nor answering one then needs room for the other.
        let next = match boxed(|| head(client, &mut inbound, phase)).await {
            Ok(Heard::Turn(turn)) if inbound.is_empty() && !site.is_closed() => {
                return give_away(client, turn);
            }
            // What is here and was not read, such as an empty line, would turn the end into a reset. So would a request that comes
            // now, and what the client has not taken of the last answer would be lost.
            Ok(Heard::End | Heard::Turn(_)) => {
                let linger = if client.connection.has_untaken() { config.linger } else { Duration::ZERO };
                return boxed(|| close(client, &mut inbound, linger)).await;
            }
            Ok(Heard::Request(incoming)) => {
                boxed(|| answer(site, thread, client, &mut inbound, &incoming, None)).await
            }
            Err(error) => {
                let progress = Progress::new(site.unread.of(thread));
                let next = boxed(|| refuse(site, client, &error, None, &progress)).await;
                let status = status_of(&error, &progress);
                progress.end(status, Some(&error), 0, progress.elapsed(), None);
                if may_answer(&error) {
                    Record::of_none(site, client, &progress).end(status, Some(&error), None);
                }
                next
            }
        };
        if !go_on(site, client, &mut inbound, next).await {
            return;
        }
    }
}

/// Does what follows an exchange; whether another request may come.
async fn go_on(site: &Site, client: &Client, inbound: &mut Inbound<'_>, next: Next) -> bool {
    match next {
        // It is of one request, and ends with what was sent.
        Next::Request | Next::Close if client.is_stream => client.connection.end_writing(),
        Next::Request => return true,
        Next::Close => boxed(|| close(client, inbound, site.config.linger)).await,
        Next::Reset => client.connection.reset_on_close(),
        Next::Given => {}
    }
    false
}

/// Gives the connection to the process that takes the place of this one. Without a free descriptor it is closed.
fn give_away(client: &Client, turn: Turn) {
    if let Ok(connection) = client.connection.with_socket(Socket::duplicate) {
        takeover::leave(connection, turn);
    }
}

/// What a connection comes to that waits for a request.
enum Heard {
    Request(Incoming),
    /// The client has ended it, or this process does.
    End,
    /// No request has begun, and it may leave for the next process.
    Turn(Turn),
}

impl From<Option<Incoming>> for Heard {
    fn from(incoming: Option<Incoming>) -> Self {
        incoming.map_or(Self::End, Self::Request)
    }
}

/// The next head. The connection comes to its end also when the site is drained before one has begun; and if it is to be given
/// away, to its turn.
async fn head(
    client: &Client,
    inbound: &mut Inbound<'_>,
    phase: &mut watch::Receiver<Phase>,
) -> Result<Heard> {
    {
        let drains = !cfg!(all(test, planted_bug = "idle-connection-outlives-drain"));
        let head = pin!(inbound.head());
        tokio::select! {
            biased;
            head = head => return head.map(Heard::from),
            _ = phase.wait_for(|phase| *phase != Phase::Open), if drains => {}
        }
    }
    if inbound.is_idle() && !client.gives_away() {
        return Ok(Heard::End);
    }
    if inbound.is_idle() {
        let turn = tokio::select! {
            biased;
            head = inbound.head() => return head.map(Heard::from),
            () = closed(phase) => return Ok(Heard::End),
            turn = takeover::turn() => turn,
        };
        // If not, a request has begun meanwhile.
        if inbound.is_idle() {
            return Ok(Heard::Turn(turn));
        }
    }
    tokio::select! {
        biased;
        head = inbound.head() => head.map(Heard::from),
        () = closed(phase) => Ok(Heard::End),
    }
}

/// Answers one request; if it is dropped before its end the connection is reset.
async fn answer(
    site: &Site,
    thread: usize,
    client: &Client,
    inbound: &mut Inbound<'_>,
    incoming: &Incoming,
    moved: Option<&Moved>,
) -> Next {
    let unfinished = Unfinished(&client.connection);
    // Relaxed: a count.
    let number = site.requests.fetch_add(1, Ordering::Relaxed);
    let _active = site.begin_exchange();
    let routes = site.routes();
    let route = routes.find(incoming.method(), || incoming.authority(), &incoming.origin_form());
    let tallies = site.tallies(route);
    let _held = client.hold(tallies.holder);
    let mut progress = Progress::new(tallies.of(thread));
    if let Some(moved) = moved {
        progress.begin_elsewhere(moved.began, moved.status, moved.first_byte);
    }
    let relaying = route.and_then(Service::relaying);
    let account = relaying
        .and_then(|route| Account::open(site.app.as_ref(), &route.relay, client, incoming, &progress));
    let gate = relaying.and_then(|route| route.location.gate.as_deref());
    let traced = Traced::begin(site, route.is_none_or(Service::is_traffic), incoming);
    let record = Record { site, client, incoming: Some(incoming), service: route, progress: &progress };
    let open = Open { record: &record, traced: traced.as_ref(), is_closed: false };
    let mut task = Task::new(&record, traced.as_ref(), thread, incoming);
    (task.account, task.gate, task.moved) = (account.as_deref(), gate, moved);
    let entered = enter(site, client, incoming, moved);
    // On the heap, so that a stream on a native route, which may stay for hours, keeps no room for the other lane.
    let result = match route {
        _ if entered.is_err() => entered.map(|_| ()),
        Some(Service::Relay(route)) => route.respond(&mut task, inbound).await,
        Some(Service::Topics(topics)) => boxed(|| topics.respond(&mut task, inbound)).await,
        Some(Service::Pages(pages)) => boxed(|| pages.respond(&mut task, inbound)).await,
        None => boxed(|| async { Application(site.app.as_ref()).respond(&mut task, inbound).await }).await,
    };
    let error = result.as_ref().err();
    site.prove(client, error);
    if let Some(account) = account {
        if progress.is_given() { account.hand_on() } else { account.close(error) }
    }
    let status = progress.status().unwrap_or_else(|| error.map_or(0, |error| status_of(error, &progress)));
    let kept = traced.as_ref().and_then(Traced::kept);
    progress.end(status, error, inbound.take_received(), progress.elapsed(), kept);
    if network::is_sampled(number) && route.is_none_or(Service::is_traffic) {
        record.look();
    }
    let next = match &result {
        Err(error) if may_refuse(error, &progress) => {
            // On the heap, because few requests are refused, and each would wait for its end with the room for it.
            boxed(|| refuse(site, client, error, Some(incoming), &progress)).await
        }
        result => Next::after(result, &progress, inbound),
    };
    open.close(status, error);
    std::mem::forget(unfinished);
    next
}

/// Counts the request, if its client may have one more and the certificate of the connection is for its host.
///
/// # Errors
/// `ADDRESS_LIMITED`, `MISDIRECTED_REQUEST`.
fn enter(
    site: &Site,
    client: &Client,
    incoming: &Incoming,
    moved: Option<&Moved>,
) -> Result<Option<Counted>> {
    let counted = if moved.is_some() { None } else { site.clients.request(client.addresses.ip())? };
    site.check_host(client, incoming)?;
    Ok(counted)
}

/// An exchange that is recorded at its end, or when the engine's close drops it.
struct Open<'a> {
    record: &'a Record<'a>,
    traced: Option<&'a Traced>,
    is_closed: bool,
}

impl Open<'_> {
    /// It is over, with what the client got.
    fn close(mut self, status: u16, error: Option<&Error>) {
        self.end(status, error);
    }

    fn end(&mut self, status: u16, error: Option<&Error>) {
        let _doing = doing(Work::Log);
        self.is_closed = true;
        if let Some(traced) = self.traced {
            traced.end(self.record, status, error);
        }
        self.record.end(status, error, self.traced.map(|traced| &*traced.trace));
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if !self.is_closed {
            let error = Code::EngineClosed.error("the engine was closed before the end of the exchange");
            self.end(self.record.progress.status().unwrap_or_default(), Some(&error));
        }
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

/// Tells the client why there is no answer.
async fn refuse(
    site: &Site,
    client: &Client,
    error: &Error,
    incoming: Option<&Incoming>,
    progress: &Progress,
) -> Next {
    if !may_answer(error) {
        // It left between two requests, or within a head. The responses before are whole, and may still be on their way.
        return Next::Close;
    }
    // Relaxed: a count.
    site.refused.fetch_add(1, Ordering::Relaxed);
    let decision = progress.decision();
    let denial = decision.as_deref().and_then(Decision::denial);
    let web = progress.web();
    let goes_on = web.is_none() && incoming.is_some_and(|incoming| may_go_on(site, client, error, incoming));
    let bytes = if web.is_some() || incoming.is_some_and(grpc::is_call) {
        let status = denial.map_or(error.code().status(), |denial| denial.status);
        let detail = denial.and_then(|denial| denial.detail.as_deref()).unwrap_or(error.code().meaning());
        let (kind, fields) = web.as_ref().map_or((GRPC, &[][..]), |web| (&*web.kind, &*web.fields));
        grpc::refusal(error, status, detail, kind, fields)
    } else {
        let head_only = incoming.is_some_and(|incoming| incoming.method() == "HEAD");
        refusal(error, denial, site.hsts(client), !goes_on, head_only)
    };
    match send_whole(site, client, bytes, progress).await {
        true if goes_on => Next::Request,
        true => Next::Close,
        false => Next::Reset,
    }
}

/// Whether the connection serves again after the refusal: while there is too much to do, a client that has to connect anew, by a
/// handshake perhaps, costs more than what it is refused.
fn may_go_on(site: &Site, client: &Client, error: &Error, incoming: &Incoming) -> bool {
    error.code() == Code::Overloaded
        && matches!(incoming.body(), Ok(BodyFraming::Empty))
        && incoming.keeps_alive()
        && incoming.minor_version == 1
        && !site.parts_from(client)
}

/// Ends the connection. A client that is still sending would get a reset, and lose the answer with it, if its bytes
/// were not read for a while (RFC 9112, section 9.6).
pub(super) async fn close(client: &Client, inbound: &mut Inbound<'_>, linger: Duration) {
    client.connection.end_writing();
    // Over when the client has closed its side, or has had its time.
    let _ = timeout(linger, inbound.discard()).await;
}
