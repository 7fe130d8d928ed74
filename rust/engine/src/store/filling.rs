//! A fetch on behalf of all who ask for a key: a task of its own, which goes on whoever leaves.

use std::future::poll_fn;
use std::task::Poll;

use tokio::sync::mpsc;

use super::asking::Asking;
use super::body::{Body, Filler, Follower, THIN};
use super::cache::Cache;
use super::fetch::Access;
use super::fill::Leader;
use super::index::Settled;
use super::object::Object;
use super::policy::Unread;
use crate::cache::{
    Answer, Asked, CacheStatus, Fill as Wanted, Held, Lines, Outcome, Refusal, Reply, Request, Span, State,
    Stored, Time, Timing, Why, answer, answered, confirmed, refill, stands_in,
};
use crate::error::{Code, Error};
use crate::origin;
use crate::relay::response_fields;
use crate::stream::{ResponseHead, Stream};
use crate::sync::Arc;
use crate::wire::{Fields, Head, is_one_of};

/// What whoever has had the origin asked gets.
#[derive(Debug)]
pub(super) enum Own {
    /// An interim response; more follows.
    Interim(Head),
    /// A stored response.
    Serve(Fetched),
    /// The origin's answer, which is not stored.
    Pass(Stream, CacheStatus),
    /// Nothing.
    Failed(Error),
}

/// A stored response for whoever has had the origin asked.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) object: Arc<Object>,
    /// What has been done for it.
    pub(super) status: CacheStatus,
    /// The fields that the origin has just sent, if they are more than what is stored.
    pub(super) sent: Option<Fields>,
    /// What there is of it where it does not have all that was asked for.
    pub(super) otherwise: Answer,
    /// Holds what comes until it is followed.
    pub(super) held: Option<Arc<Follower>>,
}

/// What the origin is to be asked, and about what.
pub(super) struct Order {
    pub(super) why: Why,
    pub(super) status: CacheStatus,
    /// What is stored and no longer fresh, or not all that is wanted.
    pub(super) stored: Option<Arc<Object>>,
    /// What other requests have selected, the newest first: any of it may be good for this one.
    pub(super) variants: Vec<Arc<Object>>,
    pub(super) conditions: Fields,
    pub(super) asked: Asked,
    pub(super) is_partial: bool,
}

impl Order {
    pub(super) fn new(why: Why, status: CacheStatus) -> Self {
        let (conditions, asked) = (Fields::default(), Asked::Nothing);
        Self { why, status, stored: None, variants: Vec::new(), conditions, asked, is_partial: false }
    }

    /// What a 304 with the fields `lines` is about.
    fn confirmed(&self, lines: &Lines<'_>, received: Time) -> Option<Arc<Object>> {
        let states = self.variants.iter().map(|object| &object.stored.validators);
        confirmed(states, lines, received).map(|place| Arc::clone(&self.variants[place]))
    }

    /// For these bytes alone.
    pub(super) fn range(&mut self, span: Span) {
        let last = span.end() - 1;
        self.conditions.push(b"Range", format!("bytes={}-{last}", span.start()).as_bytes());
        self.is_partial = true;
    }

    /// For so much.
    pub(super) fn fill(&mut self, wanted: Wanted, request: &Request<'_>) {
        match wanted {
            Wanted::Whole => {}
            Wanted::Span(span) => self.range(span),
            Wanted::Asked => self.range_of(request),
        }
    }

    /// For what the client asks for.
    fn range_of(&mut self, request: &Request<'_>) {
        for (name, value) in request.lines.iter().filter(|(name, _)| is_one_of(name, &["range", "if-range"]))
        {
            self.conditions.push(name, value);
        }
        self.is_partial = true;
    }
}

/// Those who wait at a key for what is fetched. They are told once; if nobody tells them, they look again.
#[derive(Debug)]
pub(super) struct Duty {
    cache: Arc<Cache>,
    asking: Arc<Asking>,
    leader: Option<Leader<Settled>>,
}

impl Duty {
    pub(super) fn new(cache: &Arc<Cache>, asking: &Arc<Asking>, leader: Leader<Settled>) -> Self {
        Self { cache: Arc::clone(cache), asking: Arc::clone(asking), leader: Some(leader) }
    }

    fn tell(mut self, settled: Settled) {
        if let Some(leader) = self.release() {
            leader.settle(settled);
        }
    }

    /// From now on nobody joins.
    fn release(&mut self) -> Option<Leader<Settled>> {
        let leader = self.leader.take()?;
        self.cache.index.with(&self.asking.key, |entry| {
            if entry.fill.as_ref().is_some_and(|other| Arc::ptr_eq(other, leader.fill())) {
                entry.fill = None;
            }
        });
        Some(leader)
    }
}

impl Drop for Duty {
    fn drop(&mut self) {
        drop(self.release());
    }
}

/// One fetch.
pub(super) struct Filling {
    pub(super) access: Access,
    pub(super) asking: Arc<Asking>,
    /// Who else waits.
    pub(super) duty: Option<Duty>,
    /// Who has had it begun, unless nobody is waiting.
    pub(super) own: Option<mpsc::UnboundedSender<Own>>,
    pub(super) order: Order,
    /// The last purge before the origin was asked.
    pub(super) began: u64,
}

#[derive(Debug, PartialEq, Eq)]
enum Next {
    Done,
    Again,
}

impl Filling {
    /// Asks the origin, and sees to what it answers. Ends when the body has come, or nobody wants it.
    ///
    /// # Cancellation
    /// Whoever reads or waits is told that it has failed.
    pub(super) async fn run(mut self) {
        loop {
            let (feed, stream) = self.access.cache.stream();
            let requested = Cache::now();
            self.began = self.access.cache.index.last_purge();
            let fetching = origin::fetch(
                Arc::clone(&self.access.origins),
                self.asking.order(&self.order.conditions),
                feed,
            );
            let ((), next) = tokio::join!(fetching, self.receive(stream, requested));
            if next == Next::Done {
                return;
            }
        }
    }

    /// Once: where nothing was asked about what is stored, nothing leads here.
    fn ask_again(&mut self, wanted: Wanted, request: &Request<'_>) -> Next {
        self.order.asked = Asked::Nothing;
        self.order.variants.clear();
        self.order.conditions = Fields::default();
        self.order.fill(wanted, request);
        Next::Again
    }

    async fn receive(&mut self, stream: Stream, requested: Time) -> Next {
        let arrived = poll_fn(|context| {
            let head = stream.poll_head(context).map_ok(|_| ());
            for interim in stream.take_interim() {
                if let Some(waiting) = &self.own {
                    // Nobody is there if its client has left.
                    drop(waiting.send(Own::Interim(interim)));
                }
            }
            head
        });
        let arrived = arrived.await;
        let received = Cache::now();
        let asking = Arc::clone(&self.asking);
        let own_lines = asking.lines();
        let request = asking.read(&own_lines, received);
        let old = self.order.stored.clone();
        let (Ok(()), Some(ResponseHead { head, .. })) = (&arrived, stream.head()) else {
            let error = arrived.err().unwrap_or_else(|| Code::Internal.error("a head that had come is gone"));
            let rules = &self.access.policy.rules;
            match old.filter(|object| stands_in(&request, &object.stored, rules, received)) {
                Some(object) => self.serve_stale(object),
                None => self.fail(error),
            }
            return Next::Done;
        };
        let lines: Vec<_> = response_fields(head).collect();
        let old = match old {
            None if head.status == 304 => self.order.confirmed(&lines, received),
            old => old,
        };
        let reply = Reply { status: head.status, lines: &lines, timing: Timing { requested, received } };
        self.order.status.forwarded_status = Some(head.status);
        let stored = old.as_ref().map(|object| &object.stored);
        match answered(&request, self.order.asked, stored, reply, &self.access.policy.rules, received) {
            Outcome::Store { stored, span: None } if self.access.has_room(&stored) => {
                let (body, filler) = Body::new(&self.access.cache.budget);
                let object = Object::whole(*stored, head.reason(), self.access.item(&asking.key), body);
                let object = Arc::new(object.tagged(self.access.tags()));
                self.order.status.stored = true;
                self.put(&object, old.as_deref());
                // Nobody follows it yet, and it is not abandoned.
                let held = Some(Arc::new(Body::follow(filler.body(), 0..0)));
                let sent: Fields =
                    lines.iter().filter(|(name, _)| !is_one_of(name, &["age"])).copied().collect();
                let fetched =
                    Fetched { sent: Some(sent), held: held.clone(), ..self.fetched(Arc::clone(&object)) };
                self.tell(Settled::Look(held), Own::Serve(fetched));
                if self.copy(&stream, filler, &object).await {
                    self.access.cache.admit(&asking.key, &object);
                }
            }
            Outcome::Store { stored, span: Some(span) } if span.len() <= self.access.policy.max_object => {
                self.add(stream, *stored, None, span, old.as_deref()).await;
            }
            Outcome::Extend { stored, span } if span.len() <= self.access.policy.max_object => {
                self.add(stream, *stored, old.as_deref(), span, old.as_deref()).await;
            }
            Outcome::Store { .. } | Outcome::Extend { .. } => {
                self.pass(stream, old.as_ref(), Held::Dropped, Some(false));
            }
            Outcome::Update { stored, dropped } => match old {
                Some(old) => {
                    let object = Arc::new(old.updated(*stored).tagged(self.access.tags()));
                    if dropped.is_some() {
                        self.forget(&old);
                    } else {
                        self.renew(&old, &object);
                    }
                    let rules = &self.access.policy.rules;
                    if request.method != "HEAD" && answer(&request, &object.stored, rules).is_err() {
                        // It is still good, and has not all that its one client wants: others find it.
                        let wanted = refill(&request, &object.stored, rules);
                        self.order.stored = Some(object);
                        self.tell_others(Settled::Look(None));
                        return self.ask_again(wanted, &request);
                    }
                    let fetched = self.fetched(object);
                    self.tell(Settled::Look(None), Own::Serve(fetched));
                }
                None => return self.ask_again(Wanted::Whole, &request),
            },
            Outcome::ServeStale => match old {
                Some(old) => self.serve_stale(old),
                None => return self.ask_again(Wanted::Whole, &request),
            },
            Outcome::Refetch => return self.ask_again(Wanted::Whole, &request),
            Outcome::Pass { held, hit_for_miss, refusal } => {
                let apart = Some(refusal == Refusal::Authorization).filter(|_| hit_for_miss);
                self.pass(stream, old.as_ref(), held, apart);
            }
        }
        Next::Done
    }

    /// Stores `object`, unless it has been purged since it was asked for.
    fn put(&self, object: &Arc<Object>, old: Option<&Object>) {
        if self.access.cache.put(&self.asking.key, old, object, self.began) {
            self.see_whether_stale(object);
        }
    }

    /// Stores what is now known of `old`, unless that has left.
    fn renew(&self, old: &Object, object: &Arc<Object>) {
        if self.access.cache.renew(&self.asking.key, old, object, self.began) {
            self.see_whether_stale(object);
        }
    }

    /// Where `object` is stale from the beginning, whoever comes next does not wait for anybody either.
    fn see_whether_stale(&self, object: &Object) {
        if matches!(object.stored.freshness.state(Cache::now()), State::Stale(_)) {
            self.keep_apart(false);
        }
    }

    /// Keeps a part, beside those of `other`, once it has come. Until then it is for who has asked for it alone: for
    /// others it cannot be told how much of what they want there will be.
    async fn add(
        &mut self,
        stream: Stream,
        stored: Stored,
        other: Option<&Object>,
        span: Span,
        old: Option<&Object>,
    ) {
        let (body, filler) = Body::new(&self.access.cache.budget);
        let object = Object::part(stored, other, self.access.item(&self.asking.key), span, body);
        let object = Arc::new(object.tagged(self.access.tags()));
        self.order.status.stored = true;
        let fetched = Fetched {
            otherwise: Answer::Partial(vec![span]),
            held: Some(Arc::new(Body::follow(filler.body(), 0..0))),
            ..self.fetched(Arc::clone(&object))
        };
        self.tell(Settled::Look(None), Own::Serve(fetched));
        if self.copy(&stream, filler, &object).await {
            match other {
                None => self.put(&object, old),
                Some(other) => self.renew(other, &object),
            }
            self.access.cache.admit(&self.asking.key, &object);
        }
    }

    fn keep_apart(&self, credentials: bool) {
        let now = Cache::now();
        self.access.cache.index.keep_apart(
            &self.asking.key,
            credentials,
            now.plus(self.access.policy.apart),
            now,
        );
    }

    fn tell(&mut self, settled: Settled, own: Own) {
        // First: else all of a crowd would be served before whoever began it.
        if let Some(waiting) = self.own.take() {
            // Nobody is there if its client has left.
            drop(waiting.send(own));
        }
        self.tell_others(settled);
    }

    fn tell_others(&mut self, settled: Settled) {
        if let Some(duty) = self.duty.take() {
            duty.tell(settled);
        }
    }

    /// All of `object`, as it is stored.
    fn fetched(&self, object: Arc<Object>) -> Fetched {
        let status = self.order.status.clone();
        Fetched { object, status, sent: None, otherwise: Answer::Full, held: None }
    }

    fn serve_stale(&mut self, object: Arc<Object>) {
        self.order.status.detail = Some(CacheStatus::IF_ERROR);
        let fetched = self.fetched(Arc::clone(&object));
        // Who has joined after a purge must not get what that was of.
        let is_void = self.access.cache.index.is_void(&self.asking.key, &object, self.began);
        let settled = if is_void { Settled::Look(None) } else { Settled::Stale(object) };
        self.tell(settled, Own::Serve(fetched));
    }

    fn fail(&mut self, error: Error) {
        self.tell(Settled::Failed(error.clone()), Own::Failed(error));
    }

    /// `apart`: whether others do not wait there from now on; and whether that is for those with credentials alone.
    fn pass(&mut self, stream: Stream, old: Option<&Arc<Object>>, held: Held, apart: Option<bool>) {
        match (old, held) {
            (None, _) | (_, Held::Kept) => {}
            (Some(old), Held::Dropped) => self.forget(old),
            (Some(old), Held::Stale) => {
                let stored = Stored { is_invalid: true, ..old.stored.clone() };
                self.access.cache.renew(&self.asking.key, old, &Arc::new(old.updated(stored)), self.began);
            }
        }
        if let Some(credentials) = apart {
            self.keep_apart(credentials);
        }
        let status = self.order.status.clone();
        self.tell(Settled::Look(None), Own::Pass(stream, status));
    }

    /// Takes the body into the object, until it is whole or nobody wants it; and says which.
    async fn copy(&self, stream: &Stream, filler: Filler, object: &Arc<Object>) -> bool {
        let length = object.stored.length();
        let mut is_kept = true;
        loop {
            let next = poll_fn(|context| {
                if filler.poll_room(context).is_ready() {
                    if let Poll::Ready(next) = stream.poll_next(context) {
                        return Poll::Ready(Some(next));
                    }
                }
                let goes_on = || is_kept && self.goes_on(filler.body().length(), length);
                if filler.poll_abandoned(context).is_ready() && !goes_on() {
                    return Poll::Ready(None);
                }
                Poll::Pending
            });
            match next.await {
                Some(Some(Ok(piece))) => {
                    let length = filler.body().length() + piece.len() as u64;
                    filler.push(piece.slice().clone());
                    if is_kept && (length > self.access.policy.max_object || !self.access.cache.make_room(0))
                    {
                        // Of a length that nobody had told. Whoever reads it goes on; nobody else begins.
                        is_kept = false;
                        self.forget(object);
                        filler.thin_out(THIN);
                    }
                }
                Some(Some(Err(error))) => {
                    self.forget(object);
                    filler.fail(error);
                    return false;
                }
                Some(None) => {
                    filler.finish(stream.ending().unwrap_or_default());
                    return is_kept;
                }
                None => {
                    self.forget(object);
                    return false;
                }
            }
        }
    }

    fn forget(&self, object: &Arc<Object>) {
        // By its bytes: what is known of them may have been renewed meanwhile.
        self.access.cache.forget(&self.asking.key, |other| other.is_of(object));
    }

    /// Whether the fetch goes on though nobody reads.
    fn goes_on(&self, come: u64, length: Option<u64>) -> bool {
        match self.access.policy.unread {
            Unread::Finish => true,
            Unread::End => false,
            Unread::Past(percent) => {
                length.is_some_and(|length| come.saturating_mul(100) >= length.saturating_mul(percent.into()))
            }
        }
    }
}
