//! One attempt at one origin, up to the head of the response: a connection, the exchange on it, and a second connection if
//! the first was dead before the exchange began.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::timeout;

use super::arriving::Arriving;
use super::connect;
use super::endpoint::{Endpoint, Scheme};
use super::exchange::{Failure, Interim, Terms, exchange};
use super::origins::Origins;
use super::payload::Payload;
use super::place::{Join, Lease, Opening, Place};
use super::request::{Passing, Request, is_idempotent};
use super::traced::Traced;
use super::upload::Upload;
use crate::clock;
use crate::error::{Code, Error, Result};
use crate::net::Connection;
use crate::pool::{PoolState, Slice};
use crate::stream::{ResponseHead, Timings};
use crate::sync::Arc;
use crate::sys::boxed;
use crate::wire::{BodyFraming, Handshake, encode_request};

/// The head of a response, the bytes after it in the same read, and the rest of the body: on the heap, because it is passed on
/// a dozen times, and moving its bytes took 1,300 instructions a request.
pub(super) type Answer = (ResponseHead, Slice, Box<Arriving>);

/// The failure of an attempt.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) error: Error,
    /// The body of the request, if no byte of the request was sent: another origin may get it, even if it is not safe
    /// to repeat.
    pub(super) unsent: Option<Payload>,
    /// The address of the connection, if there was one.
    pub(super) address: Option<SocketAddr>,
}

impl Failed {
    fn before_sending(error: Error, body: Payload) -> Self {
        Self { error, unsent: Some(body), address: None }
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self { error, unsent: None, address: None }
    }
}

/// Sends `request` to the endpoint beside its authority, whose place is `place`. The endpoint and body in `request` are
/// ignored.
pub(super) async fn attempt(
    origins: &Origins,
    place: Arc<Place>,
    target: (&Endpoint, &str),
    request: &Request,
    body: Payload,
    interim: &Interim<'_>,
) -> std::result::Result<Answer, Failed> {
    let known = Arc::clone(&place);
    known.tally.begin();
    let traced = Traced::begin(request, &known);
    let answer = ask(origins, place, target, request, body, interim, traced.as_ref()).await;
    if let Some(traced) = traced {
        let answer = answer.as_ref().map(|(head, ..)| head);
        traced.end(answer.map_err(|failed| (&failed.error, failed.address)));
    }
    match &answer {
        Ok((head, ..)) => known.tally.answered(head),
        Err(failed) => known.failed(&failed.error, failed.address, request.reports),
    }
    answer
}

async fn ask(
    origins: &Origins,
    place: Arc<Place>,
    (endpoint, authority): (&Endpoint, &str),
    request: &Request,
    body: Payload,
    interim: &Interim<'_>,
    traced: Option<&Traced<'_>>,
) -> std::result::Result<Answer, Failed> {
    let Request { method, target, headers, timeouts, .. } = request;
    let framing = body.framing();
    let encode = || {
        let mut head = encode_request(method, target, authority, headers, framing)?;
        if let Some(traced) = traced {
            traced.tell(&mut head);
        }
        Ok(head)
    };
    let head = encode()?;
    let handshake = (framing == BodyFraming::Tunnel).then(|| Handshake::of(headers)).transpose()?;
    admit(origins).await?;
    let upload = if request.passing == Passing::Call { true } else { body.gather(&origins.limits).await? };
    let started = clock::now();
    let mut lease = match origins.lease(place, endpoint, timeouts.queue, upload, request.is_proven).await {
        Ok(lease) => lease,
        Err(error) => return Err(Failed::before_sending(error, body)),
    };
    lease.reports = request.reports;
    admit(origins).await?;
    let terms = Terms {
        pool: &origins.pool,
        limits: &origins.limits,
        reads: origins.reads,
        timeouts,
        method,
        handshake,
        timings: Timings { queue: clock::since(started), ..Timings::default() },
        reused: true,
        in_frames: request.in_frames,
    };
    send(origins, lease, terms, (head, &encode), request.passing, body, interim).await
}

/// Sends the request under `lease`, once more if the connection was dead. Its head is given, and made anew then.
async fn send(
    origins: &Origins,
    mut lease: Lease,
    mut terms: Terms<'_>,
    (mut head, encode): (Vec<u8>, &(dyn Fn() -> Result<Vec<u8>> + Sync)),
    passing: Passing,
    mut body: Payload,
    interim: &Interim<'_>,
) -> std::result::Result<Answer, Failed> {
    let mut is_first = true;
    loop {
        let same = body.again();
        let is_idempotent = is_idempotent(terms.method) || cfg!(all(test, planted_bug = "unsafe-retry"));
        let may_repeat = same.is_some() && is_idempotent;
        terms.reused = lease.begin(is_first, may_repeat);
        if !terms.reused {
            // Boxed, because most requests do not need its 1.5 KB.
            if let Err(error) = boxed(|| open(origins, &mut lease, &mut terms)).await {
                return Err(Failed::before_sending(error, body));
            }
        }
        lease.count_request();
        let mut upload = Upload::new(head, body, terms.timeouts.between_bytes, passing != Passing::Body);
        let exchanged = exchange(lease.take_limit(), lease.connection(), &mut upload, &terms, interim).await;
        // An origin may close an idle connection at any time, or write stray bytes to it, also while a request is on its
        // way (RFC 9112, section 9.3.1). That cannot happen on a new connection, so there is one retry. What it has refused,
        // it has not looked at (RFC 9113, section 8.7).
        let is_refused = lease.connection().was_refused();
        let repeats = is_first && (terms.reused && may_repeat || is_refused);
        body = match (exchanged, same) {
            (Ok(answered), Some(same)) if repeats && answered.is_of_idleness() => same,
            (Ok(answered), _) => return Ok(Arriving::new(answered, lease, upload, &terms)),
            (Err(Failure { unanswered: true, .. }), Some(same)) if repeats => same,
            (Err(Failure { error, .. }), same) => {
                let unsent = same.filter(|_| is_refused);
                return Err(Failed { error, unsent, address: lease.address() });
            }
        };
        lease.place().count(|counts| counts.retried += 1);
        is_first = false;
        head = encode()?;
    }
}

/// Finds a stream for `lease`, or opens a connection for it.
async fn open(origins: &Origins, lease: &mut Lease, terms: &mut Terms<'_>) -> Result<()> {
    let place = Arc::clone(lease.place());
    // What switches to another protocol does so over HTTP/1.1 (RFC 9113, section 8.6).
    while terms.handshake.is_none() {
        match place.join() {
            Join::Stream(stream) => {
                lease.put(stream);
                terms.reused = true;
                return Ok(());
            }
            Join::Wait(opening) => opening.wait().await?,
            Join::Open(opening) => return share(origins, lease, terms, opening).await,
            Join::Alone => break,
        }
    }
    let connection = connect(origins, lease, terms, false).await?;
    lease.put(Box::new(connection));
    Ok(())
}

/// Opens a connection for `lease`, and for the requests after it if the origin speaks HTTP/2.
async fn share(origins: &Origins, lease: &mut Lease, terms: &mut Terms<'_>, opening: Opening) -> Result<()> {
    let connected = connect(origins, lease, terms, true).await;
    let is_prior = lease.place().endpoint.scheme() == Scheme::Http;
    match connected {
        Ok(connection) if is_prior || connection.is_http2() => lease.put(opening.share(connection)),
        Ok(connection) => {
            opening.alone();
            lease.put(Box::new(connection));
        }
        Err(error) => {
            opening.fail(&error);
            return Err(error);
        }
    }
    Ok(())
}

async fn connect(
    origins: &Origins,
    lease: &Lease,
    terms: &mut Terms<'_>,
    offers_http2: bool,
) -> Result<Connection> {
    let place = lease.place();
    let Terms { timeouts, timings, .. } = terms;
    let connection = connect::open(place, &origins.tls, offers_http2, timeouts, timings).await?;
    place.count(|counts| counts.opened += 1);
    let Timings { resolve, connect, tls, .. } = terms.timings;
    place.tally.connected(resolve + connect + tls);
    Ok(connection)
}

/// `asked` within the time limit of one attempt.
pub(super) async fn limited(
    limit: Option<Duration>,
    place: &Place,
    reports: bool,
    asked: impl Future<Output = std::result::Result<Answer, Failed>>,
) -> std::result::Result<Answer, Failed> {
    let Some(limit) = limit else { return asked.await };
    timeout(limit, asked).await.unwrap_or_else(|_| {
        let detail = format!("the origin did not answer within {limit:?}, the limit of one try");
        let error = Code::FirstByteTimeout.error(detail);
        place.failed(&error, None, reports);
        Err(error.into())
    })
}

/// How long a new request waits for memory: many looks at what clients hold that take nothing (`Site::keep_room`), and no
/// longer than its client would be told to stay away.
const ROOM_WAIT: Duration = Duration::from_secs(1);

/// Established streams may use the rest of a full pool; a new request waits until it is less so.
async fn admit(origins: &Origins) -> Result<()> {
    if origins.pool.state() == PoolState::Full {
        // On the heap: the pool is hardly ever full.
        let room = boxed(|| timeout(ROOM_WAIT, poll_fn(|context| origins.pool.poll_open(context))));
        room.await.map_err(|_| {
            Code::PoolFull.error(format!("the pool was full for {ROOM_WAIT:?}, and takes no new request"))
        })?;
    }
    Ok(())
}
