//! One exchange: a request, what its answer needs, and the sending of the response, whatever it comes from.

use std::borrow::Cow;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc as Plain;
use std::task::{Context, Poll, ready};

use penstock_trace::Trace;
use tokio::time::timeout;

use super::account::Account;
use super::client::Client;
use super::grpc::Call;
use super::in_flight::{awaited, in_flight};
use super::inbound::check_size;
use super::metered::Metered;
use super::moved::Moved;
use super::progress::{Progress, Stopped};
use super::record::Record;
use super::site::Site;
use super::traced::Traced;
use crate::access::Gate;
use crate::app::Queue;
use crate::error::{Code, Error, Result};
use crate::events::{Draining, Leave};
use crate::hub::Wire;
use crate::net::{Called, Fault, Life, Outgoing, Peer, Piece, Stop, Supply, Watch, Wish};
use crate::pressure::Rank;
use crate::sys::boxed;
use crate::wire::{BodyFraming, Incoming};

/// One request, and what it is answered with.
#[derive(Debug)]
pub(super) struct Task<'a> {
    pub(super) site: &'a Site,
    pub(super) thread: usize,
    pub(super) client: &'a Client,
    pub(super) incoming: &'a Incoming,
    pub(super) progress: &'a Progress,
    /// Takes the result, if it is reported.
    pub(super) account: Option<&'a Account<'a>>,
    /// The client offers to switch to WebSocket.
    pub(super) is_tunnel: bool,
    /// The target without the parts that the gate has used, such as a token in its query.
    pub(super) stripped: Option<String>,
    /// The target at the origin, where the application has said it.
    pub(super) target_at: Option<&'a str>,
    /// Decides whether the request is let in, if the route has a gate.
    pub(super) gate: Option<&'a Gate>,
    /// The request is a call of gRPC.
    pub(super) call: Option<Call>,
    /// What is kept of the exchange.
    pub(super) record: &'a Record<'a>,
    /// Its trace, if requests have one.
    pub(super) traced: Option<&'a Traced>,
    /// It is a stream that another process has begun.
    pub(super) moved: Option<&'a Moved>,
}

/// The body of a request, as its head announces it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Announced {
    pub(super) framing: BodyFraming,
    pub(super) expects_continue: bool,
    /// How many bytes it may have; `None` for no limit.
    pub(super) most: Option<u64>,
}

impl Announced {
    /// With a limit on its length.
    ///
    /// # Errors
    /// `REQUEST_TOO_LARGE`
    pub(super) fn within(self, most: Option<u64>) -> Result<Self> {
        if let BodyFraming::Length(length) = self.framing {
            check_size(length, most)?;
        }
        Ok(Self { most, ..self })
    }

    /// Whether there may be something between the head and the end.
    pub(super) fn has_bytes(&self) -> bool {
        !matches!(self.framing, BodyFraming::Empty | BodyFraming::Length(0))
    }
}

/// The origin's response is read on, although the client has left.
pub(super) type Left = Option<Box<Draining>>;

impl<'a> Task<'a> {
    /// A request as it stands, without an account.
    #[inline]
    pub(super) fn new(
        record: &'a Record<'a>,
        traced: Option<&'a Traced>,
        thread: usize,
        incoming: &'a Incoming,
    ) -> Self {
        let Record { site, client, progress, .. } = *record;
        Self {
            site,
            thread,
            client,
            incoming,
            progress,
            account: None,
            is_tunnel: false,
            stripped: None,
            target_at: None,
            gate: None,
            call: None,
            record,
            traced,
            moved: None,
        }
    }

    /// The request's trace, if requests have one.
    pub(super) fn trace(&self) -> Option<Plain<Trace>> {
        self.traced.map(|traced| Plain::clone(&traced.trace))
    }

    /// Whether something that is kept of the exchange tells how the cache has answered.
    pub(super) fn tells_of_cache(&self) -> bool {
        self.traced.is_some() || self.site.log.as_ref().is_some_and(|log| log.format.tells_of_cache())
    }

    /// A body that may go on for hours after a head of `status`, and is told of meanwhile if the request's trace is kept.
    pub(super) fn followed(&self, status: Option<u16>, supply: Supply) -> Supply {
        match self.traced {
            Some(traced) => traced.follow(self.record, status, supply),
            None => supply,
        }
    }

    /// The response that begins is a stream of events.
    pub(super) fn begin_events(&self) {
        self.client.keep_backlog(self.site.config.event_backlog);
        self.progress.note_events(self.site.supplies.ledger.network.open(self.client.looked()));
    }

    /// How a subscriber's events get to the client: past the sending of the response, unless they are looked at there.
    pub(super) fn wire(&self, chunked: bool) -> Wire {
        let is_limited = self.progress.allotment().is_some_and(|allotment| allotment.is_limited());
        let is_followed = self.traced.is_some_and(|traced| traced.trace.context.is_sampled);
        if is_limited || is_followed {
            Wire::through(chunked)
        } else {
            Wire::over(&self.client.connection, chunked)
        }
    }

    /// Whether the client of an event stream comes back by itself: what reads the answer to a GET does (HTML, 9.2), and the answer
    /// to a POST is paid for, and given all the time there is.
    pub(super) fn comes_back(&self) -> bool {
        self.incoming.method() == "GET"
    }

    /// What is said at the end of an event stream that ends because no more is begun.
    fn farewell(&self) -> String {
        if self.comes_back() { self.site.retry() } else { String::new() }
    }

    /// What has been sent so far.
    pub(super) fn note_sent(&self, outgoing: &mut Outgoing) {
        self.progress.set_payload(outgoing.payload());
        self.progress.sent(outgoing.take_written());
    }

    /// Whether to go on.
    pub(super) fn check(&self) -> Result<()> {
        if self.progress.has_left() {
            return Err(gone());
        }
        self.progress.check_stopped()
    }

    /// As [`Task::check`], but a body of `events` in `outgoing` that is stopped ends, once, after the last whole event, and is
    /// sent to that end.
    #[inline]
    pub(super) fn check_or_end(&self, events: bool, ended: &mut bool, outgoing: &mut Outgoing) -> Result<()> {
        if events && self.progress.is_asked() {
            self.end_if_stopped(ended, outgoing);
        }
        if *ended { Ok(()) } else { self.check() }
    }

    #[cold]
    fn end_if_stopped(&self, ended: &mut bool, outgoing: &mut Outgoing) {
        if self.progress.is_stopped() && !std::mem::replace(ended, true) {
            // A client whose permission is withdrawn gets no more events.
            outgoing.end_early(self.progress.is_draining().then(|| self.farewell()));
            self.progress.close(true);
        }
    }

    /// A body on its tenant's account, if it has one.
    pub(super) fn metered(&self, supply: Supply) -> Supply {
        let Some(allotment) = self.progress.allotment() else { return supply };
        self.progress.meter();
        Supply::Source(Box::new(Metered::new(supply, allotment)))
    }

    /// What the head says of the body, unless the request is refused for its head.
    pub(super) fn announced(&self) -> Result<Announced> {
        let Self { site, incoming, progress, client, .. } = self;
        let (framing, expects_continue) = match self.moved {
            // The process before has read all of it.
            Some(_) => (BodyFraming::Empty, false),
            None => (incoming.body()?, incoming.expects_continue()?),
        };
        check_open(site)?;
        progress.close(site.parts_from(client) || !incoming.keeps_alive());
        Ok(Announced { framing, expects_continue, most: None })
    }

    /// Lets the request in, or refuses it. A stream that another process has begun goes on.
    ///
    /// # Errors
    /// `OVERLOADED`.
    pub(super) fn let_in(&self) -> Result<()> {
        if self.moved.is_some() { Ok(()) } else { self.site.pressure().admit(self.rank()) }
    }

    /// As [`Task::let_in`], to the application.
    pub(super) fn let_in_to(&self, queue: &Queue) -> Result<()> {
        self.site.pressure().admit_to_application(self.rank(), || queue.wait())
    }

    fn rank(&self) -> Rank {
        Rank::request(self.site.is_proven(self.client))
    }

    /// For an answer that takes no body: a request that has one is told `why` not.
    pub(super) fn refuse_body(&self, why: &'static str) -> Result<()> {
        if self.announced()?.has_bytes() {
            return Err(Code::BadRequestBody.error(why));
        }
        Ok(())
    }

    /// What a response says of https (RFC 6797): nothing where it goes out in plain.
    pub(super) fn hsts(&self) -> Option<&'a [u8]> {
        self.site.hsts(self.client)
    }

    /// Path and query that are asked for.
    pub(super) fn target(&self) -> Cow<'_, str> {
        match &self.stripped {
            Some(target) => Cow::Borrowed(target),
            None => self.incoming.origin_form(),
        }
    }
}

fn check_open(site: &Site) -> Result<()> {
    if site.is_closed() {
        return Err(Code::Draining.error("the time for requests to finish is over"));
    }
    Ok(())
}

/// From now on the exchange is told when the site is closed.
pub(super) fn live(task: &Task<'_>) -> Result<Life> {
    let site = task.site;
    let life = Life::new(&site.clock, task.progress.began());
    // Looked at after the clock knows of this exchange, as it is set before the clock tells: one of the two is seen.
    check_open(site)?;
    Ok(life)
}

/// Carries `answer` out, listens to the client meanwhile, and sees to it that both end when everything does. Both are the
/// caller's: as arguments they would be moved, and lie here twice.
pub(super) async fn beside(
    task: &Task<'_>,
    life: &Life,
    mut listen: Pin<&mut impl Future<Output = Error>>,
    mut answer: Pin<&mut impl Future<Output = Result<()>>>,
) -> Result<()> {
    let Task { site, progress, .. } = *task;
    let mut interrupts = Interrupts::default();
    let result = {
        let aside = poll_fn(|context| {
            life.answer(|| in_flight(task.record, life, awaited(task.record, task.gate.is_some())));
            interrupts.poll(context, site, progress, life, listen.as_mut())
        });
        let mut aside = Called::new(aside);
        poll_fn(|context| {
            if progress.is_frozen() && ready!(progress.poll_given(context)) {
                return Poll::Ready(Ok(()));
            }
            if let Poll::Ready(error) = aside.poll(context) {
                return Poll::Ready(Err(error));
            }
            answer.as_mut().poll(context)
        })
        .await
    };
    result.map_err(|error| interrupts.explain(error))
}

/// What ends an exchange from outside: a client that leaves or sends what it may not, and the end of the site.
#[derive(Debug, Default)]
pub(super) struct Interrupts {
    is_over: bool,
    /// Runs after the end of the site.
    overdue: Watch,
    trouble: Option<Error>,
}

impl Interrupts {
    /// Looks at the client and the site, and notes in `progress` what [`Task::check`] finds there. Ready when the exchange has
    /// to end at once.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        site: &Site,
        progress: &Progress,
        life: &Life,
        listen: Pin<&mut impl Future<Output = Error>>,
    ) -> Poll<Error> {
        if !self.is_over {
            match life.wish(context) {
                Wish::GoOn => {}
                Wish::Move => progress.ask_to_move(),
                Wish::End => {
                    self.is_over = true;
                    progress.stop(Stopped::Draining);
                    self.overdue.start(Some(site.config.linger));
                }
            }
        }
        if self.overdue.poll_expired(context).is_ready() {
            return Poll::Ready(Code::Draining.error("the client took its last bytes too slowly"));
        }
        if self.trouble.is_none() {
            if let Poll::Ready(error) = listen.poll(context) {
                progress.leave();
                self.trouble = Some(error);
            }
        }
        Poll::Pending
    }

    /// The reason for a failure: an error of the client's rather than its consequence.
    pub(super) fn explain(self, error: Error) -> Error {
        self.trouble.unwrap_or(error)
    }
}

/// Does what needs the task, and does not wait.
pub(super) async fn at_once<T>(work: impl FnOnce(&mut Context<'_>) -> T) -> T {
    let mut work = Some(work);
    poll_fn(|context| work.take().map_or(Poll::Pending, |work| Poll::Ready(work(context)))).await
}

/// Sends the head that is in `outgoing` and the body that is attached to it, or goes on with that. The future ends when all
/// of it is with the kernel. `leave`: whether the rest is read on if the client leaves.
///
/// # Errors
/// What went wrong.
pub(super) async fn send(
    task: &Task<'_>,
    leave: &Leave,
    is_events: bool,
    left: Left,
    outgoing: &mut Outgoing,
    mut drive: impl FnMut(&mut Context<'_>),
) -> Result<()> {
    let mut ended = false;
    let sent = poll_fn(|context| {
        drive(context);
        task.check_or_end(is_events, &mut ended, outgoing)?;
        let sent = outgoing.poll_send(context, &task.client.connection);
        task.progress.sent(outgoing.take_written());
        if sent.is_pending() && task.progress.moves() {
            task.rest(context, outgoing);
        }
        sent.map_err(|error| {
            let is_visible = outgoing.ends_visibly() && !cfg!(all(test, planted_bug = "failed-events-reset"));
            if is_events && matches!(error, Fault::Source(_)) && is_visible {
                task.progress.end_visibly();
            }
            fault(error)
        })
    })
    .await;
    task.note_sent(outgoing);
    if sent.is_err() && !outgoing.has_begun() {
        // The client has not seen the head, and can still be told what went wrong.
        task.progress.begin(0);
        task.progress.set_payload(0);
    }
    if is_events && sent.is_ok() {
        task.client.keep_any_backlog(task.site.config.event_backlog);
    }
    if let Err(error) = &sent {
        let go_on = |context: &mut Context<'_>| {
            drive(context);
            !task.progress.is_stopped()
        };
        read_on(task, error, leave, left, outgoing, go_on).await;
    }
    sent
}

/// After a client that has left, reads the rest of the body as `leave` says, so that the origin can finish; while `go_on`,
/// which is called before each read, is true.
pub(super) async fn read_on(
    task: &Task<'_>,
    error: &Error,
    leave: &Leave,
    left: Left,
    outgoing: &mut Outgoing,
    go_on: impl FnMut(&mut Context<'_>) -> bool,
) {
    if !is_leaving(error) {
        return;
    }
    let draining = match left {
        // Its time has begun.
        Some(draining) if leave.drains() => Some(draining),
        Some(_) => None,
        None => leave.begin(&task.site.supplies.meter),
    };
    if let Some((draining, supply)) = draining.zip(outgoing.detach()) {
        // On the heap, because few clients leave.
        boxed(|| draining.run(supply, go_on)).await;
    }
}

/// Sends a whole response; returns whether the kernel took all of it in time.
pub(super) async fn send_whole(site: &Site, client: &Client, bytes: Vec<u8>, progress: &Progress) -> bool {
    let mut outgoing = Outgoing::new(site.config.write_timeout, Code::Internal);
    progress.set_head(bytes.windows(4).position(|end| end == b"\r\n\r\n").map_or(0, |end| end + 4));
    outgoing.push(Piece::Bytes(bytes));
    let send = poll_fn(|context| outgoing.poll_send(context, &client.connection).map_err(fault));
    let result = timeout(site.config.linger, send).await;
    progress.sent(outgoing.take_written());
    matches!(result, Ok(Ok(())))
}

/// Whether a request that failed with `error` may be answered.
pub(super) fn may_answer(error: &Error) -> bool {
    !matches!(error.code(), Code::ClientGone | Code::RequestTruncated | Code::BadResponse)
}

/// Whether a request that failed with `error` gets a refusal: nothing of a response was sent.
pub(super) fn may_refuse(error: &Error, progress: &Progress) -> bool {
    progress.status().is_none() && !progress.is_torn() && may_answer(error)
}

/// Whether `error` says that the client has left, or is taken to have.
fn is_leaving(error: &Error) -> bool {
    matches!(error.code(), Code::ClientGone | Code::WriteTimeout)
}

pub(super) fn gone() -> Error {
    Code::ClientGone.error("the client left before the end of the response")
}

pub(super) fn fault(fault: Fault) -> Error {
    match fault {
        Fault::Source(error) => error,
        Fault::Socket(Stop::Stalled) => Code::WriteTimeout.error("the client took nothing within the limit"),
        Fault::Socket(Stop::Cut) => {
            Code::ClientStalled.error("others needed what the client held, and it took nothing")
        }
        Fault::Socket(Stop::Broken(error)) => Peer::Client.broken(&error),
    }
}
