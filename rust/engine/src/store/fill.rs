//! A fill: a fetch for all requests that wait for a key, in a task of its own, which goes on if clients leave.

mod parts;

use std::future::poll_fn;

use tokio::sync::mpsc;

use super::access::Access;
use super::body::{Body, Filler, Follower, PASS_THROUGH_WINDOW};
use super::cache::Cache;
use super::entry::FillOutcome;
use super::eviction::Item;
use super::in_flight::Leader;
use super::index::Note;
use super::lookup::{FetchPlan, Lookup};
use super::object::{Object, item};
use super::policy::Unread;
use super::purge::RequestEpoch;
use crate::cache::{
    Answer, Asked, CacheStatus, Content, Cut, Fill as Wanted, Held, Key, Outcome, Refusal, Reply, Request,
    State, Stored, Time, Timing, answer, answered, fill, refill, stands_in,
};
use crate::error::{Code, Error, Result};
use crate::origin;
use crate::pressure::Rank;
use crate::relay::response_fields;
use crate::stream::{ResponseHead, Stream};
use crate::sync::Arc;
use crate::wire::list::Lines;
use crate::wire::{Fields, Head, Span, is_one_of};

/// A message to the request that leads a fill.
#[derive(Debug)]
pub(super) enum LeaderMessage {
    /// An interim response; more follows.
    Interim(Head),
    /// The answer, or the error; nothing follows.
    Final(Result<Filled>),
}

/// What the leading request gets.
#[derive(Debug)]
pub(super) enum Filled {
    /// A stored response.
    Stored(Fetched),
    /// The origin's answer, which is not stored; and the part of it that the client gets, if not all.
    Passed(Stream, CacheStatus, Option<Cut>),
}

/// A stored response for the leading request.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) object: Arc<Object>,
    pub(super) status: CacheStatus,
    /// The fields that the origin has just sent, if not all of them are stored.
    pub(super) sent: Option<Fields>,
    /// The part that has come, if the client's own Range was sent and the answer goes to it unchanged.
    pub(super) as_it_came: Option<Answer>,
    /// Keeps the body alive until its first reader attaches.
    pub(super) held: Option<Arc<Follower>>,
}

impl Fetched {
    /// A stale response in place of an error, for a request that has waited for another one's fill.
    pub(super) fn stale(object: Arc<Object>) -> Self {
        let detail = Some(CacheStatus::IF_ERROR);
        let status = CacheStatus { hit: true, collapsed: true, detail, ..CacheStatus::default() };
        Self { object, status, sent: None, as_it_came: None, held: None }
    }
}

/// The waiters of a fill. They get one outcome; if it is dropped without one, they look the entry up again.
#[derive(Debug)]
pub(super) struct CollapsedWaiters {
    cache: Arc<Cache>,
    lookup: Arc<Lookup>,
    leader: Option<Leader<FillOutcome>>,
}

impl CollapsedWaiters {
    pub(super) fn new(cache: &Arc<Cache>, lookup: &Arc<Lookup>, leader: Leader<FillOutcome>) -> Self {
        Self { cache: Arc::clone(cache), lookup: Arc::clone(lookup), leader: Some(leader) }
    }

    fn tell(mut self, settled: FillOutcome) {
        if let Some(leader) = self.release() {
            leader.settle(settled);
        }
    }

    /// From now on requests for any of `span` may join.
    fn widen(&self, span: Span) {
        let Some(leader) = &self.leader else { return };
        self.cache.index.with(&self.lookup.key, |entry| entry.widen(leader, span));
    }

    /// From now on no request joins.
    fn release(&mut self) -> Option<Leader<FillOutcome>> {
        let leader = self.leader.take()?;
        self.cache.index.with(&self.lookup.key, |entry| entry.release(&leader));
        Some(leader)
    }
}

impl Drop for CollapsedWaiters {
    fn drop(&mut self) {
        drop(self.release());
    }
}

/// One fill.
pub(super) struct FillTask {
    pub(super) access: Access,
    pub(super) lookup: Arc<Lookup>,
    pub(super) waiters: Option<CollapsedWaiters>,
    /// The leading request; `None` for a revalidation in the background.
    pub(super) own: Option<mpsc::UnboundedSender<LeaderMessage>>,
    pub(super) plan: FetchPlan,
    pub(super) since: RequestEpoch,
    /// Whether the origin was asked before, for another part.
    pub(super) is_again: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Next {
    Done,
    Again,
}

impl FillTask {
    /// Asks the origin, and handles its answer. Ends when the body is complete, or has no reader and does not go on
    /// without one.
    ///
    /// # Cancellation
    /// Readers and waiters get an error.
    pub(super) async fn run(mut self) {
        // What has begun goes on, and so does a refresh that no client waits for, which is held back earlier.
        if self.own.is_some() && !self.plan.continues {
            if let Err(error) = self.access.admit(Rank::fill(self.lookup.is_proven)) {
                return self.refuse(error);
            }
        }
        loop {
            let (feed, stream) = self.access.cache.stream();
            self.since = self.access.cache.since();
            let fetching = origin::fetch(
                Arc::clone(&self.access.origins),
                self.lookup.origin_request(&self.plan.conditions),
                feed,
            );
            let ((), next) = tokio::join!(fetching, self.receive(stream));
            if next == Next::Done {
                return;
            }
        }
    }

    /// Asks again, so that the origin is asked three times at most: to validate the stored response, for a slice or all
    /// of it, and for the part that the client wants. No answer to the last leads to another request, and an answer to
    /// the second leads only to the last.
    fn ask_again(&mut self, wanted: Wanted, request: &Request<'_>) -> Next {
        self.is_again = true;
        self.plan.forget_conditions();
        self.plan.fill(wanted, request);
        Next::Again
    }

    /// Waits for the head. Interim responses before it are for the leading request.
    async fn pass_interim(&self, stream: &Stream) -> Result<()> {
        poll_fn(|context| {
            let head = stream.poll_head(context).map_ok(|_| ());
            for interim in stream.take_interim() {
                if let Some(waiting) = &self.own {
                    // The receiver is gone if its client has left.
                    drop(waiting.send(LeaderMessage::Interim(interim)));
                }
            }
            head
        })
        .await
    }

    async fn receive(&mut self, stream: Stream) -> Next {
        let arrived = self.pass_interim(&stream).await;
        let received = Cache::now();
        let lookup = Arc::clone(&self.lookup);
        let own_lines = lookup.lines();
        let request = lookup.read(&own_lines);
        let (Ok(()), Some(ResponseHead { head, .. })) = (&arrived, stream.head()) else {
            let error = arrived
                .err()
                .unwrap_or_else(|| Code::Internal.error("the head of a response has disappeared"));
            return self.without_head(error, &request, received);
        };
        let lines: Vec<_> = response_fields(head).collect();
        let mut old = self.plan.stored.clone();
        let outcome = self.judge(head.status, &lines, &mut old, &request, received);
        let cut = Cut::of(&request, head.status, &lines, received).filter(|_| self.own.is_some());
        if self.is_unfit(&outcome, head.status, &request) {
            return match cut.filter(|_| self.plan.asked != Asked::Rest && !self.may_be_whole(&outcome)) {
                Some(cut) => self.pass_part(stream, &outcome, old.as_ref(), cut),
                None => self.without_part(&outcome, &request),
            };
        }
        if let Some(next) = self.without_whole(&outcome, head.status, old.as_ref(), &request) {
            return next;
        }
        match outcome {
            Outcome::Store { stored, span }
                if matches!(stored.content, Content::Whole(_)) && self.access.has_room(&stored) =>
            {
                self.keep(&stream, head, *stored, span.is_some(), old).await;
            }
            Outcome::Store { stored, span: Some(span) } | Outcome::Extend { stored, span }
                if span.len() <= self.access.policy.max_object =>
            {
                self.add(stream, *stored, span, old).await;
            }
            Outcome::Store { stored, .. } | Outcome::Extend { stored, .. } => {
                let note = self.note_of_large(&stored);
                self.pass(stream, old.as_ref(), Held::Dropped, Some(note), cut);
            }
            Outcome::Update { stored, dropped } => match old {
                Some(old) => return self.update(&old, *stored, dropped.is_some(), &request),
                None => return self.ask_again(fill(&request, &self.access.policy.clone().rules), &request),
            },
            Outcome::ServeStale => match old {
                Some(old) => self.serve_stale(old),
                None => return self.ask_again(Wanted::Whole, &request),
            },
            Outcome::Refetch => return self.ask_again(Wanted::Whole, &request),
            Outcome::Pass { held, hit_for_miss, refusal } => {
                let apart = hit_for_miss.then(|| apart(refusal));
                if apart == Some(Note::HitForMiss) && matches!(head.status, 200..300) {
                    self.note(Note::Unsliced);
                }
                self.pass(stream, old.as_ref(), held, apart, cut);
            }
        }
        Next::Done
    }

    /// The origin is not asked. A stored response that may stand in for a failed one does.
    fn refuse(&mut self, error: Error) {
        let lookup = Arc::clone(&self.lookup);
        let lines = lookup.lines();
        self.without_head(error, &lookup.read(&lines), Cache::now());
    }

    /// The origin has failed before it has sent a head.
    fn without_head(&mut self, error: Error, request: &Request<'_>, received: Time) -> Next {
        let rules = &self.access.policy.rules;
        let stored = self.plan.stored.clone();
        match stored.filter(|object| stands_in(request, &object.stored, rules, received)) {
            Some(object) => self.serve_stale(object),
            None => self.tell(FillOutcome::Failed(error.clone()), Err(error)),
        }
        Next::Done
    }

    /// What to do with an answer that has these fields. `old` is the stored response that it is about, or of several variants
    /// the one that it confirms.
    fn judge(
        &mut self,
        status: u16,
        lines: &Lines<'_>,
        old: &mut Option<Arc<Object>>,
        request: &Request<'_>,
        received: Time,
    ) -> Outcome {
        if old.is_none() && status == 304 {
            *old = self.plan.confirmed(lines, received);
        }
        self.plan.status.forwarded_status = Some(status);
        let timing = Timing { requested: self.since.requested, received };
        let (reply, rules) = (Reply { status, lines, timing }, &self.access.policy.rules);
        let stored = old.as_ref().map(|object| &object.stored);
        let outcome = answered(request, self.plan.asked, stored, reply, rules, received);
        self.learn(status, request);
        outcome
    }

    /// The origin has confirmed `old`: `stored` replaces its head, unless it is dropped after this answer.
    fn update(&mut self, old: &Arc<Object>, stored: Stored, is_dropped: bool, request: &Request<'_>) -> Next {
        let mut object = old.updated(stored).tagged(self.access.tags());
        // What was still coming when the origin was asked has perhaps broken off.
        if !cfg!(all(test, planted_bug = "broken-body-confirmed")) {
            object.drop_failed();
        }
        if object.is_empty() {
            self.plan.stored = None;
            return self.ask_again(fill(request, &self.access.policy.clone().rules), request);
        }
        let object = Arc::new(object);
        if is_dropped {
            self.forget(old);
        } else {
            self.renew(old, &object);
        }
        let rules = &self.access.policy.rules;
        if request.method != "HEAD" && answer(request, &object.stored, rules).is_err() {
            // It is valid, but does not have all bytes that this client wants. Other requests find it.
            let wanted = refill(request, &object.stored, rules);
            self.plan.stored = Some(object);
            self.tell_others(FillOutcome::LookAgain(None));
            return self.ask_again(wanted, request);
        }
        let fetched = self.fetched(object);
        self.tell(FillOutcome::LookAgain(None), Ok(Filled::Stored(fetched)));
        Next::Done
    }

    /// Stores a whole response with the given head. `is_part`: it came as a 206 with all bytes, and is served as a 200.
    /// Otherwise its first client gets all fields that the origin has sent, also fields that are not stored.
    async fn keep(
        &mut self,
        stream: &Stream,
        head: &Head,
        stored: Stored,
        is_part: bool,
        old: Option<Arc<Object>>,
    ) {
        let reason = if is_part { b"OK" } else { head.reason() };
        let sent = || response_fields(head).filter(|(name, _)| !is_one_of(name, &["age"])).collect();
        let sent = (!is_part).then(sent);
        let (body, filler) = Body::new(&self.access.cache.budget);
        let length = stored.length();
        let object = Object::whole(stored, reason, item(&self.lookup.key, 0), body);
        let object = Arc::new(object.tagged(self.access.tags()));
        self.plan.status.stored = self.put(&object, old.as_deref());
        // It has no reader yet and must not count as abandoned.
        let follower = Some(Arc::new(Body::follow(filler.body(), 0..0)));
        let fetched = Fetched { sent, held: follower.clone(), ..self.fetched(Arc::clone(&object)) };
        self.tell(self.look(old, Some(&object), follower), Ok(Filled::Stored(fetched)));
        if self.copy(stream, filler, &object.item, length).await {
            self.measure(&object);
            self.access.cache.admit(&self.lookup.key, &object.item);
        }
    }

    /// Stores `object`, unless it has been purged since it was requested or a newer response has come. Returns whether
    /// it is stored.
    fn put(&self, object: &Arc<Object>, old: Option<&Object>) -> bool {
        let is_stored = self.access.cache.put(&self.lookup.key, old, object, self.since);
        if is_stored {
            self.see_whether_stale(object);
        }
        is_stored
    }

    /// Replaces what is known of `old`, unless that has been removed.
    fn renew(&self, old: &Object, object: &Arc<Object>) {
        if self.access.cache.renew(&self.lookup.key, old, object, self.since) {
            self.see_whether_stale(object);
        }
    }

    /// If `object` is stale from the beginning, later requests do not wait for each other.
    fn see_whether_stale(&self, object: &Object) {
        if matches!(object.stored.freshness.state(Cache::now()), State::Stale(_)) {
            self.note(Note::HitForMiss);
        }
    }

    /// The outcome for the waiters: `new` is stored now, if there is one, after `old`.
    fn look(
        &self,
        old: Option<Arc<Object>>,
        new: Option<&Object>,
        held: Option<Arc<Follower>>,
    ) -> FillOutcome {
        let is_over = |old: &Arc<Object>| !new.is_some_and(|new| new.is_same_state(old));
        match old.filter(is_over) {
            Some(old) if self.plan.asked == Asked::Rest => FillOutcome::Replaced(old, held),
            _ => FillOutcome::LookAgain(held),
        }
    }

    fn note(&self, note: Note) {
        self.access.note(&self.lookup.key, note);
    }

    fn tell(&mut self, settled: FillOutcome, own: Result<Filled>) {
        // Before the others: otherwise all waiters would be served before the leading request.
        if let Some(waiting) = self.own.take() {
            // The receiver is gone if its client has left.
            drop(waiting.send(LeaderMessage::Final(own)));
        }
        self.tell_others(settled);
    }

    fn tell_others(&mut self, settled: FillOutcome) {
        if let Some(waiters) = self.waiters.take() {
            waiters.tell(settled);
        }
    }

    /// All of `object`, as it is stored.
    fn fetched(&self, object: Arc<Object>) -> Fetched {
        let status = self.plan.status.clone();
        Fetched { object, status, sent: None, as_it_came: None, held: None }
    }

    fn serve_stale(&mut self, object: Arc<Object>) {
        self.plan.status.detail = Some(CacheStatus::IF_ERROR);
        let fetched = self.fetched(Arc::clone(&object));
        // A request that joined after a purge must not get a response from before it.
        let is_void = self.access.cache.index.is_void(&self.lookup.key, &object, self.since);
        let settled = if is_void { FillOutcome::LookAgain(None) } else { FillOutcome::Stale(object) };
        self.tell(settled, Ok(Filled::Stored(fetched)));
    }

    /// Passes the answer to the leading request without storing it. `note`: what it has shown about the key. `cut`: the
    /// part that the client gets, if not all.
    fn pass(
        &mut self,
        stream: Stream,
        old: Option<&Arc<Object>>,
        held: Held,
        note: Option<Note>,
        cut: Option<Cut>,
    ) {
        self.hold(old, held);
        if let Some(note) = note {
            self.note(note);
        }
        let status = self.plan.status.clone();
        let settled = match self.look(old.cloned(), None, None) {
            FillOutcome::LookAgain(_) if note.is_none() => FillOutcome::Refused,
            settled => settled,
        };
        self.tell(settled, Ok(Filled::Passed(stream, status, cut)));
    }

    /// Keeps, expires or drops the stored response.
    fn hold(&self, old: Option<&Arc<Object>>, held: Held) {
        match (old, held) {
            (None, _) | (_, Held::Kept) => {}
            (Some(old), Held::Dropped) => self.forget_state(old),
            (Some(old), Held::Stale) => {
                let stored = Stored { is_invalid: true, ..old.stored.clone() };
                self.access.cache.renew(&self.lookup.key, old, &Arc::new(old.updated(stored)), self.since);
            }
        }
    }

    /// Copies the body, of `length` bytes if that is known, into the object of `item` until it is complete or is not
    /// needed any more. Returns whether it is complete and stored.
    async fn copy(
        &self,
        stream: &Stream,
        filler: Filler,
        item: &Arc<Item<Key>>,
        length: Option<u64>,
    ) -> bool {
        let forget = || self.access.cache.forget_part(&self.lookup.key, item);
        let mut is_kept = true;
        let come = loop {
            let goes_on = || is_kept && self.goes_on(filler.body().length(), length);
            let next =
                poll_fn(|context| filler.poll_next(context, |context| stream.poll_next(context), goes_on));
            match next.await {
                Some(Some(Ok(piece))) => {
                    let come = filler.body().length() + piece.len() as u64;
                    if length.is_some_and(|length| come > length) {
                        break come;
                    }
                    filler.push(piece.slice().clone());
                    let is_too_large = come > self.access.policy.max_object;
                    if is_kept && (is_too_large || !self.access.cache.make_room(0)) {
                        // The head did not give the length. Its readers go on; no request begins to read it.
                        is_kept = false;
                        forget();
                        filler.stop_retaining(PASS_THROUGH_WINDOW);
                    }
                }
                Some(Some(Err(error))) => {
                    if cfg!(all(test, planted_bug = "truncated-body-ends-well")) {
                        filler.finish(stream.ending().unwrap_or_default());
                        return is_kept;
                    }
                    forget();
                    filler.fail(error);
                    return false;
                }
                Some(None) => {
                    let come = filler.body().length();
                    if length.is_some_and(|length| come != length) {
                        break come;
                    }
                    filler.finish(stream.ending().unwrap_or_default());
                    return is_kept;
                }
                None => {
                    forget();
                    return false;
                }
            }
        };
        // Only a part can have another length than its head says: the length of a whole body frames it.
        forget();
        let told = length.unwrap_or_default();
        filler.fail(Code::BadPart.error(format!("a part of {told} bytes, as its head says, has {come}")));
        false
    }

    /// The length of a complete `object` is known now, and with it its ranges.
    fn measure(&self, object: &Object) {
        if let (None, Some(length)) = (object.stored.length(), object.length()) {
            self.access.cache.index.with(&self.lookup.key, |entry| entry.measure(&object.item, length));
        }
    }

    fn forget(&self, object: &Arc<Object>) {
        // By its bytes: its head may have been replaced meanwhile.
        self.access.cache.forget(&self.lookup.key, |other| other.is_of(object));
    }

    /// Drops all of the state of `object`.
    fn forget_state(&self, object: &Object) {
        self.access
            .cache
            .forget(&self.lookup.key, |other| other.is_of(object) || other.is_same_state(object));
    }

    /// Whether the fill goes on without readers.
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

/// Which requests do not wait for others, after an answer that was not stored for that reason.
fn apart(refusal: Refusal) -> Note {
    if refusal == Refusal::Authorization { Note::HitForMissAuthorized } else { Note::HitForMiss }
}
