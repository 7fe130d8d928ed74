//! What comes in parts: whether a part is the one that was wanted, what is done where it is not, and how one is kept.
//!
//! The invariant: nobody is sent a part that he has not asked for, and nothing is kept of one that is not what it says.

use super::{Fetched, Filling, Next, Own};
use crate::cache::{Answer, Asked, Content, Outcome, Request, Slicing, Span, Stored, fill, unsliced};
use crate::store::body::Body;
use crate::store::index::{Note, Settled};
use crate::store::object::Object;
use crate::store::order::Extent;
use crate::store::slices::changed;
use crate::stream::Stream;
use crate::sync::Arc;

impl Filling {
    /// What is done instead where the answer to a Range of the cache's own does not do; none where it does.
    pub(super) fn without_part(
        &mut self,
        outcome: &Outcome,
        status: u16,
        request: &Request<'_>,
    ) -> Option<Next> {
        let Extent::Own(wanted) = self.order.extent else { return None };
        if self.does(outcome, status, wanted) {
            return None;
        }
        let policy = Arc::clone(&self.access.policy);
        let rest_of = self.order.stored.take_if(|_| self.order.asked == Asked::Rest);
        let is_unclear = matches!(outcome, Outcome::Refetch);
        match rest_of {
            Some(old) if self.order.continues => {
                self.forget_state(&old);
                self.tell(Settled::Over(old, None), Own::Failed(changed()));
                return Some(Next::Done);
            }
            Some(old) if !is_unclear => {
                self.forget_state(&old);
                self.tell_others(Settled::Over(old, None));
            }
            None if !is_unclear => {
                // Else each would ask for a slice in turn, to learn that there is none.
                self.note(Note::Unsliced);
                let next = self.ask_again(unsliced(request, &policy.rules), request);
                if let (Some(duty), Some(span)) = (&self.duty, self.order.awaited()) {
                    duty.widen(span);
                }
                return Some(next);
            }
            // It says nothing about what is stored.
            Some(old) => self.order.stored = Some(old),
            None => {}
        }
        Some(self.ask_again(fill(request, &policy.rules), request))
    }

    /// Whether an answer to a Range of the cache's own, for `wanted`, can be kept or goes to the client.
    fn does(&self, outcome: &Outcome, status: u16, wanted: Span) -> bool {
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
            // That the origin has another one by now is no reason to fetch it in one piece.
            Outcome::Store { stored, span: None } => {
                self.order.asked != Asked::Rest || self.access.has_room(stored)
            }
            // The client has not asked for this part, nor under this condition.
            Outcome::Pass { .. } => !matches!(status, 206 | 412 | 416),
            Outcome::Refetch => false,
            Outcome::Update { .. } | Outcome::ServeStale => true,
        }
    }

    /// Keeps a part, beside what is there of the same state.
    pub(super) async fn add(&mut self, stream: Stream, stored: Stored, span: Span, old: Option<Arc<Object>>) {
        let (body, filler) = Body::new(&self.access.cache.budget);
        let item = self.access.item(&self.asking.key, span.start());
        let object =
            Object::part(stored, self.access.item(&self.asking.key, 0), Arc::clone(&item), span, body);
        let object = Arc::new(object.tagged(self.access.tags()));
        self.access.cache.make_room(usize::try_from(span.len()).unwrap_or(usize::MAX));
        self.order.status.stored =
            self.access.cache.add(&self.asking.key, old.as_deref(), &object, self.since);
        if self.order.status.stored {
            self.see_whether_stale(&object);
        }
        // What was there when it was asked for is for who has asked, whatever has left since.
        let own = match &old {
            Some(old) if old.is_same_state(&object) => Arc::new(object.joined(old)),
            _ => Arc::clone(&object),
        };
        let held = Some(Arc::new(Body::follow(filler.body(), 0..0)));
        // An origin may answer with other bytes than its client has asked for.
        let as_it_came = matches!(self.order.extent, Extent::Asked(_)).then(|| Answer::Partial(vec![span]));
        let fetched = Fetched { as_it_came, held: held.clone(), ..self.fetched(own) };
        let settled = self.look(old, Some(&object), held);
        self.tell(settled, Own::Serve(fetched));
        if self.copy(&stream, filler, &item, Some(span.len())).await {
            self.access.cache.admit(&self.asking.key, &item);
        }
    }
}
