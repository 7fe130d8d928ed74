//! One request to one origin, up to the head of its response: a connection, the exchange on it, and a second one where the
//! first was dead before it began.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::arriving::Arriving;
use super::connect;
use super::endpoint::Endpoint;
use super::exchange::{Failure, Interim, Terms, exchange};
use super::origins::Origins;
use super::payload::Payload;
use super::place::Place;
use super::request::{Request, is_idempotent};
use super::upload::Upload;
use crate::error::{Code, Error, Result};
use crate::pool::{PoolState, Slice};
use crate::stream::{ResponseHead, Timings};
use crate::sync::Arc;
use crate::wire::{BodyFraming, Handshake, encode_request};

/// The head of a response, what came after that in the same read, and the body from there on.
pub(super) type Answer = (ResponseHead, Slice, Arriving);

/// Why there is no answer.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) error: Error,
    /// The body of the request, where nothing of that was sent: another origin may be given it, whatever it asks for.
    pub(super) unsent: Option<Payload>,
    /// Where the connection led, if there was one.
    pub(super) address: Option<SocketAddr>,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self { error, unsent: None, address: None }
    }
}

/// Asks the origin at the endpoint that comes with its authority, whose place is `place`; that of `request`, and its body,
/// are not looked at.
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
    let answer = ask(origins, place, target, request, body, interim).await;
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
    mut body: Payload,
    interim: &Interim<'_>,
) -> std::result::Result<Answer, Failed> {
    let framing = body.framing();
    let Request { method, target, headers, timeouts, .. } = request;
    let encode = || encode_request(method, target, authority, headers, framing);
    let mut head = encode()?;
    let handshake = (framing == BodyFraming::Tunnel).then(|| Handshake::of(headers)).transpose()?;
    admit(origins)?;
    let upload = body.gather(&origins.limits).await?;
    let started = Instant::now();
    let mut lease = match origins.lease(place, endpoint, timeouts.queue, upload, request.is_proven).await {
        Ok(lease) => lease,
        Err(error) => return Err(Failed { error, unsent: Some(body), address: None }),
    };
    lease.reports = request.reports;
    let queue = started.elapsed();
    admit(origins)?;
    let idempotent = is_idempotent(method);
    let mut terms = Terms {
        pool: &origins.pool,
        limits: &origins.limits,
        reads: origins.reads,
        timeouts,
        method,
        handshake,
        timings: Timings { queue, ..Timings::default() },
        reused: true,
    };
    loop {
        let again = body.again().filter(|_| idempotent);
        let reuses = terms.reused;
        terms.reused = lease.begin(reuses);
        if !terms.reused {
            // On the heap, because most requests have no use for its 1.5 KB.
            let opening = Box::pin(connect::open(lease.place(), &origins.tls, timeouts, &mut terms.timings));
            match opening.await {
                Ok(connection) => lease.put(connection),
                Err(error) => return Err(Failed { error, unsent: Some(body), address: None }),
            }
            lease.place().count(|counts| counts.opened += 1);
            let Timings { resolve, connect, tls, .. } = terms.timings;
            lease.place().tally.connected(resolve + connect + tls);
        }
        lease.count_request();
        let mut upload = Upload::new(head, body, timeouts.between_bytes);
        // An origin may close an idle connection at any time, or write to it what no request asked for, also while a
        // request is on its way to it (RFC 9112, section 9.3.1). That cannot be so of a new connection: it happens once.
        let again = again.filter(|_| terms.reused);
        let same = match (exchange(lease.connection(), &mut upload, &terms, interim).await, again) {
            (Ok(answered), Some(same)) if answered.is_of_idleness() => same,
            (Ok(answered), _) => return Ok(Arriving::new(answered, lease, upload, &terms)),
            (Err(Failure { unanswered: true, .. }), Some(same)) => same,
            (Err(failure), _) => {
                return Err(Failed { address: lease.address(), ..failure.error.into() });
            }
        };
        lease.place().count(|counts| counts.retried += 1);
        terms.reused = false;
        body = same;
        head = encode()?;
    }
}

/// `asked` within the limit of one try.
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

/// Established streams may use the last of the pool; new work is told at once.
fn admit(origins: &Origins) -> Result<()> {
    if origins.pool.state() == PoolState::Full {
        return Err(Code::PoolFull.error("the pool is full, and takes no new request before it is less so"));
    }
    Ok(())
}
