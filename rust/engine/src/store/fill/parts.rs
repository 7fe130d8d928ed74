//! Partial responses: whether a part is the one that was requested, what is done if it is not, and how it is stored.
//!
//! The invariant: no client is sent a part that it has not asked for, and no part is stored that is not what its head
//! says.

use super::{Fetched, FillTask, Filled, Next, apart};
use crate::cache::{
    Answer, Asked, Content, Cut, Fill as Wanted, Held, Outcome, RangeFill, Refusal, Request, Slicing, Stored,
    as_asked, fill, too_large,
};
use crate::store::body::Body;
use crate::store::entry::FillOutcome;
use crate::store::index::Note;
use crate::store::lookup::Extent;
use crate::store::object::{Object, item};
use crate::store::slices::changed;
use crate::stream::Stream;
use crate::sync::Arc;
use crate::wire::{Ranges, Span, Spec};

impl FillTask {
    /// Notes if the origin ignores ranges.
    pub(super) fn learn(&self, status: u16, request: &Request<'_>) {
        let has_range = match self.plan.extent {
            Extent::Whole => false,
            Extent::Own(_) => self.plan.asked != Asked::Rest,
            Extent::Asked(_) => request.if_range.is_none(),
        };
        if has_range && status == 200 {
            self.note(Note::Unranged);
        }
    }

    /// Whether this is the answer to a Range of the cache, and can neither be stored nor sent to the client unchanged.
    pub(super) fn is_unfit(&self, outcome: &Outcome, status: u16, request: &Request<'_>) -> bool {
        let Extent::Own(wanted) = self.plan.extent else { return false };
        match outcome {
            // The client has not asked for this part, or not under this condition.
            Outcome::Pass { .. } if matches!(status, 206 | 412) => true,
            // A slice that begins after the end of the response: the client's range does too, if it is one
            // range that begins in or after the slice.
            Outcome::Pass { .. } if status == 416 => {
                let specs = request.ranges.as_ref().map_or([].as_slice(), Ranges::specs);
                let is_clients = matches!(specs, [Spec::From(first, _)] if *first >= wanted.start());
                !is_clients || request.if_range.is_some() || self.plan.continues
            }
            Outcome::Pass { .. } => false,
            _ => !self.does(outcome, wanted),
        }
    }

    /// Whether the response of `outcome` may be stored in one piece.
    pub(super) fn may_be_whole(&self, outcome: &Outcome) -> bool {
        match outcome {
            Outcome::Store { stored, .. } | Outcome::Extend { stored, .. } => {
                stored.length().is_some_and(|length| length <= self.access.policy.max_object)
            }
            _ => false,
        }
    }

    /// Sends the client its range out of a part that is not stored.
    pub(super) fn pass_part(
        &mut self,
        stream: Stream,
        outcome: &Outcome,
        old: Option<&Arc<Object>>,
        cut: Cut,
    ) -> Next {
        let held = if let Outcome::Pass { held, .. } = outcome { *held } else { Held::Dropped };
        self.note_unsliced(outcome);
        self.pass(stream, old, held, None, Some(cut));
        Next::Done
    }

    /// Otherwise each request would ask for a slice first, only to learn that there are no slices.
    fn note_unsliced(&self, outcome: &Outcome) {
        match outcome {
            // This is about the client: others may get a slice.
            Outcome::Pass { refusal: Refusal::Authorization, .. } => self.note(Note::HitForMissAuthorized),
            // The first slice exists for every client, unless slices cannot be fetched at all.
            Outcome::Pass { hit_for_miss: false, .. } if !self.is_of_beginning() => {}
            Outcome::Pass { refusal: Refusal::RequestNoStore, .. } => {}
            _ => self.note(Note::Unsliced),
        }
    }

    fn is_of_beginning(&self) -> bool {
        matches!(self.plan.extent, Extent::Own(wanted) if wanted.start() == 0)
    }

    /// If the whole was requested and is not stored, the client's range is requested instead, so that the client gets
    /// its range in any case. `None` if this does not apply.
    pub(super) fn without_whole(
        &mut self,
        outcome: &Outcome,
        status: u16,
        old: Option<&Arc<Object>>,
        request: &Request<'_>,
    ) -> Option<Next> {
        let is_wanted = self.own.is_some() && request.ranges.is_some();
        if !is_wanted || status != 200 || self.plan.extent != Extent::Whole {
            return None;
        }
        let (wanted, held) = match outcome {
            Outcome::Store { stored, .. } if self.access.has_room(stored) => return None,
            Outcome::Store { stored, .. } => {
                let note = self.note_of_large(stored);
                self.note(note);
                // An origin that gives one length now and another then is not asked for ever.
                let is_large = note == Note::Large && !self.is_again;
                let rules = &self.access.policy.rules;
                (if is_large { too_large(request, rules) } else { as_asked(request) }, Held::Dropped)
            }
            Outcome::Pass { refusal, held, hit_for_miss } => {
                if *hit_for_miss {
                    self.note(apart(*refusal));
                    self.note_unsliced(outcome);
                }
                (as_asked(request), *held)
            }
            _ => return None,
        };
        self.hold(old, held);
        self.plan.stored.take_if(|_| held == Held::Dropped);
        Some(self.ask_for(wanted, request))
    }

    /// The note about a response that is not stored because it is too large or there is no room: whether it may be
    /// fetched in slices.
    pub(super) fn note_of_large(&self, stored: &Stored) -> Note {
        let policy = &self.access.policy;
        let is_too_large = stored.length().is_none_or(|length| length > policy.max_object);
        let may_be_sliced = policy.rules.range_fill.slice().is_some() && stored.validators.strong().is_some();
        if !is_too_large {
            return Note::HitForMiss;
        }
        if may_be_sliced && self.plan.extent == Extent::Whole {
            return Note::Large;
        }
        self.note(Note::Unsliced);
        Note::HitForMiss
    }

    /// Asks for another part instead, and lets requests for that part wait.
    fn ask_for(&mut self, wanted: Wanted, request: &Request<'_>) -> Next {
        let next = self.ask_again(wanted, request);
        match self.plan.awaited() {
            Some(span) => self.waiters.iter().for_each(|waiters| waiters.widen(span)),
            None => self.tell_others(FillOutcome::LookAgain(None)),
        }
        next
    }

    /// Handles an answer to a Range of the cache that cannot be used.
    pub(super) fn without_part(&mut self, outcome: &Outcome, request: &Request<'_>) -> Next {
        let policy = Arc::clone(&self.access.policy);
        let rest_of = self.plan.stored.take_if(|_| self.plan.asked == Asked::Rest);
        let is_unclear = matches!(outcome, Outcome::Refetch);
        match rest_of {
            Some(old) if self.plan.continues => {
                self.forget_state(&old);
                if matches!(policy.rules.range_fill, RangeFill::Auto(_)) {
                    // The operator has not chosen slices: they are not used where the origin's servers
                    // disagree about the entity tag.
                    self.note(Note::Unsliced);
                }
                self.tell(FillOutcome::Replaced(old, None), Err(changed()));
                return Next::Done;
            }
            Some(old) if !is_unclear => {
                self.forget_state(&old);
                self.tell_others(FillOutcome::Replaced(old, None));
            }
            None if !is_unclear => {
                self.note_unsliced(outcome);
                // If it may be stored in one piece, it is requested once so.
                let wanted = if self.may_be_whole(outcome) { Wanted::Whole } else { as_asked(request) };
                return self.ask_for(wanted, request);
            }
            // The answer is not about the stored response.
            Some(old) => self.plan.stored = Some(old),
            None => {}
        }
        self.ask_again(fill(request, &policy.rules), request)
    }

    /// Whether an answer to the cache's Range of `wanted` can be stored, or sent to the client unchanged.
    fn does(&self, outcome: &Outcome, wanted: Span) -> bool {
        let rules = &self.access.policy.rules;
        match outcome {
            Outcome::Store { stored, span: Some(span) } | Outcome::Extend { stored, span } => {
                let Content::Parts(_, length) = stored.content else { return self.access.has_room(stored) };
                let is_added = matches!(outcome, Outcome::Extend { .. });
                let end = length.map_or(wanted.end(), |length| length.min(wanted.end()));
                (is_added || Slicing::of(stored, rules).is_some())
                    && Some(*span) == Span::new(wanted.start(), end)
                    && span.len() <= self.access.policy.max_object
            }
            // Another state at the origin is no reason to fetch it in one piece.
            Outcome::Store { stored, span: None } => {
                self.plan.asked != Asked::Rest || self.access.has_room(stored)
            }
            Outcome::Refetch => false,
            Outcome::Update { .. } | Outcome::ServeStale | Outcome::Pass { .. } => true,
        }
    }

    /// Stores a part, beside the stored parts of its state.
    pub(super) async fn add(&mut self, stream: Stream, stored: Stored, span: Span, old: Option<Arc<Object>>) {
        let (body, filler) = Body::new(&self.access.cache.budget);
        let leaving = item(&self.lookup.key, span.start());
        let object = Object::part(stored, item(&self.lookup.key, 0), Arc::clone(&leaving), span, body);
        let object = Arc::new(object.tagged(self.access.tags()));
        self.access.cache.make_room(usize::try_from(span.len()).unwrap_or(usize::MAX));
        self.plan.status.stored =
            self.access.cache.add(&self.lookup.key, old.as_deref(), &object, self.since);
        if self.plan.status.stored {
            self.see_whether_stale(&object);
        }
        // The client gets the parts that were stored when it asked, even if some have been evicted since.
        let own = match &old {
            Some(old) if old.is_same_state(&object) => Arc::new(object.joined(old)),
            _ => Arc::clone(&object),
        };
        let held = Some(Arc::new(Body::follow(filler.body(), 0..0)));
        // An origin may answer with other bytes than the client has asked for.
        let as_it_came = matches!(self.plan.extent, Extent::Asked(_)).then(|| Answer::Partial(vec![span]));
        let fetched = Fetched { as_it_came, held: held.clone(), ..self.fetched(own) };
        let settled = self.look(old, Some(&object), held);
        self.tell(settled, Ok(Filled::Stored(fetched)));
        if self.copy(&stream, filler, &leaving, Some(span.len())).await {
            self.access.cache.admit(&self.lookup.key, &leaving);
        }
    }
}
