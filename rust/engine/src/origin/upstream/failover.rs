//! Failover: attempts at one origin after the other, up to a head for the client.
//!
//! If the first attempt is slow, a second runs beside it (a hedge): the first answer counts, and the other attempt is
//! dropped, which closes its connection. No byte of a failed attempt has reached the client, except interim responses. A
//! request is sent again only if it is safe to repeat, or if no byte of it was sent.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc as Plain;
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep, sleep};

use super::resume::Resume;
use super::turn::is_of_origin;
use super::{Reason, Turn, Upstream, checks};
use crate::error::{Code, Result};
use crate::origin::attempt::{Answer, Failed, attempt, limited};
use crate::origin::body::Body;
use crate::origin::exchange::Interim;
use crate::origin::origins::Origins;
use crate::origin::payload::Payload;
use crate::origin::request::Request;
use crate::pool::Slice;
use crate::stream::ResponseHead;
use crate::sync::Arc;
use crate::wire::is_safe;

/// The result of one attempt.
type Ended = (Turn, std::result::Result<Answer, Failed>);

type Running<'a> = Pin<Box<dyn Future<Output = Ended> + Send + 'a>>;

/// One request, and the attempts so far.
struct Asking<'a> {
    origins: &'a Plain<Origins>,
    upstream: &'a Arc<Upstream>,
    request: &'a Request,
    interim: &'a Interim<'a>,
    key: u64,
    /// The body for the next attempt; `None` if it is gone.
    body: Option<Payload>,
    /// Whether it may be sent again although an origin may have received it.
    is_repeatable: bool,
    tried: Vec<u64>,
    /// The attempt for which a hedge was begun, while it runs.
    slow: Option<u64>,
    running: Vec<Running<'a>>,
}

/// Sends `request` with `body` to an origin of `upstream`.
///
/// # Errors
/// The failure of the last attempt, with its origin's name; `QUEUE_FULL` if there is no origin to
/// try.
pub(in crate::origin) async fn ask(
    origins: &Plain<Origins>,
    upstream: Arc<Upstream>,
    request: Box<Request>,
    body: Payload,
    interim: &Interim<'_>,
) -> Result<(ResponseHead, Slice, Body)> {
    checks::ensure(&upstream, origins);
    let key = upstream.key(&request.target, &request.headers);
    let (turn, answer) = {
        let mut asking = Asking {
            origins,
            upstream: &upstream,
            request: &request,
            interim,
            key,
            is_repeatable: is_safe(&request.method) && body.again().is_some(),
            body: Some(body),
            tried: Vec::new(),
            slow: None,
            running: Vec::new(),
        };
        asking.run().await?
    };
    let (head, rest, arriving) = answer;
    let may_resume = upstream.policy.retries.resume;
    let resume = if may_resume { Resume::of(origins, request, &head.head, key) } else { None };
    Ok((head, rest, Body::followed(arriving, turn, resume)))
}

impl Asking<'_> {
    async fn run(&mut self) -> Result<(Turn, Answer)> {
        let upstream = self.upstream;
        let retries = &upstream.policy.retries;
        let mut hedge = pin!(upstream.hedge().filter(|_| self.is_repeatable).map(sleep));
        let started = Instant::now();
        let mut rejected: Option<(Turn, Answer)> = None;
        if !self.begin(Reason::First) {
            return Err(Code::QueueFull.error("every origin has as many requests under way as it may"));
        }
        loop {
            let ended = poll_fn(|context| self.poll_ended(hedge.as_mut(), context));
            let Some((mut turn, ended)) = ended.await else {
                hedge.set(None);
                let slow = self.tried.last().copied();
                // The first attempt goes on; a second costs as much as a new request.
                let may_hedge = !self.origins.pressure().is_pressed();
                self.slow = slow.filter(|_| may_hedge && self.begin(Reason::Hedge));
                continue;
            };
            self.slow = self.slow.filter(|slow| *slow != turn.seat);
            match ended {
                Ok(answer) => {
                    let status = answer.0.head.status;
                    if upstream.policy.health.statuses.contains(&status) {
                        turn.fail();
                    }
                    if !(self.is_repeatable && retries.statuses.contains(&status)) {
                        upstream.note_latency(started.elapsed());
                        self.give_up_slow();
                        return Ok((turn, answer));
                    }
                    // The client gets it if no other origin has a better one.
                    if self.running.is_empty() && !self.begin(Reason::Retry) {
                        return Ok((turn, answer));
                    }
                    rejected = Some((turn, answer));
                }
                Err(failed) => {
                    turn.end_in(failed.error.code());
                    let error = failed.error.at(&Plain::from(turn.member.endpoint.to_string()));
                    drop(turn);
                    self.body = self.body.take().or(failed.unsent);
                    let goes_on = !self.running.is_empty()
                        || (is_elsewhere_better(error.code()) && self.begin(Reason::Retry));
                    if !goes_on {
                        return rejected.ok_or(error);
                    }
                }
            }
        }
    }

    /// The next attempt that ends; `None` when it is time for a hedge.
    fn poll_ended(
        &mut self,
        hedge: Pin<&mut Option<Sleep>>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Ended>> {
        for place in 0..self.running.len() {
            if let Poll::Ready(ended) = self.running[place].as_mut().poll(context) {
                drop(self.running.swap_remove(place));
                return Poll::Ready(Some(ended));
            }
        }
        match hedge.as_pin_mut() {
            Some(timer) => timer.poll(context).map(|()| None),
            None => Poll::Pending,
        }
    }

    /// If the hedge has an answer and the first origin has none, the first has failed: otherwise an origin that never
    /// answers would take a hedge for each request and never be ejected.
    fn give_up_slow(&mut self) {
        if let Some(slow) = self.slow.take() {
            self.upstream.fail(slow);
        }
    }

    /// Begins an attempt, if there is a body to send, an origin, and a budget for it. Returns whether it has.
    fn begin(&mut self, reason: Reason) -> bool {
        if self.tried.len() >= self.upstream.policy.retries.tries {
            return false;
        }
        let Some(body) = self.body.take() else { return false };
        let Some(turn) = self.upstream.choose(self.key, &self.tried, reason) else {
            self.body = Some(body);
            return false;
        };
        if self.is_repeatable {
            self.body = body.again();
        }
        self.tried.push(turn.seat);
        let (origins, request, interim) = (self.origins, self.request, self.interim);
        let limit = self.upstream.policy.retries.try_timeout.filter(|_| self.is_repeatable);
        self.running.push(Box::pin(async move {
            let member = Plain::clone(&turn.member);
            let target = (&member.endpoint, &*member.authority);
            let place = origins.place(&member.endpoint);
            let known = Arc::clone(&place);
            let asked = attempt(origins, place, target, request, body, interim);
            let ended = limited(limit, &known, request.reports, asked).await;
            (turn, ended)
        }));
        true
    }
}

/// Whether the failure is one for which another origin is tried.
fn is_elsewhere_better(code: Code) -> bool {
    is_of_origin(code) || matches!(code, Code::QueueTimeout | Code::QueueFull)
}
