//! A fetch through a cache: as [`origin::fetch`], but the origin is asked only if it must be.

use std::future::poll_fn;

use super::access::Access;
use super::cache::{Cache, seconds};
use super::collapse::{Joined, Wait, closed};
use super::delivery::{Delivery, Serving};
use super::disk::Loaded;
use super::entry::{Entry, FillOutcome};
use super::fill::{Fetched, FillTask, Filled};
use super::index::{KeyNotes, Note};
use super::lookup::{FetchPlan, Lookup};
use super::object::Object;
use super::post::PostResponse;
use super::purge::{PurgePattern, RequestEpoch};
use super::requests::CacheResult;
use super::slices::Slices;
use crate::cache::{
    Answer, CacheStatus, Cut, Decision, Fill as Wanted, Request, Slicing, Time, Why, answer, as_asked,
    decide, invalidated, is_of_unknown_length, refill, stands_in, too_large,
};
use crate::error::{Code, Result};
use crate::origin::{self, Begun, RequestBody};
use crate::pressure::Rank;
use crate::relay::response_fields;
use crate::stream::{Ending, Feed, ResponseHead, Stream};
use crate::sync::Arc;
use crate::wire::{Fields, Head, Span};
use crate::work::{Work, worked};

/// Answers `request` from the cache or the origin, into `feed`.
///
/// # Cancellation
/// A fill goes on, or not, as the policy says; a response that is not stored ends at once.
pub async fn fetch(access: Access, request: Box<origin::Request>, feed: Feed) {
    let answer = async {
        match access.find(request, None, &feed).await? {
            Served::Stored(delivery) => delivery.send(&access.cache.pool, &feed).await,
            Served::Passed(result) => result,
            Served::Begun(_) | Served::Joined(_) => {
                Err(Code::Internal.error("a response was handed over, and its caller takes none"))
            }
        }
    };
    let result = tokio::select! {
        biased;
        result = worked(Work::Cache, answer) => result,
        () = feed.closed() => return,
    };
    end(feed, result);
}

/// A response that is for the caller to send.
#[derive(Debug)]
pub(crate) enum Found {
    /// It is stored, or growing.
    Stored(Box<Delivery>),
    /// It is the origin's, and is not stored.
    Passed(Box<(ResponseHead, Begun)>),
    /// Another request fetches it. The caller waits, since it needs less room for that, and looks again.
    Joined(Joined),
}

/// As [`fetch`], but nothing of a response that is found, or that is not stored, is put into `feed`. `None`: any other response has
/// been put into it. `joined`: the fill that the request has waited for, and that is settled.
///
/// # Cancellation
/// As [`fetch`]. The consumer of `feed` leaves by dropping this.
pub(crate) async fn serve(
    access: Access,
    request: Box<origin::Request>,
    joined: Option<Joined>,
    feed: Feed,
) -> Option<Found> {
    let access = Access { hands_over: true, ..access };
    let result = match worked(Work::Cache, access.find(request, joined, &feed)).await {
        Ok(Served::Stored(delivery)) => return Some(Found::Stored(delivery)),
        Ok(Served::Begun(begun)) => return Some(Found::Passed(begun)),
        Ok(Served::Joined(joined)) => return Some(Found::Joined(joined)),
        Ok(Served::Passed(result)) => result,
        Err(error) => Err(error),
    };
    end(feed, result);
    None
}

fn end(feed: Feed, result: Result<Ending>) {
    match result {
        Ok(ending) => feed.finish(ending),
        Err(error) => feed.fail(error),
    }
}

/// After this many fills whose answers were not stored, or have failed, a request asks the origin without waiting for
/// another. Arbitrary: each costs a round trip, and a client that wants to make others wait must be first as often.
const MAX_REFUSED: u32 = 3;

/// What a request gets.
enum Served {
    /// A stored or growing response.
    Stored(Box<Delivery>),
    /// The origin's answer, whose head is in the feed; and how its body has ended.
    Passed(Result<Ending>),
    /// The origin's answer, for the caller to send.
    Begun(Box<(ResponseHead, Begun)>),
    /// A place in another request's fill, for the caller to wait in.
    Joined(Joined),
}

/// What to do next, decided under the lock of the entry.
enum LookupStep {
    Serve(Serving, Option<Box<FillTask>>),
    Pass(CacheStatus),
    Wait(Wait),
    Refuse,
}

impl Access {
    /// What answers `request`, which is counted.
    async fn find(
        &self,
        request: Box<origin::Request>,
        joined: Option<Joined>,
        feed: &Feed,
    ) -> Result<Served> {
        self.run(request, joined, feed).await.inspect_err(|_| self.requests.count(CacheResult::Error))
    }

    async fn run(
        &self,
        mut request: Box<origin::Request>,
        joined: Option<Joined>,
        feed: &Feed,
    ) -> Result<Served> {
        let key = self.overrides.key.as_deref();
        let is_read = matches!(&*request.method, "GET" | "HEAD");
        let may_be_stored = (is_read || request.method == "POST") && !self.overrides.bypass;
        let lookup = Arc::new(Lookup::new(&mut request, &self.policy.query, key, may_be_stored));
        let with_body = !matches!(request.body, RequestBody::None);
        if with_body || !is_read {
            return self.pass(&lookup, request, forwarded(Why::Method), feed).await;
        }
        if self.overrides.bypass {
            return self.pass(&lookup, request, forwarded(Why::Bypass), feed).await;
        }
        self.answer(&lookup, joined, feed).await
    }

    /// Answers a GET or HEAD without a body, which has waited for the fill of `joined` if there is one.
    async fn answer(&self, lookup: &Arc<Lookup>, mut joined: Option<Joined>, feed: &Feed) -> Result<Served> {
        let lines = lookup.lines();
        let request = lookup.read(&lines);
        let mut refused = 0;
        if let Some(joined) = &joined {
            refused = joined.refused;
            if let Some(served) = self.follow(joined, &mut refused, &request, lookup, feed).await? {
                return Ok(served);
            }
        }
        loop {
            let served = match self.next_step(lookup, &request, refused) {
                LookupStep::Serve(mut serving, refresh) => {
                    serving.status.collapsed = joined.is_some();
                    let served = self.deliver(serving, None, true, lookup, feed).await?;
                    if let (Some(Served::Stored(_)), Some(filling)) = (&served, refresh) {
                        tokio::spawn(worked(Work::Cache, filling.run()));
                    }
                    served
                }
                LookupStep::Refuse => {
                    return Err(Code::NotCached.error(
                        "the client sent only-if-cached, and no stored response answers the request",
                    ));
                }
                LookupStep::Pass(status) => {
                    return self.pass(lookup, lookup.as_it_came(), status, feed).await;
                }
                LookupStep::Wait(Wait::Lead(lead)) => match lead.fetch(|head| feed.push_interim(head)).await?
                {
                    Filled::Stored(fetched) => self.prepare(fetched, &request, lookup, feed).await?,
                    Filled::Passed(stream, status, cut) => {
                        return self.forward(lookup, stream, status, None, cut, feed).await;
                    }
                },
                LookupStep::Wait(Wait::Join(waiter)) => {
                    let place = Joined { waiter, refused };
                    if self.hands_over {
                        return Ok(Served::Joined(place));
                    }
                    self.follow(joined.insert(place), &mut refused, &request, lookup, feed).await?
                }
            };
            // `None`: the entry has changed; look it up again.
            if let Some(served) = served {
                return Ok(served);
            }
        }
    }

    /// Waits for the fill of `joined`, which is held until the delivery holds what it has stored. `None`: look the entry up again.
    async fn follow(
        &self,
        joined: &Joined,
        refused: &mut u32,
        request: &Request<'_>,
        lookup: &Arc<Lookup>,
        feed: &Feed,
    ) -> Result<Option<Served>> {
        match poll_fn(|context| joined.waiter.poll(context)).await {
            Some(FillOutcome::Failed(error)) => return Err(error),
            Some(FillOutcome::Stale(object)) if self.may_stand_in(&object, request) => {
                return self.prepare(Fetched::stale(object), request, lookup, feed).await;
            }
            Some(FillOutcome::Refused) => *refused += 1,
            Some(FillOutcome::LookAgain(_) | FillOutcome::Replaced(..) | FillOutcome::Stale(_)) | None => {}
        }
        Ok(None)
    }

    /// What to do next for a request, of whose fills so many were `refused`.
    fn next_step(&self, lookup: &Arc<Lookup>, request: &Request<'_>, refused: u32) -> LookupStep {
        let now = Cache::now();
        self.cache.index.with_notes(&lookup.key, |entry, notes| {
            let is_hit_for_miss = refused >= MAX_REFUSED || notes.is_hit_for_miss(request.authorized, now);
            self.look_up(entry, notes, lookup, request, is_hit_for_miss, now)
        })
    }

    fn look_up(
        &self,
        entry: &mut Entry,
        notes: &KeyNotes<'_>,
        lookup: &Arc<Lookup>,
        request: &Request<'_>,
        is_hit_for_miss: bool,
        now: Time,
    ) -> LookupStep {
        let readable = entry.readable(self.cache.is_disk_hanging(), || self.cache.may_read());
        let candidates = readable.candidates();
        let decision = decide(request, &candidates, &self.policy.rules, now);
        let object = |place: usize| Arc::clone(&candidates.all[place]);
        let serving = |place: usize, answer: &Answer| {
            let object = object(place);
            let status = CacheStatus::of(&decision, Some(&object.stored), now);
            Serving { object, answer: answer.clone(), status }
        };
        let plan = match &decision {
            // A body that is still growing has no length, and so no ranges: the origin may have them.
            Decision::Hit { stored, .. } | Decision::HitStale { stored, .. }
                if is_of_unknown_length(request, &candidates.all[*stored].stored)
                    && !notes.has(Note::Unranged, now) =>
            {
                return LookupStep::Pass(forwarded(Why::Partial));
            }
            Decision::Begin { .. } | Decision::Complete { .. } if notes.has(Note::Unsliced, now) => {
                FetchPlan::new(Why::Partial).with_fill(as_asked(request), request)
            }
            Decision::Hit { stored, answer } | Decision::Begin { stored, answer } => {
                return LookupStep::Serve(serving(*stored, answer), None);
            }
            Decision::HitStale { stored, answer, refresh } => {
                let serving = serving(*stored, answer);
                let filling = self.refresh(entry, lookup, request, &serving.object, refresh.as_ref());
                return LookupStep::Serve(serving, filling);
            }
            Decision::Bypass(_) => return LookupStep::Pass(CacheStatus::of(&decision, None, now)),
            Decision::OnlyIfCached => return LookupStep::Refuse,
            Decision::Complete { stored, missing, if_range } => self.rest(object(*stored), missing, if_range),
            Decision::Revalidate { stored, conditions, why } => {
                self.validation(object(*stored), conditions, *why, request)
            }
            Decision::Select { among, conditions, fill } => {
                let variants = among.iter().map(|place| object(*place)).collect();
                let plan = FetchPlan::selection(variants, conditions.clone());
                plan.with_fill(self.fill(*fill, request, notes, now), request)
            }
            // They would not be stored.
            Decision::Miss { why, .. } if lookup.accepts_events_alone() => {
                return LookupStep::Pass(forwarded(*why));
            }
            Decision::Miss { stored, why, fill } => {
                let plan = FetchPlan { stored: stored.map(object), ..FetchPlan::new(*why) };
                plan.with_fill(self.fill(*fill, request, notes, now), request)
            }
        };
        LookupStep::Wait(self.ask(entry, lookup, plan, is_hit_for_miss))
    }

    /// Revalidates `stored` in the background, if it is to be, and something else does not do so already.
    fn refresh(
        &self,
        entry: &mut Entry,
        lookup: &Arc<Lookup>,
        request: &Request<'_>,
        stored: &Arc<Object>,
        conditions: Option<&Fields>,
    ) -> Option<Box<FillTask>> {
        let may_refresh = !entry.is_filling() && !self.origins.pressure().is_pressed();
        let conditions = conditions.filter(|_| may_refresh)?;
        let wanted = refill(request, &stored.stored, &self.policy.rules);
        let mut plan = FetchPlan::validation(Why::Stale, Arc::clone(stored), conditions.clone());
        // The range of one client is not fetched in the background.
        if wanted != Wanted::Asked {
            plan.fill(wanted, request);
        }
        let waiters = plan.awaited().and_then(|span| self.lead(entry, lookup, span));
        Some(Box::new(self.filling(lookup, waiters, None, plan)))
    }

    /// Asks the origin whether `stored` still holds.
    fn validation(
        &self,
        stored: Arc<Object>,
        conditions: &Fields,
        why: Why,
        request: &Request<'_>,
    ) -> FetchPlan {
        let wanted = refill(request, &stored.stored, &self.policy.rules);
        FetchPlan::validation(why, stored, conditions.clone()).with_fill(wanted, request)
    }

    /// Fetches what is `missing` of `stored`, or all of it if that is several ranges, which would come in several parts.
    fn rest(&self, stored: Arc<Object>, missing: &[Span], if_range: &[u8]) -> FetchPlan {
        let [span] = missing else {
            return FetchPlan { stored: Some(stored), ..FetchPlan::new(Why::Partial) };
        };
        // Slices that are stored are looked up again when they are read.
        let is_sliced = Slicing::of(&stored.stored, &self.policy.rules).is_some();
        let stored = if is_sliced { Arc::new(stored.without_parts()) } else { stored };
        FetchPlan::rest(stored, *span, if_range)
    }

    /// The part to fetch if nothing is stored: `fill` if there are no notes about the key.
    fn fill(&self, fill: Wanted, request: &Request<'_>, notes: &KeyNotes<'_>, now: Time) -> Wanted {
        let is_private = request.authorized && notes.has(Note::HitForMissAuthorized, now);
        if notes.has(Note::Unsliced, now) || is_private {
            as_asked(request)
        } else if notes.has(Note::Large, now) {
            too_large(request, &self.policy.rules)
        } else {
            fill
        }
    }

    /// The reader of `object` slice by slice, if `answer` is read so: if it is in slices, or in parts on a disk that
    /// may fail in between.
    fn slices(&self, object: &Object, answer: &Answer, lookup: &Arc<Lookup>) -> Option<Arc<Slices>> {
        let slicing = Slicing::of(&object.stored, &self.policy.rules);
        let may_be_added_to = object.is_in_parts() && object.stored.validators.strong().is_some();
        let is_in_pieces = (slicing.is_some() && !object.is_in_one(answer))
            || (may_be_added_to && !object.is_readable_now(answer, &lookup.method));
        is_in_pieces.then(|| Slices::new(self, lookup, object, slicing))
    }

    fn may_stand_in(&self, object: &Object, request: &Request<'_>) -> bool {
        let rules = &self.policy.rules;
        object.stored.selection.matches(request.lines, rules.languages, None)
            && stands_in(request, &object.stored, rules, Cache::now())
    }

    /// Answers with a response that was fetched for this request. `None` if it was on disk and no longer is: look it up
    /// again.
    async fn prepare(
        &self,
        fetched: Fetched,
        request: &Request<'_>,
        lookup: &Arc<Lookup>,
        feed: &Feed,
    ) -> Result<Option<Served>> {
        let Fetched { object, status, sent, as_it_came, held } = fetched;
        let rules = &self.policy.rules;
        if is_of_unknown_length(request, &object.stored)
            && !self.cache.index.has_note(&lookup.key, Note::Unranged, Cache::now())
        {
            drop(held);
            let pass = self.pass(lookup, lookup.as_it_came(), forwarded(Why::Partial), feed);
            return pass.await.map(Some);
        }
        let answer = answer(request, &object.stored, rules).unwrap_or_else(|gap| {
            let is_sliced = Slicing::of(&object.stored, rules).is_some();
            as_it_came.or(gap.answer.filter(|_| is_sliced)).unwrap_or(Answer::Full)
        });
        // Until the delivery holds the body itself.
        let _held = held;
        self.deliver(Serving { object, answer, status }, sent, false, lookup, feed).await
    }

    /// Answers with `serving`, and with the fields that the origin has just `sent` in place of the stored ones. `is_hit`: it
    /// was found, and not fetched for this request. `None` if it was on disk and no longer is: look it up again.
    async fn deliver(
        &self,
        serving: Serving,
        sent: Option<Fields>,
        is_hit: bool,
        lookup: &Arc<Lookup>,
        feed: &Feed,
    ) -> Result<Option<Served>> {
        let Serving { object, answer, status } = serving;
        let object = match self.load(object, &answer, &lookup.method).await {
            Loaded::Ready(object) => object,
            Loaded::Gone => return Ok(None),
            Loaded::Failed => return self.unread(lookup, feed).await.map(Some),
        };
        let (slices, now) = (self.slices(&object, &answer, lookup), Cache::now());
        if is_hit {
            // Later slices are looked up, and counted, one by one.
            object.hit(&answer, slices.is_some(), seconds(now));
        }
        self.requests.count(CacheResult::of(&status));
        let serving = Serving { object, answer, status };
        let (method, name) = (&lookup.method, &self.policy.rules.name);
        let delivery = Delivery::new(serving, slices.as_ref(), sent, method, name, now);
        Ok(Some(Served::Stored(Box::new(delivery))))
    }

    /// `object` with the first bytes of `answer` readable.
    async fn load(&self, object: Arc<Object>, answer: &Answer, method: &str) -> Loaded {
        let Some((stored_file, place)) = object.first_of_disk(answer, method) else {
            return Loaded::Ready(object);
        };
        self.cache.bring(&object, stored_file, place).await
    }

    /// The disk cannot be read now: asks the origin without the cache.
    async fn unread(&self, lookup: &Lookup, feed: &Feed) -> Result<Served> {
        let detail = Some("unread");
        let status = CacheStatus { forwarded: Some(Why::Bypass), detail, ..CacheStatus::default() };
        self.pass(lookup, lookup.as_it_came(), status, feed).await
    }

    /// Asks the origin without the cache.
    async fn pass(
        &self,
        lookup: &Lookup,
        request: Box<origin::Request>,
        status: CacheStatus,
        feed: &Feed,
    ) -> Result<Served> {
        self.admit(Rank::request(lookup.is_proven))?;
        let (inner, stream) = self.cache.stream();
        let since = (lookup.method == "POST").then(|| self.cache.since());
        if self.hands_over {
            let interim = |head| feed.push_interim(head);
            let (answered, begun) = origin::begin(Arc::clone(&self.origins), request, &interim).await?;
            let (head, posted) = self.note_answer(lookup, &answered.head, status, since, None);
            let head = ResponseHead { head, ..answered };
            if posted.is_none() {
                return Ok(Served::Begun(Box::new((head, begun))));
            }
            feed.feed_on(begun.line());
            feed.set_head(head);
            let (inner, stream) = self.cache.stream();
            let ((), sent) = tokio::join!(origin::feed(begun, inner), hand_on(&stream, feed, posted, None));
            return Ok(Served::Passed(sent));
        }
        let fetching = origin::fetch(Arc::clone(&self.origins), request, inner);
        let ((), result) = tokio::join!(fetching, self.forward(lookup, stream, status, since, None, feed));
        result
    }

    /// Sends the origin's answer to the client, or the part that `cut` takes of it, and invalidates responses as it
    /// demands. `since`: when it was requested, if it may be stored nevertheless.
    async fn forward(
        &self,
        lookup: &Lookup,
        stream: Stream,
        status: CacheStatus,
        since: Option<RequestEpoch>,
        cut: Option<Cut>,
        feed: &Feed,
    ) -> Result<Served> {
        poll_fn(|context| {
            let head = stream.poll_head(context).map_ok(|_| ());
            for interim in stream.take_interim() {
                feed.push_interim(interim);
            }
            head
        })
        .await?;
        let Some(ResponseHead { head, timings, reused }) = stream.head() else { return Err(closed()) };
        let (noted, posted) = self.note_answer(lookup, head, status, since, cut);
        feed.feed_on(stream.line());
        feed.set_head(ResponseHead { head: noted, timings: *timings, reused: *reused });
        Ok(Served::Passed(hand_on(&stream, feed, posted, cut).await))
    }

    /// Does what the origin's answer demands of the cache: invalidates responses, and begins to store it if it may be stored
    /// nevertheless, since when it was requested. Returns the head for the client.
    fn note_answer<'a>(
        &'a self,
        lookup: &'a Lookup,
        head: &Head,
        mut status: CacheStatus,
        since: Option<RequestEpoch>,
        cut: Option<Cut>,
    ) -> (Head, Option<PostResponse<'a>>) {
        let lines: Vec<_> = response_fields(head).collect();
        let targets = invalidated(&lookup.method, lookup.target(), head.status, &lines);
        let mut keys: Vec<_> =
            targets.iter().map(|target| lookup.key_of(target, &self.policy.query)).collect();
        let posted = since.and_then(|since| PostResponse::begin(self, lookup, since, head, &lines));
        if posted.is_some() {
            // `begin` has done it.
            keys.retain(|key| *key != lookup.key);
        }
        if !keys.is_empty() {
            self.cache.drop_objects(self.cache.index.purge(&PurgePattern::Keys(keys)), None);
        }
        status.forwarded_status = Some(head.status);
        status.stored = posted.is_some();
        if head.status == 200 && lookup.has_range() {
            self.note(&lookup.key, Note::Unranged);
        }
        let fields = cut.map(|cut| cut.fields(&lines));
        let fields = fields.as_ref().map_or_else(|| head.headers().collect(), Fields::clone);
        let (code, reason) =
            if cut.is_some() { (206, b"Partial Content".as_slice()) } else { (head.status, head.reason()) };
        let mut noted = Head::new(code, reason, status.beside(&self.policy.rules.name, fields).iter());
        noted.minor_version = head.minor_version;
        self.requests.count(CacheResult::Passed);
        (noted, posted)
    }
}

/// Sends a body to the client, or the part that `cut` takes of it, and stores it if it is `posted`.
async fn hand_on(
    stream: &Stream,
    feed: &Feed,
    mut posted: Option<PostResponse<'_>>,
    mut cut: Option<Cut>,
) -> Result<Ending> {
    loop {
        if cut.is_some_and(|cut| cut.is_done()) {
            return Ok(Ending::default());
        }
        feed.room().await?;
        match poll_fn(|context| stream.poll_next(context)).await {
            Some(Ok(piece)) => {
                if let Some(cut) = &mut cut {
                    let wanted = cut.take(piece.len());
                    if !wanted.is_empty() {
                        feed.push(piece.slice().slice(wanted)).await?;
                    }
                    continue;
                }
                posted = posted.and_then(|posted| posted.push(piece.slice().clone()));
                feed.push(piece.slice().clone()).await?;
            }
            Some(Err(error)) => return Err(error),
            None => {
                let ending = stream.ending().unwrap_or_default();
                if let Some(posted) = posted {
                    posted.finish(ending.clone());
                }
                return Ok(ending);
            }
        }
    }
}

fn forwarded(why: Why) -> CacheStatus {
    CacheStatus { forwarded: Some(why), ..CacheStatus::default() }
}
